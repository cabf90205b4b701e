"""LangChain's trimming: the longest end (or start) of the messages that fits, found by bisection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.langchain.trim import SPLITTERS, TYPES, Lists, build_content_with_calls, find_longest
from turnscope.ports.rows import get_rows, is_intact, iter_droppable, replace_text
from turnscope.session.content import extract_text
from turnscope.session.index import count_before
from turnscope.session.model import JSON, Edit, Part, Span


@dataclass(frozen=True, slots=True)
class Params:
    """The arguments of `trim_messages`. Types are human, ai, system and tool."""

    strategy: Annotated[Literal["last", "first"], "keep the newest messages or the oldest"] = "last"
    include_system: Annotated[bool, "last: the system message at the start always stays, and is counted first"] = False
    allow_partial: Annotated[bool, "keep a part of the first message that does not fit"] = False
    start_on: Annotated[tuple[str, ...], "last: leave out what stands before the first message of these types"] = ()
    end_on: Annotated[tuple[str, ...], "leave out what stands after the last message of these types"] = ()
    counter: Annotated[Literal["own", "approximate"], "own: the policy's counter; approximate: the library's"] = "own"
    primer: Annotated[int, "own: tokens that the counter adds to each list"] = 0
    frame: Annotated[int, "own: tokens of a message's frame, if it is not counted (system messages, further tool results)"] = 4
    splitter: Annotated[Literal["lines", "words", "characters"], "where a text may be cut"] = "lines"


class _Part(NamedTuple):
    """What stays of a message: the blocks `keep`, or `text` as its content."""

    keep: Span | None
    held: str | list[JSON]


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request.

    Where the original raises an error, the plan refuses: `start_on` and `include_system` belong to the strategy `last`.
    """
    found, last = get_rows(ctx), params.strategy == "last"
    if not last and (params.start_on or params.include_system):
        why = "start_on and include_system are only valid with the strategy `last`"
        yield Edit("refuse", why, facts={"error": "value_error"})
        return
    there = count_before(found.starts, ctx.request.cut)
    lists = Lists(ctx, params.counter == "approximate", params.primer, params.frame)
    lo, hi, room = 0, there, ctx.limit
    while last and params.end_on and hi and TYPES[found.rows[hi - 1].role] not in params.end_on:
        hi -= 1
    if params.include_system and hi and found.rows[0].role == "system":
        lo, room = 1, max(0, room - lists.count(0, 1))
    a, b, number, part = _find_kept(envelope, lists, params, lo, hi, room)
    facts = {"tokens": lists.count(0, there), "limit": ctx.limit, "kept": b - a + lo, "partial": part is not None}
    because = f"{facts['tokens']:,} tokens: {b - a + lo:,} of {there:,} messages stay within the limit of {ctx.limit:,}"
    for first, stop in ((lo, a), (b, there)):
        if first < stop:
            for span in iter_droppable(ctx, envelope, found.starts[first], found.rows[stop - 1].stop):
                envelope = yield Edit("drop", because, span, facts=facts)
    if part and a <= number < b:
        for edit in _replace_partly(ctx, number, part, f"{because}; a part of the next one stays", facts):
            envelope = yield edit


def _find_kept(
    envelope: Envelope, lists: Lists, params: Params, lo: int, hi: int, room: int
) -> tuple[int, int, int, _Part | None]:
    """Return the rows `a:b` of `lo:hi` that stay. Of the row `number`, which may be one of them, only a part stays."""
    last, found = params.strategy == "last", get_rows(lists.ctx).rows
    number, part = -1, None

    def run(n: int) -> tuple[int, int]:
        return (hi - n, hi) if last else (lo, lo + n)

    n = hi - lo
    if n and lists.count(lo, hi) > room:
        n = find_longest(n, lambda m: lists.count(*run(m)), room)
        number = hi - 1 - n if last else lo + n
        if params.allow_partial and n < hi - lo and is_intact(envelope, found[number]):
            part = _fit_part(lists, params, number, lists.count(*run(n)), room)
            n += part is not None
    a, b = run(n)
    types = params.start_on if last else params.end_on
    while types and a < b and TYPES[found[a if last else b - 1].role] not in types:
        a, b = (a + 1, b) if last else (a, b - 1)
    return a, b, number, part


def _fit_part(lists: Lists, params: Params, number: int, taken: int, room: int) -> _Part | None:
    """Return as much of one message as fits after `taken` tokens: some parts of its content, or pieces of its one text."""
    last, row, session = params.strategy == "last", get_rows(lists.ctx).rows[number], lists.ctx.session
    content = build_content_with_calls(session, row)
    if not isinstance(content, str):
        for n in range(len(content) - 1, 0, -1):
            some = content[-n:] if last else content[:n]
            if taken + lists.size(number, some) <= room:
                if row.role == "tool":
                    return _Part(None, some)
                return _Part(Span(row.stop - n, row.stop) if last else Span(row.start, row.start + n), some)
        one = content[-1 if last else 0] if content else ""
        content = one if isinstance(one, str) else one.get("text", "") if one.get("type") == "text" else ""
    pieces = SPLITTERS[params.splitter](content) if content else []
    pieces = pieces[::-1] if last else pieces
    base = taken + lists.count(0, 0)  # the partial message is counted as a list of its own
    n = find_longest(len(pieces), lambda m: base + lists.size(number, "".join(pieces[:m])), room)
    return _Part(None, "".join(pieces[:n][::-1] if last else pieces[:n])) if n else None


def _replace_partly(ctx: Ctx, number: int, part: _Part, because: str, facts: dict[str, JSON]) -> Iterator[Edit]:
    session, row = ctx.session, get_rows(ctx).rows[number]
    block = session.blocks[row.start]
    if part.keep:
        for start, stop in ((row.start, part.keep.start), (part.keep.stop, row.stop)):
            if start < stop:
                yield Edit("truncate", because, Span(start, stop), facts=facts)
    elif not isinstance(part.held, str):
        shorter = Part(block.role, "tool_result", extract_text(part.held), {**block.raw, "content": part.held})
        yield Edit("truncate", because, Span(row.start, row.stop), (shorter,), facts=facts)
    elif row.role == "tool" or any(isinstance(b.raw, str) for b in session.blocks[row.start : row.stop]):
        yield from replace_text(session, row, part.held, "truncate", because, facts)
    else:  # a list becomes a string; calls are stored outside of the content
        calls = next((b.at for b in session.blocks[row.start : row.stop] if b.kind == "tool_use"), row.stop)
        yield Edit(
            "truncate", because, Span(row.start, calls), (Part(block.role, "text", part.held),), slot="text", facts=facts
        )


RULE = Rule(
    "keep_longest_end",
    "Keep the longest run of newest (or oldest) messages that fits, from and up to given message types.",
    edits,
    Params,
    "fresh",
    "langchain-core 1.7.2, langchain_core/messages/utils.py: trim_messages",
)
