"""Opening a big session: `python tests/bench/bench_load.py [--megabytes 111]`; exit 1 above a limit. CPU time, median of 5.

Parse and build without counting (MB per CPU second); the first open against the second; the memory of `turnscope.load`. And the
app's own way, through Streamlit's test runner, each in a fresh process that has drawn a sample before: from choosing the file
to the drawn page when it is known, the same page once more, and the process's peak memory when it is opened for the first time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from time import process_time

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "bench")]

import turnscope  # noqa: E402
from make_claude_code import write  # noqa: E402
from turnscope.library.store import Store  # noqa: E402

ROUNDS = 5
SPEED = 60  # MB per CPU second, parse and build
AGAIN = 10  # times faster the second time
BASE, PER_BYTE = 120_000_000, 1.5  # bytes of memory
DRAWN = 0.4  # CPU seconds to a drawn page when the file is known
CLICK = 0.2
PEAK = 450_000_000  # bytes of the app's process, first open included
MEASURE = (
    "import sys, resource, turnscope; turnscope.load(sys.argv[1]); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
)
APP = """
import resource, threading, time
from streamlit.runtime.pages_manager import PagesManager
from streamlit.testing.v1 import AppTest

def start(self, *args, start=PagesManager.__init__, **more):  # the test runner turns the old pages/ router on
    start(self, *args, **more)
    PagesManager.uses_pages_directory = False

PagesManager.__init__ = start
app = AppTest.from_file("app.py", default_timeout=120)
app.query_params["session"] = "tool-results-eat-the-window"
app.run()
from pages.parts import cache
app.query_params["session"] = next(entry.id for entry in cache.list_entries().values() if entry.origin == "given")
began = time.process_time()
app.run()
took = time.process_time() - began
assert not app.exception and any("ts-headline" in element.proto.body for element in app.get("html"))
for thread in threading.enumerate():
    if thread.name == "keeping":
        thread.join()  # it is kept on disk once the page is drawn
again = []
for _ in range(3):
    began = time.process_time()
    app.run()
    again.append(time.process_time() - began)
print(sorted(again)[1], took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def time_call(run: object) -> float:
    """CPU seconds of one call."""
    start = process_time()
    run()  # type: ignore[operator]
    return process_time() - start


def measure_page(file: Path, data: Path) -> tuple[float, int, float]:
    """CPU seconds from choosing the file in the app to the drawn page, the process's peak memory in bytes, and CPU seconds of
    the next run of the page."""
    env = dict(
        os.environ,
        TURNSCOPE_DATA=str(data),
        TURNSCOPE_OPEN=str(file),
        CLAUDE_CONFIG_DIR=str(data),
        PYTHONPATH=os.pathsep.join((str(ROOT / "engine"), str(ROOT))),
    )
    done = subprocess.run([sys.executable, "-c", APP], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    again, seconds, peak = done.stdout.split()[-3:]
    return float(seconds), int(peak) * 1024, float(again)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=111)
    wanted = parser.parse_args().megabytes
    with tempfile.TemporaryDirectory() as folder:
        file, data = Path(folder, "big.jsonl"), Path(folder, "data")
        store = Store(data / "chats.db")
        write(file, megabytes=wanted)
        os.utime(file, (time.time() - 60,) * 2)  # as a file that nobody writes any more
        size = file.stat().st_size
        # before this process grows: a child's peak begins at its parent's
        told = subprocess.run([sys.executable, "-c", MEASURE, str(file)], cwd=ROOT, capture_output=True, text=True, check=True)
        at_first, peak, _ = measure_page(file, data)
        known = [measure_page(file, data) for _ in range(ROUNDS)]
        loads, firsts, seconds = [], [], []
        for _ in range(ROUNDS):
            loads.append(time_call(lambda: turnscope.load(file)))
            store.delete()
            firsts.append(time_call(lambda: store.open(file)))
            seconds.append(time_call(lambda: store.open(file)))
    speed = size / 1e6 / median(loads)
    again = median(first / second for first, second in zip(firsts, seconds, strict=True))
    memory, allowed = int(told.stdout) * 1024, BASE + PER_BYTE * size
    page, click = (median(each[i] for each in known) for i in (0, 2))
    print(f"parse and build: {speed:.0f} MB/s of CPU time (at least {SPEED})")
    print(f"first open with its composition: {median(firsts):.2f} s, second: {median(seconds):.3f} s")
    print(f"second open {again:.0f}x faster (at least {AGAIN})")
    print(f"memory of turnscope.load: {memory / 1e6:.0f} MB for {size / 1e6:.0f} MB (at most {allowed / 1e6:.0f})")
    print(f"in the app, to a drawn page: {at_first:.2f} s the first time, {page:.2f} s when it is known (at most {DRAWN})")
    print(f"the same page once more, as a click draws it: {click:.3f} s (at most {CLICK})")
    print(f"memory of the app: {peak / 1e6:.0f} MB (at most {PEAK / 1e6:.0f}), {known[0][1] / 1e6:.0f} MB when it is known")
    return int(speed < SPEED or again < AGAIN or memory > allowed or page > DRAWN or click > CLICK or peak > PEAK)


if __name__ == "__main__":
    sys.exit(main())
