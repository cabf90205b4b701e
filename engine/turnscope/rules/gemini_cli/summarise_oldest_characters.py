"""Gemini CLI's compression: at half of the window a summary replaces the oldest 70 % of the characters."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import Annotated, Any, NamedTuple

from turnscope.envelope.condensing import SummaryOptions, condense, find_leading_summary, get_summary
from turnscope.envelope.conversation import build_result, find_replaceable, get_result_text, memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.gemini_cli import compression as port
from turnscope.session.index import Index, count_before
from turnscope.session.model import Edit, Session, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    keep: Annotated[float, "share of the characters that stays, the newest ones"] = 0.3
    cap: Annotated[int, "maximum tokens of the summary"] = 2_000
    outputs: Annotated[int, "tokens of the newest tool results that stay whole"] = port.OUTPUT_BUDGET


class _Sizes(NamedTuple):
    """The contents of a conversation: a message each, but all that a user or a tool says before an answer is one."""

    starts: tuple[int, ...]
    sums: tuple[int, ...]  # characters of JSON of all contents before each
    begins: tuple[bool, ...]
    open: tuple[bool, ...]


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request.

    The previous request's prompt is compared with the limit. If the split would be at the very start, nothing is compressed.
    """
    prompt = _count_prompt(ctx)
    if prompt < ctx.budget.limit or ctx.previous is None:
        return
    sizes = _measure(ctx)
    starts = sizes.starts
    there = count_before(starts, ctx.request.cut) - 1  # the newest content is no part of the history yet
    begin, old, fresh = find_leading_summary(envelope, ctx)
    first = count_before(starts, fresh)
    if there <= first:
        return
    lengths = [b - a for a, b in pairwise(sizes.sums[first : there + 1])]
    before = [port.count_units(get_summary(old)), 0] if old else []
    index = port.find_split_point(
        [*before, *lengths],
        [*((True, False) if old else ()), *sizes.begins[first:there]],
        sizes.open[there - 1],
        1 - params.keep,
    )
    index = max(0, index - len(before))
    because = f"the previous prompt had {prompt:,} tokens, the trigger is {ctx.budget.limit:,}"
    facts: dict[str, Any] = {"prompt": prompt, "mark": ctx.budget.limit, "messages": index, "of": there - first}
    stop = starts[first + index]
    if not index:
        yield Edit("keep", f"{because}, but no prompt stands behind what could be summarised", facts=facts)
        return
    if ctx.count_tokens(begin, stop) > params.cap:
        how = SummaryOptions("summarise", cap=params.cap, shape="pair")
        envelope = yield from condense(envelope, ctx, Span(begin, stop), how, because, facts)
    else:
        yield Edit("keep", f"{because}, but a summary would be no smaller than what it replaces", facts=facts)
    left = params.outputs
    for at in reversed(
        ctx.index.results[bisect_left(ctx.index.results, stop) : count_before(ctx.index.results, ctx.request.cut)]
    ):
        block = ctx.session.blocks[at]
        text = get_result_text(block)
        left -= port.estimate_tokens([{"text": text or ""}])
        if left < 0 and text and len(text) > port.EXCERPT and find_replaceable(envelope, at):
            why = f"{because}; results beyond the newest {params.outputs:,} tokens are shortened"
            envelope = yield Edit("truncate", why, Span(at, at + 1), (build_result(block, port.cut_output(text)),), facts=facts)


def _count_prompt(ctx: Ctx) -> int:
    """Return the prompt tokens of the previous request, as billed or as counted."""
    if ctx.previous is None:
        return 0
    request = ctx.previous.request
    usage = request.usage
    answer = usage.output_tokens if usage else round(ctx.calibration.scale * ctx.ledger.count_tokens(request.cut, request.stop))
    return ctx.previous_usage - answer


@memoize
def _measure(session: Session, index: Index) -> _Sizes:
    messages = [session.messages[session.blocks[at].message] for at in index.messages]
    spans: list[tuple[str, int, int]] = []
    for role, one in groupby(messages, key=lambda message: message.role):
        group = list(one)
        same = [(group[0].start, group[-1].stop)] if role == "user" else [(message.start, message.stop) for message in group]
        spans += [(role, start, stop) for start, stop in same]
    contents = [port.build_content(role, session.blocks[start:stop]) for role, start, stop in spans]
    sums = accumulate((port.count_units(port.write_json(content)) for content in contents), initial=0)
    starts = tuple(start for _, start, _ in spans)
    return _Sizes(starts, tuple(sums), tuple(map(port.can_begin, contents)), tuple(map(port.is_open, contents)))


RULE = Rule(
    "summarise_oldest_characters",
    "Once the previous prompt reached the trigger, summarise the oldest share of the characters, up to a user prompt.",
    edits,
    Params,
    source="google-gemini/gemini-cli 5411f113ca, packages/core/src/context/chatCompressionService.ts",
)
