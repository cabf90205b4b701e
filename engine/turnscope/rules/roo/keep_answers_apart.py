"""Keep neighbouring answers apart: only neighbouring user messages are joined."""

from __future__ import annotations

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.ports.roo import management
from turnscope.ports.roo.history import build_entry
from turnscope.session.index import count_before
from turnscope.session.model import Edit, Part, Span


def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    """Yield the edits of a request."""
    starts, messages, blocks = ctx.index.messages, ctx.session.messages, ctx.session.blocks
    since = ctx.previous.request.cut if ctx.previous else 0
    for place in range(max(1, count_before(starts, since)), count_before(starts, ctx.request.cut)):
        before, start = starts[place - 1], starts[place]
        stop = messages[blocks[start].message].stop
        joined = blocks[start].role == blocks[before].role and not messages[blocks[start].message].fence
        if not joined or envelope.find_piece(before).body is not None or envelope.find_piece(start).body is not None:
            continue
        if len(management.merge_neighbours([build_entry(ctx, before), build_entry(ctx, start)])) > 1:
            parts = tuple(
                Part(block.role, block.kind, ref=block.at, place="before" if n else "own", fence=not n)
                for n, block in enumerate(blocks[start:stop])
            )
            envelope = yield Edit("repair", "two answers in a row are not joined", Span(start, stop), parts)


RULE = Rule(
    "keep_answers_apart",
    "Send neighbouring answers as messages of their own; a user's neighbouring messages become one.",
    edits,
    NoParams,
    "remembers",
    "Roo Code 3.52.1 (cb83656718), mergeConsecutiveApiMessages (task/mergeConsecutiveApiMessages.ts)",
)
