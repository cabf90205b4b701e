"""Clear the content of old tool results once the request grows too large. The calls stay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from typing import Annotated

from turnscope.envelope.clearing import clear_results
from turnscope.envelope.conversation import find_replaceable, memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import Index, count_before
from turnscope.session.model import Edit, Part, Session


@dataclass(frozen=True, slots=True)
class Params:
    """The parameters of Anthropic's clear_tool_uses_20250919."""

    trigger: Annotated[int, "clear once the request has more input tokens"] = 100_000
    trigger_uses: Annotated[int, "clear once the request has more tool uses, instead of by tokens (0 = by tokens)"] = 0
    keep: Annotated[int, "number of newest tool uses to keep"] = 3
    clear_at_least: Annotated[int, "minimum tokens to clear: less does not pay for the cache miss"] = 0
    exclude_tools: Annotated[tuple[str, ...], "tools whose results are never cleared"] = ()
    clear_inputs: Annotated[bool, "clear the inputs of the calls too"] = False
    clear_inputs_of: Annotated[tuple[str, ...], "tools whose inputs are cleared, instead of all"] = ()
    placeholder: Annotated[str, "text in place of a cleared result"] = "[cleared to save context]"


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    results = ctx.index.results
    there = count_before(results, ctx.request.cut)
    size = ctx.calibration.predict(envelope.tokens) if ctx.own is ctx.ledger else ctx.count_envelope(envelope)
    met = there > params.trigger_uses if params.trigger_uses else size > params.trigger
    done: int = ctx.state or 0  # results before this address were handled when results were last cleared
    if not met:
        return done
    stop = results[there - params.keep] if 0 < params.keep <= there else ctx.request.cut if params.keep <= 0 else 0
    most = ctx.ledger.sums[3][max(stop, done)] - ctx.ledger.sums[3][done]
    if most < params.clear_at_least:
        why = f"clearing would free at most {most:,} tokens, less than {params.clear_at_least:,}"
        yield Edit("keep", why, facts={"tokens": size, "clear_at_least": params.clear_at_least})
        return done
    chosen = [*_iter_clearable(envelope, ctx, params, stop)][::-1]
    left = sum(
        ctx.ledger.count_placeholder((Part("user", "tool_result", params.placeholder),))
    )  # the same for each: only the text is counted
    gain = sum(_count_tokens(envelope, ctx, at) - left for at in chosen)
    facts = {"tokens": size, "results": len(chosen), "clears": gain, "clear_at_least": params.clear_at_least}
    over = f"{there} tool uses" if params.trigger_uses else f"{size:,} tokens"
    limit = f"{params.trigger_uses}" if params.trigger_uses else f"{params.trigger:,}"
    if chosen and gain < params.clear_at_least:
        yield Edit(
            "keep",
            f"clearing {len(chosen)} results would free {gain:,} tokens, less than {params.clear_at_least:,}",
            facts=facts,
        )
        return done
    because = f"{over} exceed {limit}; results are kept for the newest {params.keep} tool uses"
    inputs = params.clear_inputs or params.clear_inputs_of
    yield from clear_results(envelope, ctx, chosen, params.placeholder, because, facts, inputs)
    return stop if chosen else done


def _iter_clearable(envelope: Envelope, ctx: Ctx, params: Params, stop: int) -> Iterator[int]:
    """Results before address `stop` that can be cleared, newest first.

    Stops at a cleared result, because all before it were cleared with it, and at a range that was cut, because only the task
    precedes it.
    """
    tools = [addresses for name, addresses in _group_by_tool(ctx).items() if name not in params.exclude_tools]
    falling = (map(addresses.__getitem__, range(count_before(addresses, stop) - 1, -1, -1)) for addresses in tools)
    for at in merge(*falling, reverse=True):
        piece = envelope.find_piece(at)
        if (piece.body and piece.body[0].text == params.placeholder) or (piece.body == () and piece.stop - piece.start > 1):
            return
        if find_replaceable(envelope, at):
            yield at


@memoize
def _group_by_tool(session: Session, index: Index) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for at in index.results:
        if session.blocks[at].kind == "tool_result":
            found.setdefault(session.blocks[at].name, []).append(at)
    return found


def _count_tokens(envelope: Envelope, ctx: Ctx, at: int) -> int:
    piece = envelope.find_piece(at)
    return sum(piece.counts) if piece.body else ctx.ledger.count_tokens(at, at + 1)


RULE = Rule(
    "clear_old_results",
    "Once the request is too large, replace the results of old tool uses by a placeholder.",
    edits,
    Params,
    "remembers",
    "Anthropic Messages API, context management edit clear_tool_uses_20250919",
    state=int,
)
