"""A trace: all plans of a session under one policy.

Holds the value and its reading; `assemble` makes the plans.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import structs

from engine import notebook
from engine.counting.ledger import Ledger, build_ledger
from engine.counting.tokens import CHARS, estimator
from engine.envelope.envelope import Envelope
from engine.envelope.pieces import Decision, Splice
from engine.envelope.plan import Plan
from engine.planning import policy as policies
from engine.planning.assemble import replay
from engine.planning.policy import Policy
from engine.session.model import Answer, Ask, Session


class Cursor(NamedTuple):
    """A place in a trace: request number, and how many of its decisions have been applied."""

    request: int
    step: int


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands at a cursor: the envelope there, and the decision that led to it (None before the first)."""

    cursor: Cursor
    plan: Plan
    envelope: Envelope
    decision: Decision | None


@dataclass(frozen=True, slots=True)
class Trace:
    """Plans of every request, in order.

    >>> trace = engine.replay(engine.load("sample_sessions/cache-goes-cold.jsonl"), "last-5-pairs")
    >>> trace.plans[55].before.tokens, trace.plans[55].after.tokens
    (89191, 64708)
    >>> trace.plans[55].decisions[0]
    <Decision 0 at request 55: drop by keep_last_pairs, 89,191 -> 64,708 tokens: 'the last 5 of 6 earlier pairs are kept'>
    >>> trace.why(2, 55)
    'drop by keep_last_pairs at request 55: the last 5 of 6 earlier pairs are kept.'
    """

    session: Session
    policy: Policy
    ledger: Ledger
    plans: Sequence[Plan]

    def __repr__(self) -> str:
        cuts = sum(any(d.splice for d in plan.decisions) for plan in self.plans)
        peak = max((plan.after.tokens for plan in self.plans), default=0)
        return f"<Trace of {len(self.plans)} requests under {self.policy.name!r}: {cuts} changed, peak {peak:,} counted tokens>"

    def _repr_html_(self) -> str:
        """What the policy did to the whole session, by rule."""
        sent = sum(plan.projected for plan in self.plans)
        whole = sum(plan.calibration.predict(self.ledger.total[plan.request.cut]) for plan in self.plans)
        top = max(self.plans, key=lambda plan: plan.projected, default=None)
        over = sum(plan.verdict in ("overflow", "refuse") for plan in self.plans)
        facts = [f"{len(self.plans):,} requests, {sum(plan.changed for plan in self.plans):,} changed, {over:,} over the limit"]
        facts += [f"{sent:,} tokens sent in all, {sent / whole:.0%} of {whole:,} with everything kept"] if whole else []
        facts += [f"largest: request {top.request.n}, {top.projected:,} of {top.budget.window:,} tokens"] if top else []
        parts = [*map(notebook.line, facts), *([notebook.bar(top.seen.buckets)] if top else [])]
        rows = [(rule, action, times, first, out) for (rule, action), (times, first, out) in self._effects().items()]
        parts += (
            [notebook.table(("rule", "did", "times", "first at request", "counted tokens taken out"), rows)] if rows else []
        )
        name = self.session.title or self.session.id
        return notebook.card(f"{self.policy.title or self.policy.name} · {name}", *parts, note=self.policy.name)

    def _effects(self) -> dict[tuple[str, str], tuple[int, int, int]]:
        """By rule and action: how often it changed something, first at which request, and counted tokens taken out."""
        found: dict[tuple[str, str], tuple[int, int, int]] = {}
        for decision in (d for plan in self.plans for d in plan.decisions if d.splice):
            key = (decision.rule, decision.action)
            times, first, out = found.get(key, (0, decision.request, 0))
            found[key] = (times + 1, first, out + decision.before - decision.after)
        return found

    def frame(self, cursor: Cursor) -> Frame:
        """What stands at a cursor. IndexError where the trace has no such place."""
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
        """The cursor `by` steps on (back where negative), through the requests; stops at either end of the trace."""
        request, step = cursor
        step += by
        while step < 0 and request > 0:
            request -= 1
            step += len(self.plans[request].decisions) + 1
        while step > len(self.plans[request].decisions) and request < len(self.plans) - 1:
            step -= len(self.plans[request].decisions) + 1
            request += 1
        return Cursor(request, max(0, min(step, len(self.plans[request].decisions))))

    def decision(self, number: int) -> Decision:
        """A decision by its number in the trace. IndexError where there is none."""
        place = bisect_right(self.plans, number, key=lambda plan: plan.first) - 1
        while place >= 0 and not self.plans[place].decisions:
            place -= 1
        return self.plans[place].decisions[number - self.plans[place].first]

    def why(self, at: int, request: int) -> str:
        """One sentence: how block `at` stands in `request`, and by which decision. IndexError outside the envelope."""
        plan = self.plans[request]
        piece = plan.after.at(at)
        if piece.by >= 0:
            decision = self.decision(piece.by)
            return f"{decision.action} by {decision.rule} at request {decision.request}: {decision.edit.because}."
        unseen = plan.seen.at(at)
        if unseen.body is not None and (server := plan.server or self._server(at, request)):
            return f"It was sent, but the model did not see it: {server[0].edit.because}."
        return "It stands as it is; no decision has touched it."

    def _server(self, at: int, request: int) -> tuple[Decision, ...]:
        for plan in reversed(self.plans[: request + 1]):
            for decision in plan.server:
                if decision.edit.span and decision.edit.span.start <= at < decision.edit.span.stop:
                    return (decision,)
        return ()

    def standins(self) -> tuple[Ask, ...]:
        """Asks for summaries that no model answered, each once, in order."""
        asks = [pair for plan in self.plans for pair in plan.asks]
        return tuple({ask.key: ask for ask, answer in asks if ask.kind == "summary" and _offline(answer)}.values())

    def fork(self, request: int) -> Session:
        """The session up to and without request `request`: what a new branch starts from."""
        cut = self.plans[request].request.cut
        session = self.session
        messages = tuple(m for m in session.messages if m.start < cut)
        kept = tuple(r for r in session.requests if r.n < request)
        observed = tuple(o for o in session.observed if o.request < request)
        return structs.replace(
            session,
            id=f"{session.id}@{request}",
            blocks=session.blocks[:cut],
            messages=messages,
            requests=kept,
            observed=observed,
            parent=session.id,
            at=cut,
            subagents=(),
            branches=(),
        )


def _offline(answer: Answer) -> bool:
    return answer.source == "offline" or bool(answer.failed)


def _walk(envelope: Envelope, splices: Iterable[Splice | None], move: Callable[[Envelope, Splice], Envelope]) -> Envelope:
    for splice in splices:
        if splice is not None:
            envelope = move(envelope, splice)
    return envelope


def trace(session: Session, policy: Policy | str, ledger: Ledger) -> Trace:
    """Replay a session under a policy, given by value or by name."""
    chosen = policies.load(policy) if isinstance(policy, str) else policy
    return Trace(session, chosen, ledger, tuple(replay(session, chosen, ledger, own_counts(session, chosen))))


def own_counts(session: Session, policy: Policy) -> Ledger | None:
    """A session as the policy itself counts it; None where it names no counter."""
    counter = CHARS if policy.counter == "chars" else estimator(policy.counter)
    return build_ledger(session, counter, per_message=policy.per_message) if policy.counter else None
