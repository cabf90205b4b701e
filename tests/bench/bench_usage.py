"""`turnscope usage` against ccusage: `python tests/bench/bench_usage.py [--megabytes 1000] [--files 2000] [--folder PATH]`.

Over generated sessions of Claude Code, as `bench_scale` writes them, or over what tools keep below PATH, a home. The first run
reads everything into the index; the second one finds that nothing has changed. ccusage, of the npm registry, reads everything
each time. Wall and CPU seconds of the whole command (the median of five but for the first) and its memory, then the tokens of
each tool by both, and how they differ.

Exit 1 if the second run takes over 0.2 s of CPU time, or if tokens of input or cache of Claude Code are not those of ccusage.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "bench")]

from bench_scale import make  # noqa: E402

LIMIT = 0.2  # CPU seconds
CCUSAGE = "20.0.24"  # from 20 on a native program, in a package of its own for each platform: 20.0.26 lacks that for Linux
NAMES = ("input_tokens", "cache_creation_tokens", "cache_read_tokens", "output_tokens")
KEYS = ("inputTokens", "cacheCreationTokens", "cacheReadTokens", "outputTokens")
TOOLS = {  # ccusage's commands, and the tools' names here
    "claude": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "qwen": "Qwen Code",
    "opencode": "opencode",
    "pi": "pi",
}


class Run(NamedTuple):
    """Wall and CPU seconds of a command, its largest memory in MB, and what it printed."""

    wall: float
    cpu: float
    memory: float
    out: str


def run(command: Sequence[str], home: Path) -> Run:
    """Run a command in a home. SystemExit: it printed nothing."""
    env = os.environ | {"HOME": str(home), "TURNSCOPE_DATA": str(home / "data"), "CLAUDE_CONFIG_DIR": str(home / ".claude")}
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "PYTHONDONTWRITEBYTECODE"):
        env.pop(name, None)
    env["PYTHONPYCACHEPREFIX"] = str(home / "compiled")  # an installed package is compiled
    began = time.perf_counter()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, env=env, stdout=out, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - began
        texts = []
        for file in (out, said):
            file.seek(0)
            texts.append(file.read().decode())
    if process.returncode or not texts[0].strip():
        sys.exit(f"{' '.join(command)} gave {process.returncode} and said: {texts[1].strip() or 'nothing'}")
    return Run(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1_000, texts[0])


def measure(name: str, command: Sequence[str], home: Path, times: int = 5) -> Run:
    """Print the medians of a command, and give them."""
    made = [run(command, home) for _ in range(times)]
    wall, cpu, memory = (statistics.median(values) for values in list(zip(*made, strict=True))[:3])
    print(f"  {name:<28}{wall:>9.2f} s{cpu:>9.2f} s of CPU time{memory:>8.0f} MB", flush=True)
    return Run(wall, cpu, memory, made[0].out)


def install(peers: Path) -> list[str] | None:
    """The command of ccusage; None where npm is not installed."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if not (npm and node):
        return None
    folder = peers / f"ccusage-{CCUSAGE}"
    program = folder / "node_modules/.bin/ccusage"
    if not program.exists():
        command = [npm, "install", "--silent", "--prefix", str(folder), f"ccusage@{CCUSAGE}"]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return [node, str(program)]


def compare(rows: Sequence[Mapping[str, Any]], peer: Sequence[str], home: Path) -> bool:
    """Print the tokens of each tool by both. Gives whether input and cache of Claude Code are equal."""
    same = True
    for command, title in TOOLS.items():
        mine = [row for row in rows if row["tool"].startswith(title)]
        if not mine:
            continue
        written = [row["cache_write_5m_tokens"] + row["cache_write_1h_tokens"] for row in mine]
        sums = {name: sum(row.get(name, 0) for row in mine) for name in NAMES} | {"cache_creation_tokens": sum(written)}
        theirs = json.loads(run([*peer, command, "session", "--json", "--offline"], home).out)["totals"]
        usd = sum(row["usd"] or 0 for row in mine), theirs.get("totalCost", theirs.get("costUSD", 0))
        print(f"  {title}: ${usd[0]:,.4f}, ccusage ${usd[1]:,.4f}")
        for name, key in zip(NAMES, KEYS, strict=True):
            print(f"    {name:<24}{sums[name]:>16,}{theirs[key]:>16,}{sums[name] - theirs[key]:>+16,}")
            same &= command != "claude" or name == "output_tokens" or sums[name] == theirs[key]
    return same


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
        ours = [sys.executable, "-m", "turnscope", "usage", "tools", "--json", "--timezone", "UTC"]
        measure("turnscope, the first time", ours, home, 1)
        second = measure("turnscope, from then on", ours, home)
        peer = install(Path(tempfile.gettempdir()) / "turnscope-peers")
        if peer is None:
            print("  ccusage is left out: npm is not installed")
            return int(second.cpu > LIMIT)
        measure(f"ccusage {CCUSAGE}", [*peer, "session", "--json", "--offline"], home, 3)
        same = compare(json.loads(second.out)["rows"], peer, home)
        return int(second.cpu > LIMIT or not same)


if __name__ == "__main__":
    sys.exit(main())
