"""A chat to take away: as a session file that Turnscope opens anywhere, as Markdown, and its newest answer as plain text."""

from __future__ import annotations

import streamlit as st

import engine
from engine import Session
from engine.live import attachments
from engine.views import Block
from pages.parts import chatting

NAMES = {"user": "You", "assistant": "Model", "system": "System"}


def buttons(held: chatting.Room) -> None:
    """Made when they are pressed."""
    session = held.session
    with st.container(horizontal=True, gap="small"):
        for label, make, end, mime in (
            ("Turnscope JSON", lambda: engine.dumps(session), "json", "application/json"),
            ("Markdown", lambda: markdown(session), "md", "text/markdown"),
        ):
            st.download_button(
                label, make, f"chat-{held.thread[:8]}.{end}", mime, key=f"chat.export.{end}", icon=":material/download:",
                type="tertiary", on_click="ignore",
            )  # fmt: skip


def markdown(session: Session) -> str:
    """What was said, a heading for each message; what tools were called with and gave stands in fences."""
    lines = [f"# {' '.join(session.title.split()) or 'Chat'}"]
    for message in session.messages:
        if message.role not in NAMES:
            continue
        blocks = session.blocks[message.start : message.stop]
        tool = bool(blocks) and all(block.kind == "tool_result" for block in blocks)
        lines.append(f"## {'Tool' if tool else NAMES[message.role]}")
        lines += [_said(block) for block in blocks]
    return "\n\n".join(lines) + "\n"


def _said(block: Block) -> str:
    """A block as Markdown; an image with its bytes, a text file in a fence with its name."""
    if picture := attachments.picture(block.raw):
        return f"![{picture}](data:{picture.type};base64,{block.raw['source']['data']})"
    if file := attachments.file(block.raw):
        return f"{file[0]}\n\n{_fenced('', file[1])}"
    return block.text if block.kind == "text" else _fenced(block.kind, block.text)


def _fenced(kind: str, text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{kind}\n{text}\n{fence}"


def newest(session: Session) -> str:
    """The text of the newest answer; "" where there is none."""
    said = next((message for message in reversed(session.messages) if message.role == "assistant"), None)
    return "\n\n".join(b.text for b in session.blocks[said.start : said.stop] if b.kind == "text") if said else ""
