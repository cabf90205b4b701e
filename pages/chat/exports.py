"""A chat to take away, in every form there is, and its newest answer as plain text."""

from __future__ import annotations

from turnscope import Session

from pages.chat import rooms
from pages.parts import exports


def buttons(held: rooms.Room) -> None:
    """Of a chat. Made when they are pressed."""
    exports.forms(held.session, f"chat-{held.thread[:8]}", "chat.export")


def newest(session: Session) -> str:
    """The text of the newest answer; "" where there is none."""
    said = next((message for message in reversed(session.messages) if message.role == "assistant"), None)
    return "\n\n".join(b.text for b in session.blocks[said.start : said.stop] if b.kind == "text") if said else ""
