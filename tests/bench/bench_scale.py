"""A library of many sessions: `python tests/bench/bench_scale.py [--megabytes 1000] [--files 2000] [--folder PATH]`.

Writes so many sessions of Claude Code, no two alike, most small and some long, as `make_claude_code` does: into a folder of its
own, which goes again, or into one that stays and that the next run uses as it is: writing 100 MB takes 6.6 s of CPU time.
Indexes them with two processes, stops after a third, and goes on with a new job. Then lists, sorts and sums what is known, and
searches: CPU time of this process, which does all of that alone. Exit 1 above a limit. The speed of the index is as a person
waits, and also told per CPU second of all processes, as if that were spread over two processors evenly: it is what counts where
more runs on a machine than it has processors. Memory is the sum of the two processes that read.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "bench")]

from bench_library import QUERIES, cpu  # noqa: E402
from make_claude_code import VARIETIES, write  # noqa: E402
from turnscope.library import IndexJob, find_sources, index_queries  # noqa: E402
from turnscope.storage import library_index as kept  # noqa: E402
from turnscope.storage.database import measure_files  # noqa: E402

GOAL = 40.0  # MB/s of two processors
MEMORY = 400.0  # MB of the two processes
LISTED, SEARCH = 0.1, 0.05  # seconds
SHARE = 0.1  # of the source that the index takes
REQUESTS = 54  # per megabyte
KINDS = [*VARIETIES.values()]


def make(folder: Path, megabytes: float, files: int) -> None:
    """Write the sessions. Sizes are log-normal, so that a tenth of them holds half of the bytes."""
    rng = Random(11)
    sizes = [rng.lognormvariate(0, 1.2) for _ in range(files)]
    scale = megabytes / sum(sizes)
    for n, size in enumerate(sizes):
        path = folder / f"-home-project{n % 40}" / f"{n:06}.jsonl"
        path.parent.mkdir(exist_ok=True)
        goal = max(0.02, size * scale)
        requests = max(2, round(goal * REQUESTS))
        write(path, goal, requests, requests // 250, seed=n, variety=KINDS[n % len(KINDS)])
        past = time.time() - 3_600 * (1 + n)
        os.utime(path, (past, past))


def measure_memory(job: IndexJob) -> float:
    """Megabytes that the workers of a job take now."""
    total = 0
    for worker in [*job._workers]:
        status = Path("/proc", str(worker.pid), "statm")
        total += int(status.read_text().split()[1]) if worker.poll() is None and status.exists() else 0
    return total * os.sysconf("SC_PAGESIZE") / 1e6


def run(path: Path, folder: Path, until: float = 1.0) -> tuple[IndexJob, float]:
    """Run a job, until so much of the sources is done; gives the most memory that it took."""
    job, most = IndexJob(path, find_sources(folder), 2), 0.0
    while job.state == "running":
        most = max(most, measure_memory(job))
        if until < 1.0 and job.listed and job.done >= until * job.count:
            job.cancel()
        time.sleep(0.05)
    job.wait()
    assert job.state in ("done", "cancelled"), job.error
    assert not job.problems, job.problems[:3]
    return job, most


def measure_index(path: Path, folder: Path, megabytes: float) -> bool:
    """Index in two goes."""
    began, used = time.perf_counter(), cpu()
    first, one = run(path, folder, 1 / 3)
    assert first.state == "cancelled"
    stored = len(kept.read_stamps(path))
    second, two = run(path, folder)
    seconds, used = time.perf_counter() - began, cpu() - used
    assert second.fresh == second.count - stored, "what was read before is not read again"
    size, spread = measure_files(path) / 1e6, 2 * megabytes / used
    print(f"  stopped after {stored:,}, then {second.fresh:,} more: {seconds:.1f} s, {megabytes / seconds:.1f} MB/s")
    print(f"  CPU {used:.1f} s: {spread:.1f} MB/s of two processors that do nothing else; {max(one, two):.0f} MB of memory")
    print(f"  the index has {size:,.0f} MB, {size / megabytes:.1%} of the sources")
    return spread >= GOAL and max(one, two) <= MEMORY and size <= SHARE * megabytes


def time_call(call: Callable[[], object]) -> float:
    """CPU seconds of a call, the median of five."""
    times = []
    for _ in range(5):
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return statistics.median(times)


def measure_questions(path: Path) -> bool:
    """Time each question that the library's page asks."""
    rows, spent = index_queries.list_sessions(path), index_queries.list_spending(path)
    steps: dict[str, Callable[[], object]] = {
        "list": lambda: index_queries.list_sessions(path),
        "filter": lambda: [row for row in rows if "project7" in row.project and row.fill > 0.2],
        "sort": lambda: sorted(rows, key=lambda row: (-(row.pico or 0), row.title)),
        "averages": lambda: index_queries.compute_metrics(rows),
        "spending": lambda: index_queries.list_spending(path),
        "spending by day": lambda: index_queries.group_spending(spent, lambda row: row.day),
    }
    good = True
    for name, call in steps.items():
        seconds = time_call(call)
        good &= seconds <= LISTED
        print(f"  {name:<22} {1e3 * seconds:6.1f} ms")
    for query in QUERIES:
        seconds = time_call(lambda: index_queries.search(path, query))  # noqa: B023
        good &= seconds <= SEARCH
        print(f"  {query:<22} {1e3 * seconds:6.1f} ms, {index_queries.search(path, query)[0]:,} blocks")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=1_000)
    parser.add_argument("--files", type=int, default=2_000)
    parser.add_argument("--folder", type=Path, help="where the sessions stay, and are used again by the next run")
    parser.add_argument("--write-only", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="turnscope-scale-") as made:
        folder = given.folder or Path(made) / "logs"
        if not folder.exists():
            folder.mkdir(parents=True)
            make(folder, given.megabytes, given.files)
        sizes = [path.stat().st_size for path in folder.rglob("*.jsonl")]
        print(f"{sum(sizes) / 1e6:,.0f} MB in {len(sizes):,} sessions", flush=True)
        if given.write_only:
            return 0
        path = Path(made) / "library.db"
        good = measure_index(path, folder, sum(sizes) / 1e6)
        good &= measure_questions(path)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
