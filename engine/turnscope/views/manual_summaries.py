"""Summaries in a chat's next request, for a page where they are edited, undone and rated. Changes nothing: see `live.chat`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from turnscope.envelope import wishes
from turnscope.envelope.condensing import strip_summary_frame
from turnscope.envelope.pieces import Piece
from turnscope.session.model import Edit, Session


@dataclass(frozen=True, slots=True)
class ManualSummary:
    """A summary in the next request.

    Attributes:
        by: number of the decision that put it there.
        key: digest of its text.
        tokens: its size in the ledger's units.
        replaced_blocks: how many blocks it stands for.
        rating: up, down or "".
    """

    by: int
    key: str
    text: str
    tokens: int
    replaced_blocks: int
    rating: str


def list_summaries(pieces: Iterable[Piece], session: Session) -> tuple[ManualSummary, ...]:
    """List the summaries among an envelope's pieces, without the line that announces a summary.

    Args:
        pieces: pieces of the next request's envelope.
        session: the chat, which holds the ratings.
    """
    return tuple(_build_summary(piece, session) for piece in pieces)


def _build_summary(piece: Piece, session: Session) -> ManualSummary:
    text = wishes.get_editable_text(piece)
    return ManualSummary(
        by=piece.by,
        key=wishes.hash_text(text),
        text=text,
        tokens=sum(piece.counts),
        replaced_blocks=piece.stop - piece.start,
        rating=wishes.get_rating(session, text),
    )


def get_rating(edit: Edit, session: Session) -> str:
    """The rating of the summary that an edit put there: up, down, or "" for none.

    Args:
        edit: an edit with a summary in its body.
        session: the chat, which holds the ratings.
    """
    text = next((part.text for part in edit.body or () if part.kind == "summary"), "")
    return wishes.get_rating(session, strip_summary_frame(text)) if text else ""
