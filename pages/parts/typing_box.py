"""What stands in the message box while somebody types, so that the next request can be weighed before it is sent."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

SCRIPT = Path(__file__).parent / "browser" / "typing.js"
_typing = st.components.v2.component("turnscope_typing", html="", js=SCRIPT.read_text(encoding="utf-8"))


MOST = 20_000_000  # characters that are weighed; nobody's window holds more


def text(go: str = "") -> str:
    """The text typed so far; a change runs the fragment that asks for it. Of a very long one, a text that weighs as much.

    `go`: the name of a place; a new one moves the marked message (`.sought`) into view.
    """
    with st.container(key="quiet"):
        _typing(key="chat.typing", data={"go": go}, default={"text": None}, on_text_change=lambda: None)
    state = (st.session_state.get("chat.typing") or {}).get("text") or {}
    said, length = str(state.get("said") or ""), min(MOST, int(state.get("length") or 0))
    return (said * (length // len(said) + 1))[:length] if said and length > len(said) else said
