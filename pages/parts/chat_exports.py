"""A session to take away, in every form there is; and the newest answer of a chat as plain text."""

from __future__ import annotations

from functools import partial

import streamlit as st

from engine import Session
from engine.views import exporting
from pages.parts import chatting


def buttons(held: chatting.Room) -> None:
    """Of a chat. Made when they are pressed."""
    draw(held.session, f"chat-{held.thread[:8]}", "chat.export")


def draw(session: Session, name: str, key: str) -> None:
    """A button for each form, of the path that is shown; our own forms hold its branches and subagents too."""
    with st.container(horizontal=True, gap="small", key=f"{key}.forms"):
        for form in exporting.forms().values():
            st.download_button(
                form.title, partial(form.make, session), f"{name}.{form.ending}", form.mime, key=f"{key}.{form.name}",
                icon=":material/download:", type="tertiary", on_click="ignore",
            )  # fmt: skip


def newest(session: Session) -> str:
    """The text of the newest answer; "" where there is none."""
    said = next((message for message in reversed(session.messages) if message.role == "assistant"), None)
    return "\n\n".join(b.text for b in session.blocks[said.start : said.stop] if b.kind == "text") if said else ""
