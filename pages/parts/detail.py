"""One request on a page: its summary above the chart, and below it the navigator, the blocks, the change and the answer."""

from __future__ import annotations

import streamlit as st

from engine.views import exact_body, one_request
from engine.views.detail import detail as detail_of
from pages.parts import cards, components, state
from pages.parts.formats import k

KINDS = {
    "bill": "Bill",
    "cache": "Cache",
    "repeated": "Read again",
    "cut": "Truncation",
    "forgotten": "Forgotten",
    "thinking": "Thinking",
    "full": "Window full",
    "retry": "Retries",
    "stub": "Odd record",
}
SHOWN_CHARS = 60_000  # of the exact body; the whole of it is in the download


def navigator(shown: state.Shown, chart: str, at: int) -> None:
    """Previous, next, go to, and the chart's clicks."""
    marks = sorted(
        {marker.request for marker in shown.view.markers if marker.kind in ("cut", "clear", "break", "overflow", "retry")}
    )
    components.navigator(f"{chart}-navigator", chart=chart, at=at, count=len(shown.view), marks=marks, go=state.go)


def findings(shown: state.Shown) -> None:
    """What stands out in the session; each sentence leads to its request."""
    if not shown.findings:
        st.html(
            '<div class="ts-empty">Nothing stands out: no broken cache, no file read again and again, no overfull window.</div>'
        )
        return
    items = [
        {
            "title": KINDS.get(finding.kind, "Note"),
            "text": finding.text,
            "request": finding.request,
            "end": f"request {finding.request} →",
        }
        for finding in shown.findings
    ]
    components.rows("findings", items, at=-1, count=len(shown.view), go=state.go)


def summary(shown: state.Shown, at: int) -> one_request.Summary:
    """Numbers of the request."""
    return one_request.summary(shown.view, shown.trace, at)


def blocks(shown: state.Shown, now: one_request.Summary) -> None:
    """What filled the request, what changed, what was answered, and the exact body."""
    detail = detail_of(shown.trace, shown.view, now.n)
    largest = cards.panel(
        "Largest blocks", cards.largest(one_request.groups(detail.items, now.prompt)), "tokens, by tool and file"
    )
    changed = cards.panel("Since the request before", cards.changes(now, detail), "tokens that came and went")
    answer = cards.panel("What the model answered", cards.answer(detail), f"{k(now.answer)} tokens")
    st.html(f'<div class="ts-panels">{largest}<div style="display:grid;gap:12px">{changed}{answer}</div></div>')


def exact(shown: state.Shown, now: one_request.Summary) -> None:
    """The request's body: to look at, copy or download. Made only when asked for."""
    with st.container(horizontal=True, vertical_alignment="center"):
        wanted = st.toggle("Show the exact request (JSON)", key="detail.exact", persist_state="session")
        trace = shown.trace
        st.download_button(
            "Download it",
            data=lambda: exact_body.exact_text(trace, now.n),
            file_name=f"request-{now.n}.json",
            mime="application/json",
            icon=":material/download:",
            type="tertiary",
            on_click="ignore",
            key="detail.download",
        )
    if wanted:
        text = exact_body.exact_text(trace, now.n)
        if len(text) > SHOWN_CHARS:
            st.html(
                f'<div class="ts-empty">The first {SHOWN_CHARS:,} of {len(text):,} characters; the download has them all.</div>'
            )
        st.code(text[:SHOWN_CHARS], language=None, height=420)
