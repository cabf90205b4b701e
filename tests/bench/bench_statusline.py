"""How long `turnscope statusline` takes as a whole process, beside an empty Python.

    python tests/bench/bench_statusline.py [RUNS]

Prints wall and processor time over so many runs (default: 50), for a session whose record is current, for one whose transcript
has grown (which starts a refresh in the background), and for `python -c pass`.
"""

from __future__ import annotations

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

from turnscope import statusline

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from claude_log import Log

ID = "bench"
TURNS = 300


def measure(command: Sequence[str], given: bytes, runs: int) -> tuple[list[float], list[float]]:
    """Run a command so many times; gives milliseconds by the clock and of the processor, each sorted."""
    walls, times = [], []
    for _ in range(runs):
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, input=given, stdout=subprocess.DEVNULL, check=True)
        walls.append(1_000 * (time.perf_counter() - begun))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(1_000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return sorted(walls), sorted(times)


def main(runs: int = 50) -> None:
    """Measure and print."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled
    with tempfile.TemporaryDirectory() as name:
        os.environ |= {"HOME": name, "PYTHONPYCACHEPREFIX": f"{name}/compiled"}
        log = Log(session=ID)
        for n in range(TURNS):
            log.user("a question " * 20)
            log.answer(f"m{n}", "an answer " * 50, usage=(10, 400, 400 * n, 150))
        transcript = log.save(Path(name) / f"{ID}.jsonl")
        usage = {
            "input_tokens": 10,
            "cache_creation_input_tokens": 400,
            "cache_read_input_tokens": 119_600,
            "output_tokens": 150,
        }
        window = {"context_window_size": 200_000, "current_usage": usage}
        given = json.dumps({"session_id": ID, "transcript_path": str(transcript), "context_window": window}).encode()
        line = [sys.executable, "-m", "turnscope", "statusline", "--data", name]
        subprocess.run([*line, "--refresh", str(transcript), "--session", ID], check=True)
        print(f"a transcript of {transcript.stat().st_size / 1e6:.1f} MB, {runs} runs, milliseconds")
        measure(line, given, 1)  # compiles
        rows = [("python -c pass", [sys.executable, "-c", "pass"]), ("record is current", line)]
        for title, command in rows:
            report(title, *measure(command, given, runs))
        with transcript.open("a") as file:
            file.write("\n")
        statusline.lock_refresh(name, ID)  # as while a refresh is under way
        report("transcript has grown", *measure(line, given, runs))


def report(title: str, walls: list[float], times: list[float]) -> None:
    """Print a row."""
    most = walls[int(len(walls) * 0.95)]
    wall, used = statistics.median(walls), statistics.median(times)
    print(f"{title:<22} wall: median {wall:5.1f}, 95 % {most:5.1f}   processor: median {used:5.1f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
