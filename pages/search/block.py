"""The block that is chosen among the hits: when it left under each policy, ways to it on the other pages, and its text."""

from __future__ import annotations

import streamlit as st
from turnscope import library
from turnscope.numbering import format_request, format_turn
from turnscope.views.labels import label_block

from pages.parts import departures, opening, url, widgets
from pages.parts.formats import escape, shorten
from pages.parts.policies import load_policies
from pages.parts.replays import PolicyChoice


def draw(shown: opening.ShownSession, at: int) -> None:
    """Draw it.

    Args:
        shown: the session that is shown.
        at: number of the block.
    """
    session = shown.trace.session
    block = session.blocks[at]
    first = shown.trace.find_first_request(at)
    label = label_block(session, block)
    ways = ""
    if 0 <= first < len(shown.view):
        envelope = url.make_link(shown, "envelope", request=first, pane="transcript", block=at)
        ways = f'<a target="_self" href="{escape(envelope)}">request {format_request(first)}, where it came →</a>'
    compare = url.make_link(shown, "compare", text=f"#{at}") + "#left"
    ways += f'<a target="_self" href="{escape(compare)}">other policies →</a>'
    st.html(
        f'<div class="ts-sought" data-block="{at}"><h3 title="{escape(label)}">When did block #{at:,} leave the window?</h3>'
        f'<p><b>{escape(shorten(label, 120))}</b> <span class="ts-faint">turn {format_turn(block.turn)}</span> {ways}</p></div>'
    )
    known = load_policies().policies
    chosen = PolicyChoice({name: known[name] for name in library.COMPARED_POLICIES if name in known})
    departures.draw(shown, chosen, f"#{at}", "search")
    widgets.draw_text(block.text, "(no text)", height=260)
