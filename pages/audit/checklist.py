"""The audit page: points with verdict and evidence, and the exact messages array of a request, by conversation and turn."""

from __future__ import annotations

from urllib.parse import urlencode

import streamlit as st
from turnscope.numbering import format_request
from turnscope.views import audit

from pages.parts import opening
from pages.parts.formats import escape

ICONS = {"pass": "✓", "warning": "!", "fail": "✕", "unknown": "?"}


def draw(shown: opening.ShownSession) -> None:
    """The seven points and the three anti-patterns, with links to the requests that they speak of."""
    points = _audit_session(shown)
    counts = {verdict: sum(point.verdict == verdict for point in points) for verdict in ICONS}
    verdicts = "".join(f"<span><b>{many}</b> {verdict}</span>" for verdict, many in counts.items() if many)
    st.html(f'<div class="audit-sum">{verdicts}</div>')
    for title, part in (("Pre-deploy checklist", points[: audit.CHECKLIST]), ("Anti-patterns", points[audit.CHECKLIST :])):
        st.html(f'<h2 class="audit-title">{title}</h2><div class="audit">{"".join(map(_render_point, part))}</div>')


def _audit_session(shown: opening.ShownSession) -> tuple[audit.Point, ...]:
    audited = st.session_state.get("audit.points")
    if audited is None or audited[0] != (shown.key, shown.part):
        audited = st.session_state["audit.points"] = ((shown.key, shown.part), audit.audit(shown.trace, shown.view))
    points: tuple[audit.Point, ...] = audited[1]
    return points


def _render_point(point: audit.Point) -> str:
    where = ", ".join(f'<a href="{_link_debugger(n)}" target="_self">{format_request(n)}</a>' for n in point.requests)
    requests = f'<p class="note">Requests {where}{" …" if len(point.requests) == audit.MAX_LINKS else ""}</p>' if where else ""
    head = f"<h3>{escape(point.title)}<em>{ICONS[point.verdict]} {point.verdict}</em></h3>"
    body = f'<p class="note">{escape(point.requirement)}</p><p>{escape(point.found)}</p>{requests}'
    return f'<section class="{point.verdict}">{head}{body}</section>'


def _link_debugger(n: int) -> str:
    return escape(f"debugger?{urlencode({**st.query_params.to_dict(), 'request': n})}")
