"""Measures how much CPU and how long it takes to open a very big session, next to tools that only total it up.

Our side reads the file and computes the composition of every request, once as a process of its own, once in one that runs
already as the app does ("warm": what is imported is imported), there also in the app's own way: it looks the file up in its
database first, and writes it there afterwards, beside ("kept"); ccusage (npm) and agentplay (PyPI) read the same file
for its token and cost totals. Each command runs as a child process of its own, in turn, so that a busy machine slows all of
them alike; what counts is user + system time of the whole process, and how long one waits for it: what is counted beside the
reading takes no time of its own where a second core is free. Peers are installed into a temporary
folder (or a kept one, `--peers`), never into this environment, and run without network on a home folder that holds this one
session. Before measuring, each peer's totals are checked against what the generator wrote: a tool that misreads the file is
no yardstick.

    python tests/bench/bench_open.py [--runs 5] [--peers DIR] [--megabytes 111 --requests 6000 --compactions 130]

Exits 1 if a command fails, if totals differ, if ours needs more than LIMIT times the CPU of any peer, or longer than ccusage,
be it as a process of its own or in a warm one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from make_claude_code import Written, write

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLE = ROOT / "sample_sessions" / "cache-goes-cold.jsonl"
LIMIT = 2.0
WALL = 1.0  # times as long as ccusage
OURS = "import sys, turnscope; print(turnscope.overview(turnscope.load(sys.argv[1])))"
WARM = """
import sys, tempfile, time
from pathlib import Path
import turnscope
from turnscope.library.store import Store

def seconds(call):
    began = time.monotonic()
    call()
    return time.monotonic() - began

sample, session = map(Path, sys.argv[1:])
with tempfile.TemporaryDirectory() as folder:
    store = Store(Path(folder) / "sessions.db")
    store.open(sample)
    later = []
    print(seconds(lambda: turnscope.overview(turnscope.load(session))), end=" ")
    print(seconds(lambda: store.open(session, keeper=later.append)), seconds(lambda: later.pop()()))
"""
SESSION = "projects/-work-shop/6513270e-269e-4d37-a2a7-4de452e6b438.jsonl"


class Tool(NamedTuple):
    """A command to measure; `totals` reads (uncached input, cache writes, cache reads, output) from what it left or printed."""

    name: str
    command: list[str]
    totals: Callable[[str], tuple[int, ...]] | None


class Run(NamedTuple):
    """One measured child: CPU and wall seconds, peak resident memory in MB, and what it printed."""

    cpu: float
    wall: float
    memory: float
    code: int
    out: str


def run(command: list[str], env: Mapping[str, str], cwd: Path) -> Run:
    """Run a command to its end and read its resource usage, that of its own children included, from the kernel."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        child = subprocess.Popen(command, env=env, cwd=cwd, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - began
        out.seek(0)
        return Run(used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1024, child.returncode, out.read())


def environment(home: Path) -> dict[str, str]:
    """The environment of every child: an empty home with one session, nothing that reaches out."""
    quiet = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude"), "AGENTPLAY_HOME": str(home / ".agentplay")}
    quiet |= {
        "DO_NOT_TRACK": "1",
        "AGENTPLAY_NO_NETWORK": "1",
        "NO_COLOR": "1",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join((str(ROOT / "engine"), str(ROOT))),
    }
    return {"PATH": os.environ["PATH"]} | quiet


def ccusage(peers: Path) -> Tool | None:
    """ccusage 17, the last version that is plain JavaScript."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if not (npm and node):
        return None
    program = peers / "ccusage/node_modules/.bin/ccusage"
    if not program.exists():
        subprocess.run(
            [npm, "install", "--silent", "--prefix", peers / "ccusage", "ccusage@17"], check=True, stdin=subprocess.DEVNULL
        )

    def totals(out: str) -> tuple[int, ...]:
        found = json.loads(out)["totals"]
        return tuple(found[name] for name in ("inputTokens", "cacheCreationTokens", "cacheReadTokens", "outputTokens"))

    return Tool("ccusage", [node, str(program), "session", "--offline", "--json"], totals)


def agentplay(peers: Path, env: Mapping[str, str]) -> Tool | None:
    """agentplay, in an environment of its own; `build` is the step that reads the session, `list` shows what it found."""
    program = peers / "agentplay/bin/agentplay"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", peers / "agentplay"], check=True)
        subprocess.run([peers / "agentplay/bin/pip", "install", "--quiet", "agentplay>=0.2.6,<0.3"], check=True)

    def totals(_: str) -> tuple[int, ...]:
        shown = subprocess.run([program, "list", "--json"], env=dict(env), check=True, capture_output=True, text=True)
        found: dict[str, Any] = json.loads(shown.stdout)[0]["facts"]["tokens"]
        return tuple(found[name] for name in ("in", "cw", "cr", "out"))

    return Tool("agentplay", [str(program), "build", "--rebuild", "--agents", "claude-code", "--json"], totals)


def report(tools: list[Tool], runs: Mapping[str, list[Run]], warmed: list[Run]) -> bool:
    """Print the table and say whether ours stays within the limits: of CPU against every peer, of time against ccusage."""
    cpu = {tool.name: median(one.cpu for one in runs[tool.name]) for tool in tools}
    ours = cpu["turnscope"]
    print(f"\n{'tool':<12}{'CPU s':>8}{'min':>8}{'max':>8}{'wall s':>8}{'peak MB':>9}{'ours / it':>11}")
    for tool in tools:
        mine = runs[tool.name]
        spread = (min(one.cpu for one in mine), max(one.cpu for one in mine), median(one.wall for one in mine))
        ratio = "" if tool.name == "turnscope" else f"{ours / cpu[tool.name]:.2f}"
        numbers = "".join(f"{value:>8.2f}" for value in (cpu[tool.name], *spread))
        print(f"{tool.name:<12}{numbers}{max(one.memory for one in mine):>9.0f}{ratio:>11}")
    worst = max((ours / value for name, value in cpu.items() if name != "turnscope"), default=0.0)
    print(f"\nCPU: limit {LIMIT:.1f}, worst ratio {worst:.2f}: {'within' if worst <= LIMIT else 'EXCEEDED'}")
    wall = {name: median(one.wall for one in made) for name, made in runs.items()}
    within = worst <= LIMIT
    warm, app, kept = (median(float(one.out.split()[i]) for one in warmed) for i in range(3))
    for name, seconds in (("a process of its own", wall["turnscope"]), ("a warm one", warm), ("the app's own way", app)):
        longer = seconds / wall["ccusage"] if "ccusage" in wall else 0.0
        verdict = "within" if longer <= WALL else "EXCEEDED"
        print(f"time in {name}: {seconds:.2f} s, limit {WALL:.1f}, {longer:.2f} of ccusage's: {verdict}")
        within &= longer <= WALL
    print(f"kept on disk in {kept:.2f} s, beside")
    return within


def measure(tools: list[Tool], warm: Tool, written: Written, runs: int, env: Mapping[str, str], cwd: Path) -> bool:
    """Run every tool `runs` times, interleaved, after one unmeasured round that warms file caches and checks totals."""
    truth = written[-4:]
    for tool in [*tools, warm]:
        first = run(tool.command, env, cwd)
        if first.code:
            print(f"{tool.name}: exit code {first.code}\n{first.out[-2000:]}", file=sys.stderr)
            return False
        found = tool.totals(first.out) if tool.totals else truth
        if found != truth:
            print(f"{tool.name} counts {found}, the file holds {truth}", file=sys.stderr)
            return False
        print(f"{tool.name}: {'totals equal the generator' if tool.totals else first.out.strip()[:300]}")
    results: dict[str, list[Run]] = {tool.name: [] for tool in [*tools, warm]}
    for _ in range(runs):
        for tool in [*tools, warm]:
            results[tool.name].append(run(tool.command, env, cwd))
    warmed = results.pop(warm.name)
    return report(tools, results, warmed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peers", type=Path, help="folder that keeps the installed peers for the next time")
    parser.add_argument("--megabytes", type=float, default=111)
    parser.add_argument("--requests", type=int, default=6000)
    parser.add_argument("--compactions", type=int, default=130)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="turnscope-bench-") as folder:
        home, peers = Path(folder) / "home", (given.peers or Path(folder) / "peers").resolve()
        session = home / ".claude" / SESSION
        session.parent.mkdir(parents=True)
        peers.mkdir(parents=True, exist_ok=True)
        written = write(session, given.megabytes, given.requests, given.compactions)
        print(f"{written.size / 1e6:.0f} MB, {written.requests:,} requests, {written.compactions} compactions")
        env = environment(home)
        ours = Tool("turnscope", [sys.executable, "-c", OURS, str(session)], None)
        warm = Tool("turnscope, warm", [sys.executable, "-c", WARM, str(SAMPLE), str(session)], None)
        others = [tool for tool in (ccusage(peers), agentplay(peers, env)) if tool]
        return 0 if measure([*others, ours], warm, written, given.runs, env, home) else 1


if __name__ == "__main__":
    sys.exit(main())
