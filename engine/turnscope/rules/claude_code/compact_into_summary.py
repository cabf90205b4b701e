"""Claude Code's compaction: a summary replaces the whole conversation, and files that were read are re-injected after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from turnscope.envelope import recorded_compactions
from turnscope.envelope.condensing import SummaryOptions, condense, find_leading_summary
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.claude_code import limits as port
from turnscope.ports.claude_code.conversation import SLOT, iter_last_files, sum_tokens
from turnscope.session.index import count_before
from turnscope.session.model import Edit, Part, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters. A compaction that the user requested (/compact) happens where the log shows it, whatever the trigger."""

    trigger: Annotated[
        Literal["default", "observed"], "observed: where the log shows that the tool itself compacted, at whatever size"
    ] = "default"
    tokens: Annotated[int, "tokens from which on it compacts (0 = by the buffer)"] = 0
    buffer: Annotated[int, "tokens below the budget at which it compacts"] = port.BUFFER
    percent: Annotated[
        int,
        "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE: per cent of the budget; it can only lower the trigger (0 = not set)",
    ] = 0
    files: Annotated[int, "files read last that are re-injected after a compaction"] = port.FILES
    file_tokens: Annotated[int, "tokens of each file"] = port.FILE
    files_tokens: Annotated[int, "tokens of all files"] = port.ALL_FILES
    cap: Annotated[int, "maximum tokens of the summary"] = 4_000


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request.

    State: the request that compacted last. If the log holds a summary for this very compaction, it is used.
    """
    last: int = -1 if ctx.state is None else ctx.state
    seen = recorded_compactions.find_compactions(ctx)
    at, text = recorded_compactions.find_recorded_summary(ctx, seen)
    manual = any(edit.facts.get("trigger") == "manual" for edit in seen)
    mark = params.tokens or port.compute_trigger(ctx.budget.limit, params.buffer, params.percent)
    size = _count_request(ctx, last, at if at >= 0 else ctx.request.cut)
    if not (seen if params.trigger == "observed" else manual or size >= mark):
        return last
    tokens = next((edit.facts["preTokens"] for edit in seen if "preTokens" in edit.facts), None)
    facts: dict[str, Any] = {"tokens": size, "mark": mark} | ({"recorded": tokens} if tokens else {})
    because = f"{size:,} tokens, the threshold is {mark:,}"
    if manual or params.trigger == "observed":
        because = f"{'requested by the user' if manual else 'the tool did so here'}, at {size:,} tokens"
    if text:
        envelope = yield from _follow_log(envelope, ctx, seen, text, because, facts)
        return ctx.request.n
    none = (ctx.request.cut, None, ctx.request.cut)
    begin, _, fresh = find_leading_summary(envelope, ctx) if count_before(ctx.index.messages, ctx.request.cut) else none
    if fresh >= ctx.request.cut or (not seen and ctx.count_tokens(fresh, ctx.request.cut) <= params.cap):
        yield Edit("keep", f"{because}, but a summary would be no smaller than what it replaces", facts=facts)
        return last
    how = SummaryOptions("hand-over", cap=params.cap)
    before = envelope
    envelope = yield from condense(envelope, ctx, Span(begin, ctx.request.cut), how, because, facts)
    if envelope is before:
        return last
    if parts := tuple(_build_files(ctx, params)):
        why = f"{because}; the files read last are re-injected"
        yield Edit("insert", why, Span(ctx.request.cut, ctx.request.cut), parts, slot=SLOT, facts={"files": len(parts)})
    return ctx.request.n


def _follow_log(envelope: Envelope, ctx: Ctx, seen: list[Edit], text: str, because: str, facts: dict[str, Any]) -> Edits:
    """Put the log's own summary where the log says it stood. Blocks that the tool preserved stay."""
    found = [*recorded_compactions.iter_compacted_spans(ctx, seen)]
    if any(_is_inside(envelope, at) for span in found for at in span):  # a part of a placeholder cannot be preserved
        found = [*ctx.index.find_conversation_spans(envelope.find_piece(found[0].start).start, found[-1].stop)]
    messages = sum(count_before(ctx.index.messages, b) - count_before(ctx.index.messages, a) for a, b in found)
    body = (Part("user", "summary", text),)
    for number, span in enumerate(found):
        why = f"{because}: the summary in the log now replaces {messages:,} messages"
        envelope = yield Edit("condense", why, span, () if number else body, facts={**facts, "messages": messages})
    return envelope


def _is_inside(envelope: Envelope, at: int) -> bool:
    """Return whether one placeholder replaces blocks on both sides of an address."""
    return at < envelope.stop and bool((piece := envelope.find_piece(at)).body) and piece.start < at


def _count_request(ctx: Ctx, last: int, stop: int) -> int:
    """Return the tokens of the request as the tool counts them: the billed previous request plus an estimate of the rest."""
    sums = sum_tokens(ctx)
    if ctx.previous is None:
        return port.pad(sums[stop])
    request = ctx.previous.request
    answer = port.pad(sums[request.stop] - sums[request.cut])
    return recorded_compactions.count_previous_usage(ctx, last, answer) + port.pad(sums[stop] - sums[min(request.stop, stop)])


def _build_files(ctx: Ctx, params: Params) -> Iterator[Part]:
    """Return the files that were read last, each and all of them cut to their tokens."""
    left = params.files_tokens
    for path, whole in iter_last_files(ctx, params.files):
        text = whole[: 4 * min(params.file_tokens, left)]
        left -= port.estimate(len(text))
        if text:
            yield Part("user", "text", f"{path}, as it was read last:\n{text}")


RULE = Rule(
    "compact_into_summary",
    "Once the conversation reaches the trigger, replace all of it by a summary, and re-inject the files read last.",
    edits,
    Params,
    source="Claude Code 2.1 as publicly reported (anthropics/claude-code issues 12004, 31806) and as its logs show it",
    state=int,
)
