"""The tiles of an envelope, and what changes them: pieces, splices and decisions. Values only."""

from __future__ import annotations

from msgspec import Struct

from turnscope.session.model import Action, Counts, Edit, Placeholder


class Piece(Struct, frozen=True, gc=False):
    """One tile of an envelope. Zero width (`start == stop`) with a `slot` = an insert."""

    start: int
    stop: int
    counts: Counts
    body: Placeholder = None
    slot: str = ""
    by: int = -1  # number of the decision that put it here; -1 = nobody, it simply stands


class Splice(Struct, frozen=True, gc=False):
    """One change of an envelope: at `place`, `old` became `new`. Applied backwards it undoes the change.

    `place` is the address at which both begin, and how many pieces (inserts) that begin there stand before them.
    """

    place: tuple[int, int]
    old: tuple[Piece, ...]
    new: tuple[Piece, ...]


class Decision(Struct, frozen=True, gc=False):
    """An edit as applied (or a look that changed nothing), with the envelope's tokens before and after it."""

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
