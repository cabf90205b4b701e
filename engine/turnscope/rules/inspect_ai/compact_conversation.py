"""Inspect's compaction: above the threshold the conversation is edited, trimmed or summarised until it fits."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Struct

from turnscope.envelope.condensing import OFFLINE_SUMMARY, SummaryOptions, build_summary_ask, describe_answer, widen_span
from turnscope.envelope.conversation import build_result, find_droppable, find_replaceable
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.inspect_ai.handler import MORE_PASSES, PRESERVED
from turnscope.ports.inspect_ai.strategies import BEFORE, REMOVED, SEARCH, build_summary_message, count_dropped
from turnscope.ports.rows import get_rows
from turnscope.session.index import count_before
from turnscope.session.model import Action, Answer, Edit, Part, Placeholder, Span


@dataclass(frozen=True, slots=True)
class Params:
    """The options of the original."""

    strategy: Annotated[Literal["edit", "trim", "summary"], "what is done above the threshold"] = "edit"
    preserve: Annotated[float, "trim: share of the conversation that stays, the newest part"] = PRESERVED
    keep_uses: Annotated[int, "edit: newest results that stay"] = 3
    keep_thinking: Annotated[int, "edit: newest answers that keep their thinking"] = 1
    exclude_tools: Annotated[tuple[str, ...], "edit: tools whose results stay"] = ()
    cap: Annotated[int, "summary: maximum tokens of the summary"] = 2_000


class Progress(Struct, frozen=True):
    """How far the rule came: the first row that is still sent, and how many thinking blocks and results it has looked at."""

    first: int = 0
    thoughts: int = 0
    results: int = 0


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. If it stays too large, it is refused."""
    total, passes, done = ctx.count_envelope(envelope), 0, ctx.state or Progress()
    facts: dict[str, Any] = {"tokens": total, "threshold": ctx.limit, "strategy": params.strategy}
    because = f"{total:,} tokens are above the threshold of {ctx.limit:,}"
    size = total
    while size > ctx.limit and passes <= MORE_PASSES:
        before, passes = size, passes + 1
        if params.strategy == "edit":
            found, done = _clear_old(envelope, ctx, params, done)
            for action, span, body in found:
                envelope = yield Edit(action, because, span, body, facts=facts)
        elif params.strategy == "trim":
            begin, stop = _trim(ctx, params, done.first)
            for span in find_droppable(ctx, envelope, *begin):
                envelope = yield Edit("drop", because, span, facts=facts)
            done = Progress(stop)
        else:
            begin = _find_conversation(ctx)
            if ctx.count_tokens(*begin) > params.cap:
                envelope = yield from _summarise(envelope, ctx, begin, params, because, facts)
        size = ctx.count_envelope(envelope)
        if size >= before:
            break
    if size > ctx.limit and passes:
        yield Edit("refuse", f"{because}; after {passes} passes {size:,} are left", facts={**facts, "left": size})
    return done


def _summarise(envelope: Envelope, ctx: Ctx, span: Span, params: Params, because: str, facts: dict[str, Any]) -> Edits:
    """Replace everything by a user message: the summary between the program's words. A failed summary replaces nothing."""
    span = widen_span(envelope, span)
    question = build_summary_ask(envelope, ctx, span, SummaryOptions("summarise", cap=params.cap))
    answer = (yield question) if question else Answer(failed="it has no readable text")
    if answer.failed or not answer.text.strip():
        yield Edit("keep", f"{because}, but no summary was made: {answer.failed or 'it was empty'}", facts=facts)
        return envelope
    messages = count_before(ctx.index.messages, span.stop) - count_before(ctx.index.messages, span.start)
    text = build_summary_message(answer.text)["content"]
    if answer.source == "offline":
        text = text.replace(BEFORE, f"{BEFORE}{OFFLINE_SUMMARY.format(messages)}\n", 1)
    facts = {**facts, **describe_answer(answer), "messages": messages}
    for number, part in enumerate(ctx.index.find_conversation_spans(*span)):
        body = () if number else (Part("user", "summary", text),)
        envelope = yield Edit("condense", f"{because}: a summary replaces {messages:,} messages", part, body, facts=facts)
    return envelope


def _find_conversation(ctx: Ctx) -> Span:
    """Return the rows after the user's first message."""
    starts, there = ctx.index.messages, count_before(ctx.index.messages, ctx.request.cut)
    prompt = next((i for i in range(there) if ctx.session.blocks[starts[i]].role == "user"), there)
    return Span(starts[prompt + 1] if prompt + 1 < there else ctx.request.cut, ctx.request.cut)


def _trim(ctx: Ctx, params: Params, first: int) -> tuple[Span, int]:
    """Return the rows from `first` on that are dropped, and the first row that stays. A result is dropped with its call."""
    found, begin = get_rows(ctx), _find_conversation(ctx).start
    there = count_before(found.starts, ctx.request.cut)
    first = max(first, bisect_left(found.starts, begin, hi=there))
    stop = first + count_dropped(there - first, params.preserve)
    while stop < there and found.rows[stop].role == "tool":
        stop += 1
    return Span(begin, found.starts[stop] if stop < there else ctx.request.cut), stop


def _clear_old(
    envelope: Envelope, ctx: Ctx, params: Params, done: Progress
) -> tuple[list[tuple[Action, Span, Placeholder]], Progress]:
    """Drop old thinking, and replace old results by a fixed text. What was looked at before is not looked at again."""
    found: list[tuple[Action, Span, Placeholder]] = []
    thinking, results, blocks = ctx.index.thinking, ctx.index.results, ctx.session.blocks
    thoughts = max(done.thoughts, count_before(thinking, _find_newest_answers(ctx, params.keep_thinking)))
    for at in thinking[done.thoughts : thoughts]:
        if envelope.find_piece(at).body is None:
            found.append(("strip", Span(at, at + 1), ()))
    left = range(done.results, count_before(results, ctx.request.cut))
    named = [n for n in left if blocks[results[n]].name not in (SEARCH, *params.exclude_tools)]
    older = named[: max(0, len(named) - params.keep_uses)]
    for at in (results[n] for n in older):
        if envelope.find_piece(at).body is None and find_replaceable(envelope, at):
            found.append(("clear", Span(at, at + 1), (build_result(blocks[at], REMOVED),)))
    return found, Progress(done.first, thoughts, older[-1] + 1 if older else done.results)


def _find_newest_answers(ctx: Ctx, keep: int) -> int:
    """Return where the newest `keep` answers begin; 0 if there are fewer."""
    rows = get_rows(ctx)
    at = count_before(rows.starts, ctx.request.cut)
    begin = ctx.request.cut
    while keep and at:
        at -= 1
        if rows.rows[at].role == "assistant":
            keep, begin = keep - 1, rows.starts[at]
    return 0 if keep else begin


RULE = Rule(
    "compact_conversation",
    "Above the threshold, clear older results and thinking, trim the oldest share, or summarise the conversation.",
    edits,
    Params,
    source="PyPI inspect-ai 0.3.285, inspect_ai/model/_compaction, inspect_ai/model/_trim.py",
    state=Progress,
)
