"""Opening a big session: `python tests/bench/bench_load.py [--megabytes 111]`; exit 1 above a limit. CPU time, median of 5.

Parse and build without counting (MB per CPU second), counting and laying out, second open against first, and the memory of
`engine.load` in a fresh process.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import process_time

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "bench")]

from make_claude_code import write  # noqa: E402

import engine  # noqa: E402
from engine.library.store import Store  # noqa: E402

ROUNDS = 5
SPEED = 60  # MB per CPU second, parse and build
AGAIN = 10  # times faster the second time
BASE, PER_BYTE = 250_000_000, 2.5  # bytes of memory
MEASURE = "import sys, resource, engine; engine.load(sys.argv[1]); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"


def timed(run: object) -> float:
    """CPU seconds of one call."""
    start = process_time()
    run()  # type: ignore[operator]
    return process_time() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=111)
    wanted = parser.parse_args().megabytes
    with tempfile.TemporaryDirectory() as folder:
        file, store = Path(folder, "big.jsonl"), Store(Path(folder, "data", "turnscope.db"))
        write(file, megabytes=wanted)
        size = file.stat().st_size
        # before this process grows: a child's peak begins at its parent's
        told = subprocess.run([sys.executable, "-c", MEASURE, str(file)], cwd=ROOT, capture_output=True, text=True, check=True)
        loads, firsts, seconds = [], [], []
        for _ in range(ROUNDS):
            loads.append(timed(lambda: engine.load(file)))
            store.delete()
            firsts.append(timed(lambda: store.open(file)))
            seconds.append(timed(lambda: store.open(file)))
    speed = size / 1e6 / median(loads)
    again = median(first / second for first, second in zip(firsts, seconds, strict=True))
    memory, allowed = int(told.stdout) * 1024, BASE + PER_BYTE * size
    print(f"parse and build: {speed:.0f} MB/s of CPU time (at least {SPEED})")
    print(f"first open with its composition: {median(firsts):.2f} s, second: {median(seconds):.2f} s")
    print(f"second open {again:.1f}x faster (at least {AGAIN})")
    print(f"memory of engine.load: {memory / 1e6:.0f} MB for {size / 1e6:.0f} MB (at most {allowed / 1e6:.0f})")
    return int(speed < SPEED or again < AGAIN or memory > allowed)


if __name__ == "__main__":
    sys.exit(main())
