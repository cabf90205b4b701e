"""Gemini CLI's compression: at half of the window a summary replaces the oldest 70 % of the characters."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import Annotated, Any, NamedTuple

from msgspec import Struct

from turnscope.envelope import recorded_compactions
from turnscope.envelope.condensing import SummaryOptions, condense, find_leading_summary, get_summary
from turnscope.envelope.conversation import build_result, find_replaceable, get_result_text, memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.gemini_cli import compression as port
from turnscope.session.index import Index, count_before
from turnscope.session.model import RESUMED_AT, Edit, Session, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    keep: Annotated[float, "share of the characters that stays, the newest ones"] = 0.3
    cap: Annotated[int, "maximum tokens of the summary"] = 2_000
    outputs: Annotated[int, "tokens of the newest tool results that stay whole"] = port.OUTPUT_BUDGET


class Compressed(Struct, frozen=True, gc=False):
    """Up to where the session had come when it was compressed or resumed last."""

    cut: int = 0


class _Sizes(NamedTuple):
    """The contents of a conversation: a message each, but all that a user or a tool says before an answer is one."""

    starts: tuple[int, ...]
    sums: tuple[int, ...]  # characters of JSON of all contents before each
    tokens: tuple[int, ...]  # estimated, of all contents before each
    begins: tuple[bool, ...]
    open: tuple[bool, ...]


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. If the log holds what this very compression left, it is used.

    The previous request's prompt is compared with the limit; in a session that was just resumed, an estimate of its history.
    If the split would be at the very start, nothing is compressed.
    """
    state: Compressed = ctx.state or Compressed()
    if ctx.previous is None or not count_before(ctx.index.messages, ctx.request.cut):
        return state
    sizes, seen = _measure(ctx), recorded_compactions.find_compactions(ctx)
    there = count_before(sizes.starts, ctx.request.cut) - 1  # the newest content is no part of the history yet
    begin, old, fresh = find_leading_summary(envelope, ctx)
    first = count_before(sizes.starts, fresh)
    resumed = _is_resumed(ctx)
    prompt = _estimate_history(ctx, state, old, first, there) if resumed else _count_prompt(ctx)
    state = Compressed(ctx.request.cut) if resumed else state
    manual = recorded_compactions.is_requested(seen)
    what = "resumed history" if resumed else "previous prompt"
    because = f"the {what} had {prompt:,} tokens, the trigger is {ctx.budget.limit:,}"
    facts: dict[str, Any] = {"prompt": prompt, "mark": ctx.budget.limit}
    because = "requested by the user" if manual else because
    if there <= first or (prompt < ctx.budget.limit and not manual):
        return state
    if (yield from recorded_compactions.follow_recorded(seen, because, facts)):
        return Compressed(ctx.request.cut)
    index = _find_index(sizes, old, range(first, there), params)
    facts |= {"messages": index, "of": there - first}
    stop = sizes.starts[first + index]
    if not index:
        yield Edit("keep", f"{because}, but no prompt stands behind what could be summarised", facts=facts)
        return state
    if ctx.count_tokens(begin, stop) > params.cap:
        how = SummaryOptions("summarise", cap=params.cap, shape="pair")
        envelope = yield from condense(envelope, ctx, Span(begin, stop), how, because, facts)
    else:
        yield Edit("keep", f"{because}, but a summary would be no smaller than what it replaces", facts=facts)
    yield from _shorten_outputs(envelope, ctx, stop, params, because, facts)
    return Compressed(ctx.request.cut)


def _find_index(sizes: _Sizes, old: Piece | None, history: range, params: Params) -> int:
    """Return how many contents of the history go; an earlier summary and its answer, which stand in front, always do."""
    lengths = [b - a for a, b in pairwise(sizes.sums[history.start : history.stop + 1])]
    before = [port.count_units(get_summary(old)), 0] if old else []
    begins = [*((True, False) if old else ()), *sizes.begins[history.start : history.stop]]
    index = port.find_split_point([*before, *lengths], begins, sizes.open[history.stop - 1], 1 - params.keep)
    return max(0, index - len(before))


def _shorten_outputs(envelope: Envelope, ctx: Ctx, start: int, params: Params, because: str, facts: dict[str, Any]) -> Edits:
    """Yield the edits that shorten long outputs beyond the newest."""
    left, results = params.outputs, ctx.index.results
    for at in reversed(results[bisect_left(results, start) : count_before(results, ctx.request.cut)]):
        block = ctx.session.blocks[at]
        text = get_result_text(block)
        left -= port.estimate_tokens([{"text": text or ""}])
        if left < 0 and text and len(text) > port.EXCERPT and find_replaceable(envelope, at):
            why = f"{because}; results beyond the newest {params.outputs:,} tokens are shortened"
            envelope = yield Edit("truncate", why, Span(at, at + 1), (build_result(block, port.cut_output(text)),), facts=facts)


def _is_resumed(ctx: Ctx) -> bool:
    """Return whether another process sends this request than the one before, by the log."""
    message = ctx.session.messages[ctx.session.blocks[ctx.request.cut - 1].message]
    return message.id in ctx.session.about.get(RESUMED_AT, ()) or bool(recorded_compactions.find_recorded_edits(ctx, "repair"))


def _estimate_history(ctx: Ctx, state: Compressed, old: Piece | None, first: int, there: int) -> int:
    """Return the estimated tokens of the history without its newest content, as a new process counts them.

    Results since the log was written anew for the last time stand in it twice: with their calls, and as messages.
    """
    sizes, results = _measure(ctx), ctx.index.results
    twice = results[count_before(results, state.cut) : count_before(results, ctx.request.cut)]
    contents = (port.build_content("user", [ctx.session.blocks[at]]) for at in twice)
    copies = sum(port.estimate_tokens(content["parts"]) for content in contents)
    summary = port.estimate_tokens([{"text": get_summary(old)}]) if old else 0
    return sizes.tokens[there] - sizes.tokens[first] + copies + summary


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
    tokens = accumulate((port.estimate_tokens(content["parts"]) for content in contents), initial=0)
    starts = tuple(start for _, start, _ in spans)
    return _Sizes(starts, tuple(sums), tuple(tokens), tuple(map(port.can_begin, contents)), tuple(map(port.is_open, contents)))


RULE = Rule(
    "summarise_oldest_characters",
    "Once the previous prompt reached the trigger, summarise the oldest share of the characters, up to a user prompt.",
    edits,
    Params,
    source="google-gemini/gemini-cli 5411f113ca, packages/core/src/context/chatCompressionService.ts",
    state=Compressed,
)
