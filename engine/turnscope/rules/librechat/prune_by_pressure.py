"""LibreChat's agents: results and arguments are shortened as the window fills, then only the newest messages that fit stay."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from msgspec import structs

from turnscope.counting.ledger import Ledger
from turnscope.envelope.condensing import SummaryOptions, condense, find_summary
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.envelope.wishes import find_manual_spans
from turnscope.ports.librechat.agents import Trigger, find_recent, is_triggered
from turnscope.ports.librechat.fading import iter_shortened
from turnscope.ports.librechat.history import Bodies, History, Reading, read_session
from turnscope.ports.librechat.pruning import Outcome, Settings, prepare
from turnscope.ports.librechat.state import Scale, Seen, Sent, State, restart
from turnscope.ports.rows import count_row_tokens, iter_droppable, memoize_by_ledger
from turnscope.session.index import Index, count_before
from turnscope.session.model import Action, Ask, Block, Edit, Placeholder, Session, Span

Known = tuple[Reading, tuple[int, ...], dict[Any, Any], dict[int, Any]]
Applied = Generator[Edit | Ask, Any, Envelope]


@dataclass(frozen=True, slots=True)
class Params(Settings):
    """Parameters of the rule."""

    frame: Annotated[int, "tokens of a message's frame"] = 3
    ratio: Annotated[float, "the provider's tokens per token of ours, before anything was observed"] = 1.0
    instructions: Annotated[int, "tokens of the instructions (-1 = system prompt and tools, which then are no messages)"] = -1
    by_turn: Annotated[bool, "a run ends with each turn: shortened texts are whole again, only the calibration stays"] = True
    summary: Annotated[int, "maximum tokens of the summary of dropped messages (0 = no summary)"] = 0
    model: Annotated[str, "model that writes the summary (empty = the caller's choice)"] = ""
    trigger: Annotated[
        str, "when to summarise: token_ratio, remaining_tokens, messages_to_refine (empty = whenever messages are dropped)"
    ] = ""
    trigger_at: Annotated[float, "value of that trigger: a share of the budget, tokens, or messages"] = 0.0
    retain_turns: Annotated[int, "newest turns that are never summarised"] = 2
    retain_tokens: Annotated[int, "tokens of those turns, without the newest (0 = no limit)"] = 0


class Prepared(NamedTuple):
    """A prepared request: the messages, the state before it, the tokens of the instructions, and the outcome."""

    history: History
    begun: State
    used: int
    outcome: Outcome


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. If no message fits, it is refused, as the original raises an error."""
    history, begun, used, outcome = prepare_request(ctx, params)
    touched = set(_iter_shortened(history, ctx.state) if begun is not ctx.state else ())
    if params.summary and _should_summarise(history, outcome, params):
        start = (
            history.since
            + find_recent(history, params.retain_turns, params.retain_tokens or None, outcome.state.held.counts)[0]
        )
        rows = history.reading.rows
        span = Span(rows[0].start, rows[start].start if start < history.there else ctx.request.cut)
        how = SummaryOptions("summarise", params.model, params.summary, include_dropped=True)
        envelope = yield from condense(envelope, ctx, span, how, _explain(outcome, len(history)), dict(outcome.facts))
        piece = find_summary(envelope, span.start)
        if piece and piece.stop <= span.stop and start > history.since:
            touched |= set(_iter_shortened(history, outcome.state))
            begun = restart(history, begun, start, ctx.own.count_parts(piece.body or ()))
            history = structs.replace(history, since=start, attached=None)
            outcome = prepare(history, begun, None, ctx.budget.limit, used + begun.summary, params)
    because = _explain(outcome, len(history))
    if len(history) and not outcome.kept:
        envelope = yield Edit("refuse", because, facts=outcome.facts)
    touched |= {history.since + i for i in outcome.faded}
    yield from _build_edits(envelope, ctx, history, begun.sent, outcome, touched, because)
    return outcome.state


def prepare_request(ctx: Ctx, params: Params) -> Prepared:
    """Compute the outcome of a request before anything is summarised.

    Args:
        ctx: The context of the request, with the rule's state of the request before.
        params: The rule's parameters.
    """
    reading, host, memo, whole = _get_reading(ctx, params)
    there = count_before(reading.starts, ctx.request.cut)
    history = History(ctx.session, reading, ctx.own, params.frame, there, host=host, memo=memo, whole=whole)
    old: State | None = ctx.state
    seen = _get_seen(ctx)
    begun = old or State(scale=Scale(params.ratio if params.ratio > 0 else 1.0), start=_find_start(ctx, reading, len(history)))
    if old and ctx.previous and params.by_turn and ctx.previous.request.turn != ctx.request.turn:
        begun, seen = restart(history, old, old.since, old.summary), None
    history = structs.replace(history, since=begun.since, attached=begun.attached)
    used = _count_instructions(ctx, params)
    return Prepared(history, begun, used, prepare(history, begun, seen, ctx.budget.limit, used + begun.summary, params))


@memoize_by_ledger
def _memo(_session: Session, _index: Index, _own: Ledger) -> dict[tuple[bool, int], Known]:
    return {}


def _get_reading(ctx: Ctx, params: Params) -> Known:
    """Return the messages of the session, the host's counts of them, their last cuts, and what is known of all of them."""
    known, key = _memo(ctx), (params.instructions >= 0, params.frame)
    if key not in known:
        reading = read_session(ctx.session, key[0])
        known[key] = reading, tuple(count_row_tokens(ctx.own, row, params.frame) for row in reading.rows), {}, {}
    return known[key]


def _find_start(ctx: Ctx, reading: Reading, there: int) -> int:
    """Return how many messages the host has counted before the first request that the rule plans."""
    return count_before(reading.starts, ctx.previous.request.cut) if ctx.previous else there


def _iter_shortened(history: History, state: State | None) -> Iterator[int]:
    return (history.since + i for i in iter_shortened(history, state.held)) if state else iter(())


def _should_summarise(history: History, outcome: Outcome, params: Params) -> bool:
    trigger = Trigger(params.trigger, params.trigger_at) if params.trigger else None
    refined, facts = sum(b - a for a, b in outcome.refine), outcome.facts
    if facts["instructions"] >= facts["budget"]:  # the instructions alone fill the budget, so no summary helps
        return False
    return is_triggered(trigger, refined, facts["budget"], facts["tokens"], facts["remaining"])


def _get_seen(ctx: Ctx) -> Seen | None:
    usage = ctx.previous.request.usage if ctx.previous else None
    answer = usage.output_tokens if usage else 0
    prompt = ctx.previous_usage - answer
    return Seen(prompt, answer) if answer > 0 and prompt > 0 else None


def _count_instructions(ctx: Ctx, params: Params) -> int:
    """Return the tokens of system prompt and tools, with those that the provider billed beyond the log."""
    if params.instructions >= 0:
        return params.instructions
    return sum(ctx.own.sums[bucket][ctx.request.cut] for bucket in (0, 1)) + max(0, ctx.calibration.prefix)


def _explain(outcome: Outcome, there: int) -> str:
    facts, kept = outcome.facts, len(outcome.kept)
    full = f"the messages have {facts['tokens']:,} tokens of {facts['budget']:,} with {facts['instructions']:,} of instructions"
    return f"{full}: {'all' if kept == there else f'{kept:,} of {there:,}'} are sent"


def _build_edits(
    envelope: Envelope, ctx: Ctx, history: History, old: Sent, outcome: Outcome, touched: set[int], because: str
) -> Applied:
    """Yield the edits that change the envelope from `old` to the outcome."""
    new = outcome.state.sent
    touched = {i for i in touched if i >= new.first} | set(range(min(old.first, new.first), max(old.first, new.first)))
    touched |= old.gone | new.gone | old.shaped | new.shaped
    touched = {i for i in touched if history.since <= i < history.there}
    wishes: list[tuple[Span, Placeholder]] = []
    summed = find_manual_spans(envelope, ctx)
    for i in sorted(touched):
        row = history.reading.rows[i]
        if any(span.start <= row.start < span.stop for span in summed):  # what the user condensed stays condensed
            continue
        if i in new.gone or (i < new.first and (i > history.since or not history.has_instructions)):
            wishes.append((Span(row.start, row.stop), ()))
            continue
        bodies = _get_bodies(history, outcome, i)
        wishes += [(Span(at, at + 1), bodies.get(at)) for at in range(row.start, row.stop)]
    ctx.ledger.count_ahead(part for _, body in wishes for part in body or ())
    for span, body in _join_neighbours(wishes):
        if body == ():
            for part in iter_droppable(ctx, envelope, *span):
                envelope = yield Edit("drop", because, part, facts=outcome.facts)
        elif any(piece.body != body for piece in _iter_pieces(envelope, span)):
            action, why = _describe_change(ctx.session.blocks[span.start], body)
            envelope = yield Edit(action, because + why, span, body, restore=body is None, facts=outcome.facts)
    return envelope


def _describe_change(block: Block, body: Placeholder) -> tuple[Action, str]:
    """Return the action for a block that `body` replaces, and what to record about it."""
    if not body:
        return "restore", ""
    if body[0].kind == block.kind:
        return "truncate", ""
    return "repair", "; the reasoning before it is dropped, so it is put before this answer"


def _get_bodies(history: History, outcome: Outcome, i: int) -> Bodies:
    shaped = outcome.shaped.get(i - history.since)
    return outcome.state.held.get_bodies(history, i - history.since) if shaped is None else shaped


def _join_neighbours(wishes: Iterable[tuple[Span, Placeholder]]) -> list[tuple[Span, Placeholder]]:
    """Join neighbours that are both dropped, or both verbatim."""
    joined: list[tuple[Span, Placeholder]] = []
    for span, body in wishes:
        if joined and not body and joined[-1][1] == body and joined[-1][0].stop == span.start:
            joined[-1] = (Span(joined[-1][0].start, span.stop), body)
        else:
            joined.append((span, body))
    return joined


def _iter_pieces(envelope: Envelope, span: Span) -> Iterator[Piece]:
    at = span.start
    while at < span.stop:
        piece = envelope.find_piece(at)
        yield piece
        at = piece.stop


RULE = Rule(
    "prune_by_pressure",
    "Shorten results and arguments as the window fills, then keep the newest messages that fit, in the provider's own units.",
    edits,
    Params,
    "remembers",
    "@librechat/agents 3.6.11, src/messages/prune.ts: createPruneMessages",
    state=State,
)
