"""Enforce the budget's shares: inserts of a slot shrink to its share, a bucket over its cap loses its oldest blocks."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.conversation import find_newest_message
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.model import BUCKETS, Bucket, Edit, Part, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Texts of the rule. The shares are in the policy's budget (`slots`, `caps`)."""

    placeholder: Annotated[str, "text in place of a tool result that was cleared"] = "[cleared: tool results over their share]"
    mark: Annotated[str, "end of an insert that was cut"] = " […]"


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    scale = ctx.calibration.scale
    if ctx.budget.slots:
        for piece in [piece for piece in envelope.pieces if piece.slot in ctx.budget.slots and piece.start == piece.stop]:
            most = int(ctx.budget.slots[piece.slot] / scale)
            size = sum(piece.counts)
            if size > most:
                why = f"the slot {piece.slot} has {size:,} tokens, its share of the budget is {most:,}"
                envelope = yield Edit(
                    "truncate", why, Span(piece.start, piece.start), _cut_insert(piece, most, params), slot=piece.slot
                )
    for name, cap in ctx.budget.caps.items():
        place, most = BUCKETS.index(Bucket(name)), int(cap / scale)
        for at in _iter_oldest(envelope, ctx, Bucket(name)) if envelope.counts[place] > most else ():
            block = ctx.session.blocks[at]
            size = envelope.counts[place]
            why = f"the bucket {name} has {size:,} tokens, its share of the budget is {most:,}; the oldest goes first"
            body: tuple[Part, ...] = ()
            if block.bucket == Bucket.TOOL_RESULTS:
                body = (Part("user", "tool_result", params.placeholder, {**block.raw, "content": params.placeholder}),)
            envelope = yield Edit("clear" if body else "strip", why, Span(at, at + 1), body, facts={"cap": most})
            if envelope.counts[place] <= most:
                break


def _cut_insert(piece: Piece, most: int, params: Params) -> tuple[Part, ...]:
    """The insert's text, shortened in proportion to its share."""
    text = "\n".join(part.text for part in piece.body or ())
    beginning = text[: int(len(text) * max(0, most - 4) / max(1, sum(piece.counts)))]
    first = (piece.body or (Part(),))[0]
    return (Part(first.role, text=beginning + params.mark, place=first.place),) if beginning else ()


def _iter_oldest(envelope: Envelope, ctx: Ctx, bucket: Bucket) -> Iterator[int]:
    """Verbatim blocks of a bucket before the newest message, oldest first. Only results and thinking can be removed."""
    found = {Bucket.TOOL_RESULTS: ctx.index.results, Bucket.THINKING: ctx.index.thinking}.get(bucket, ())
    return (at for at in found[: bisect_left(found, find_newest_message(ctx))] if envelope.find_piece(at).body is None)


RULE = Rule("hold_shares", "Cap every slot and bucket at its share of the budget.", edits, Params)
