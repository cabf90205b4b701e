"""Codex's compaction: only the newest prompts of the conversation stay, followed by a summary of everything."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace as replace_struct

from turnscope.envelope import recorded_compactions
from turnscope.envelope.condensing import SummaryOptions, build_summary_ask, build_summary_parts, describe_answer
from turnscope.envelope.conversation import find_droppable, memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.codex import compaction as port
from turnscope.session.content import dumps
from turnscope.session.index import Index, count_before
from turnscope.session.model import Answer, Ask, Block, Bucket, Edit, Part, Session, Span

SLOT = "summary of all before"
CONTEXT = ("meta", "inferred")  # origins of what the tool injects; after a compaction it is re-injected
PICTURE = re.compile(r"<image [^>]*>|</image>")  # what stands around a picture of a prompt
LEAST = 10  # a tenth of the limit must be new: if the kept prompts alone fill the limit, the original compacts for ever
NO_PROMPT = (*CONTEXT, "tool", "summary")


@dataclass(frozen=True, slots=True)
class Params:
    """The options of the original."""

    trigger: Annotated[
        Literal["default", "observed"], "observed: where the log shows that the tool itself compacted, at whatever size"
    ] = "default"
    tokens: Annotated[int, "model_auto_compact_token_limit in tokens; it can only lower the limit (0 = not set)"] = 0
    prompts: Annotated[int, "tokens of the newest prompts that stay (-1 = all)"] = port.PROMPTS
    cap: Annotated[int, "maximum tokens of the summary"] = 2_000


class Compacted(Struct, frozen=True, gc=False):
    """The last compaction: its request, its summary, where that stands, and where the oldest prompt begins that stays
    (`first`). `due`: the tool's own request for the next summary was met, and the next request is compacted.
    """

    request: int
    at: int
    first: int
    summary: str = ""
    due: bool = False


class _Read(NamedTuple):
    sums: tuple[int, ...]  # estimated tokens of all blocks before each
    context: tuple[int, ...]  # addresses of the blocks that the tool injected before the first prompt
    prompts: Mapping[Span, int]  # with the estimated tokens of each
    starts: tuple[int, ...]


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request.

    Before a turn the new prompt is not part of what is compacted. During a turn everything is.
    """
    state, due = _take_due(ctx.state)
    seen, read, cut = recorded_compactions.find_compactions(ctx), _read_session(ctx), ctx.request.cut
    last = state.request if state else -1
    first = ctx.previous is None or ctx.previous.request.turn != ctx.request.turn
    turns = ctx.index.turns[: count_before(ctx.index.turns, cut)]
    stop = turns[-1] if first and turns else cut
    used, mark = _count_used(ctx, read, last, stop), _get_mark(ctx, params)
    requested = recorded_compactions.is_requested(seen)
    if not (seen if params.trigger == "observed" else due or requested or used >= mark):
        return state
    if recorded_compactions.is_summary_request(ctx):
        return replace_struct(state, due=True) if state else Compacted(-1, 0, 0, due=True)
    facts: dict[str, Any] = {"tokens": used, "mark": mark}
    because = f"{used:,} tokens of {mark:,}"
    if params.trigger == "observed" or requested:
        because = "requested by the user" if requested else f"the tool did so here, at {used:,} tokens"
    start = state.first if state else ctx.index.messages[0] if count_before(ctx.index.messages, cut) else cut
    since = max(start, state.at if state else 0)
    if stop <= start or (not seen and ctx.count_tokens(since, stop) <= max(params.cap, mark // LEAST)):
        yield Edit("keep", f"{because}, but too little is new to be summarised", facts=facts)
        return state
    stays = _select_prompts(envelope, read, Span(start, stop), params)
    how = SummaryOptions("hand-over", cap=params.cap)
    question = build_summary_ask(envelope, ctx, Span(start, stop), how, state.summary if state else "")
    answer = yield from _find_summary(recorded_compactions.find_recorded_summary(ctx, seen)[1], question, because, facts)
    if answer is None:
        return state
    facts |= {
        **describe_answer(answer),
        "messages": count_before(ctx.index.messages, stop) - count_before(ctx.index.messages, start),
    }
    if state:
        yield Edit("drop", f"{because}: a new summary replaces the previous one", Span(state.at, state.at), slot=SLOT)
    for edit in _drop_between(ctx, envelope, read, Span(start, stop), stays, because, facts):
        envelope = yield edit
    (part,) = build_summary_parts(answer, facts["messages"], SummaryOptions("hand-over"))
    text = answer.text if answer.source == "recorded" else f"{port.PREFIX}\n{part.text}"  # the log's has its prefix
    body = (Part("user", "summary", text),)
    yield Edit("condense", f"{because}: a summary follows the newest prompts", Span(stop, stop), body, slot=SLOT, facts=facts)
    return Compacted(ctx.request.n, stop, min((span.start for span in stays), default=stop), answer.text)


def _take_due(state: Compacted | None) -> tuple[Compacted | None, bool]:
    """Return the last compaction, None where there was none, and whether one is due."""
    due = state is not None and state.due
    return replace_struct(state, due=False) if due and state and state.request >= 0 else None if due else state, due


def _find_summary(recorded: str, question: Ask | None, because: str, facts: dict[str, Any]) -> Edits:
    """Return the log's own summary, or else the answer to a query; None if there is none."""
    if recorded:
        return Answer(recorded, source="recorded")
    answer: Answer | None = (yield question) if question else None
    if answer is None or answer.failed:
        why = answer.failed if answer else "it has no readable text"
        yield Edit("keep", f"{because}, but no summary was made: {why}", facts={**facts, "failed": why})
        return None
    return answer if answer.text.strip() else Answer(port.EMPTY, source=answer.source, model=answer.model, usage=answer.usage)


def _select_prompts(envelope: Envelope, read: _Read, span: Span, params: Params) -> dict[Span, tuple[int, int]]:
    """Return the prompts that stay, each with the tokens that it may have and the tokens that it has."""
    there = [*read.prompts][count_before(read.starts, span.start) : count_before(read.starts, span.stop)]
    present = [(prompt, size) for prompt in there if (size := _count_prompt(envelope, read, prompt))]
    kept = port.select_kept([size for _, size in present], params.prompts)
    return {present[number][0]: (most, present[number][1]) for number, most in kept}


def _drop_between(
    ctx: Ctx,
    envelope: Envelope,
    read: _Read,
    span: Span,
    stays: dict[Span, tuple[int, int]],
    because: str,
    facts: dict[str, Any],
) -> Iterator[Edit]:
    """Yield the edits that drop what lies between the prompts that stay, and that shorten a prompt which stays in part."""
    at = span.start
    context = [Span(a, a + 1) for a in read.context if span.start <= a < span.stop]
    for prompt in (*sorted([*stays, *context]), Span(span.stop, span.stop)):
        for part in find_droppable(ctx, envelope, at, prompt.start):
            yield Edit("condense", f"{because}: a summary replaces everything but the user's prompts", part, facts=facts)
        at = max(at, prompt.stop)
    for prompt, (most, size) in stays.items():
        blocks = ctx.session.blocks[prompt.start : prompt.stop]
        if most < size:
            body = (Part("user", "text", port.shorten(_get_text(blocks), most)),)
            yield Edit("truncate", f"{because}: {most:,} tokens are left for this prompt", prompt, body, facts=facts)
        elif _has_pictures(blocks):
            body = (Part("user", "text", _get_text(blocks)),)
            yield Edit("strip", f"{because}: of a prompt its text stays", prompt, body, facts=facts)


def _get_text(blocks: Sequence[Block]) -> str:
    """Return the text of a prompt, without its pictures and the marks around them."""
    return "\n".join(block.text for block in blocks if block.kind == "text" and not PICTURE.fullmatch(block.text))


def _has_pictures(blocks: Sequence[Block]) -> bool:
    return any(block.kind == "image" for block in blocks)


def _count_prompt(envelope: Envelope, read: _Read, span: Span) -> int:
    """Return the estimated tokens of a prompt; 0 if it is not in the envelope."""
    piece = envelope.find_piece(span.start)
    if piece.body and (piece.start, piece.stop) == span:
        return sum(port.estimate_tokens(len(part.text.encode("utf-8", "surrogatepass"))) for part in piece.body)
    stands = all(piece.body is None for piece in envelope.iter_pieces(span))
    return max(1, read.prompts[span]) if stands else 0


def _count_used(ctx: Ctx, read: _Read, last: int, stop: int) -> int:
    """Return the billed tokens of the last response, and an estimate of what came after it."""
    request = ctx.previous.request if ctx.previous else None
    since = min(request.stop, stop) if request else 0
    answer = read.sums[request.stop] - read.sums[request.cut] if request else 0
    return recorded_compactions.count_previous_usage(ctx, last, answer) + read.sums[stop] - read.sums[since]


def _get_mark(ctx: Ctx, params: Params) -> int:
    """Return the budget's limit. A log of Codex calls 95 % of the window "the window"."""
    reported = ctx.session.source == "codex" and ctx.session.window == ctx.budget.window
    usual = port.compute_whole_window(ctx.budget.limit) if reported else ctx.budget.limit
    return min(params.tokens, usual) if params.tokens else usual


def _estimate_block(block: Block) -> int:
    if block.kind == "redacted_thinking":
        return port.estimate_encrypted_tokens(len(dumps(block.raw)))
    if block.bucket is Bucket.TOOL_RESULTS:  # of its JSON, requests would be compacted that were not
        return port.estimate_tokens(len(block.text.encode("utf-8", "surrogatepass")))
    return port.estimate_tokens(len(dumps(block.raw).encode("utf-8", "surrogatepass")))


def _estimate_prompt(blocks: Sequence[Block]) -> int:
    """Return the estimated tokens of what stays of a prompt: its pictures go."""
    if _has_pictures(blocks):
        return port.estimate_tokens(len(_get_text(blocks).encode("utf-8", "surrogatepass")))
    return sum(map(_estimate_block, blocks))


@memoize
def _read_session(session: Session, index: Index) -> _Read:
    sums = tuple(accumulate((_estimate_block(block) for block in session.blocks), initial=0))
    messages = [session.messages[session.blocks[at].message] for at in index.messages]
    mine = [m for m in messages if m.role == "user"]
    prompts = {
        Span(m.start, m.stop): _estimate_prompt(session.blocks[m.start : m.stop])
        for m in mine
        if m.origin not in NO_PROMPT and not _is_answer(session, m.start)
    }
    first = min((span.start for span in prompts), default=len(session.blocks))
    context = tuple(at for m in mine if m.origin in CONTEXT and m.start < first for at in range(m.start, m.stop))
    return _Read(sums, context, prompts, tuple(p.start for p in prompts))


def _is_answer(session: Session, at: int) -> bool:
    return session.blocks[at].bucket is Bucket.TOOL_RESULTS


RULE = Rule(
    "keep_prompts_and_summary",
    "Once the conversation reaches the limit, keep only its newest prompts, followed by a summary of everything.",
    edits,
    Params,
    source="openai/codex, codex-rs/core/src/compact.rs (e06dd0e5d5), session/context_window.rs (11237ebb1b)",
    state=Compacted,
)
