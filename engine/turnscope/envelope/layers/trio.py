"""The three forms of a conversation as they are sent: its header (one line), its summary, its full text, each within its cap.

Counted in the units of the policy. Made once per session and cap; the blocks of a full text are the session's own.
"""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Struct

from turnscope.envelope.condensing import without
from turnscope.envelope.layers.caps import Count, capped, cut
from turnscope.envelope.layers.conversations import Split, current, left_out, memo, name_of, span_of
from turnscope.envelope.layers.told import Outcome, Told, points, told
from turnscope.envelope.layers.written import read
from turnscope.envelope.rule import Ctx
from turnscope.session.model import Part

MARKS = {"completed": "done", "ongoing": "open", "error": "error"}
WORDS = 3  # of a topic, before anything else of a header has its turn


class Header(Struct, frozen=True):
    """A conversation as one line of a table. `timestamp`: when it began, seconds since the epoch, UTC; None = not told."""

    id: str
    timestamp: float | None
    topic: str
    entities: tuple[str, ...]
    outcome: Outcome
    tokens: int
    summary: str


def counts(ctx: Ctx) -> Count:
    """How the policy counts texts."""
    return lambda texts: ctx.own.each([Part(text=text) for text in texts])


def told_of(ctx: Ctx, split: Split, number: int) -> Told:
    """What is told of a conversation that is over."""
    known, key = memo(ctx), _key("told", ctx, split, number)
    if key not in known:
        span = span_of(ctx, split, number)
        parts = without(span, left_out(ctx, span))
        blocks = [block for part in parts for block in ctx.session.blocks[part.start : part.stop]]
        known[key] = read(ctx.session, blocks, told(blocks))
    found: Told = known[key]
    return found


def _key(what: str, ctx: Ctx, split: Split, number: int) -> tuple[object, ...]:
    gone = left_out(ctx, span_of(ctx, split, number)) if ctx.session.recorded.wishes else ()
    return (what, split.split, split.gap, split.part_over, id(ctx.own), number, gone)


def header(ctx: Ctx, split: Split, number: int) -> Header:
    """The header of a conversation that is over, all fields whole."""
    known, span = told_of(ctx, split, number), span_of(ctx, split, number)
    said = ctx.session.messages[ctx.session.blocks[span.start].message].sent_at
    name, topic = name_of(ctx, split, number), " ".join(known.topic)
    return Header(name, said, topic, known.named.entities[:6], known.outcome, ctx.tokens(*span), known.line)


def header_line(ctx: Ctx, split: Split, number: int, cap: int) -> str:
    """A header as one line of at most `cap` tokens: id and outcome first, then topic, entities, size, time, summary."""
    known = memo(ctx)
    key = (*_key("header", ctx, split, number), cap)
    if key not in known:
        known[key] = _line(header(ctx, split, number), cap, counts(ctx))
    line: str = known[key]
    return line


def _line(head: Header, cap: int, count: Count) -> str:
    words = [word.rstrip("/").rpartition("/")[2] for word in head.topic.split()]  # a path's folders would take all the room
    first = cut(" ".join((head.id, MARKS[head.outcome], *words[:WORDS])), cap, count)
    names = dict.fromkeys(name.rpartition("/")[2] for name in head.entities)
    fields = [*words[WORDS:], *(name for name in names if name not in words), size_of(head.tokens)]
    fields += [moment(head.timestamp)] * (head.timestamp is not None) + ([f"- {head.summary}"] if head.summary else [])
    costs = count([first, *(f" {field}" for field in fields)])
    line, size, left = first, costs[0], False
    for field, cost in zip(fields, costs[1:], strict=True):
        if size + cost <= cap:
            line, size = f"{line} {field}", size + cost
        elif field.startswith("- ") and cap - size > 4:
            line, left = f"{line} {cut(field, cap - size - 1, count)}".rstrip(" -"), True
    return line if not left and count([line])[0] <= cap else cut(line, cap, count)


def summary_text(ctx: Ctx, split: Split, number: int, cap: int) -> str:
    """The summary of a conversation that is over, of at most `cap` tokens."""
    known = memo(ctx)
    key = (*_key("summary", ctx, split, number), cap)
    if key not in known:
        head = header(ctx, split, number)
        first = ", ".join((head.id, MARKS[head.outcome], *([moment(head.timestamp)] if head.timestamp is not None else [])))
        said = [*points(told_of(ctx, split, number))]
        known[key] = capped(f"[{first}, full text of {size_of(head.tokens)} by its id]", said, cap, counts(ctx))
    text: str = known[key]
    return text


def over(ctx: Ctx, split: Split) -> range:
    """The numbers of the conversations that are over."""
    return range(max(0, current(ctx, split)))


def moment(at: float | None) -> str:
    """A time in few characters, UTC."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%m-%d %H:%M") if at is not None else ""
    except (ValueError, OverflowError, OSError):
        return ""


def size_of(tokens: int) -> str:
    """A number of tokens in few characters."""
    return f"{tokens / 1000:.1f}k" if tokens >= 1000 else str(tokens)
