"""A report to hand on: a level, what would leave with it, and the file. Nothing leaves this machine by itself."""

from __future__ import annotations

import streamlit as st
from turnscope import TurnscopeError
from turnscope.share.redact import LEVELS
from turnscope.share.report import MAX_TEXT, Report, build_report

from pages.parts import opening, widgets
from pages.parts.formats import escape

LEVEL, MADE, WORDS, DOUBTS, SEEN = "share.level", "share.made", "share.words", "share.doubts", "share.seen"
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
    """The level, what is in the file and what was taken out, and the download."""
    st.html('<h2 class="audit-title">Report to hand on <small>one file that opens anywhere, without a network</small></h2>')
    level = st.radio("Redaction level", list(LEVELS), 1, captions=list(LEVELS.values()), key=LEVEL)
    words: tuple[str, ...] = ()
    if level == "masked":
        text = st.text_input("Further words to take out", key=WORDS, placeholder="names of people and companies, with commas")
        words = (*(word.strip() for word in text.split(",") if word.strip()), *_draw_doubts())
    known = st.session_state.get(MADE)
    if known is None or known[0][:2] != (shown.key, shown.part):
        st.session_state.pop(SEEN, None)
    if known is None or known[0] != (shown.key, shown.part, level, words):
        if not st.button("Prepare the report", icon=":material/inventory_2:", key="share.prepare"):
            return
        try:
            with st.spinner("Taking out what is private, and drawing what is left"):
                known = st.session_state[MADE] = (
                    (shown.key, shown.part, level, words),
                    build_report(shown.opened.session, level, words=words),
                )
        except TurnscopeError as error:
            widgets.draw_notice(error.what, error.hint)
            return
        if level == "masked" and not st.session_state.get(SEEN):
            st.session_state[SEEN] = known[1].doubtful
            st.rerun(scope="fragment")
    _draw_review(known[1])


def _draw_doubts() -> list[str]:
    """What looked doubtful in the report as it was first made; those that are chosen are taken out as well."""
    seen = {one.text: one for one in st.session_state.get(SEEN) or ()}
    if not seen:
        return []
    return st.multiselect(
        "Perhaps private, and still in it",
        [*seen],
        key=DOUBTS,
        format_func=lambda text: f"{text} ({seen[text].kind}, {seen[text].places:,} ×)",
        placeholder=f"{len(seen):,} names, hosts, numbers and random texts; choose those to take out",
    )


def _draw_review(made: Report) -> None:
    """The contents of the file, above the buttons that save it."""
    taken = "".join(f"<li>{count:,} × {escape(kind)}, everywhere</li>" for kind, count in made.removed)
    size = len(made.html.encode()) / 1e6
    st.html(
        f'<section class="ts-card"><h3>Contents<em>{size:,.1f} MB</em></h3><p>In the file: {INSIDE[made.level]}.</p>'
        f"{f'<p>Taken out:</p><ul>{taken}</ul>' if taken else ''}"
        "<p>Names of people, places and companies match no pattern. Under “masked” you can type them.</p></section>"
    )
    with st.container(horizontal=True, gap="small", key="share-files"):
        st.download_button(
            "Report as HTML",
            made.html,
            "turnscope-report.html",
            "text/html",
            key="share.html",
            icon=":material/download:",
            on_click="ignore",
        )
        st.download_button(
            "Summary as Markdown",
            made.markdown,
            "turnscope-summary.md",
            "text/markdown",
            key="share.markdown",
            icon=":material/download:",
            on_click="ignore",
        )
