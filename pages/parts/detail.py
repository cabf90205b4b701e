"""One request on a page: its summary above the chart, and below it the navigator, the blocks, the change and the answer."""

from __future__ import annotations

import streamlit as st
from turnscope.views import exact_body, request_summary
from turnscope.views.detail import build_detail as detail_of
from turnscope.views.events import EVENTS
from turnscope.views.findings import Finding

from pages.parts import cards, components, differing, ranging, state, transcript
from pages.parts.formats import k

KINDS = {
    "bill": "Bill",
    "cache": "Cache",
    "repeated": "Read again",
    "forgotten": "Forgotten",
    "middle": "In the middle",
    "thinking": "Thinking",
    "full": "Window full",
    "retry": "Retries",
    "stub": "Odd record",
}
PANES = {"blocks": "Largest blocks", "transcript": "Transcript", "difference": "Difference", "exact": "Exact request (JSON)"}
SHOWN_CHARS = 60_000  # of the exact body; the whole of it is in the download


def navigator(shown: state.Shown, chart: str, at: int) -> None:
    """Previous, next, go to, and the chart's clicks."""
    marks = sorted({marker.request for marker in shown.view.markers if marker.kind != "subagent"})
    span = ranging.chosen(shown)
    components.navigator(
        f"{chart}-navigator", chart=chart, at=at, count=len(shown.view), marks=marks, go=state.go, span=span,
        mark=lambda start, stop: ranging.choose(shown, start, stop),
    )  # fmt: skip
    ranging.draw(shown)


def findings(shown: state.Shown) -> None:
    """What stands out in the session; each sentence leads to its request."""
    if not shown.findings:
        st.html(
            '<div class="ts-empty">Nothing stands out: no broken cache, no file read again and again, no overfull window.</div>'
        )
        return
    items = [
        {
            "title": _title(finding),
            "text": finding.text,
            "request": finding.request,
            "end": f"request {finding.request} →",
        }
        for finding in shown.findings
    ]
    components.rows("findings", items, at=-1, count=len(shown.view), go=state.go)


def _title(finding: Finding) -> str:
    event = EVENTS.get(str(finding.evidence.get("event")))
    return event.word.capitalize() if event else KINDS.get(finding.kind, "Note")


def ahead(shown: state.Shown, at: int) -> request_summary.Cut | None:
    """The next request at which something was taken out of the window; None after the last of them."""
    return next((cut for cut in request_summary.find_cuts(shown.view) if cut.request > at), None)


def summary(shown: state.Shown, at: int) -> request_summary.RequestSummary:
    """Numbers of the request."""
    return request_summary.summarize_request(shown.view, shown.trace, at)


def blocks(shown: state.Shown, now: request_summary.RequestSummary) -> None:
    """What filled the request, what changed, what was answered, and the exact body."""
    detail = detail_of(shown.trace, shown.view, now.n)
    largest = cards.panel(
        "Largest blocks",
        cards.largest(request_summary.group_items(detail.items, now.prompt, 10**9)),
        "tokens, by tool and file",
    )
    changed = cards.panel("Since the request before", cards.changes(detail), "tokens that came and went")
    answer = cards.panel("What the model answered", cards.answer(detail), f"{k(now.answer)} tokens")
    st.html(f'<div class="ts-panels">{largest}<div style="display:grid;gap:12px">{changed}{answer}</div></div>')


def panes(shown: state.Shown, now: request_summary.RequestSummary) -> None:
    """One of four looks at the request; only the one that is looked at is made."""
    pane = st.segmented_control(
        "Look at", list(PANES), default="blocks", required=True, format_func=PANES.__getitem__, key="detail.pane",
        label_visibility="collapsed", persist_state="session",
    )  # fmt: skip
    if pane == "transcript":
        transcript.draw(shown, now.n)
    elif pane == "difference":
        differing.draw(shown, now.n)
    elif pane == "exact":
        _exact(shown, now)
    else:
        blocks(shown, now)


def _exact(shown: state.Shown, now: request_summary.RequestSummary) -> None:
    """The request's body: to look at, copy or download."""
    text = exact_body.format_exact_body(shown.trace, now.n)
    with st.container(horizontal=True, vertical_alignment="center"):
        left_out = f"The first {SHOWN_CHARS:,} of " if len(text) > SHOWN_CHARS else ""
        st.html(f'<div class="ts-empty">{left_out}{len(text):,} characters; the download has them all.</div>', width="stretch")
        st.download_button(
            "Download it", text, f"request-{now.n}.json", "application/json", icon=":material/download:", type="tertiary",
            on_click="ignore", key="detail.download",
        )  # fmt: skip
    st.code(text[:SHOWN_CHARS], language=None, height=420)
