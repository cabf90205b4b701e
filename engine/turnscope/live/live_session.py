"""A session that grows: messages and requests are appended, and `session` is its value at any moment.

Token counts and index grow with it, so planning the next request costs only what is new. Knows no model and no store.
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
from turnscope.planning.trace import build_own_ledger
from turnscope.pricing.prices import PRICES, Prices
from turnscope.session.facts import add_facts, make_storable
from turnscope.session.index import Index
from turnscope.session.model import JSON, Edit, Fact, Message, ObservedEdit, RecordedFacts, Request, Session
from turnscope.session.timeline import Timeline


class LiveSession:
    """A session that is appended to.

    Args:
        start: The session to begin with: empty, stored, imported or a branch.
        counter: How tokens are counted.
        prices: The prices of its requests.
    """

    def __init__(self, start: Session, counter: Counter, prices: Prices = PRICES) -> None:
        self._start = start
        self.prices = prices
        self._timeline = Timeline.from_session(start)
        self._requests: list[Request] = list(start.requests)
        self._observed: list[ObservedEdit] = list(start.observed)
        self._facts: RecordedFacts = start.recorded
        self._session: Session | None = start
        self.ledger: Ledger = build_ledger(start, counter)
        self._policy_ledgers: dict[tuple[str, int], Ledger | None] = {}
        self._index: Index | None = None

    @property
    def session(self) -> Session:
        """The session as it is now."""
        if self._session is None:
            self._session = structs.replace(
                self._start,
                blocks=tuple(self._timeline.blocks),
                messages=tuple(self._timeline.messages),
                requests=tuple(self._requests),
                observed=tuple(self._observed),
                recorded=self._facts,
            )
        return self._session

    @property
    def basis(self) -> Basis:
        """Token counts and index of the session as it is now."""
        if self._index is None:
            self._index = Index.build(self.session)
        return Basis(self.ledger, self.ledger, self._index, self.prices)

    def get_policy_basis(self, policy: Policy) -> Basis:
        """Return token counts and index, with the counts of the policy's own counter."""
        return replace(self.basis, own=self.get_policy_ledger(policy) or self.ledger)

    def get_policy_ledger(self, policy: Policy) -> Ledger | None:
        """Return the token counts by the policy's own counter; None if it names none."""
        key = (policy.counter, policy.per_message)
        if policy.counter and key not in self._policy_ledgers:
            self._policy_ledgers[key] = build_own_ledger(self.session, policy)
        return self._policy_ledgers.get(key)

    def append_message(
        self,
        role: str,
        content: str | Sequence[JSON],
        *,
        origin: str,
        id: str = "",
        sent_at: float | None = None,
        fence: bool = False,
    ) -> Message:
        """Append a message. A prompt begins a turn.

        Args:
            role: User or assistant; system and tools are parts of the request, not messages of it.
            content: A text, or blocks in Anthropic's shape.
            origin: Where the message comes from; see `Message.origin`.
            id: The provider's id of an answer.
            sent_at: Seconds since the epoch.
            fence: Never merge the message with a neighbour of the same role.
        """
        parts = [(raw, "") for raw in ([content] if isinstance(content, str) else content)]
        message = self._timeline.append(role, parts, origin=origin, id=id, sent_at=sent_at, fence=fence)
        for ledger in (self.ledger, *filter(None, self._policy_ledgers.values())):
            ledger.extend(self._timeline.blocks[message.start :], message)
        self._invalidate()
        return message

    def build_request(self, **fields: Any) -> Request:
        """Build the next request, with its number, turn and cut. `append_request` adds it to the session.

        Args:
            **fields: Further fields of `Request`, such as its model and settings.
        """
        at, turn = self._timeline.end, max(0, self._timeline.turn)
        return Request(n=len(self._requests), turn=turn, cut=at, stop=at, **fields)

    def append_request(self, request: Request, stop: int | None = None) -> Request:
        """Append a request.

        Args:
            request: The request, as built or with its usage.
            stop: The end of its answer; None = the last block. A request without an answer stops at its cut.
        """
        done = structs.replace(request, stop=self._timeline.end if stop is None else stop)
        self._requests.append(done)
        self._session = None
        return done

    def record_edit(self, request: int, edit: Edit) -> None:
        """Record a change that was made to the envelope of a request.

        Args:
            request: The number of the request.
            edit: The change.
        """
        self._observed.append(ObservedEdit(request, make_storable(edit)))
        self._session = None

    def record_fact(self, fact: Fact) -> None:
        """Record a fact."""
        self._facts = add_facts(self._facts, fact)
        self._session = None

    def restore_facts(self, facts: RecordedFacts) -> None:
        """Go back to the facts of an earlier moment."""
        self._facts = facts
        self._session = None

    @property
    def facts(self) -> RecordedFacts:
        """The facts recorded so far."""
        return self._facts

    def _invalidate(self) -> None:
        self._session = None
        self._index = None
