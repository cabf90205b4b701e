"""What was sent, beside what a policy had planned for the same requests and did not send: piece by piece, with tokens and USD.

Reads two traces: of the session as it was sent, and of the one that was planned (`tap.dry_run`), which has the same messages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal, NamedTuple

from turnscope.counting.reconciliation import Terms
from turnscope.envelope.pieces import Piece
from turnscope.planning.trace import Trace
from turnscope.session.content import extract_text
from turnscope.session.model import Block
from turnscope.views import slots
from turnscope.views.cached_cost import ReplayCost, count_answer_tokens, simulate_cost
from turnscope.views.labels import label_block
from turnscope.views.replay_cost import price_as_billed, price_record, simulate_cache

How = Literal["kept", "shortened", "summarised", "left out", "inserted"]
BETWEEN = "\n\n"  # the texts of two blocks


class PlannedPiece(NamedTuple):
    """Blocks that go out alike, or what stands in their place.

    Attributes:
        at: address of the first block.
        blocks: how many blocks of those that were sent.
        label: the first of them, and the last.
        sent, planned: tokens that went out, and that would have.
    """

    at: int
    blocks: int
    label: str
    how: How
    sent: int
    planned: int


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A request as it was sent and as it was planned. Tokens of the whole prompt; USD with the answer, None without a price."""

    sent_tokens: int
    planned_tokens: int
    sent_usd: Decimal | None
    planned_usd: Decimal | None


class PlannedSession:
    """A session beside its plan.

    Args:
        record: the session as it was sent.
        planned: the same requests as they were planned. What was billed for those before the first that would have changed is
            what they would have cost.
    """

    def __init__(self, record: Trace, planned: Trace) -> None:
        self.record, self.planned = record, replace(planned, fits=record.fits)  # where nothing was billed, too
        answers = count_answer_tokens(record)
        self._billed = price_record(record, answers)
        self._uses = simulate_cache(self.planned)
        cost = price_as_billed(self.planned, simulate_cost(self.planned, self._uses, answers), self._billed, sent=False)
        alike = next((request.n for request in planned.session.requests if request.usage is None), len(cost.usd))
        self.cost: ReplayCost = replace(cost, usd=(*self._billed.usd[:alike], *cost.usd[alike:])) if self._billed.usd else cost

    @property
    def sent_usd(self) -> Decimal | None:
        """USD of all requests as they were sent."""
        return self._billed.total

    def get_request(self, request: int) -> PlannedRequest:
        """Give tokens and USD of a request. IndexError where there is none of that number."""
        usd = self._billed.usd[request] if self._billed.usd else None
        planned = self.record.get_terms(request).predict(self.planned.outlines[request].seen_tokens)
        return PlannedRequest(self.record.count_tokens(request), planned, usd, self.cost.usd[request])

    def list_pieces(self, request: int) -> tuple[PlannedPiece, ...]:
        """List the pieces of a request in the order in which they were sent. IndexError where there is none of that number.

        Their tokens are the provider's, and add up to the prompt but for rounding.
        """
        terms, pieces = self.record.get_terms(request), self.planned.plans[request].seen.pieces
        return tuple(self._describe(piece, terms) for piece in pieces if _is_part(piece))

    def get_texts(self, request: int, at: int, how: How) -> tuple[str, str]:
        """Give the text of a piece as it was sent, and as it would have been.

        Args:
            request: number of the request.
            at: address of the piece's first block.
            how: how it would have been sent.
        """
        pieces = [piece for piece in self.planned.plans[request].seen.pieces if _is_part(piece)]
        found = next(piece for piece in pieces if piece.start == at and _name(piece) == how)
        sent = BETWEEN.join(_write(block) for block in self.planned.session.blocks[found.start : found.stop])
        return sent, sent if found.body is None else BETWEEN.join(part.text for part in found.body)

    def _describe(self, piece: Piece, terms: Terms) -> PlannedPiece:
        session, blocks = self.planned.session, piece.stop - piece.start
        sent = terms.convert(self.planned.ledger.count_by_bucket(piece.start, piece.stop)) if blocks else 0
        ends = dict.fromkeys(label_block(session, session.blocks[at]) for at in (piece.start, piece.stop - 1) if blocks)
        label = " … ".join(ends) or slots.label_slot(piece.slot or "insert")
        return PlannedPiece(piece.start, blocks, label, _name(piece), sent, terms.convert(piece.counts))


def _is_part(piece: Piece) -> bool:
    return piece.start < piece.stop or bool(piece.body)


def _name(piece: Piece) -> How:
    if piece.body is None:
        return "kept"
    if not piece.body:
        return "left out"
    if piece.start == piece.stop:
        return "inserted"
    return "shortened" if piece.stop == piece.start + 1 and piece.body[0].kind == "tool_result" else "summarised"


def _write(block: Block) -> str:
    return block.text or extract_text(block.raw)
