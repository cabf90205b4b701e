"""`turnscope usage` against ccusage: `python tests/bench/bench_usage.py [--megabytes 1000] [--files 2000] [--folder PATH]`.

Over generated sessions of Claude Code, as `bench_scale` writes them, or over the projects below PATH (a home, with
`.claude/projects`). The first run reads everything into the index; the second one finds that nothing has changed. ccusage, of
the npm registry, reads everything each time. Wall and CPU seconds of the whole command, the median of five but for the first.

Exit 1 if the second run takes over 0.2 s of CPU time, or if tokens of input or cache are not those of ccusage.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "bench")]

from bench_open import ccusage  # noqa: E402
from bench_scale import make  # noqa: E402

LIMIT = 0.2  # CPU seconds
NAMES = ("input_tokens", "cache_creation_tokens", "cache_read_tokens", "output_tokens")


def run(command: Sequence[str], home: Path) -> tuple[float, float, str]:
    """Wall and CPU seconds of a command, and what it printed."""
    env = os.environ | {"HOME": str(home), "TURNSCOPE_DATA": str(home / "data"), "CLAUDE_CONFIG_DIR": str(home / ".claude")}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, cpu, done.stdout


def measure(name: str, command: Sequence[str], home: Path, times: int = 5) -> tuple[float, str]:
    """Print the medians of a command; gives the CPU seconds and what it printed."""
    made = [run(command, home) for _ in range(times)]
    wall, cpu = (statistics.median(values) for values in list(zip(*made, strict=True))[:2])
    print(f"  {name:<28}{wall:>9.2f} s{cpu:>9.2f} s of CPU time")
    return cpu, made[0][2]


def main() -> int:
    parser = argparse.ArgumentParser(description="turnscope usage against ccusage")
    parser.add_argument("--megabytes", type=float, default=1_000)
    parser.add_argument("--files", type=int, default=2_000)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        home = given.folder or Path(work)
        projects = home / ".claude" / "projects"
        if not projects.exists():
            projects.mkdir(parents=True)
            make(projects, given.megabytes, given.files)
        ours = [sys.executable, "-m", "turnscope", "usage", "daily", "--json", "--timezone", "UTC"]
        measure("turnscope, the first time", ours, home, 1)
        second, out = measure("turnscope, from then on", ours, home)
        total = json.loads(out)["total"]
        found = total | {"cache_creation_tokens": total["cache_write_5m_tokens"] + total["cache_write_1h_tokens"]}
        print(f"  turnscope: {', '.join(f'{found[name]:,} {name}' for name in NAMES)}, ${total['usd']:,.2f}")
        peer = ccusage(Path(tempfile.gettempdir()) / "turnscope-peers")
        if peer is None:
            print("  ccusage is left out: npm is not installed")
            return int(second > LIMIT)
        _, out = measure("ccusage", [*peer.command], home, 1)
        totals = json.loads(out)["totals"]
        others = [totals[name] for name in ("inputTokens", "cacheCreationTokens", "cacheReadTokens", "outputTokens")]
        named = ", ".join(f"{n:,} {name}" for n, name in zip(others, NAMES, strict=True))
        print(f"  ccusage:   {named}, ${totals['totalCost']:,.2f}")
        same = [found[name] for name in NAMES][:3] == others[:3]
        return int(second > LIMIT or not same)


if __name__ == "__main__":
    sys.exit(main())
