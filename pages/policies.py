"""The policies: all of them by system, and a page for each with its rules, parameters, constants and pictures."""

from pages.parts import shell

shell.ensure()

import streamlit as st  # noqa: E402

from pages.parts import controls, debugging, policy_page, replays  # noqa: E402

controls.header_if_any()
debugging.style()
known = replays.shelf()
name = st.query_params.get("policy", "")
if name in known.policies:
    policy_page.draw(known, name)
else:
    policy_page.listed(known, name)
