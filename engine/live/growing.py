"""A session while it grows: messages and requests are appended, and `session` is its value at any moment.

Counts and index grow with it, so that planning the next request costs what is new. Holds no model and no storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from engine.counting.ledger import Ledger, build_ledger
from engine.counting.tokens import Counter
from engine.planning.assemble import Basis
from engine.pricing.prices import PRICES, Prices
from engine.session.builder import block_of, paired_with
from engine.session.facts import noted
from engine.session.index import Index
from engine.session.model import JSON, Block, Edit, Fact, Message, Observed, Recorded, Request, Session


class Growing:
    """Starts from a session (empty, stored, imported or forked) and is appended to."""

    def __init__(self, start: Session, counter: Counter, prices: Prices = PRICES) -> None:
        self._head = start
        self.prices = prices
        self._blocks: list[Block] = list(start.blocks)
        self._messages: list[Message] = list(start.messages)
        self._requests: list[Request] = list(start.requests)
        self._observed: list[Observed] = list(start.observed)
        self._recorded: Recorded = start.recorded
        self._calls = {str(b.raw.get("id")): b.at for b in start.blocks if b.kind == "tool_use" and isinstance(b.raw, dict)}
        self._value: Session | None = start
        self.ledger: Ledger = build_ledger(start, counter)
        self._index: Index | None = None

    @property
    def session(self) -> Session:
        """The session as it is now."""
        if self._value is None:
            self._value = structs.replace(
                self._head,
                blocks=tuple(self._blocks),
                messages=tuple(self._messages),
                requests=tuple(self._requests),
                observed=tuple(self._observed),
                recorded=self._recorded,
            )
        return self._value

    @property
    def basis(self) -> Basis:
        """Counts and index of the session as it is now."""
        if self._index is None:
            self._index = Index.of(self.session)
        return Basis(self.ledger, self.ledger, self._index, self.prices)

    def message(
        self, role: str, content: str | Sequence[JSON], *, origin: str, id: str = "", sent_at: float | None = None
    ) -> Message:
        """Append one message; a prompt begins a turn. `role` system and tools are blocks of the request, not messages of it."""
        start = len(self._blocks)
        turn = self._blocks[-1].turn if self._blocks else 0
        if origin == "prompt" and any(m.role not in ("system", "tools") for m in self._messages):
            turn += 1
        parts: Sequence[JSON] = [content] if isinstance(content, str) else content
        for raw in parts or [None]:
            block = block_of(len(self._blocks), len(self._messages), turn, role, "", raw)
            self._blocks.append(self._pair(block))
        message = Message(start, len(self._blocks), role, origin, id, sent_at)
        self._messages.append(message)
        self.ledger.extend(self._blocks[start:], message)
        self._changed()
        return message

    def request(self, **fields: Any) -> Request:
        """A request that is sent now, with its number, turn and cut. Not part of the session until it is `answered`."""
        turn = self._blocks[-1].turn if self._blocks else 0
        return Request(n=len(self._requests), turn=turn, cut=len(self._blocks), stop=len(self._blocks), **fields)

    def answered(self, request: Request, stop: int | None = None) -> Request:
        """Append a request that got its answer (or none: `stop` stays its cut)."""
        done = structs.replace(request, stop=len(self._blocks) if stop is None else stop)
        self._requests.append(done)
        self._value = None
        return done

    def observe(self, request: int, edit: Edit) -> None:
        """Record what was done to the envelope of a request."""
        self._observed.append(Observed(request, edit))
        self._value = None

    def note(self, fact: Fact) -> None:
        """Record a fact."""
        self._recorded = noted(self._recorded, fact)
        self._value = None

    @property
    def recorded(self) -> Recorded:
        return self._recorded

    def _pair(self, block: Block) -> Block:
        if block.kind == "tool_use" and isinstance(block.raw, dict):
            self._calls[str(block.raw.get("id"))] = block.at
        call = self._calls.get(str(block.raw.get("tool_use_id"))) if isinstance(block.raw, dict) else None
        if block.kind != "tool_result" or call is None:
            return block
        self._blocks[call], block = paired_with(self._blocks[call], block)
        return block

    def _changed(self) -> None:
        self._value = None
        self._index = None
