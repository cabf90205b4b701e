"""A session as Roo Code's stored history: which of its messages are hidden, and which summaries and markers stand among them.

The messages are the session's; the rest is a `Store`, which rules carry among the facts of their decisions. Truncations hide
from the second message on, so one place says what all of them hide. Entries are what `engine.ports.roo` reads; their `at` is a
place: (address, 1) of a message, (address, 0) of a summary or marker, which stands before the message at that address.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.envelope.envelope import Envelope
from engine.envelope.plan import Plan
from engine.envelope.rule import Ctx
from engine.ports.roo import management
from engine.session.index import upto
from engine.session.model import JSON, Bucket

Place = tuple[int, int]
SLOT = "truncation marker"
Entry = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Summary:
    """A summary that was stored when the history reached up to address `at`. Summaries lead back to the one before."""

    number: int
    at: int
    content: list[JSON]
    tokens: int
    ts: int | None
    older: Summary | None


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """What a stored history holds beside the messages. `first`: the first visible place behind the opening message."""

    summary: Summary | None = None
    first: Place | None = None
    markers: int = 0

    @property
    def hides_summary(self) -> bool:
        """Whether a truncation hid the newest summary."""
        return bool(self.summary and self.first and (self.summary.at, 0) < self.first)

    def __repr__(self) -> str:
        return f"{self.summary.number if self.summary else 0} summaries, {self.markers} truncations"


class Size(NamedTuple):
    """Tokens: of the context as the newest event tells them, of the last message, and of the two."""

    total: float
    last: int
    whole: int


def recall(plan: Plan | None) -> Store:
    """The store as the newest decision that carries one left it."""
    told = [(d.seq, d.edit.facts.get("stored")) for d in (plan.latest.values() if plan else ())]
    return next((store for _, store in sorted(told, key=lambda t: -t[0]) if isinstance(store, Store)), Store())


def condensed_now(envelope: Envelope, ctx: Ctx) -> bool:
    """Whether this very request was condensed: it begins with a summary that one of its own decisions put there."""
    start = ctx.index.messages[0] if ctx.index.messages else envelope.stop
    piece = envelope.at(start) if start < envelope.stop else None
    began = ctx.previous.first + len(ctx.previous.decisions) if ctx.previous else 0
    return bool(piece and piece.body and piece.by >= began and piece.body[0].kind == "summary")


def measured(ctx: Ctx, store: Store, factor: float, counted: bool) -> Size | None:
    """The size that Roo compares, None before anything was billed. `counted`: right after a condense its own count is read,
    because that event stands behind the request's in Roo's list."""
    events: list[Entry] = [{"type": "say", "say": "api_req_started", "text": {"tokensIn": ctx.reported}}]
    if counted and ctx.previous:
        sizes = [d.edit.facts.get("new_size") for d in ctx.previous.decisions if d.action == "condense"]
        events += [{"type": "say", "say": "condense_context", "contextCondense": {"newContextTokens": n}} for n in sizes]
    total = management.context_tokens(events)
    place = upto(ctx.index.messages, ctx.request.cut) - 1
    if not total or place < 0:
        return None
    start, newest = ctx.index.messages[place], store.summary
    last = newest.tokens if newest and newest.at > start else tokens(ctx, start, factor)
    return Size(total, last, int(total + last))


def tokens(ctx: Ctx, start: int, factor: float) -> int:
    """Tokens of the message that begins at `start`: the counter's times `factor`, rounded up."""
    stop = min(ctx.session.messages[ctx.session.blocks[start].message].stop, ctx.request.cut)
    return math.ceil(ctx.tokens(start, stop) * factor)


def static_tokens(envelope: Envelope, ctx: Ctx, bucket: Bucket) -> int:
    """Tokens of the system prompt or of the tools that stand in an envelope, as counted."""
    there = ctx.index.static[: upto(ctx.index.static, ctx.request.cut)]
    blocks = (ctx.session.blocks[at] for at in there if envelope.at(at).body is None)
    return sum(ctx.tokens(block.at, block.at + 1) for block in blocks if block.bucket == bucket)


def message(ctx: Ctx, start: int) -> Entry:
    """The message that begins at address `start` as an entry."""
    blocks = ctx.session.blocks
    source = ctx.session.messages[blocks[start].message]
    raws = [block.raw for block in blocks[start : min(source.stop, ctx.request.cut)] if block.raw is not None]
    content = (
        raws[0]
        if len(raws) == 1 and isinstance(raws[0], str)
        else [{"type": "text", "text": raw} if isinstance(raw, str) else raw for raw in raws]
    )
    return {"at": (start, 1), "role": source.role, "content": content, "ts": stamp(ctx, start)}


def last_stamp(ctx: Ctx, store: Store) -> int | None:
    """Time of the history's last entry."""
    start = ctx.index.messages[upto(ctx.index.messages, ctx.request.cut) - 1]
    return store.summary.ts if store.summary and store.summary.at > start else stamp(ctx, start)


def stamp(ctx: Ctx, start: int) -> int | None:
    """Time of a message in Roo's unit, milliseconds."""
    sent = ctx.session.messages[ctx.session.blocks[start].message].sent_at
    return None if sent is None else round(sent * 1000)


def since_summary(envelope: Envelope, ctx: Ctx, store: Store) -> list[Entry]:
    """The history from the newest summary on, hidden messages and markers included; all of it where there is no summary."""
    newest = store.summary
    begin = newest.at if newest else 0
    starts = ctx.index.messages
    found = [message(ctx, start) for start in starts[upto(starts, begin) : upto(starts, ctx.request.cut)]]
    for piece in envelope.pieces:
        if piece.start == piece.stop and piece.start >= begin and piece.body and piece.slot.startswith(SLOT):
            text = piece.body[0].text
            found.append({"at": (piece.start, 0), "role": "user", "content": text, "isTruncationMarker": True})
    found.sort(key=lambda entry: entry["at"])
    return [summary(newest), *found] if newest else found


def summary(stored: Summary) -> Entry:
    """A summary as an entry."""
    told = {"role": "user", "content": stored.content, "ts": stored.ts, "isSummary": True, "condenseId": stored.number}
    return {"at": (stored.at, 0), **told}


def visible(ctx: Ctx, store: Store) -> list[Entry]:
    """Roles, times and tags, without content, of what no truncation hides; and a hidden newest summary with a marker for it."""
    starts, blocks = ctx.index.messages, ctx.session.blocks
    found = [*_summaries(store)]
    first = upto(starts, store.first[0]) if store.first else 1
    for start in (*starts[:1], *starts[max(1, first) : upto(starts, ctx.request.cut)]):
        entry: Entry = {"at": (start, 1), "role": blocks[start].role, "ts": stamp(ctx, start)}
        if store.summary and start < store.summary.at:
            entry["condenseParent"] = store.summary.number
        found.append(entry)
    found.sort(key=lambda entry: entry["at"])
    return found


def _summaries(store: Store) -> Iterator[Entry]:
    newest = found = store.summary
    if found and store.first and store.hides_summary:
        yield {**summary(found), "truncationParent": "hidden"}
        yield {"at": (store.first[0], -1), "role": "user", "isTruncationMarker": True, "truncationId": "hidden"}
        return
    while found and newest and (store.first is None or (found.at, 0) >= store.first):
        entry = {**summary(found), "tokens": found.tokens}
        yield entry if found is newest else {**entry, "condenseParent": newest.number}
        found = found.older
