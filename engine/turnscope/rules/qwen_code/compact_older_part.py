"""Qwen Code's compaction: once the last response filled most of the window, a summary replaces the older part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Annotated, Any, NamedTuple

from turnscope.envelope import recorded_compactions
from turnscope.envelope.condensing import SummaryOptions, condense, find_leading_summary, get_summary
from turnscope.envelope.conversation import memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.gemini_cli.compression import write_json
from turnscope.ports.qwen_code import compression as port
from turnscope.session.index import Index, count_before
from turnscope.session.model import Block, Edit, Session, Span


@dataclass(frozen=True, slots=True)
class Params:
    """The settings of the original, and what was seen of it."""

    threshold: Annotated[float, "share of the budget that the last prompt and its answer fill when it compacts"] = 0.7
    keep: Annotated[float, "share of the characters that stays at most where what stays begins at a prompt"] = 0.3
    rounds: Annotated[int, "rounds of a call and its result that stay before the newest call, during a run"] = port.ROUNDS
    cap: Annotated[int, "maximum tokens of the summary"] = 4_000


class _Read(NamedTuple):
    """The contents of a conversation: a message each, but all results of one answer are one."""

    starts: tuple[int, ...]
    sums: tuple[int, ...]  # characters of JSON of all contents before each
    kinds: tuple[port.Kind, ...]


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. If the log holds what this very compaction left, it is used.

    State: the request that compacted last.
    """
    last: int = -1 if ctx.state is None else ctx.state
    used, mark = recorded_compactions.count_previous_usage(ctx, last, 0), round(params.threshold * ctx.budget.limit)
    seen = recorded_compactions.find_compactions(ctx)
    requested = any(edit.facts.get("preTokens", mark) < mark for edit in seen)
    if ctx.previous is None or (used < mark and not requested):
        return last
    facts: dict[str, Any] = {"tokens": used, "mark": mark}
    because = f"the last response came to {used:,} tokens, the threshold is {mark:,}"
    if requested:
        because = f"requested by the user: the log shows it at {used:,} tokens, below {mark:,}"
    if (yield from recorded_compactions.follow_recorded(seen, because, facts)):
        return ctx.request.n
    begin, old, fresh = find_leading_summary(envelope, ctx)
    stop = _find_stop(ctx, old, fresh, params)
    if stop <= fresh or (not requested and ctx.count_tokens(fresh, stop) <= params.cap):
        yield Edit("keep", f"{because}, but a summary would be no smaller than what it replaces", facts=facts)
        return last
    before = envelope
    how = SummaryOptions("hand-over", cap=params.cap, shape="pair")
    envelope = yield from condense(envelope, ctx, Span(begin, stop), how, because, facts)
    return last if envelope is before else ctx.request.n


def _find_stop(ctx: Ctx, old: Piece | None, fresh: int, params: Params) -> int:
    """Return where the contents begin that stay. The newest one is no part of the history yet."""
    read = _read_session(ctx)
    first, newest = count_before(read.starts, fresh), count_before(read.starts, ctx.request.cut) - 1
    sizes = [b - a for a, b in pairwise(read.sums[first : newest + 1])]
    kinds = read.kinds[first:newest]
    lead = len(get_summary(old)) if old else port.CONTEXT
    at = port.find_split_point([lead, 0, *sizes], ["prompt", "answer", *kinds], 1 - params.keep, params.rounds)
    return read.starts[first + max(0, at - 2)]


@memoize
def _read_session(session: Session, index: Index) -> _Read:
    starts, sizes, kinds = list[int](), list[int](), list[port.Kind]()
    for message in (session.messages[session.blocks[at].message] for at in index.messages):
        blocks = session.blocks[message.start : message.stop]
        kind, size = _get_kind(message.role, blocks), len(write_json([block.raw for block in blocks]))  # pictures with it
        if kinds and kind == kinds[-1] == "response":
            sizes[-1] += size
            continue
        starts.append(message.start)
        sizes.append(size)
        kinds.append(kind)
    return _Read(tuple(starts), tuple(accumulate(sizes, initial=0)), tuple(kinds))


def _get_kind(role: str, blocks: Sequence[Block]) -> port.Kind:
    if role == "assistant":
        return "call" if any(block.kind == "tool_use" for block in blocks) else "answer"
    return "response" if any(block.kind == "tool_result" for block in blocks) else "prompt"


RULE = Rule(
    "compact_older_part",
    "Once the last response filled most of the budget, replace the older part of the conversation by a summary.",
    edits,
    Params,
    source="npm @qwen-code/qwen-code 0.15.10, packages/core/src/services/chatCompressionService.ts; requests that it sent",
    state=int,
)
