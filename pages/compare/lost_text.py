"""When a text that somebody types, or selected on another page, left the window under each policy."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from turnscope.views import losses
from turnscope.views.labels import label_block

from pages.parts import departures, opening, url
from pages.parts.replays import PolicyChoice


def draw(shown: opening.ShownSession, chosen: PolicyChoice) -> None:
    """A field for the text, and when it left.

    Args:
        shown: the session that is shown.
        chosen: the policies, model and budget that are chosen.
    """
    st.subheader("When did this text leave the window?", anchor="left")
    wanted = url.get_view("text")
    text = st.text_input(
        "When did this text leave the window?",
        wanted,
        key="compare.text",
        label_visibility="collapsed",
        placeholder="a path, a name, a sentence; or a block by its number: #214",
        help="Any text of the session. Text that is selected on the other pages leads here.",
        on_change=url.follow("text", "compare.text", wanted),
    )
    text = wanted if text == " ".join(wanted.splitlines()) else text  # a field of one line makes one of several
    url.write("text", "compare.text", (text or "")[:200])
    if not text:
        return
    st.text(_describe_blocks(shown, losses.find_blocks(shown.trace.session, text)))
    departures.draw(shown, chosen, text, "left")


def _describe_blocks(shown: opening.ShownSession, blocks: Sequence[int]) -> str:
    """Which blocks are meant, the first by its name."""
    if not blocks:
        return "No block of this session holds this text."
    session = shown.trace.session
    first = f"block {blocks[0]:,}, {label_block(session, session.blocks[blocks[0]])}"
    return f"Occurs in {first}." if len(blocks) == 1 else f"Occurs in {len(blocks):,} blocks, first in {first}."
