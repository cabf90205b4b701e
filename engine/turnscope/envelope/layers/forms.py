"""The three forms of a conversation: header (one line), summary, and full text, each within its cap.

Counted in the policy's own units. Made once per session and cap. A full text is the session's own blocks.
"""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Struct

from turnscope.envelope.condensing import subtract_spans
from turnscope.envelope.layers.caps import Count, cut_text, fit_points
from turnscope.envelope.layers.conversations import Split, find_current, find_manual_drops, format_id, get_memo, get_span
from turnscope.envelope.layers.metadata import Metadata, Outcome, list_key_points, read_metadata
from turnscope.envelope.layers.model_metadata import apply_model_answer
from turnscope.envelope.rule import Ctx
from turnscope.session.model import Part

MARKS = {"completed": "done", "ongoing": "open", "error": "error"}
WORDS = 3  # words of the topic that come before the other fields


class Header(Struct, frozen=True):
    """A conversation as one line of a table. `timestamp`: when it began, in seconds since the epoch (UTC); None = unknown."""

    id: str
    timestamp: float | None
    topic: str
    entities: tuple[str, ...]
    outcome: Outcome
    tokens: int
    summary: str


class Summary(Struct, frozen=True):
    """A conversation in short. `position`: its number, from 1; `retrievable`: whether the model can have its full text."""

    conversation_id: str
    position: int
    content: str
    key_decisions: tuple[str, ...]
    code_changes: tuple[str, ...]
    open_questions: tuple[str, ...]
    retrievable: bool


def make_counter(ctx: Ctx) -> Count:
    """Return the function with which the policy counts texts."""
    return lambda texts: ctx.own.count_each_part([Part(text=text) for text in texts])


def get_metadata(ctx: Ctx, split: Split, number: int) -> Metadata:
    """Return the metadata of a completed conversation.

    Args:
        ctx: What the rule may read.
        split: How the session is split into conversations.
        number: Number of the conversation, from 0.
    """
    known, key = get_memo(ctx), _make_key("metadata", ctx, split, number)
    if key not in known:
        span = get_span(ctx, split, number)
        parts = subtract_spans(span, find_manual_drops(ctx, span))
        blocks = [block for part in parts for block in ctx.session.blocks[part.start : part.stop]]
        known[key] = apply_model_answer(ctx.session, blocks, read_metadata(blocks))
    found: Metadata = known[key]
    return found


def _make_key(what: str, ctx: Ctx, split: Split, number: int) -> tuple[object, ...]:
    gone = find_manual_drops(ctx, get_span(ctx, split, number)) if ctx.session.recorded.wishes else ()
    return (what, split.split, split.gap, split.part_over, id(ctx.own), number, gone)


def build_header(ctx: Ctx, split: Split, number: int) -> Header:
    """Return the header of a completed conversation with all its fields.

    Args:
        ctx: What the rule may read.
        split: How the session is split into conversations.
        number: Number of the conversation, from 0.
    """
    known, span = get_metadata(ctx, split, number), get_span(ctx, split, number)
    began = ctx.session.messages[ctx.session.blocks[span.start].message].sent_at
    name, topic = format_id(ctx, split, number), " ".join(known.topic)
    return Header(
        id=name,
        timestamp=began,
        topic=topic,
        entities=known.names.entities[:6],
        outcome=known.outcome,
        tokens=ctx.count_tokens(*span),
        summary=known.line,
    )


def build_header_line(ctx: Ctx, split: Split, number: int, cap: int, *, dated: bool = True) -> str:
    """Return a header as one line: id, outcome and time first, then topic, names, size and result.

    Args:
        ctx: What the rule may read.
        split: How the session is split into conversations.
        number: Number of the conversation, from 0.
        cap: The most tokens.
        dated: Whether the day is part of the time.
    """
    known = get_memo(ctx)
    key = (*_make_key("header", ctx, split, number), cap, dated)
    if key not in known:
        head = build_header(ctx, split, number)
        time = format_time(head.timestamp) if dated else format_time(head.timestamp)[-5:]
        known[key] = _format_header(head, time, cap, make_counter(ctx))
    line: str = known[key]
    return line


def _format_header(head: Header, time: str, cap: int, count: Count) -> str:
    words = [word.rstrip("/").rpartition("/")[2] for word in head.topic.split()]  # the folders of a path would use up the cap
    first = cut_text(" ".join(filter(None, (head.id, MARKS[head.outcome], time, *words[:WORDS]))), cap, count)
    names = dict.fromkeys(name.rpartition("/")[2] for name in head.entities)
    fields = [*words[WORDS:], *(name for name in names if name not in words), format_tokens(head.tokens)]
    fields += [f"- {head.summary}"] if head.summary else []
    costs = count([first, *(f" {field}" for field in fields)])
    line, size, left = first, costs[0], False
    for field, cost in zip(fields, costs[1:], strict=True):
        if size + cost <= cap:
            line, size = f"{line} {field}", size + cost
        elif field.startswith("- ") and cap - size > 4:
            line, left = f"{line} {cut_text(field, cap - size - 1, count)}".rstrip(" -"), True
    return line if not left and count([line])[0] <= cap else cut_text(line, cap, count)


def build_summary(ctx: Ctx, split: Split, number: int, cap: int) -> Summary:
    """Return the summary of a completed conversation.

    Args:
        ctx: What the rule may read.
        split: How the session is split into conversations.
        number: Number of the conversation, from 0.
        cap: The most tokens of its content.
    """
    known = get_memo(ctx)
    key = (*_make_key("summary", ctx, split, number), cap)
    if key not in known:
        head, metadata = build_header(ctx, split, number), get_metadata(ctx, split, number)
        span = get_span(ctx, split, number)
        retrievable = any(part.start < part.stop for part in subtract_spans(span, find_manual_drops(ctx, span)))
        fields = [head.id, MARKS[head.outcome], format_time(head.timestamp)]
        fields += [f"full text of {format_tokens(head.tokens)} by its id" if retrievable else "its text was removed"]
        key_points = [*list_key_points(metadata)]
        known[key] = Summary(
            conversation_id=head.id,
            position=number + 1,
            content=fit_points(f"[{', '.join(filter(None, fields))}]", key_points, cap, make_counter(ctx)),
            key_decisions=metadata.decided,
            code_changes=metadata.changed,
            open_questions=metadata.open,
            retrievable=retrievable,
        )
    found: Summary = known[key]
    return found


def list_completed(ctx: Ctx, split: Split) -> range:
    """Return the numbers of the completed conversations.

    Args:
        ctx: What the rule may read.
        split: How the session is split into conversations.
    """
    return range(max(0, find_current(ctx, split)))


def format_time(at: float | None) -> str:
    """Return a time as `MM-DD HH:MM` (UTC); "" for None."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%m-%d %H:%M") if at is not None else ""
    except (ValueError, OverflowError, OSError):
        return ""


def format_tokens(tokens: int) -> str:
    """Return a number of tokens in few characters."""
    return f"{tokens / 1000:.1f}k" if tokens >= 1000 else str(tokens)
