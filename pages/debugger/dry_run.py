"""A request as it went out, beside what a dry run of the tap would have sent: tokens, dollars, and each piece with its text."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import streamlit as st
import turnscope
from turnscope import Trace
from turnscope.tap.dry_run import is_dry_run, read_planned_session
from turnscope.views.planned_requests import PlannedSession

from pages.debugger.address import Place
from pages.parts import cache, opening, policies, widgets
from pages.parts.formats import format_tokens, format_usd

KEPT = "kept"


def is_recorded(shown: opening.ShownSession) -> bool:
    """Whether the session is a recording of a dry run.

    Args:
        shown: the session that is shown.
    """
    return shown.part == 0 and is_dry_run(shown.trace.session)


def draw(shown: opening.ShownSession, at: Place) -> None:
    """Both sides of a request.

    Args:
        shown: the session that is shown.
        at: where the stepper stands.
    """
    entry = shown.entry
    found = _read(str(entry.path), entry.inside, cache.read_version(entry), shown.trace)
    if found is None or at.request >= len(found.planned.plans):
        st.html('<div class="ts-empty">The recording is not there any more, or another one is in its place.</div>')
        return
    sizes = found.get_request(at.request)
    left, right = st.columns(2)
    left.html(_head("went out", sizes.sent_tokens, sizes.sent_usd, found.sent_usd))
    right.html(_head("would have gone out", sizes.planned_tokens, sizes.planned_usd, found.cost.total))
    pieces = found.list_pieces(at.request)
    state = st.dataframe(
        {
            "block": [each.at for each in pieces],
            "what": [each.label for each in pieces],
            "blocks": [each.blocks or None for each in pieces],
            "went out": [each.sent or None for each in pieces],
            "would have": [each.planned or None for each in pieces],
            "how": [each.how for each in pieces],
        },
        hide_index=True,
        placeholder="–",
        height="content" if len(pieces) <= 8 else 316,
        on_select="rerun",
        selection_mode="single-row",
        key=f"debugger.dry.{at.request}",
    )
    changed = next((n for n, each in enumerate(pieces) if each.how != KEPT), 0)
    chosen = next((n for n in state.selection.rows if n < len(pieces)), changed)
    piece = pieces[chosen]
    sent, planned = found.get_texts(at.request, piece.at, piece.how)
    one, other = st.columns(2)
    with one:
        st.html(f'<div class="pane-head">block #{piece.at} as it went out · {piece.sent:,} tokens</div>')
        widgets.draw_text(sent or None, "Nothing was here.")
    with other:
        st.html(f'<div class="pane-head">{piece.how} · {piece.planned:,} tokens</div>')
        widgets.draw_text(planned or None, "Nothing would have been here.")


def _head(what: str, tokens: int, usd: Decimal | None, whole: Decimal | None) -> str:
    cost = f" · {format_usd(usd)}" if usd is not None else ""
    total = f" <span>({format_usd(whole)} for the session)</span>" if whole is not None else ""
    return f'<div class="why-line"><b>{what}</b> <span>{format_tokens(tokens)} tokens{cost}{total}</span></div>'


@st.cache_resource(max_entries=2, show_spinner="Reading what would have gone out…")
def _read(path: str, inside: str, version: str, _record: Trace) -> PlannedSession | None:  # noqa: ARG001 - what the cache goes by
    session = read_planned_session(Path(path), inside)
    if session is None:
        return None
    planned = turnscope.replay(session, policies.RECORDED)
    return PlannedSession(_record, planned) if len(planned.plans) == len(_record.plans) else None
