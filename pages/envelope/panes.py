"""Looks at a request, of which one is made: its parts, its blocks, the transcript, a difference, the exact body.

A session of Cline or Roo Code has one more: what the screen showed.
"""

from __future__ import annotations

import streamlit as st
from turnscope.numbering import number_request
from turnscope.views import exact_body, request_summary
from turnscope.views.cache_layout import CacheLayout
from turnscope.views.exactness import describe_exactness, describe_request
from turnscope.views.screen_messages import has_screen

from pages.envelope import contents, difference, screen_messages, transcript
from pages.parts import cards, opening, request, url
from pages.parts.formats import escape

PANES = {
    "contents": "Contents",
    "blocks": "Largest blocks",
    "transcript": "Transcript",
    "difference": "Difference",
    "exact": "Exact request (JSON)",
}
SHOWN_CHARS = 60_000  # of the exact body; the whole of it is in the download


def draw(shown: opening.ShownSession, now: request_summary.RequestSummary, layout: CacheLayout) -> None:
    """One look at the request; only the one that is looked at is made.

    Args:
        shown: the session that is shown.
        now: numbers of the request.
        layout: where its prompt was read from the cache and written to it.
    """
    screen = {"screen": "Screen"} if has_screen(shown.trace.session) else {}
    pane = url.draw_choice("Look at", PANES | screen, "pane", "detail.pane")
    if pane == "transcript":
        transcript.draw(shown, now.n)
    elif pane == "difference":
        difference.draw(shown, now.n)
    elif pane == "exact":
        _draw_body(shown, now)
    elif pane == "screen":
        screen_messages.draw(shown, now.n, layout)
    elif pane == "blocks":
        request.draw_blocks(shown, now)
    else:
        contents.draw(shown, now, layout)


def _draw_body(shown: opening.ShownSession, now: request_summary.RequestSummary) -> None:
    """The request's body: to look at, copy or download."""
    text = exact_body.format_exact_body(shown.trace, now.n)
    known = describe_exactness(shown.trace.session)
    sent = f"<b>{describe_request(shown.trace.session, now.n)}</b> {escape(cards.render_exactness(known))}"
    size = f"{f'The first {SHOWN_CHARS:,} of ' if len(text) > SHOWN_CHARS else ''}{len(text):,} characters"
    with st.container(horizontal=True, vertical_alignment="center"):
        whole = "; the download has them all" if len(text) > SHOWN_CHARS else ""
        st.html(f'<div class="ts-small">{sent} <span class="ts-faint">{size}{whole}.</span></div>', width="stretch")
        st.download_button(
            "Download it",
            text,
            f"request-{number_request(now.n)}.json",
            "application/json",
            icon=":material/download:",
            type="tertiary",
            on_click="ignore",
            key="detail.download",
        )
    st.code(text[:SHOWN_CHARS], language=None, height=420)
