"""Summaries of a chat as a page shows them to be edited, undone and rated. Changes nothing: see `live.chat`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from turnscope.envelope import wishes
from turnscope.envelope.condensing import strip_summary_frame
from turnscope.envelope.pieces import Piece
from turnscope.session.model import Edit, Session


@dataclass(frozen=True, slots=True)
class ManualSummary:
    """A summary that stands in the next request. `by` names it; `key` names its text; `rating`: up, down or ""."""

    by: int
    key: str
    text: str
    tokens: int  # in the ledger's units
    replaced_blocks: int  # blocks
    rating: str


def list_summaries(pieces: Iterable[Piece], session: Session) -> tuple[ManualSummary, ...]:
    """The summaries among an envelope's pieces, without the line that says what they are."""
    return tuple(_build_summary(piece, session) for piece in pieces)


def _build_summary(piece: Piece, session: Session) -> ManualSummary:
    text = wishes.get_editable_text(piece)
    return ManualSummary(
        piece.by, wishes.hash_text(text), text, sum(piece.counts), piece.stop - piece.start, wishes.get_rating(session, text)
    )


def get_rating(edit: Edit, session: Session) -> str:
    """What somebody thought of the summary that an edit put there: up, down, or "" for nothing."""
    said = next((part.text for part in edit.body or () if part.kind == "summary"), "")
    return wishes.get_rating(session, strip_summary_frame(said)) if said else ""
