"""A request as it went out, beside what a dry run of the tap would have sent: tokens, dollars, and each piece with its text."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import streamlit as st
import turnscope
from turnscope import Session, TurnscopeError
from turnscope.tap.dry_run import find_recordings, is_dry_run, list_times, read_conversations
from turnscope.views.planned_requests import PlannedSession

from pages.debugger.address import Place
from pages.parts import opening, policies, widgets
from pages.parts.formats import format_tokens, format_usd

KEPT = "kept"


def is_recorded(shown: opening.ShownSession) -> bool:
    """Whether the session, or the subagent on the screen, is a recording of a dry run, or is joined with one.

    Args:
        shown: the session that is shown.
    """
    return is_dry_run(shown.trace.session)


def draw(shown: opening.ShownSession, at: Place) -> None:
    """Both sides of a request.

    Args:
        shown: the session that is shown.
        at: where the stepper stands.
    """
    place = _find_request(shown, at.request)
    if isinstance(place, str):
        st.html(f'<div class="ts-empty">{place}</div>')
        return
    found, request = place
    sizes = found.get_request(request)
    left, right = st.columns(2)
    left.html(_head("went out", sizes.sent_tokens, sizes.sent_usd, found.sent_usd))
    right.html(_head("would have gone out", sizes.planned_tokens, sizes.planned_usd, found.cost.total))
    pieces = found.list_pieces(request)
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
        key=f"debugger.dry.{shown.part}.{request}",
    )
    changed = next((n for n, each in enumerate(pieces) if each.how != KEPT), 0)
    chosen = next((n for n in state.selection.rows if n < len(pieces)), changed)
    piece = pieces[chosen]
    sent, planned = found.get_texts(request, piece.at, piece.how)
    one, other = st.columns(2)
    with one:
        st.html(f'<div class="pane-head">block #{piece.at} as it went out · {piece.sent:,} tokens</div>')
        widgets.draw_text(sent or None, "Nothing was here.")
    with other:
        st.html(f'<div class="pane-head">{piece.how} · {piece.planned:,} tokens</div>')
        widgets.draw_text(planned or None, "Nothing would have been here.")


def _find_request(shown: opening.ShownSession, number: int) -> tuple[PlannedSession, int] | str:
    """Find the conversation of the recording that holds a request, and its number there; why there is none, in words."""
    conversations: list[tuple[Session, Session]] = []
    recordings = find_recordings(shown.parts[0].open().session, shown.entry.path)
    with suppress(TurnscopeError):  # it has gone meanwhile
        conversations = _read(recordings) if recordings else []
    if not conversations:
        return "The recording is not there any more, or another one is in its place."
    when = shown.trace.session.requests[number].sent_at
    for at, times in enumerate(list_times(sent) for sent, _ in conversations):
        if when is not None and when in times:
            return _plan(recordings, at), times.index(when)
    return "This request did not pass the tap."


def _head(what: str, tokens: int, usd: Decimal | None, whole: Decimal | None) -> str:
    cost = f" · {format_usd(usd)}" if usd is not None else ""
    total = f" <span>({format_usd(whole)} for the session)</span>" if whole is not None else ""
    return f'<div class="why-line"><b>{what}</b> <span>{format_tokens(tokens)} tokens{cost}{total}</span></div>'


@st.cache_resource(max_entries=2, show_spinner="Reading what would have gone out…")
def _read(recordings: tuple[tuple[str, str], ...]) -> list[tuple[Session, Session]]:
    """The conversations of recordings, each by its path and its version. See `read_conversations`."""
    return read_conversations([Path(path) for path, _ in recordings])


@st.cache_resource(max_entries=4, show_spinner="Comparing what would have gone out…")
def _plan(recordings: tuple[tuple[str, str], ...], number: int) -> PlannedSession:
    sent, planned = (turnscope.replay(session, policies.RECORDED) for session in _read(recordings)[number])
    return PlannedSession(sent, planned)
