"""A session as Roo Code's stored history: which messages are hidden, and where summaries and markers are.

The messages are the session's. Everything else is the state of a rule. Each rule has its own state: the envelope shows it
that another rule condensed. Truncations hide messages from the second on, so one place says what all of them hide. Entries
are those that `turnscope.ports.roo` reads. Their `at` is a place: (address, 1) of a message, (address, 0) of a summary or
marker, which comes before the message at that address.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, NamedTuple

from msgspec import Struct

from turnscope.envelope.condensing import find_next_present
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.envelope.rule import Ctx
from turnscope.ports.roo import management
from turnscope.session.index import count_before
from turnscope.session.model import Bucket, Part

Place = tuple[int, int]
SLOT = "truncation marker"
Entry = dict[str, Any]


class Summary(Struct, frozen=True, gc=False):
    """A summary that request `request` stored when the history reached up to address `at`.

    `size`: Tokens of that whole request with the summary. `ts`: its time in milliseconds.
    """

    number: int
    at: int
    request: int
    texts: tuple[str, ...]
    tokens: int
    size: int
    ts: int | None


class Store(Struct, frozen=True, gc=False):
    """What a stored history holds besides the messages. `first`: the first visible place after the opening message."""

    summaries: tuple[Summary, ...] = ()
    first: Place | None = None
    markers: int = 0

    @property
    def summary(self) -> Summary | None:
        """The newest summary."""
        return self.summaries[-1] if self.summaries else None

    @property
    def hides_summary(self) -> bool:
        """Whether a truncation hid the newest summary."""
        return bool(self.summary and self.first and (self.summary.at, 0) < self.first)


class Size(NamedTuple):
    """Tokens of the context (as the newest event reports them), of the last message, and of both."""

    total: float
    last: int
    whole: int


def find_own_summary(envelope: Envelope, ctx: Ctx) -> Piece | None:
    """Return the summary at the start of this request, if one of the request's own decisions put it there.

    Args:
        envelope: The envelope.
        ctx: The context of the request.
    """
    start = ctx.index.messages[0] if ctx.index.messages else envelope.stop
    piece = envelope.find_piece(start) if start < envelope.stop else None
    began = ctx.previous.first + len(ctx.previous.decisions) if ctx.previous else 0
    return piece if piece and piece.body and piece.by >= began and piece.body[0].kind == "summary" else None


def get_fresh_start(envelope: Envelope, ctx: Ctx) -> tuple[Part, ...]:
    """Return the summary that replaces all messages; () if there is none, or if anything comes after it.

    Args:
        envelope: The envelope.
        ctx: The context of the request.
    """
    piece = find_own_summary(envelope, ctx)
    return piece.body or () if piece and find_next_present(envelope, ctx, piece.stop) >= ctx.request.cut else ()


def store_summary(envelope: Envelope, ctx: Ctx, parts: tuple[Part, ...], older: Summary | None, factor: float) -> Summary:
    """Return what is stored of a summary at the start of this request.

    Args:
        envelope: The envelope.
        ctx: The context of the request.
        parts: The parts of the summary.
        older: The summary before it.
        factor: The factor of the token counts.
    """
    count = sum(ctx.own.count_placeholder(parts))
    system, tools = (count_static_tokens(envelope, ctx, bucket) for bucket in (Bucket.SYSTEM, Bucket.TOOLS))
    size = math.ceil((system + count) * factor) + math.ceil(tools * factor)
    ts, texts = get_last_time(ctx, older), tuple(part.text for part in parts)
    number, tokens = older.number + 1 if older else 1, math.ceil(count * factor)
    return Summary(
        number, ctx.request.cut, ctx.request.n, texts=texts, tokens=tokens, size=size, ts=None if ts is None else ts + 1
    )


def measure_size(ctx: Ctx, newest: Summary | None, factor: float, counted: bool) -> Size | None:
    """Return the size that Roo compares; None before anything was billed.

    Args:
        ctx: The context of the request.
        newest: The newest summary.
        factor: The factor of the token counts.
        counted: Whether the request follows a condense. Then Roo reads its own count, because that event comes later in its
            list.
    """
    events: list[Entry] = [{"type": "say", "say": "api_req_started", "text": {"tokensIn": ctx.previous_usage}}]
    if counted and ctx.previous and newest and newest.request == ctx.previous.request.n:
        events.append({"type": "say", "say": "condense_context", "contextCondense": {"newContextTokens": newest.size}})
    total = management.count_context(events)
    place = count_before(ctx.index.messages, ctx.request.cut) - 1
    if not total or place < 0:
        return None
    start = ctx.index.messages[place]
    last = newest.tokens if newest and newest.at > start else count_message(ctx, start, factor)
    return Size(total, last, int(total + last))


def count_message(ctx: Ctx, start: int, factor: float) -> int:
    """Return the tokens of the message at address `start`: the counter's times `factor`, rounded up.

    Args:
        ctx: The context of the request.
        start: The first block of the message.
        factor: Roo's tokens per token of the policy's counter.
    """
    stop = min(ctx.session.messages[ctx.session.blocks[start].message].stop, ctx.request.cut)
    return math.ceil(ctx.count_tokens(start, stop) * factor)


def count_static_tokens(envelope: Envelope, ctx: Ctx, bucket: Bucket) -> int:
    """Return the counted tokens of the system prompt, or of the tools, in an envelope.

    Args:
        envelope: The envelope. Blocks that it replaced do not count.
        ctx: The context of the request.
        bucket: Which of the two, `Bucket.SYSTEM` or `Bucket.TOOLS`.
    """
    there = ctx.index.static[: count_before(ctx.index.static, ctx.request.cut)]
    blocks = (ctx.session.blocks[at] for at in there if envelope.find_piece(at).body is None)
    return sum(ctx.count_tokens(block.at, block.at + 1) for block in blocks if block.bucket == bucket)


def build_entry(ctx: Ctx, start: int) -> Entry:
    """Return the message at address `start` as an entry.

    Args:
        ctx: The context of the request.
        start: The first block of the message.
    """
    blocks = ctx.session.blocks
    source = ctx.session.messages[blocks[start].message]
    raws = [block.raw for block in blocks[start : min(source.stop, ctx.request.cut)] if block.raw is not None]
    content = (
        raws[0]
        if len(raws) == 1 and isinstance(raws[0], str)
        else [{"type": "text", "text": raw} if isinstance(raw, str) else raw for raw in raws]
    )
    return {"at": (start, 1), "role": source.role, "content": content, "ts": get_time(ctx, start)}


def get_last_time(ctx: Ctx, newest: Summary | None) -> int | None:
    """Return the time of the history's last entry in milliseconds; None if it is unknown.

    Args:
        ctx: The context of the request.
        newest: The newest summary; None if there is none.
    """
    start = ctx.index.messages[count_before(ctx.index.messages, ctx.request.cut) - 1]
    return newest.ts if newest and newest.at > start else get_time(ctx, start)


def get_time(ctx: Ctx, start: int) -> int | None:
    """Return the time of a message in milliseconds, which is Roo's unit; None if it is unknown.

    Args:
        ctx: The context of the request.
        start: The first block of the message.
    """
    sent = ctx.session.messages[ctx.session.blocks[start].message].sent_at
    return None if sent is None else round(sent * 1000)


def list_since_summary(envelope: Envelope, ctx: Ctx, newest: Summary | None) -> list[Entry]:
    """Return the history from the newest summary on, with hidden messages and markers; all of it if there is no summary.

    Args:
        envelope: The envelope, which holds the markers.
        ctx: The context of the request.
        newest: The newest summary; None if there is none.
    """
    begin = newest.at if newest else 0
    starts = ctx.index.messages
    found = [build_entry(ctx, start) for start in starts[count_before(starts, begin) : count_before(starts, ctx.request.cut)]]
    for piece in envelope.pieces:
        if piece.start == piece.stop and piece.start >= begin and piece.body and piece.slot.startswith(SLOT):
            text = piece.body[0].text
            found.append({"at": (piece.start, 0), "role": "user", "content": text, "isTruncationMarker": True})
    found.sort(key=lambda entry: entry["at"])
    return [build_summary_entry(newest), *found] if newest else found


def build_summary_entry(stored: Summary) -> Entry:
    """Return a summary as an entry."""
    content = [{"type": "text", "text": text} for text in stored.texts] or ""
    entry = {"role": "user", "content": content, "ts": stored.ts, "isSummary": True, "condenseId": stored.number}
    return {"at": (stored.at, 0), **entry}


def list_visible(ctx: Ctx, store: Store) -> list[Entry]:
    """Return what no truncation hides, without content: roles, times and tags.

    A hidden newest summary is included, with a marker.

    Args:
        ctx: The context of the request.
        store: What is stored besides the messages.
    """
    starts, blocks = ctx.index.messages, ctx.session.blocks
    found = [*_iter_summaries(store)]
    first = count_before(starts, store.first[0]) if store.first else 1
    for start in (*starts[:1], *starts[max(1, first) : count_before(starts, ctx.request.cut)]):
        entry: Entry = {"at": (start, 1), "role": blocks[start].role, "ts": get_time(ctx, start)}
        if store.summary and start < store.summary.at:
            entry["condenseParent"] = store.summary.number
        found.append(entry)
    found.sort(key=lambda entry: entry["at"])
    return found


def _iter_summaries(store: Store) -> Iterator[Entry]:
    newest = store.summary
    if newest and store.first and store.hides_summary:
        yield {**build_summary_entry(newest), "truncationParent": "hidden"}
        yield {"at": (store.first[0], -1), "role": "user", "isTruncationMarker": True, "truncationId": "hidden"}
        return
    for found in takewhile(lambda old: store.first is None or (old.at, 0) >= store.first, reversed(store.summaries)):
        tag = {} if newest is None or found is newest else {"condenseParent": newest.number}
        yield {**build_summary_entry(found), "tokens": found.tokens, **tag}
