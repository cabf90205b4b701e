"""LibreChat's agents: results and arguments shortened as the window fills, then the newest messages that fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from engine.envelope import Envelope
from engine.index import Index, upto
from engine.ledger import Ledger
from engine.model import Action, Body, Edit, Session, Span
from engine.ports.librechat_history import Bodies, History, Reading, read
from engine.ports.librechat_pruning import Outcome, Settings, prepare
from engine.ports.librechat_state import Scale, Seen, Sent, State
from engine.ports.rows import remembered, stretches
from engine.rule import Ctx, Edits, Plan, Rule

NAME = "prune_by_pressure"


@dataclass(frozen=True, slots=True)
class Params(Settings):
    """Parameters."""

    frame: Annotated[int, "tokens that frame a message"] = 3
    ratio: Annotated[float, "the provider's count per token of ours before anything was observed"] = 1.0
    instructions: Annotated[int, "tokens beside the messages (-1 = the session's system prompt and tools, then no messages)"] = -1


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """A request into which nothing fits is refused, as the original raises an error."""
    reading = _readings(ctx)[params.instructions >= 0]
    there = upto(reading.starts, ctx.request.cut)
    old = recall(ctx.previous) or _begun(ctx, reading, there, params)
    history = History(ctx.session, reading, ctx.own, params.frame, there, old.since, old.attached)
    outcome = prepare(history, old, _seen(ctx), ctx.budget.limit, _instructions(ctx, params) + old.summary, params)
    because = _told(outcome, len(history))
    facts = {**outcome.facts, "refine": outcome.refine, "state": outcome.state}
    refused = len(history) and not outcome.kept and not params.summarization
    yield Edit("refuse" if refused else "keep", because, facts=facts)
    touched = {history.since + i for i in outcome.faded}
    yield from _changes(envelope, ctx, history, (old, outcome.state), touched, because)


def recall(plan: Plan | None) -> State | None:
    """What the rule knew when it made a plan; None where it made none."""
    told = (d.edit.facts.get("state") for d in (plan.decisions if plan else ()) if d.rule == NAME)
    return next((state for state in told if isinstance(state, State)), None)


@remembered
def _readings(session: Session, _index: Index, _own: Ledger) -> dict[bool, Reading]:
    return {with_system: read(session, with_system) for with_system in (False, True)}


def _begun(ctx: Ctx, reading: Reading, there: int, params: Params) -> State:
    """The state before the first request that the rule plans."""
    start = upto(reading.starts, ctx.previous.request.cut) if ctx.previous else there
    return State(scale=Scale(params.ratio if params.ratio > 0 else 1.0), start=start)


def _seen(ctx: Ctx) -> Seen | None:
    usage = ctx.previous.request.usage if ctx.previous else None
    answer = usage.output_tokens if usage else 0
    prompt = ctx.reported - answer
    return Seen(prompt, answer) if answer > 0 and prompt > 0 else None


def _instructions(ctx: Ctx, params: Params) -> int:
    """Tokens of system prompt and tools, with what the provider saw beyond the log."""
    if params.instructions >= 0:
        return params.instructions
    return sum(ctx.own.sums[bucket][ctx.request.cut] for bucket in (0, 1)) + max(0, ctx.calibration.prefix)


def _told(outcome: Outcome, there: int) -> str:
    facts, kept = outcome.facts, len(outcome.kept)
    full = f"the messages have {facts['tokens']:,} tokens of {facts['budget']:,} with {facts['instructions']:,} of instructions"
    return f"{full}: {'all' if kept == there else f'{kept:,} of {there:,}'} are sent"


def _changes(
    envelope: Envelope, ctx: Ctx, history: History, states: tuple[State, State], touched: set[int], because: str
) -> Iterator[Edit]:
    """The edits that make the envelope stand as the newer state says, given that it stands as the older one does."""
    old, new = states[0].sent, states[1].sent
    touched = {i for i in touched if i >= new.first} | set(range(min(old.first, new.first), max(old.first, new.first)))
    touched |= old.gone | new.gone | set(old.shaped) | set(new.shaped)
    wishes: list[tuple[Span, Body]] = []
    for i in sorted(touched):
        row = history.reading.rows[i]
        if i in new.gone or (i < new.first and (i > history.since or not history.instructed)):
            wishes.append((Span(row.start, row.stop), ()))
            continue
        bodies = _standing(history, states[1], new, i)
        wishes += [(Span(at, at + 1), bodies.get(at)) for at in range(row.start, row.stop)]
    for span, body in _joined(wishes):
        if body == ():
            for part in stretches(ctx, envelope, *span):
                envelope = yield Edit("drop", because, part)
        elif any(piece.body != body for piece in _pieces(envelope, span)):
            action: Action = "restore" if body is None else "truncate"
            envelope = yield Edit(action, because, span, body, restore=body is None)


def _standing(history: History, state: State, sent: Sent, i: int) -> Bodies:
    if i in sent.shaped:
        return sent.shaped[i]
    return state.held.bodies(history, i - history.since)


def _joined(wishes: Iterable[tuple[Span, Body]]) -> list[tuple[Span, Body]]:
    """Neighbours that are both left out, or both stand as they were said, as one."""
    joined: list[tuple[Span, Body]] = []
    for span, body in wishes:
        if joined and not body and joined[-1][1] == body and joined[-1][0].stop == span.start:
            joined[-1] = (Span(joined[-1][0].start, span.stop), body)
        else:
            joined.append((span, body))
    return joined


def _pieces(envelope: Envelope, span: Span) -> Iterator[Any]:
    at = span.start
    while at < span.stop:
        piece = envelope.at(at)
        yield piece
        at = piece.stop


RULE = Rule(
    NAME,
    "Shorten results and arguments as the window fills, then keep the newest messages that fit, in the provider's own units.",
    edits,
    Params,
    "remembers",
    "@librechat/agents 3.6.11, src/messages/prune.ts: createPruneMessages",
)
