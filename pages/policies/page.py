"""The policies: all of them by system, and a page for each with its rules, parameters, constants and pictures."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from pages.parts import header, policies, theme
from pages.policies import policy_page

SHEET = Path(__file__).parent / "browser" / "policies.css"


def draw() -> None:
    """Draw the page."""
    header.draw_optional_header()
    theme.add_sheet(SHEET)
    known = policies.load_policies()
    name = st.query_params.get("policy", "")
    if name in known.policies:
        policy_page.draw(known, name)
    else:
        policy_page.draw_list(known, name)
