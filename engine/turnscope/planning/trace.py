"""A trace: the plans of all requests of a session under one policy.

Holds the value and how it is read; `assemble` makes the plans.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap
from operator import attrgetter
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnscope import notebook
from turnscope.counting.ledger import Ledger, build_ledger
from turnscope.counting.reconciliation import Fit, Ints, Terms
from turnscope.counting.tokens import get_counter
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Decision, Splice
from turnscope.envelope.plan import Plan, Verdict
from turnscope.numbering import format_request
from turnscope.planning import policy as policies
from turnscope.planning.assemble import AS_RECORDED, judge
from turnscope.planning.held_plans import HeldPlans, PlanOutline, PlanSequence, begin_plans
from turnscope.planning.policy import Policy
from turnscope.planning.session_fit import RecordStep, fit_session, get_prompt_tokens
from turnscope.pricing.prices import PRICES, Prices
from turnscope.session.fork import fork_session
from turnscope.session.model import (
    Ask,
    Session,
    Span,
)

State = Literal["here", "replaced", "absent", "unseen", "later"]
_FIRST = attrgetter("start")


class Cursor(NamedTuple):
    """A place in a trace: the number of a request, and how many of its decisions are applied."""

    request: int
    step: int


@dataclass(frozen=True, slots=True)
class Frame:
    """The envelope at a cursor, and the decision that led to it (None before the first)."""

    cursor: Cursor
    plan: Plan
    envelope: Envelope
    decision: Decision | None


@dataclass(frozen=True, slots=True)
class BlockStatus:
    """How a block appears in a request, and why.

    Attributes:
        at: Address of the block.
        request: Number of the request.
        state: `here` = verbatim, `replaced`, `absent` = dropped, `unseen` = sent but removed by the provider, `later` = written
            after the request.
        since: The first request since when the state holds without a break. For a later block: the first request that can carry
            it; -1 = none.
        by: Who made it so; "" = nobody.
        decision: The decision in force. A `fresh` rule may have made it long after `since`.
    """

    at: int
    request: int
    state: State
    since: int
    by: Literal["", "policy", "server"] = ""
    decision: Decision | None = None

    @property
    def because(self) -> str:
        """The reason of the decision; "" = nobody decided."""
        return self.decision.edit.because if self.decision else ""

    @property
    def sentence(self) -> str:
        """All of it in one sentence."""
        if self.state == "later":
            then = f"; request {format_request(self.since)} is the first that can contain it" if self.since >= 0 else ""
            return f"It was written after request {format_request(self.request)} was sent{then}."
        if self.by == "server":
            why = self.because or "the provider dropped it"
            return f"It was sent, but the model has not seen it since request {format_request(self.since)}: {why}."
        if self.decision is None:
            return "It is sent verbatim; no decision changed it."
        made, again = (
            self.decision,
            f", and so at each since {format_request(self.since)}" if self.since < self.decision.request else "",
        )
        return f"{made.action} by {made.rule} at request {format_request(made.request)}{again}: {self.because}."


@dataclass(frozen=True, slots=True)
class Trace:
    """Plans of every request, in order. `fits`: what all that was billed says of the session, whatever the policy.

    >>> trace = turnscope.replay(turnscope.load("sample_sessions/cache-goes-cold.jsonl"), "last-5-pairs")
    >>> trace.plans[55].before.tokens, trace.plans[55].after.tokens
    (89191, 64708)
    >>> trace.plans[55].decisions[0]
    <Decision 0 at request 55: drop by keep_last_pairs, 89,191 -> 64,708 tokens: 'the last 5 of 6 earlier pairs are kept'>
    >>> trace.explain(2, 55).sentence
    'drop by keep_last_pairs at request 56: the last 5 of 6 earlier pairs are kept.'
    """

    session: Session
    policy: Policy
    ledger: Ledger
    plans: Sequence[Plan]  # of a large replay most are planned again when they are read (`held_plans`)
    fits: tuple[Fit, ...]
    prices: Prices = PRICES

    def __repr__(self) -> str:
        cuts = sum(any(d.splice for d in plan.decisions) for plan in self.plans)
        peak = max((plan.after.tokens for plan in self.plans), default=0)
        return f"<Trace of {len(self.plans)} requests under {self.policy.name!r}: {cuts} changed, peak {peak:,} counted tokens>"

    @property
    def held(self) -> HeldPlans | None:
        """What holds the plans; None where they were not planned here."""
        return self.plans.held if isinstance(self.plans, PlanSequence) else None

    @property
    def outlines(self) -> Sequence[Plan | PlanOutline]:
        """What is held of every plan, also where the plan itself would be made again (`held_plans`)."""
        return self.plans.outlines if isinstance(self.plans, PlanSequence) else self.plans

    @property
    def record(self) -> Sequence[RecordStep]:
        """What replays of the same session need of each request as it was sent; () where this is not the record."""
        return self.plans.record if isinstance(self.plans, PlanSequence) and self.policy.name == AS_RECORDED else ()

    def get_terms(self, request: int) -> Terms:
        """Return what converts counted tokens of a request to the provider's tokens.

        Under the record its parts sum to what was recorded. Another policy has the terms of its stretch of requests, without
        what the tool cut or re-injected and the log does not contain. Planning uses `Plan.calibration` instead, which knows
        only earlier requests.

        Raises:
            IndexError: There is no such request.
        """
        fit, plan = self._find_fit(request), self.outlines[request]
        if self.policy.name != AS_RECORDED:
            return fit.get_policy_terms(plan.static_tokens)
        return fit.compute_terms(plan.seen_tokens, get_prompt_tokens(plan.request), request, plan.static_tokens)

    def count_tokens(self, request: int) -> int:
        """Return the provider's tokens of a request as it is sent here: the recorded number, else an estimate.

        All pages use this number. The error of an estimate is `fit(request).error`.
        """
        return self.get_terms(request).predict(self.outlines[request].seen_tokens)

    def get_verdict(self, request: int) -> Verdict:
        """Return the verdict on a request by what would be sent (`count_tokens`). Its plan has that by what was expected.

        A plan learns of its own error only with the next request, so a request may be over its limit that its plan let pass.
        """
        plan = self.outlines[request]
        return judge(self.policy, plan.actions, plan.budget, max(self.count_tokens(request), plan.read_tokens))

    @property
    def uncut_tokens(self) -> int:
        """The provider's tokens of all requests, had everything been kept. For display."""
        return sum(starmap(self._count_uncut, enumerate(self.outlines)))

    def _count_uncut(self, n: int, plan: Plan | PlanOutline) -> int:
        size = self.ledger.total[plan.request.cut]
        if plan.seen_tokens == size:
            return self.count_tokens(n)
        return self._find_fit(n).get_policy_terms(plan.static_tokens).predict(size)

    def _find_fit(self, request: int) -> Fit:
        number = request if 0 <= request < len(self.plans) else range(len(self.plans))[request]
        return self.fits[bisect_right(self.fits, number, key=_FIRST) - 1]

    def _repr_html_(self) -> str:
        """What the policy did to the whole session, by rule."""
        sizes = [self.count_tokens(n) for n in range(len(self.plans))]
        sent, whole = sum(sizes), self.uncut_tokens
        top = max(self.plans, key=lambda plan: sizes[plan.request.n], default=None)
        over = sum(self.get_verdict(n) in ("overflow", "refuse") for n in range(len(self.plans)))
        facts = [
            f"{len(self.plans):,} requests, {sum(plan.is_changed for plan in self.plans):,} changed, {over:,} over the limit"
        ]
        facts += [f"{sent:,} tokens sent in all, {sent / whole:.0%} of {whole:,} with everything kept"] if whole else []
        facts += (
            [f"largest: requests[{top.request.n}], {sizes[top.request.n]:,} of {top.budget.window:,} tokens"] if top else []
        )
        parts = [*map(notebook.render_line, facts), *([notebook.render_bar(top.seen.buckets)] if top else [])]
        rows = [(rule, action, times, first, out) for (rule, action), (times, first, out) in self._sum_effects().items()]
        parts += (
            [notebook.render_table(("rule", "did", "times", "first in requests[n]", "counted tokens taken out"), rows)]
            if rows
            else []
        )
        name = self.session.title or self.session.id
        return notebook.render_card(f"{self.policy.title or self.policy.name} · {name}", *parts, note=self.policy.name)

    def _sum_effects(self) -> dict[tuple[str, str], tuple[int, int, int]]:
        """By rule and action: how many changes, the first request, and counted tokens removed."""
        found: dict[tuple[str, str], tuple[int, int, int]] = {}
        for decision in (d for plan in self.plans for d in plan.decisions if d.splice):
            key = (decision.rule, decision.action)
            times, first, out = found.get(key, (0, decision.request, 0))
            found[key] = (times + 1, first, out + decision.before - decision.after)
        return found

    def get_frame(self, cursor: Cursor) -> Frame:
        """Return what is at a cursor. IndexError where the trace has no such place."""
        plan = self.plans[cursor.request]
        if not 0 <= cursor.step <= len(plan.decisions):
            raise IndexError(f"request {cursor.request} has {len(plan.decisions)} decisions, not {cursor.step}")
        decision = plan.decisions[cursor.step - 1] if cursor.step else None
        ahead, back = cursor.step, len(plan.decisions) - cursor.step
        if ahead <= back:
            splices = (d.splice for d in plan.decisions[: cursor.step])
            return Frame(cursor, plan, _walk(plan.before, splices, Envelope.redo), decision)
        splices = (d.splice for d in reversed(plan.decisions[cursor.step :]))
        return Frame(cursor, plan, _walk(plan.after, splices, Envelope.undo), decision)

    def move(self, cursor: Cursor, by: int) -> Cursor:
        """Return the cursor `by` steps further (back where negative), across requests; it stops at either end of the trace.

        Args:
            cursor: The cursor.
            by: Number of steps.
        """
        request, step = cursor
        step += by
        while step < 0 and request > 0:
            request -= 1
            step += len(self.plans[request].decisions) + 1
        while step > len(self.plans[request].decisions) and request < len(self.plans) - 1:
            step -= len(self.plans[request].decisions) + 1
            request += 1
        return Cursor(request, max(0, min(step, len(self.plans[request].decisions))))

    def get_decision(self, number: int) -> Decision:
        """Return a decision by its number in the trace. IndexError where there is none."""
        plan = self.plans[self.find_deciding_request(number)]
        return plan.decisions[number - plan.first]

    def find_deciding_request(self, number: int) -> int:
        """Return the request at which a decision was made, by its number in the trace; -1 = there is none."""
        return bisect_right(self.outlines, number, key=lambda plan: plan.first) - 1

    def explain(self, at: int, request: int) -> BlockStatus:
        """Return why a block is in a request, or is not.

        Args:
            at: Address of the block.
            request: Number of the request.

        Raises:
            IndexError: The session has no such block, or the trace no such request.
        """
        plan, entered = self.plans[request], self.find_first_request(self.session.blocks[at].at)
        state = _get_state(plan, at)
        if state == "later":
            return BlockStatus(at, request, state, entered if entered < len(self.plans) else -1)
        since = request
        while since > entered and (
            not _may_differ(*self.plans[since - 1 : since + 1]) or _get_state(self.plans[since - 1], at) == state
        ):
            since -= 1
        if state == "unseen":
            return BlockStatus(at, request, state, since=since, by="server", decision=self._find_server_decision(at, request))
        by = plan.after.find_piece(at).by
        return (
            BlockStatus(at, request, state, since=since, by="policy", decision=self.get_decision(by))
            if by >= 0
            else BlockStatus(at, request, state, since)
        )

    def find_first_request(self, at: int) -> int:
        """Return the first request that block `at` can be part of; the number of requests where none can."""
        return bisect_right(self.outlines, at, key=lambda plan: plan.request.cut)

    def iter_shown_spans(self, blocks: Iterable[int]) -> Iterator[tuple[Span, ...]]:
        """Yield for each block the spans of requests whose prompt showed it to the model verbatim; () = none did."""
        plans, addresses = self.plans, np.fromiter(blocks, dtype=np.int64)
        entered = np.array([self.find_first_request(at) for at in addresses.tolist()], dtype=np.int64)
        since, found = np.full(len(addresses), -1), [list[Span]() for _ in addresses]
        for i, (at, n) in enumerate(zip(addresses.tolist(), entered.tolist(), strict=True)):
            if n < len(plans) and _get_state(plans[n], at) == "here":
                since[i] = n
        for n in (n for n in range(1, len(plans)) if _may_differ(plans[n - 1], plans[n])):
            inside = np.flatnonzero(entered < n)
            there, out = _find_shown(plans[n], addresses[inside]), since[inside] >= 0
            for i in inside[out & ~there].tolist():
                found[i].append(Span(int(since[i]), n))
            since[inside[out & ~there]] = -1
            since[inside[~out & there]] = n
        for spans, start in zip(found, since.tolist(), strict=True):
            yield (*spans, Span(start, len(plans))) if start >= 0 else tuple(spans)

    def _find_server_decision(self, at: int, request: int) -> Decision | None:
        """The decision of the provider that removed block `at`, which was sent."""
        edited = (n for n in range(request, -1, -1) if self.outlines[n].is_server_edited)
        made = (decision for n in edited for decision in self.plans[n].server)
        return next((d for d in made if d.edit.span and d.edit.span.start <= at < d.edit.span.stop), None)

    def find_offline_asks(self) -> tuple[Ask, ...]:
        """Return asks for summaries that no model answered, each once, in order."""
        return tuple({ask.key: ask for plan in self.plans for ask in plan.offline_asks}.values())

    def fork(self, request: int) -> Session:
        """Return the session up to, but without, a request, to be continued. IndexError where there is no such request."""
        return fork_session(self.session, request)


def _get_state(plan: Plan, at: int) -> State:
    if at >= plan.request.cut:
        return "later"
    body = plan.after.find_piece(at).body
    if body is None:
        return "here" if plan.seen.find_piece(at).body is None else "unseen"
    return "replaced" if body else "absent"


def _find_shown(plan: Plan, addresses: Ints) -> NDArray[np.bool_]:
    """Which of these blocks, all before the prompt's end, the model saw verbatim."""
    shown = np.ones(len(addresses), dtype=bool)
    for envelope in (plan.after,) if plan.seen is plan.after else (plan.after, plan.seen):
        if len(envelope) > len(addresses):
            shown &= np.array([envelope.find_piece(at).body is None for at in addresses.tolist()], dtype=bool)
        elif len(addresses):
            stops = np.array([piece.stop for piece in envelope.pieces])
            whole = np.array([piece.body is None for piece in envelope.pieces])
            shown &= whole[np.searchsorted(stops, addresses, side="right")]
    return shown


def _may_differ(one: Plan, two: Plan) -> bool:
    """Whether a block of both may differ in the second: something was decided in either, or edits no longer hold."""
    decided = one.decisions or one.server or two.decisions or two.server
    lasts = one.fresh_edits is two.fresh_edits or one.fresh_edits == two.fresh_edits
    return (
        bool(decided)
        or not lasts
        or one.model != two.model
        or one.budget.limit != two.budget.limit
        or _server_differs(one, two)
    )


def _server_differs(one: Plan, two: Plan) -> bool:
    """Whether the provider treated the second of two recorded requests differently."""
    return one.request.applied != two.request.applied


def _walk(envelope: Envelope, splices: Iterable[Splice | None], move: Callable[[Envelope, Splice], Envelope]) -> Envelope:
    for splice in splices:
        if splice is not None:
            envelope = move(envelope, splice)
    return envelope


def trace(
    session: Session, policy: Policy | str, ledger: Ledger, prices: Prices = PRICES, record: Trace | None = None
) -> Trace:
    """Replay a session under a policy.

    Args:
        session: The session.
        policy: The policy, or its name.
        ledger: Token counts for display.
        prices: Facts of models.
        record: The trace of the record, if known already.
    """
    chosen = policies.load(policy) if isinstance(policy, str) else policy
    prices = prices.add_evidence(session)
    own, known = build_own_ledger(session, chosen), record.record if record else ()
    growing = begin_plans(session, chosen, ledger, own, prices=prices, record=known)
    deque(growing.grow(), maxlen=0)
    sizes, statics = [step.tokens for step in growing.record], [step.static for step in growing.record]
    fits = record.fits if record else fit_session(session, session.requests, sizes, statics)
    return Trace(session, chosen, ledger, plans=PlanSequence(growing), fits=fits, prices=prices)


def build_own_ledger(session: Session, policy: Policy) -> Ledger | None:
    """Return the token counts by the policy's own counter; None where it names none.

    Args:
        session: The session.
        policy: The policy.
    """
    return build_ledger(session, get_counter(policy.counter), per_message=policy.per_message) if policy.counter else None
