"""Comparing ten policies on long sessions: `python tests/bench/bench_compare.py [requests ...]`; exit 1 above a limit.

Claude Code sessions of 2,000 and 6,000 requests with a compaction in each hundredth, of a model that keeps old thinking and of
one whose server drops it, opened and followed as they were sent. CPU seconds until the first row, of the first comparison (of
the busier of its two processes), of the same again, and of what was lost alone (a part of the first); beside them the seconds
that passed, which mean little where something else works on the machine. Then cache, rejections and losses of each policy.
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
from make_claude_code import VARIETIES, write
from turnscope.library import comparing
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
KEEPS, DROPS = "opus-4-5", "sonnet-4-5"  # old thinking
CASES = ((2_000, KEEPS), (2_000, DROPS), (6_000, DROPS))
ALL = {2_000: 5.0, 6_000: 15.0}  # CPU seconds of all rows
ROW, AGAIN, LOSSES = 1.0, 0.5, 20.0  # of the first row of 2,000 requests, of all rows again, of what was lost


def _children() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(requests: int, variety: str) -> bool:
    """Print what a comparison takes, and whether it is within its limits."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "big.jsonl"
        write(file, requests * 12 / 1_000, requests, requests * 21 // 2_000, variety=VARIETIES[variety])
        session = turnscope.load(file)
    began = process_time()
    turnscope.replay(session)
    opening = process_time() - began
    gc.collect()
    gc.freeze()
    began = process_time()
    turnscope.compare(session, POLICIES[:1])
    row = process_time() - began
    comparing._memory = None
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
    print(f"{requests:,} requests, {variety}, {len(POLICIES)} policies; counted and replayed as it was sent in {opening:.2f} s")
    print(f"first: {mine:.2f} s here and {theirs:.2f} s beside it, {waited:.2f} s passed")
    print(
        f"first row {row:.2f} s (limit {ROW * requests / 2_000}), all {first:.2f} s (limit {ALL[requests]}), "
        f"again {again:.3f} s (limit {AGAIN}), losses {lost:.2f} s (limit {LOSSES})",
    )
    for line, part in zip(made.rows, parts, strict=True):
        print(f"    {line.policy}: lost {part[0]:.2f} s, cache {part[1]:.2f} s, rejections {part[2]:.2f} s; {line.cells[2:]}")
    return row <= ROW * requests / 2_000 and first <= ALL[requests] and again <= AGAIN and lost <= LOSSES


def main(chosen: list[int]) -> int:
    small = turnscope.load(Path(__file__).resolve().parents[2] / "sample_sessions" / "cache-goes-cold.jsonl")
    turnscope.compare(small, POLICIES[:2])  # what is loaded on first use
    good = [measure(requests, variety) for requests, variety in CASES if not chosen or requests in chosen]
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main([int(size) for size in sys.argv[1:]]))
