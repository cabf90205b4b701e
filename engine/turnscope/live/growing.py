"""A session while it grows: messages and requests are appended, and `session` is its value at any moment.

Counts and index grow with it, so that planning the next request costs what is new. Holds no model and no storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from turnscope.counting.ledger import Ledger, build_ledger
from turnscope.counting.tokens import Counter
from turnscope.planning.assemble import Basis
from turnscope.planning.policy import Policy
from turnscope.planning.trace import own_counts
from turnscope.pricing.prices import PRICES, Prices
from turnscope.session.facts import add_facts, make_storable
from turnscope.session.index import Index
from turnscope.session.model import JSON, Edit, Fact, Message, ObservedEdit, RecordedFacts, Request, Session
from turnscope.session.timeline import Timeline


class Growing:
    """Starts from a session (empty, stored, imported or forked) and is appended to."""

    def __init__(self, start: Session, counter: Counter, prices: Prices = PRICES) -> None:
        self._head = start
        self.prices = prices
        self._line = Timeline.from_session(start)
        self._requests: list[Request] = list(start.requests)
        self._observed: list[ObservedEdit] = list(start.observed)
        self._recorded: RecordedFacts = start.recorded
        self._value: Session | None = start
        self.ledger: Ledger = build_ledger(start, counter)
        self._own: dict[tuple[str, int], Ledger | None] = {}
        self._index: Index | None = None

    @property
    def session(self) -> Session:
        """The session as it is now."""
        if self._value is None:
            self._value = structs.replace(
                self._head,
                blocks=tuple(self._line.blocks),
                messages=tuple(self._line.messages),
                requests=tuple(self._requests),
                observed=tuple(self._observed),
                recorded=self._recorded,
            )
        return self._value

    @property
    def basis(self) -> Basis:
        """Counts and index of the session as it is now."""
        if self._index is None:
            self._index = Index.build(self.session)
        return Basis(self.ledger, self.ledger, self._index, self.prices)

    def basis_of(self, policy: Policy) -> Basis:
        """The same, with the policy's own counts."""
        return replace(self.basis, own=self.own(policy) or self.ledger)

    def own(self, policy: Policy) -> Ledger | None:
        """The session as a policy itself counts it, kept and grown; None where it names no counter."""
        key = (policy.counter, policy.per_message)
        if policy.counter and key not in self._own:
            self._own[key] = own_counts(self.session, policy)
        return self._own.get(key)

    def message(
        self, role: str, content: str | Sequence[JSON], *, origin: str, id: str = "", sent_at: float | None = None
    ) -> Message:
        """Append one message; a prompt begins a turn. `role` system and tools are blocks of the request, not messages of it."""
        parts = [(raw, "") for raw in ([content] if isinstance(content, str) else content)]
        message = self._line.append(role, parts, origin=origin, id=id, sent_at=sent_at)
        for ledger in (self.ledger, *filter(None, self._own.values())):
            ledger.extend(self._line.blocks[message.start :], message)
        self._changed()
        return message

    def request(self, **fields: Any) -> Request:
        """A request that is sent now, with its number, turn and cut. Not part of the session until it is `answered`."""
        at, turn = self._line.end, max(0, self._line.turn)
        return Request(n=len(self._requests), turn=turn, cut=at, stop=at, **fields)

    def answered(self, request: Request, stop: int | None = None) -> Request:
        """Append a request that got its answer (or none: `stop` stays its cut)."""
        done = structs.replace(request, stop=self._line.end if stop is None else stop)
        self._requests.append(done)
        self._value = None
        return done

    def observe(self, request: int, edit: Edit) -> None:
        """Record what was done to the envelope of a request."""
        self._observed.append(ObservedEdit(request, make_storable(edit)))
        self._value = None

    def note(self, fact: Fact) -> None:
        """Record a fact."""
        self._recorded = add_facts(self._recorded, fact)
        self._value = None

    @property
    def recorded(self) -> RecordedFacts:
        return self._recorded

    def _changed(self) -> None:
        self._value = None
        self._index = None
