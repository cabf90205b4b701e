"""The fold that plans requests: `step` before a request is sent, `settle` once it is answered, `replay` for a whole session.

No I/O, no clock, no look at the future: the plan of request n depends on `blocks[:cut]` and on the plans before it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from engine.envelope import Envelope
from engine.fit import Calibration
from engine.ledger import Ledger
from engine.model import Bucket, Decision, Edit, Request, Session, Span
from engine.policy import Policy
from engine.prices import facts
from engine.rule import Ctx, Edits, Plan, Verdict


def step(previous: Plan | None, session: Session, request: Request, policy: Policy, ledger: Ledger) -> Plan:
    """Plan one request: the previous plan's envelope, grown to `request.cut`, changed by the policy's rules in order."""
    before = (previous.after if previous else Envelope()).grow(request.cut, ledger)
    calibration = previous.calibration if previous else Calibration.start()
    limit = session.window or facts(request.model).window
    ctx = Ctx(session, request, ledger, previous, calibration, limit)
    first = previous.first + len(previous.decisions) if previous else 0
    decisions: list[Decision] = []
    after = before
    for part in policy.rules:
        after = _run(part.rule.name, part.rule.edits(after, ctx, part.params), after, ctx, first, decisions)
    seen, server = _seen(previous, after, ctx, changed=any(d.splice for d in decisions))
    plan = Plan(request, before, tuple(decisions), after, seen, server, request.model, limit, calibration, "send", first)
    return replace(plan, verdict=_verdict(plan))


def settle(plan: Plan) -> Plan:
    """The plan once its request was answered: the calibration learns from the usage that was billed."""
    usage = plan.request.usage
    if usage is None or not usage.prompt_tokens:
        return plan
    learned = plan.calibration.learn(plan.seen.tokens, usage.prompt_tokens, plan.request.model)
    return replace(plan, calibration=learned)


def replay(session: Session, policy: Policy, ledger: Ledger) -> Iterator[Plan]:
    """Plan every request of a session in order. Each plan carries the calibration it was made with."""
    previous: Plan | None = None
    for request in session.requests:
        plan = step(previous, session, request, policy, ledger)
        yield plan
        previous = settle(plan)


def _run(name: str, edits: Edits, envelope: Envelope, ctx: Ctx, first: int, decisions: list[Decision]) -> Envelope:
    """Apply one rule's edits as it yields them, and record each."""
    try:
        edit = next(edits)
        while True:
            number = first + len(decisions)
            changed, splice = envelope.replace(edit, number, ctx.ledger)
            decisions.append(Decision(number, ctx.request.n, name, edit, splice, envelope.tokens, changed.tokens))
            envelope = changed
            edit = edits.send(envelope)
    except StopIteration:
        return envelope


def _seen(previous: Plan | None, after: Envelope, ctx: Ctx, changed: bool) -> tuple[Envelope, tuple[Decision, ...]]:
    """What the model sees of `after`: providers leave out some of what they are sent.

    Carried on from the previous plan while nothing but the tail changed; made anew from `after` otherwise.
    """
    carried = previous if previous and not changed and previous.model == ctx.request.model else None
    seen = carried.seen.grow(after.stop, ctx.ledger) if carried else after
    decisions: list[Decision] = []
    seen = _run("compaction_replaces_what_precedes", _compacted(ctx, carried), seen, ctx, 0, decisions)
    seen = _run("provider_strips_old_thinking", _stripped(seen, ctx, carried), seen, ctx, 0, decisions)
    return seen, tuple(decisions)


def _compacted(ctx: Ctx, carried: Plan | None) -> Edits:
    """Anthropic's server ignores every message before the newest `compaction` block (Messages API, compact_20260112)."""
    blocks = ctx.session.blocks
    newest = next(
        (
            at
            for at in range(ctx.request.cut - 1, carried.request.cut - 1 if carried else -1, -1)
            if blocks[at].kind == "compaction"
        ),
        0,
    )
    because = "the server continues from its own summary and ignores what stands before it"
    for start, stop in runs(at for at in range(newest) if blocks[at].bucket not in (Bucket.SYSTEM, Bucket.TOOLS)):
        yield Edit("condense", because, Span(start, stop))


def _stripped(seen: Envelope, ctx: Ctx, carried: Plan | None) -> Edits:
    """Claude models before Opus 4.5 drop the thinking of past turns from the prompt (see `facts`)."""
    blocks, turn = ctx.session.blocks, ctx.request.turn
    if facts(ctx.request.model).keeps_thinking or (carried and carried.request.turn == turn):
        return
    since = ctx.request.cut
    while since and (carried is None or blocks[since - 1].turn >= carried.request.turn):
        since -= 1
    old = (at for at in range(since, ctx.request.cut) if blocks[at].bucket == Bucket.THINKING and blocks[at].turn < turn)
    for start, stop in runs(at for at in old if seen.at(at).body is None):
        yield Edit("strip", "the model's server drops thinking of past turns", Span(start, stop))


def runs(addresses: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Rising addresses as half-open ranges of neighbours."""
    start = stop = -1
    for at in addresses:
        if at != stop:
            if start >= 0:
                yield start, stop
            start = at
        stop = at + 1
    if start >= 0:
        yield start, stop


def _verdict(plan: Plan) -> Verdict:
    return "overflow" if plan.limit is not None and plan.projected > plan.limit else "send"
