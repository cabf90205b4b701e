"""The audit page: points with verdict and evidence, and the exact messages array of a request, by conversation and turn."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import streamlit as st
from turnscope.views import audit, exact_body

from pages.parts import opening, widgets
from pages.parts.formats import esc

TURN, REQUEST = "audit.turn", "audit.request"
ICONS = {"pass": "✓", "warning": "!", "fail": "✕", "unknown": "?"}
STYLE = """<style>
.audit{display:grid;grid-template-columns:repeat(auto-fill,minmax(330px,1fr));gap:10px;margin:6px 0 2px}
.audit section{border:1px solid var(--ts-border);border-left-width:4px;border-radius:9px;background:var(--ts-panel)}
.audit section{padding:9px 13px}
.audit h4{margin:0;padding:0;font-size:.95rem;display:flex;gap:8px;align-items:baseline}
.audit em{font-style:normal;font-size:.74rem;letter-spacing:.04em;text-transform:uppercase;margin-left:auto;white-space:nowrap}
.audit p{margin:3px 0 0;font-size:.86rem}.audit p.asks{color:var(--ts-faint);font-size:.8rem}
.audit .pass{border-left-color:var(--ts-good)}.audit .pass em{color:var(--ts-good)}
.audit .fail{border-left-color:var(--ts-bad)}.audit .fail em{color:var(--ts-bad)}
.audit .warning{border-left-color:var(--ts-warn)}.audit .warning em{color:var(--ts-warn)}
.audit .unknown em{color:var(--ts-faint)}.audit a{color:var(--ts-accent);text-decoration:none}
.audit-sum{display:flex;flex-wrap:wrap;gap:6px 16px;font-size:.95rem;margin:2px 0 6px}
</style>"""


def checklist(shown: opening.Shown) -> None:
    """The seven points and the three anti-patterns, with links to the requests that they speak of."""
    points = _points(shown)
    counts = {verdict: sum(point.verdict == verdict for point in points) for verdict in ICONS}
    told = "".join(f"<span><b>{many}</b> {verdict}</span>" for verdict, many in counts.items() if many)
    st.html(f'{STYLE}<div class="audit-sum">{told}</div>')
    for title, part in (("Pre-deploy checklist", points[: audit.CHECKLIST]), ("Anti-patterns", points[audit.CHECKLIST :])):
        st.html(f'<div class="ts-small ts-faint">{title}</div><div class="audit">{"".join(map(_card, part))}</div>')


def _points(shown: opening.Shown) -> tuple[audit.Point, ...]:
    kept = st.session_state.get("audit.points")
    if kept is None or kept[0] != (shown.key, shown.part):
        kept = st.session_state["audit.points"] = ((shown.key, shown.part), audit.audit(shown.trace, shown.view))
    points: tuple[audit.Point, ...] = kept[1]
    return points


def _card(point: audit.Point) -> str:
    where = ", ".join(f'<a href="{_debugger(n)}" target="_self">{n:,}</a>' for n in point.requests)
    requests = f'<p class="asks">Requests {where}{" …" if len(point.requests) == audit.MAX_LINKS else ""}</p>' if where else ""
    head = f"<h4>{esc(point.title)}<em>{ICONS[point.verdict]} {point.verdict}</em></h4>"
    told = f'<p class="asks">{esc(point.requirement)}</p><p>{esc(point.found)}</p>{requests}'
    return f'<section class="{point.verdict}">{head}{told}</section>'


def _debugger(n: int) -> str:
    return esc(f"debugger?{urlencode({**st.query_params.to_dict(), 'request': n})}")


@st.fragment
def replay(shown: opening.Shown) -> None:
    """What the model saw at a turn: the messages array of one of its requests, as it was sent."""
    plans = shown.trace.plans
    if not plans:
        return
    st.html('<div class="ts-small ts-faint">What the model saw</div>')
    named = shown.trace.session.about.get("conversation") or shown.trace.session.id
    wanted = st.query_params.get("turn", "")
    if TURN not in st.session_state and wanted.isdecimal():  # an address names conversation and turn
        st.session_state[TURN] = min(int(wanted), plans[-1].request.turn)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="audit-replay"):
        turn = int(st.number_input("Turn", 0, plans[-1].request.turn, key=TURN, width=130))
        of_turn = [plan.request.n for plan in plans if plan.request.turn == turn]
        if not of_turn:
            st.html('<div class="ts-small ts-faint">This turn sent no request.</div>')
            return
        if st.session_state.get(REQUEST) not in of_turn:
            st.session_state[REQUEST] = of_turn[0]
        n = st.selectbox("Request of it", of_turn, key=REQUEST, width=170)
        st.html(f'<div class="ts-small ts-faint">conversation {esc(str(named))}</div>')
        text = json.dumps(exact_body.build_exact_body(shown.trace, n)["messages"], ensure_ascii=True, indent=2, default=str)
        st.download_button("Messages as JSON", text, f"messages-{n}.json", "application/json", type="tertiary",
                           icon=":material/download:", on_click="ignore", key="audit.messages")  # fmt: skip
    widgets.code(text, height=340)
