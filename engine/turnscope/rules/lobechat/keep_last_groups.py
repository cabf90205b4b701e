"""LobeHub's window: the newest groups of stored messages. An answer with its results is one group."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from turnscope.envelope.conversation import find_droppable
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.lobechat.stored import Topic, find_stretch, get_topic, iter_listed_summaries
from turnscope.ports.lobechat.window import COUNT, EXTRA, find_groups
from turnscope.session.model import Edit, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    on: Annotated[bool, "the window is on"] = False
    count: Annotated[int, "number of messages in the chat's setting; one more is sent"] = COUNT


class _Group(NamedTuple):
    """One group, and the address at which it begins: stored messages, or a summary listed among them."""

    start: int
    numbers: frozenset[int] = frozenset()
    summary: Piece | None = None


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. Only the part of the topic that the window reaches is read."""
    if not params.on:
        return
    found, count = get_topic(ctx), max(0, params.count + EXTRA)
    there = bisect_left(found.starts, ctx.request.cut)
    kept: list[_Group] = []
    for group in _iter_newest(envelope, found, there):
        if len(kept) < count:
            kept.append(group)
            continue
        first = min((group.start for group in kept), default=ctx.request.cut)
        because = f"the {count:,} newest messages and groups are sent, with what belongs to them"
        facts = {"kept": count, "of": there, "tokens shown by the app": found.sums[there]}  # of all messages, sent or not
        for one, slot in _find_dropped(envelope, ctx, found, kept, first):
            if slot or envelope.find_piece(one.start).body != () or envelope.find_piece(one.start).stop < one.stop:
                envelope = yield Edit("drop", because, one, slot=slot, facts=facts)
        return


def _iter_newest(envelope: Envelope, found: Topic, there: int) -> Iterator[_Group]:
    """Yield what is listed, newest first."""
    summaries = [*iter_listed_summaries(envelope)]
    number, stop = find_stretch(found, there - 1), there
    while number >= 0:
        begin = found.cuts[number]
        standing = [n for n in range(begin, stop) if envelope.find_piece(found.starts[n]).body != ()]
        rows: list[tuple[float, _Group]] = []
        for group in find_groups([found.units[n].message for n in standing]):
            numbers = frozenset(standing[n] for n in group)
            rows.append((found.starts[max(numbers)], _Group(found.starts[min(numbers)], numbers)))
        while summaries and summaries[-1].start >= (found.starts[begin] if number else 0):
            piece = summaries.pop()
            rows.append((piece.start - 0.5, _Group(piece.start, summary=piece)))
        yield from (group for _, group in sorted(rows, key=lambda row: -row[0]))
        number, stop = number - 1, begin


def _find_dropped(envelope: Envelope, ctx: Ctx, found: Topic, kept: list[_Group], first: int) -> Iterator[tuple[Span, str]]:
    """Return what is dropped: everything before the first group that stays, and what lies between those that stay."""
    yield from ((span, "") for span in find_droppable(ctx, envelope, 0, first))
    numbers = {number for group in kept for number in group.numbers}
    slots = {group.summary.slot for group in kept if group.summary}
    begin, there = bisect_left(found.starts, first), bisect_left(found.starts, ctx.request.cut)
    for number in (*found.systems[: bisect_left(found.systems, begin)], *range(begin, there)):
        if number not in numbers:
            yield Span(found.units[number].start, min(found.units[number].stop, ctx.request.cut)), ""
    for piece in iter_listed_summaries(envelope):
        if piece.start >= first and piece.slot not in slots:
            yield Span(piece.start, piece.start), piece.slot


RULE = Rule(
    "keep_last_groups",
    "Send the newest stored messages; an answer with its results, or a stored summary, counts as one.",
    edits,
    Params,
    "fresh",
    "lobehub 2.2.10, packages/context-engine: processors/HistoryTruncate.ts",
)
