"""Memory of replays, one after another: `python tests/bench/bench_memory.py [requests ...]`; exit 1 above a limit.

25 policies, the slow ones among them, on Claude Code sessions of 2,000 and 6,000 requests whose server drops old thinking. Each
is replayed in a loop that holds the newest trace alone and leaves the garbage collector alone. Of each session a process of its
own: resident memory with the record, at its highest, and after the loop.
"""

from __future__ import annotations

import sys
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from tempfile import TemporaryDirectory
from time import process_time

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import turnscope
from bench_compare import POLICIES
from make_claude_code import VARIETIES, write

SLOW = (
    "librechat-agents",
    "librechat-agents-summary",
    "one-line-calls",
    "swe-agent-last-5",
    "openhands-legacy-mask",
    "condense-oldest",
    "balanced",
    "claude-code",
    "claude-code-microcompact",
    "codex",
    "goose",
    "letta",
    "roo",
    "litellm-trim",
    "chatbot-ui",
)
MOST = 600  # MB, at any time
SIZES = {2_000: (24, 21), 6_000: (72, 63)}  # megabytes and compactions by number of requests


def resident() -> float:
    """MB of memory of this process."""
    return next(int(line.split()[1]) / 1_000 for line in Path("/proc/self/status").open() if line.startswith("VmRSS"))


def replay_all(path: Path) -> tuple[float, float, float, float]:
    """MB with the record, at the peak, and after the loop; CPU seconds of the loop."""
    session = turnscope.load(path)
    turnscope.replay(session)
    before, began = resident(), process_time()
    for policy in (*POLICIES, *SLOW):
        trace = turnscope.replay(session, policy)
        print(f"    {policy:28} {resident():6.0f} MB for {len(trace.plans):,} plans", flush=True)
    del trace
    return before, getrusage(RUSAGE_SELF).ru_maxrss / 1_000, resident(), process_time() - began


def main(sizes: list[int]) -> int:
    bad = False
    for requests in sizes:
        megabytes, compactions = SIZES[requests]
        with TemporaryDirectory() as folder, get_context("spawn").Pool(1) as apart:
            path = Path(folder) / "session.jsonl"
            write(path, megabytes, requests, compactions, variety=VARIETIES["sonnet-4-5"])
            before, peak, after, took = apart.apply(replay_all, (path,))
        print(
            f"{requests:,} requests, {len(POLICIES) + len(SLOW)} policies in {took:.0f} s: {before:.0f} MB with the record, "
            f"{peak:.0f} MB at the peak (limit {MOST}), {after:.0f} MB after",
            flush=True,
        )
        bad |= peak > MOST
    return int(bad)


if __name__ == "__main__":
    sys.exit(main([int(size) for size in sys.argv[1:]] or [*SIZES]))
