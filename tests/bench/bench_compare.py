"""Comparing ten policies over 2,000 requests: `python tests/bench/bench_compare.py`; exit 1 above a limit.

CPU seconds of the first comparison of a session that was opened (of the busier of its two processes, and of both), of the same
again, and of what was lost alone (a part of the first), on a Claude Code session of 20 MB with 21 compactions. Then how long
cache, rejections and losses of each policy take.
"""

from __future__ import annotations

import gc
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import turnscope
from make_claude_code import write
from turnscope.planning.prompt_cache import simulate_prompt_cache
from turnscope.views.losses import find_losses, find_references
from turnscope.views.rejections import find_rejections

POLICIES = (
    "as-recorded",
    "keep-everything",
    "last-20-messages",
    "last-5-pairs",
    "clear-tool-results",
    "half-in-pairs",
    "strip-thinking",
    "cline-classic",
    "reactive-75",
    "newest-within-budget",
)
FIRST, AGAIN, LOSSES = 5.0, 0.5, 20.0  # CPU seconds


def _children() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "big.jsonl"
        write(file, 20, 2_000, 21)
        session = turnscope.load(file)
    turnscope.compare(
        turnscope.load(Path(__file__).resolve().parents[2] / "sample_sessions" / "cache-goes-cold.jsonl"), POLICIES[:2]
    )
    began = process_time()
    turnscope.replay(session)
    opening = process_time() - began
    gc.collect()
    gc.freeze()
    began, helped, then = process_time(), _children(), perf_counter()
    made = turnscope.compare(session, POLICIES)
    mine, theirs, waited = process_time() - began, _children() - helped, perf_counter() - then
    first = max(mine, theirs)
    began = process_time()
    turnscope.compare(session, POLICIES)
    again = process_time() - began
    began = process_time()
    shared = find_references(session)
    reading = process_time() - began
    parts = []
    for trace in made.traces:
        marks = [process_time()]
        for part in (partial(find_losses, used=shared), simulate_prompt_cache, find_rejections):
            part(trace)
            marks.append(process_time())
        parts.append([now - then for then, now in pairwise(marks)])
    lost = reading + sum(part[0] for part in parts)
    print(
        f"{len(session.requests):,} requests, {len(POLICIES)} policies; counted and replayed as it was sent in {opening:.2f} s"
    )
    print(f"first: {mine:.2f} s here and {theirs:.2f} s beside it, {waited:.2f} s waited")
    print(f"first {first:.2f} s (limit {FIRST}), again {again:.3f} s (limit {AGAIN}), losses {lost:.2f} s (limit {LOSSES})")
    for row, part in zip(made.rows, parts, strict=True):
        print(f"    {row.policy}: lost {part[0]:.2f} s, cache {part[1]:.2f} s, rejections {part[2]:.2f} s; {row.cells[2:]}")
    return int(first > FIRST or again > AGAIN or lost > LOSSES)


if __name__ == "__main__":
    sys.exit(main())
