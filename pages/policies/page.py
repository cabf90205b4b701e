"""The policies: all of them by system, and a page for each with its rules, parameters, constants and pictures."""

from __future__ import annotations

import streamlit as st

from pages.parts import controls, debugging, replays
from pages.policies import policy_page


def draw() -> None:
    """Draw the page."""
    controls.header_if_any()
    debugging.style()
    known = replays.shelf()
    name = st.query_params.get("policy", "")
    if name in known.policies:
        policy_page.draw(known, name)
    else:
        policy_page.listed(known, name)
