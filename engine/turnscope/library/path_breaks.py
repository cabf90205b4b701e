"""Cache misses of a whole session: of its main path, its branches and its subagents. Each path follows its own cache.

A subagent begins with a prompt of its own, so its first request finds nothing cached and is no miss. A branch goes on from what
the path that it left had cached. A path is assembled only where its usage leaves room for a miss.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from turnscope.library.opening import count_branch, count_session, replay
from turnscope.planning.trace import Trace
from turnscope.session.model import Request
from turnscope.session.thread import Descendant, iter_descendants
from turnscope.views.cache_breaks import CacheBreak, find_breaks, may_break


class PathBreak(NamedTuple):
    """A cache miss and where it is. `part`: 0 = the main path, else the number of the branch or subagent; `name`: of that."""

    part: int
    name: str
    request: Request
    miss: CacheBreak


def find_path_breaks(trace: Trace) -> tuple[PathBreak, ...]:
    """Find every cache miss of a session, those of the main path first. A request that several paths hold counts once.

    Args:
        trace: the record of the session.
    """
    main = trace.session.requests
    found = [PathBreak(0, "", main[miss.request], miss) for miss in find_breaks(trace)]
    seen = {request.id for request in main if request.id}
    for part, below in enumerate(iter_descendants(trace.session), 1):
        mine = [request for request in below.own.requests if not request.id or request.id not in seen]
        seen.update(request.id for request in mine if request.id)
        if any(request.usage and request.usage.prompt_tokens for request in mine):
            found += _find_breaks_below(trace, part, below, {request.n: request for request in mine})
    return tuple(found)


def sum_missed(breaks: tuple[PathBreak, ...]) -> Decimal | None:
    """What cache misses cost beyond reading, in USD; None where none has a known price."""
    priced = [found.miss.usd for found in breaks if found.miss.usd is not None]
    return sum(priced, Decimal()) if priced else None


def _find_breaks_below(trace: Trace, part: int, below: Descendant, mine: dict[int, Request]) -> Iterator[PathBreak]:
    """The misses among requests that a branch or a subagent does not share with another path."""
    path = below.of.branches[below.fork] if below.fork >= 0 else below.own
    if not may_break(path.requests, min(mine)):
        return
    known = below.fork >= 0 and below.of is trace.session
    ledger = count_branch(below.of, below.fork, trace.ledger) if known else count_session(path, prices=trace.prices)
    for miss in find_breaks(replay(path, ledger=ledger, prices=trace.prices)):
        if miss.request in mine:
            yield PathBreak(part, below.name, mine[miss.request], miss)
