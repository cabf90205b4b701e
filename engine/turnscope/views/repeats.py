"""Duplicate reads: requests that carried more than one copy of the same reading, and how many tokens that was.

Searches tool calls and their results. Only calls with the same input are the same reading, so parts of a file are no duplicates
of one another.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from turnscope.counting.reconciliation import Floats
from turnscope.envelope.plan import Plan
from turnscope.planning.trace import Trace
from turnscope.session.model import Block

MIN_RESULT = 200  # tokens; shorter results are not worth following
WRITES = frozenset("content contents new_string old_string new_str old_str file_text edits insert_text patch diff".split())
PATHS = ("file_path", "path", "notebook_path", "filePath", "absolute_path", "target_file")


@dataclass(frozen=True, slots=True)
class Repeat:
    """Requests `start` to `stop` (both included) that carried copies of one reading. All copies but the newest are waste.

    Attributes:
        path: the file.
        peak_request: the first of these requests that carried most of it.
        reads, tokens: copies at that request, and their tokens.
        weight: what the older copies came to, in the unit of `paid`.
    """

    path: str
    start: int
    stop: int
    peak_request: int
    reads: int
    tokens: int
    weight: float


class _Copy(NamedTuple):
    tokens: int
    came: int  # first request that carried it
    left: int  # first request after that which did not carry it


def find_repeats(trace: Trace, scales: Floats, paid: Floats) -> Iterator[Repeat]:
    """Find every run of requests that carried a reading more than once.

    Args:
        trace: the session as recorded.
        scales: provider tokens per counted token, `[n]`.
        paid: what one token of a tool result came to in all requests before `n`, `[n]`.
    """
    plans, ledger = trace.plans, trace.ledger
    cuts = [plan.request.cut for plan in plans]
    changed = [plan.request.n for plan in plans if any(d.splice for d in (*plan.decisions, *plan.server))]
    for path, places in group_reads(trace):
        copies = []
        for at in places:
            came = bisect_right(cuts, at)
            if came < len(plans):
                size = round(ledger.count_tokens(at, at + 1) * float(scales[came]))
                copies.append(_Copy(size, came, _find_departure(plans, changed, at, came)))
        yield from _join_copies(path, copies, paid)


def group_reads(trace: Trace) -> Iterator[tuple[str, list[int]]]:
    """Path and results (addresses) of each call that was made more than once."""
    session, ledger = trace.session, trace.ledger
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for block in session.blocks:
        if block.kind == "tool_result" and block.pair >= 0 and ledger.count_tokens(block.at, block.at + 1) >= MIN_RESULT:
            groups[_build_key(session.blocks[block.pair])].append(block.at)
    groups.pop((), None)
    return ((key[0], places) for key, places in groups.items() if len(places) > 1)


def _build_key(call: Block) -> tuple[str, ...]:
    """What makes two reading calls the same: path first, then tool and input. Empty for calls that read no file."""
    arguments = call.raw.get("input") if isinstance(call.raw, dict) else None
    if not isinstance(arguments, dict) or not WRITES.isdisjoint(arguments):
        return ()
    path = next((arguments[key] for key in PATHS if isinstance(arguments.get(key), str) and arguments[key]), "")
    if "." not in path.replace("\\", "/").rpartition("/")[2]:  # a folder is listed or searched, not read
        return ()
    return (path, call.name, *(f"{key}={arguments[key]}" for key in sorted(arguments, key=str)))


def _find_departure(plans: Sequence[Plan], changed: Sequence[int], at: int, came: int) -> int:
    """The first request from `came` on that no longer carries a block; past the end where all carry it. What left does not
    return.
    """
    if plans[-1].seen.find_piece(at).body is None:
        return len(plans)
    low, high = bisect_left(changed, came), len(changed)
    while low < high:
        middle = (low + high) // 2
        if plans[changed[middle]].seen.find_piece(at).body is None:
            low = middle + 1
        else:
            high = middle
    return changed[low] if low < len(changed) else len(plans)


def _join_copies(path: str, copies: Sequence[_Copy], paid: Floats) -> Iterator[Repeat]:
    """Join overlapping lives of older copies. A copy is old once the next one arrives."""
    group: list[_Copy] = []
    stop = start = 0
    weight = 0.0
    for old, new in pairwise(copies):
        if old.left <= new.came:
            continue
        if group and new.came >= stop:
            yield _build_repeat(path, start, stop=stop, group=group, weight=weight)
            group, weight, stop = [], 0.0, 0
        if not group:
            group, start = [old], new.came
        group.append(new)
        stop = max(stop, old.left)
        weight += old.tokens * float(paid[old.left] - paid[new.came])
    if group:
        yield _build_repeat(path, start, stop=stop, group=group, weight=weight)


def _build_repeat(path: str, start: int, stop: int, group: Sequence[_Copy], weight: float) -> Repeat:
    peak = present = most = reads = copies = 0
    events = [(copy.came, copy.tokens) for copy in group] + [(copy.left, -copy.tokens) for copy in group]
    for request, tokens in sorted(events):  # at one request, removals come before additions
        present, copies = present + tokens, copies + (1 if tokens > 0 else -1)
        if present > peak:
            peak, most, reads = present, request, copies
    return Repeat(path=path, start=start, stop=stop - 1, peak_request=most, reads=reads, tokens=peak, weight=weight)
