"""Reading the conversation: what is left out as a whole is not read again for each request."""

from __future__ import annotations

from typing import Any

from turnscope.envelope.conversation import find_first_present
from turnscope.envelope.difference import find_changed_spans
from turnscope.envelope.envelope import Chunk, Envelope
from turnscope.envelope.pieces import Piece
from turnscope.session.model import ZERO, Part, Span


class Closed(tuple[Piece, ...]):
    """Pieces that no one may read."""

    __slots__ = ()

    def __iter__(self) -> Any:
        raise AssertionError("read a chunk of which nothing is sent")


def test_a_chunk_of_which_nothing_is_sent_is_not_read() -> None:
    left_out = Chunk(Closed((Piece(0, 5, ZERO, ()),)), 5, ZERO, is_sent=False)
    note = Chunk((Piece(5, 5, ZERO, (Part(text="a note"),), slot="note"), Piece(5, 7, ZERO, ()), Piece(7, 9, ZERO)), 9, ZERO)
    envelope = Envelope((left_out, note))
    assert find_first_present(envelope, [0, 5, 7, 8]) == 2
    assert find_first_present(Envelope((left_out,)), [0, 5]) == 2
    assert find_changed_spans(envelope, Envelope((Chunk((Piece(0, 9, ZERO),), 9, ZERO),))) == [Span(0, 5), Span(5, 7)]
