"""Which tool results of a request could go: those that were read again later, and those that no later answer refers to.

That an answer refers to a result is a match of identifiers, so "not used" is a hint and no proof.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from turnscope.planning.trace import Trace
from turnscope.views.detail import build_detail
from turnscope.views.losses import find_references
from turnscope.views.overview import CELLS, Overview
from turnscope.views.repeats import MIN_RESULT, group_reads


@dataclass(frozen=True, slots=True)
class RemovableResult:
    """A tool result that could go.

    Attributes:
        at: its address.
        tokens: the provider's, in the request.
        usd: what it cost in that request; None without a price.
        came: the first request that carried it.
        newer: address of the newest copy of the same reading; -1 = there is none.
        used: the last request whose answer refers to it; -1 = none.
    """

    at: int
    label: str
    tokens: int
    usd: float | None
    came: int
    newer: int
    used: int


def find_removable_results(trace: Trace, view: Overview, n: int) -> tuple[RemovableResult, ...]:
    """Find the tool results of a request that could go: older copies first, then what was not used since, the largest first.

    Results of the newest turn are left out, because the answer to come may need them.

    Args:
        trace: the session as recorded.
        view: its overview.
        n: number of the request.
    """
    requests = trace.session.requests
    newest = {at: places[-1] for _, places in group_reads(trace) for at in places[:-1]}
    used = _find_last_uses(trace)
    cell = CELLS.index("tool_results")
    price = float(view.usd[n, cell]) / max(1, int(view.cells[n, cell])) if view.totals[n] is not None else None
    first = next(request.cut for request, turn in zip(requests, view.turns, strict=True) if turn == view.turns[n])
    found = [
        RemovableResult(
            at=item.at,
            label=item.label,
            tokens=item.tokens,
            usd=None if price is None else price * item.tokens,
            came=trace.find_first_request(item.at),
            newer=newest.get(item.at, -1),
            used=used.get(item.at, -1),
        )
        for item in build_detail(trace, view, n).items
        if item.kind == "tool_result" and item.state == "verbatim" and item.tokens >= MIN_RESULT and item.at < first
    ]
    spare = [each for each in found if 0 <= each.newer < requests[n].cut or each.used < 0]
    return tuple(sorted(spare, key=lambda each: (each.newer < 0, -each.tokens)))


def _find_last_uses(trace: Trace) -> dict[int, int]:
    """The last request whose answer takes up an identifier that a block was the last one to hold, by the block's address."""
    references = find_references(trace.session)
    found: dict[int, int] = {}
    for request, words in zip(trace.session.requests, references.uses, strict=True):
        for word in words:
            places = references.places[word]
            if before := bisect_left(places, request.cut):
                found[places[before - 1]] = request.n
    return found
