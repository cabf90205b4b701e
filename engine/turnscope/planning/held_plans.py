"""The plans of a replay while it grows and after: all of them while they are small, else only some of them.

Of a large replay the first plan of every stretch of requests is held, and an outline of all. The others are planned again from
there when somebody reads them: planning is deterministic, so they come out the same. Whoever reads all of them in order, once,
never has more than a few stretches in memory.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from threading import RLock
from typing import Any, TypeVar, overload

from msgspec import Struct

from turnscope.counting.calibration import Calibration
from turnscope.counting.ledger import Ledger
from turnscope.envelope.budget import Budget
from turnscope.envelope.plan import Plan, Verdict
from turnscope.planning.assemble import Basis, replay_from, replay_with_record
from turnscope.planning.policy import Policy
from turnscope.planning.session_fit import RecordStep, RunningFit
from turnscope.pricing.prices import PRICES, Prices
from turnscope.session.model import Action, Request, Session
from turnscope.session.transcript import Transcript

MAX_BYTES = 40_000_000  # of the plans of one replay, by estimate; of more only the first of each stretch are held
STRETCH = 64  # requests; as many are planned again, at most, to read one plan
MAX_STRETCHES = 4  # that were planned again and are still held

V = TypeVar("V")
Replan = Callable[[Plan, Sequence[Calibration]], Iterator[Plan]]  # the plans behind one, and what each is calibrated with
_UNSENT = ("_pairs", "_replan", "_fit", "_lock", "_sizes")  # to another process


class PlanOutline(Struct, frozen=True, gc=False):
    """What is held of every plan, by the names that a `Plan` has for it."""

    request: Request
    model: str
    budget: Budget
    verdict: Verdict
    first: int
    seen_tokens: int
    static_tokens: int
    actions: tuple[Action, ...]
    read_tokens: int
    is_changed: bool
    is_server_edited: bool


class HeldPlans:
    """The plans of one replay. Any thread may read while another one goes on planning.

    Args:
        pairs: each plan with what the record says of its request, in order.
        replan: plans the requests behind a plan again.
        fit: says what the record means for other policies.
    """

    def __init__(self, pairs: Iterator[tuple[Plan, RecordStep]], replan: Replan, fit: RunningFit) -> None:
        self.outlines: list[PlanOutline] = []
        self.record: list[RecordStep] = []
        self.size = 0  # bytes that are held, about
        self._pairs, self._replan, self._fit = pairs, replan, fit
        self._sizes = _SizeEstimate()
        self._plans: list[Plan] = []  # all of them; of a large replay those of the newest stretch
        self._firsts: list[Plan] | None = None  # of every stretch of a large replay
        self._fitted: list[RecordStep] = []  # the first of `record`, with what they say of other policies
        self._read: dict[int, list[Plan]] = {}  # stretches that were planned again, the newest last
        self._lock = RLock()

    def __getstate__(self) -> dict[str, Any]:
        """Without what plans them: whoever takes them over from another process says how (`take_over`)."""
        return {name: value for name, value in vars(self).items() if name not in _UNSENT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _pairs=iter(()), _sizes=_SizeEstimate(), _lock=RLock())

    def take_over(self, other: HeldPlans) -> None:
        """Plan again as another replay of the same session under the same policy does."""
        self._replan, self._fit = other._replan, other._fit

    def grow(self) -> Iterator[Plan]:
        """Plan the requests that are not planned yet, and yield each plan. RuleError: a rule made a mistake."""
        while True:
            with self._lock:
                pair = next(self._pairs, None)
                if pair is None:
                    return
                self._append(*pair)
            yield pair[0]

    def grow_to(self, count: int) -> None:
        """Plan the first requests, as many as are not planned yet.

        Args:
            count: How many there are then.
        """
        if len(self.outlines) < count:
            with self._lock:
                deque(islice(self.grow(), max(0, count - len(self.outlines))), maxlen=0)

    def get_record(self, number: int) -> RecordStep:
        """Return what these plans of the record pass on to another policy about a request; fitted as far as it is read."""
        with self._lock:
            while len(self._fitted) <= number:
                self._fitted.append(self._fit.learn(self.record[len(self._fitted)]))
            return self._fitted[number]

    def _append(self, plan: Plan, step: RecordStep) -> None:
        self.outlines.append(_outline(plan))
        self.record.append(step)
        if self._firsts is None:
            self._plans.append(plan)
            self.size += self._sizes.add(plan)
            if self.size > MAX_BYTES:
                self.compact()
        elif (len(self.outlines) - 1) % STRETCH == 0:
            self._remember(len(self._firsts) - 1, self._plans)
            self._firsts.append(plan)
            self._plans = [plan]
            self.size += self._sizes.add(plan)
        else:
            self._plans.append(plan)

    def compact(self) -> None:
        """Let go of all plans but the first of every stretch, and of the newest one; the rest is planned again when read."""
        with self._lock:
            self._read.clear()
            if self._firsts is not None or len(self._plans) <= STRETCH:
                return
            each = self.size // len(self._plans)
            self._firsts, self._sizes = self._plans[::STRETCH], _SizeEstimate()
            self._plans = self._plans[(len(self._firsts) - 1) * STRETCH :]
            self.size = sum(map(self._sizes.add, self._firsts)) + each * STRETCH * (MAX_STRETCHES + 1)

    def iter_from(self, number: int, stop: int) -> Iterator[Plan]:
        """Yield plans in order.

        Args:
            number: Number of the first request.
            stop: Number behind the last.
        """
        while number < stop:
            begin, plans = self._get_stretch(number)
            for plan in islice(plans, number - begin, stop - begin):
                yield plan
                number += 1

    def get(self, number: int) -> Plan:
        """Return the plan of a request. IndexError where it is not planned."""
        if self._firsts is None and number < len(plans := self._plans):
            return plans[number]
        begin, plans = self._get_stretch(number)
        return plans[number - begin]

    def _get_stretch(self, number: int) -> tuple[int, list[Plan]]:
        """The plans around a request, and the number of the first of them."""
        with self._lock:
            if self._firsts is None:
                return 0, self._plans
            place = number // STRETCH
            begin = place * STRETCH
            if place == len(self._firsts) - 1:
                return begin, self._plans
            plans = self._read.pop(place, None)
            if plans is None:
                known = [step.calibration for step in self.record[begin : begin + STRETCH - 1]]
                plans = [self._firsts[place], *self._replan(self._firsts[place], known)]
            self._remember(place, plans)
            return begin, plans

    def _remember(self, place: int, plans: list[Plan]) -> None:
        self._read[place] = plans
        while len(self._read) > MAX_STRETCHES:
            del self._read[next(iter(self._read))]


class PlanSequence(Sequence[Plan]):
    """The plans of a replay, or the first of them, as a value.

    Args:
        held: what holds them.
        count: how many; None = all that are planned by now.
    """

    def __init__(self, held: HeldPlans, count: int | None = None) -> None:
        self.held = held
        self.outlines: Sequence[PlanOutline] = held.outlines if count is None else held.outlines[:count]

    @property
    def record(self) -> Sequence[RecordStep]:
        """What plans of the record pass to those of other policies; fitted as far as it is read."""
        return _Grown(self.held, self.held.get_record, len(self))

    def __len__(self) -> int:
        return len(self.outlines)

    def __iter__(self) -> Iterator[Plan]:
        return self.held.iter_from(0, len(self))

    @overload
    def __getitem__(self, at: int) -> Plan: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Plan]: ...
    def __getitem__(self, at: int | slice) -> Plan | Sequence[Plan]:
        if isinstance(at, int):
            return self.held.get(range(len(self))[at])
        start, stop, step = at.indices(len(self))
        if (start, step) == (0, 1):
            return PlanSequence(self.held, stop)
        if step == 1:
            return tuple(self.held.iter_from(start, stop))
        return tuple(map(self.held.get, range(start, stop, step)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (PlanSequence, tuple, list)):
            return NotImplemented
        return self is other or (len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True)))

    __hash__ = None  # type: ignore[assignment]  # the plans of a replay under way become more

    def __repr__(self) -> str:
        return f"<{len(self):,} plans>"


class _Grown(Sequence[V]):
    """What is held of each of `count` plans; planned as far as it is read."""

    def __init__(self, held: HeldPlans, get: Callable[[int], V], count: int) -> None:
        self._held, self._get, self._count = held, get, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> V: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[V]: ...
    def __getitem__(self, at: int | slice) -> V | Sequence[V]:
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(self._count))]
        number = at if 0 <= at < self._count else range(self._count)[at]
        if len(self._held.outlines) <= number:
            self._held.grow_to(number + 1)
        return self._get(number)


class LazyPlans(PlanSequence):
    """The plans of a replay, each made when it or a later one is read.

    Args:
        held: what holds them.
        count: how many there will be.
    """

    def __init__(self, held: HeldPlans, count: int) -> None:
        super().__init__(held)
        self.outlines = _Grown(held, held.outlines.__getitem__, count)

    def __getitem__(self, at: int | slice) -> Plan | Sequence[Plan]:  # type: ignore[override]
        last = range(len(self))[at]
        last = last if isinstance(last, int) else max(last, default=-1)
        self.held.grow_to(last + 1)
        return super().__getitem__(at)

    def __iter__(self) -> Iterator[Plan]:
        for number in range(len(self)):
            if number % STRETCH == 0:  # one after another: that is faster than in turns with what reads them
                self.held.grow_to(min(number + STRETCH, len(self)))
            yield self.held.get(number)


def begin_plans(
    session: Session,
    policy: Policy,
    ledger: Ledger,
    own: Ledger | None = None,
    prices: Prices = PRICES,
    record: Sequence[RecordStep] = (),
) -> HeldPlans:
    """Return the plans of a replay, none of which is made yet.

    Args:
        session: The session.
        policy: The policy.
        ledger: Token counts for display.
        own: Token counts for the policy's decisions; None = the same.
        prices: Facts of models.
        record: What the record says of all requests, if it is known already.
    """
    basis: list[Basis] = []

    def replan(plan: Plan, calibrations: Sequence[Calibration]) -> Iterator[Plan]:
        if not basis:
            basis.append(Basis.of(session, ledger, own, prices))
        return replay_from(plan, calibrations, session, policy, basis[0])

    pairs = replay_with_record(session, policy, ledger, own, prices=prices, record=record)
    return HeldPlans(pairs, replan, RunningFit(session))


def _outline(plan: Plan) -> PlanOutline:
    return PlanOutline(
        request=plan.request,
        model=plan.model,
        budget=plan.budget,
        verdict=plan.verdict,
        first=plan.first,
        seen_tokens=plan.seen_tokens,
        static_tokens=plan.static_tokens,
        actions=plan.actions,
        read_tokens=plan.read_tokens,
        is_changed=plan.is_changed,
        is_server_edited=plan.is_server_edited,
    )


# What a plan adds to the memory of a trace, in bytes; `tests/library/test_replay_job.py` compares it with what is allocated.
_PLAN, _DECISION, _PIECE, _CHUNK, _SLOT = 1_100, 850, 250, 250, 8
_TEXT = 2.5  # a placeholder's text, and the copies of it that are sent and counted


def _get_size(text: str | Transcript) -> int:
    """The bytes of a text; of a transcript those of the lines that the one before has not."""
    return sys.getsizeof(text) if isinstance(text, str) else text.added


class _SizeEstimate:
    """Estimates what each plan adds to those before it, with which it shares most of its chunks."""

    def __init__(self) -> None:
        self._known: set[int] = set()  # ids of the chunks of the plan before
        self._texts: set[int] = set()  # ids of the texts that are counted

    def add(self, plan: Plan) -> int:
        """The bytes of the next plan."""
        envelopes = {id(each): each for each in (plan.before, plan.after, plan.seen, plan.kept, plan.base)}
        chunks = [*chain.from_iterable(each.chunks for each in envelopes.values())]
        by_id = dict(zip(map(id, chunks), chunks, strict=True))
        fresh = sum(_CHUNK + _SLOT * len(by_id[number].pieces) for number in by_id.keys() - self._known)
        self._known = {*by_id}
        made = [(decision.edit, decision.splice) for decision in plan.decisions if decision.splice]
        placeholders = {id(part.text): part.text for edit, _ in made for part in edit.body or ()}
        queries = {id(text): text for ask, answer in plan.asks for text in (ask.source, ask.prompt, answer.text)}
        texts = sum(_TEXT * sys.getsizeof(text) for each, text in placeholders.items() if each not in self._texts)
        texts += sum(_get_size(text) for each, text in queries.items() if each not in self._texts)
        self._texts.update(placeholders, queries)
        return (
            _PLAN
            + _DECISION * (len(plan.decisions) + len(plan.server))
            + _PIECE * sum(len(splice.new) + 1 for _, splice in made)
            + fresh
            + _CHUNK * len(envelopes)
            + _SLOT * len(chunks)
            + int(texts)
        )
