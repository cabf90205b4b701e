"""What stands in the message box while somebody types, so that the next request can be weighed before it is sent."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

SCRIPT = Path(__file__).parent / "browser" / "typing.js"
_typing = st.components.v2.component("turnscope_typing", html="", js=SCRIPT.read_text(encoding="utf-8"))


def text() -> str:
    """The text typed so far; a change runs the fragment that asks for it."""
    with st.container(key="quiet"):
        _typing(key="chat.typing", default={"text": ""}, on_text_change=lambda: None)
    state = st.session_state.get("chat.typing")
    return str((state or {}).get("text") or "") if state else ""
