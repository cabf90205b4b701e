"""A range of requests that somebody drew on a chart, in numbers. It holds for one session, on every chart of it."""

from __future__ import annotations

import streamlit as st
from turnscope.views import ranges

from pages.parts import state
from pages.parts.formats import k, percent, usd

RANGE = "range.drawn"


def chosen(shown: state.Shown) -> tuple[int, int] | None:
    """The range that is drawn on this session's charts: requests [start, stop)."""
    key, start, stop = st.session_state.get(RANGE, ("", 0, 0))
    return (start, stop) if key == shown.key and start < stop else None


def choose(shown: state.Shown, start: int, stop: int) -> None:
    """Keep what was drawn."""
    st.session_state[RANGE] = (shown.key, start, stop)


def draw(shown: state.Shown) -> None:
    """The range in numbers, with a way to the request where it grew most; nothing where none is drawn."""
    span = chosen(shown)
    if span is None:
        return
    found = ranges.summarize_range(shown.view, *span)
    only = found.requests == 1
    where = f"Request {found.start:,}" if only else f"Requests {found.start:,}–{found.stop - 1:,} ({found.requests:,})"
    facts = [f"{k(found.tokens)} tokens sent", f"{percent(found.repeated_share)} re-sent", f"peak {k(found.peak)}"]
    facts.insert(1, usd(found.usd) + (f", {found.unpriced:,} without a price" if found.unpriced and found.usd else ""))
    body = "".join(f"<span>{fact}</span>" for fact in (*facts, *found.events))
    if found.growth_request >= 0:
        n = found.growth_request
        link = f'<button type="button" class="ts-go" data-request="{n}">request {n:,} →</button>'
        body += f"<span>grew most at {link} by {k(found.growth)}</span>"
    with st.container(horizontal=True, vertical_alignment="center", border=True, key="range"):
        st.html(f'<div class="ts-range" data-range="{found.start}-{found.stop}"><b>{where}</b>{body}</div>', width="stretch")
        st.button("Clear", key="range.clear", type="tertiary", on_click=lambda: st.session_state.pop(RANGE, None))
