"""Claude Code's microcompaction: near the trigger, the oldest tool results are cleared until the rest is small enough."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, NamedTuple

from turnscope.envelope import recorded_compactions
from turnscope.envelope.clearing import clear_results
from turnscope.envelope.conversation import memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.claude_code import limits as port
from turnscope.session.index import Index, count_before
from turnscope.session.model import Session


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    keep: Annotated[int, "newest results that stay"] = port.KEEP
    target: Annotated[int, "tokens of results that may stay"] = port.TARGET
    least: Annotated[int, "clear nothing unless it saves at least this many tokens"] = port.LEAST
    below: Annotated[int, "tokens below the trigger from which on results are cleared (-1 = always)"] = port.WARNING
    buffer: Annotated[int, "tokens below the budget at which the conversation is compacted"] = port.BUFFER
    tools: Annotated[tuple[str, ...], "tools whose results are cleared"] = port.TOOLS


class _Results(NamedTuple):
    at: tuple[int, ...]
    sizes: tuple[int, ...]
    sums: tuple[int, ...]  # estimated tokens of all results before each


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request.

    State: the address up to which results are cleared, by this rule or by a compaction.
    """
    done: int = ctx.state or 0
    seen = _get_results(ctx) if params.tools == port.TOOLS else _find_results(ctx.session, ctx.index, params.tools)
    there = count_before(seen.at, ctx.request.cut)
    first = count_before(seen.at, done)
    while first < there and envelope.find_piece(seen.at[first]).body is not None:  # it is summarised or cleared already
        first += 1
    tokens = seen.sums[there] - seen.sums[first]
    done = seen.at[first - 1] + 1 if first else done
    mark = port.compute_trigger(ctx.budget.limit, params.buffer) - params.below
    if tokens < max(params.target, params.least) or (params.below >= 0 and _count_previous(ctx) < mark):
        return done
    number = port.count_oldest_over(seen.sizes[first:there], params.keep, params.target, params.least)
    gone = seen.sums[first + number] - seen.sums[first]
    because = f"results have {tokens:,} tokens, {params.target:,} may stay: the oldest {number} are cleared"
    chosen = seen.at[first : first + number]
    yield from clear_results(envelope, ctx, chosen, port.CLEARED, because, {"tokens": tokens, "cleared": gone})
    return seen.at[first + number - 1] + 1 if number else done


def _count_previous(ctx: Ctx) -> int:
    """Return the tokens of the previous request, counted as the compaction of the same policy counts them."""
    last = ctx.previous.get_state("compact_into_summary") if ctx.previous else None
    return recorded_compactions.count_previous_usage(ctx, -1 if last is None else last, 0)


def _find_results(session: Session, index: Index, tools: tuple[str, ...]) -> _Results:
    at = tuple(at for at in index.results if session.blocks[at].name in tools)
    sizes = tuple(port.estimate(len(session.blocks[a].text)) for a in at)
    return _Results(at, sizes, tuple(accumulate(sizes, initial=0)))


@memoize
def _get_results(session: Session, index: Index) -> _Results:
    return _find_results(session, index, port.TOOLS)


RULE = Rule(
    "clear_results_over_target",
    "Near the trigger of compaction, clear the oldest results until 40,000 tokens of results are left, if that saves 20,000.",
    edits,
    Params,
    source="Claude Code 2.1.12 to 2.1.17: public write-up, and a log that shows one",
    state=int,
)
