"""The parts of an envelope and of its history: pieces, splices and decisions. Values only."""

from __future__ import annotations

from msgspec import Struct

from turnscope.session.model import Action, Counts, Edit, Placeholder


class Piece(Struct, frozen=True, gc=False):
    """One tile of an envelope: how the blocks `[start, stop)` are sent.

    Attributes:
        start: Address of the first block.
        stop: Address behind the last block. A piece of zero width (`start == stop`) with a `slot` is an insert.
        counts: Tokens per bucket, in the ledger's units.
        body: None = the blocks are sent verbatim, () = they are dropped, else the parts that replace them.
        slot: The slot of an insert, or a note on the piece.
        by: Number of the decision that made the piece; -1 = none did.
    """

    start: int
    stop: int
    counts: Counts
    body: Placeholder = None
    slot: str = ""
    by: int = -1  # number of a decision


class Splice(Struct, frozen=True, gc=False):
    """One change of an envelope: at `place`, `old` became `new`. Applied backwards it undoes the change.

    `place` is the address at which both begin, and how many pieces (inserts) that begin there come before them.
    """

    place: tuple[int, int]
    old: tuple[Piece, ...]
    new: tuple[Piece, ...]


class Decision(Struct, frozen=True, gc=False):
    """An edit as it was applied, with the envelope's tokens before and after it. `splice` is None where it changed nothing."""

    seq: int  # counts through the trace
    request: int
    rule: str
    edit: Edit
    splice: Splice | None
    before: int
    after: int

    @property
    def action(self) -> Action:
        return self.edit.action

    def __repr__(self) -> str:
        because = self.edit.because if len(self.edit.because) <= 120 else self.edit.because[:119] + "…"
        size = f", {self.before:,} -> {self.after:,} tokens" if self.splice else ""
        return f"<Decision {self.seq} at request {self.request}: {self.action} by {self.rule}{size}: {because!r}>"
