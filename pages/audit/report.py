"""A report to hand on: a level, what would leave with it, and the file. Nothing leaves this machine by itself."""

from __future__ import annotations

import streamlit as st
from turnscope import TurnscopeError
from turnscope.share.redact import LEVELS
from turnscope.share.report import MAX_TEXT, Report, build_report

from pages.parts import opening, widgets
from pages.parts.formats import escape

LEVEL, MADE, SEEN = "share.level", "share.made", "share.seen"
NUMBERS = "the numbers of every request, its decisions and their reasons, other policies compared, the audit"
INSIDE = {
    "structure": f"{NUMBERS}; names of models and rules, and no other name or text",
    "no content": f"{NUMBERS}; names of models, rules and tools, and no other text",
    "masked": f"{NUMBERS}; the first {MAX_TEXT} characters of every block, its title and its paths, "
    "without what is listed below",
    "full": f"{NUMBERS}; the first {MAX_TEXT} characters of every block, its title and its paths, with nothing taken out",
}


@st.fragment
def draw(shown: opening.ShownSession) -> None:
    """The level, the review, and the download once it was reviewed."""
    st.html('<div class="ts-small ts-faint">Share: one file that opens anywhere, without a network</div>')
    level = st.radio("What it tells", list(LEVELS), 1, captions=list(LEVELS.values()), key=LEVEL)
    known = st.session_state.get(MADE)
    if known is None or known[0] != (shown.key, shown.part, level):
        if not st.button("Prepare the report", icon=":material/inventory_2:", key="share.prepare"):
            return
        try:
            with st.spinner("Taking out what is private, and drawing what is left"):
                known = st.session_state[MADE] = ((shown.key, shown.part, level), build_report(shown.opened.session, level))
        except TurnscopeError as error:
            widgets.draw_notice(error.what, error.hint)
            return
        st.session_state[SEEN] = False
    _draw_review(known[1])


def _draw_review(made: Report) -> None:
    """What leaves with the file; it can be saved once somebody has seen that."""
    taken = "".join(f"<li>{count:,} × {escape(kind)}, wherever it stood</li>" for kind, count in made.removed)
    size = len(made.html.encode()) / 1e6
    st.html(
        f'<section class="ts-card"><h3>What leaves with it<em>{size:,.1f} MB</em></h3><p>In the file: {INSIDE[made.level]}.</p>'
        f"{f'<p>Taken out:</p><ul>{taken}</ul>' if taken else ''}"
        "<p>Names of people, places and companies have no form by which they could be found.</p></section>"
    )
    st.checkbox("I have seen what leaves with it", key=SEEN)
    with st.container(horizontal=True, gap="small", key="share-files"):
        off = not st.session_state.get(SEEN)
        st.download_button(
            "Report as HTML",
            made.html,
            "turnscope-report.html",
            "text/html",
            disabled=off,
            key="share.html",
            icon=":material/download:",
            on_click="ignore",
        )
        st.download_button(
            "Summary as Markdown",
            made.markdown,
            "turnscope-summary.md",
            "text/markdown",
            disabled=off,
            key="share.markdown",
            icon=":material/download:",
            on_click="ignore",
        )
