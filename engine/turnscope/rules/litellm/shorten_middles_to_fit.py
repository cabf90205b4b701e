"""LiteLLM's trimming: system messages are joined, the newest messages stay, others lose their middle or are dropped."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.litellm.trim import (
    MARK,
    PRIMER,
    TINY,
    Failed,
    Stretch,
    Walk,
    build_system_text,
    get_text,
    get_walk,
    join_contents,
    shorten,
    walk_rows,
)
from turnscope.ports.rows import Rows, get_rows, is_intact, iter_droppable, list_text_blocks, replace_text
from turnscope.session.index import count_before
from turnscope.session.model import Edit, Part, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    frame: Annotated[int, "tokens of a message's frame, if it is not counted: system messages, further tool results"] = 4
    lists: Annotated[
        Literal["join", "fail"],
        "content that is no string: join the texts in it, as bridges from other formats do, or fail as the original does",
    ] = "join"


@dataclass(frozen=True, slots=True)
class _Trimmed:
    """What is sent: the text of the system message, and stretches of the first `there` rows, newest first."""

    system: str
    joins: bool  # the system text is more than its first message
    walked: Walk
    there: int
    kept: list[Stretch]


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. Nothing is changed if the model's window is unknown, as in the original."""
    if not ctx.budget.known:
        return
    found, every, limit = get_rows(ctx), get_walk(ctx, params.frame, systems=True), ctx.limit
    there = tail = count_before(found.starts, ctx.request.cut)
    while tail and found.rows[tail - 1].role == "tool":  # the results at the end are sent, but not counted
        tail -= 1
    tokens = PRIMER + every.prefix[tail]
    because = f"{tokens:,} tokens are not below the limit of {limit:,}"
    facts = {"tokens": tokens, "limit": limit}
    systems = found.systems[: count_before(found.systems, tail)]
    try:
        prompt = join_contents(get_text(ctx.session, found.rows[i], params.lists == "join") for i in systems)
        if tokens < limit:
            return
        system, taken = build_system_text(ctx, prompt, params.frame) if prompt else ("", 0)
        alone = bool(prompt) and taken == limit  # the system message alone is sent, without the trailing results
        walked = get_walk(ctx, params.frame, systems=not prompt)
        room = limit - taken - PRIMER
        met = bisect_left(walked.numbers, tail)
        skipped = walked.skipped.setdefault(("gpt" in ctx.request.model, params.lists), {})
        shortened = _make_shortener(envelope, ctx, params, walked)
        kept, left = ([], room) if alone else walk_rows(walked.prefix, met, room, shortened, skipped)
    except Failed as error:
        yield Edit("keep", f"trimming fails, so everything is sent: {error}", facts={**facts, "error": str(error)})
        return
    if prompt:
        facts["system"] = taken
    if not alone:  # the tokens of the system message are subtracted twice, as in the original
        facts["response"] = left - max(0, taken - PRIMER) - (every.prefix[there] - every.prefix[tail])
    plan = _Trimmed(
        system, system != prompt or len(systems) > 1, walked, bisect_left(walked.numbers, there) if alone else met, kept
    )
    explained = False
    for edit in _build_edits(envelope, ctx, found, plan, because):
        explained = True
        envelope = yield Edit(edit.action, edit.because, edit.span, edit.body, slot=edit.slot, facts={**facts, **edit.facts})
    if not explained:
        yield Edit("keep", f"{because}, but everything fits when it is counted from the newest", facts=facts)


def _make_shortener(envelope: Envelope, ctx: Ctx, params: Params, walked: Walk) -> Callable[[int, int], tuple[str, int] | None]:
    """Return the function that shortens a row: it returns the text, and the row's tokens with that text."""
    found, session, own, gpt = get_rows(ctx).rows, ctx.session, ctx.own, "gpt" in ctx.request.model
    least = sum(own.count_placeholder((Part(text=MARK),)))  # a shortened text holds the mark, so it cannot be smaller

    def shorten_row(i: int, room: int) -> tuple[str, int] | None:
        row = found[walked.numbers[i]]
        blocks = session.blocks[row.start : row.stop]
        if (gpt and room <= TINY) or any(b.kind == "tool_use" and b.raw.get("id") == b.name for b in blocks):
            return None  # a call without an id is a `function_call`; such messages are not shortened
        text = get_text(session, row, params.lists == "join")
        if text is None:
            raise Failed(f"the content of message {walked.numbers[i]} is not a string")
        if not is_intact(envelope, row):
            return None
        tokens = walked.prefix[i + 1] - walked.prefix[i]
        fixed = tokens - own.count_content(list_text_blocks(session, row))
        if fixed + least > room:
            return None

        def count(text: str) -> int:
            return PRIMER + fixed + own.count_parts((Part(text=text),))

        new, total = shorten(text, room, count=count, gpt=gpt, total=PRIMER + tokens)
        return new, (count(new) if total is None else total) - PRIMER

    return shorten_row


def _build_edits(envelope: Envelope, ctx: Ctx, found: Rows, plan: _Trimmed, because: str) -> Iterator[Edit]:
    """Yield the edits that turn the envelope into what is sent."""
    first = found.systems[0] if plan.system and found.systems else -1
    numbers, newer = plan.walked.numbers, plan.there
    for kept in (*plan.kept, Stretch(0, 0)):
        if kept.stop < newer:
            yield from _drop_rows(envelope, ctx, found, (numbers[kept.stop], numbers[newer - 1]), first, because)
        if kept.text is not None:
            row = found.rows[numbers[kept.start]]
            why = f"{because}: of what no longer fits, the middle of this message is cut out"
            yield from replace_text(ctx.session, row, kept.text, "truncate", why, {"row": numbers[kept.start]})
        newer = kept.start
    if first < 0:
        return
    if plan.joins:
        row = found.rows[first]
        part = Part("system", "system", plan.system, place="system")
        yield Edit("condense", f"{because}: all system messages become one", Span(row.start, row.stop), (part,))
        for i in found.systems[1 : count_before(found.systems, count_before(found.starts, ctx.request.cut))]:
            yield Edit("drop", "its text is in the first system message", Span(found.rows[i].start, found.rows[i].stop))


def _drop_rows(envelope: Envelope, ctx: Ctx, found: Rows, numbers: tuple[int, int], first: int, because: str) -> Iterator[Edit]:
    """Drop rows, from the first to the last of `numbers`, except the first system message."""
    start, stop = found.rows[numbers[0]].start, found.rows[numbers[1]].stop
    around = [(start, stop)]
    if numbers[0] < first < numbers[1]:
        around = [(start, found.rows[first].start), (found.rows[first].stop, stop)]
    for a, b in around:
        for span in iter_droppable(ctx, envelope, a, b):
            yield Edit("drop", f"{because}; counted from the newest, this no longer fits", span)


RULE = Rule(
    "shorten_middles_to_fit",
    "Keep the newest messages; cut the middle out of one that no longer fits, or drop it if that is not enough.",
    edits,
    Params,
    "fresh",
    "LiteLLM 1.106.2, litellm/utils.py: trim_messages",
)
