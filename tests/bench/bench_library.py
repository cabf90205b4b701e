"""The library: `python tests/bench/bench_library.py [--megabytes 250] [--open FOLDER]`; exit 1 above a limit.

Indexes so many megabytes of Claude Code sessions with one process and with two, then once more; searches them; and draws the
library page of 5,000 sessions. The sessions are copies of those in FOLDER (default: the open ones where they are at hand, else
the samples, which hold twice as many requests per megabyte), each with ids and words of its own. Then a ChatGPT export of 5,000
conversations is listed, alone and in its zip. Wall time, as a person waits, and CPU time of all processes: where more runs on a
machine than it has processors, the goals hold for the CPU time, as if it were spread over the processes evenly.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from turnscope.library import IndexJob, find_sources, index_queries  # noqa: E402
from turnscope.storage import library_index as kept  # noqa: E402
from turnscope.storage.database import measure_files  # noqa: E402

GOAL = 40.0  # MB/s with two processes
AGAIN = 20.0  # times that a second run is faster
SEARCH = 0.05  # seconds
PAGE = 0.5  # seconds of script time
LISTED, HEAP = 2.0, 300  # seconds and megabytes of listing an export
CONVERSATIONS = 5_000
LIST = """
import resource, sys, time, turnscope
began = time.process_time()
count = len(list(turnscope.entries(sys.argv[1])))
print(count, time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
OPEN = ROOT.parent / "shared" / "data" / "open" / "claude-code"
QUERIES = ("compact", "user name", "readFile", '"error message"', "the", "albatross", "tool result error", "parse")
UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
IDS = re.compile(rb"(msg|req|toolu)_[0-9A-Za-z]{6}")


def copies(sources: list[Path], folder: Path, size: int) -> int:
    """Copies of sessions under ids of their own, so that no request is another one's; gives their bytes."""
    made, n = 0, 0
    while made < size:
        for source in sources:
            tag = f"{n:06x}".encode()
            data = UUID.sub(lambda found: tag + found[0][6:], source.read_bytes())  # noqa: B023
            data = IDS.sub(lambda found: found[1] + b"_" + tag, data)  # noqa: B023
            data = data.replace(b" the ", b" the%s " % tag, 200)
            path = folder / f"-home-project{n % 12}" / f"{n:06}.jsonl"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
            past = time.time() - 3_600 * (1 + n)
            os.utime(path, (past, past))
            made, n = made + len(data), n + 1
            if made >= size:
                break
    return made


def cpu() -> float:
    """CPU seconds of this process and of those that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def run(path: Path, folder: Path, processes: int) -> tuple[float, float, IndexJob]:
    """Seconds and CPU seconds of one job."""
    began, used = time.perf_counter(), cpu()
    job = IndexJob(path, find_sources(folder), processes)
    job.wait()
    assert job.state == "done", job.error
    assert not job.problems, job.problems[:3]
    return time.perf_counter() - began, cpu() - used, job


def measure_index(folder: Path, megabytes: float) -> bool:
    """Index everything with one process and with two, and again."""
    good, times, work = True, {}, {}
    for processes in (1, 2):
        path = folder.parent / f"{processes}.db"
        seconds, used, job = run(path, folder, processes)
        times[processes], work[processes] = seconds, used / processes
        speeds = f"{seconds:5.1f} s, {megabytes / seconds:5.1f} MB/s; CPU {used:5.1f} s, {megabytes / used:5.1f} MB/s of it"
        print(f"  {processes} process(es): {speeds}")
        assert job.sessions == len(index_queries.list_sessions(path)) == job.count
    again, _, job = run(path, folder, 2)
    spread = f"{megabytes / work[2]:.1f} MB/s of two processors that do nothing else"
    assert job.fresh == 0
    size = measure_files(path) / 1e6
    print(f"  {spread}; again: {again:.2f} s, {times[2] / again:.0f}x faster; the index has {size:,.0f} MB")
    good &= megabytes / work[2] >= GOAL and times[2] / again >= AGAIN
    return good


def measure_searches(path: Path) -> bool:
    """Median and longest of some searches, in seconds."""
    longest = 0.0
    for query in QUERIES:
        times = []
        for _ in range(5):
            began = time.perf_counter()
            count, _, _ = index_queries.search(path, query)
            times.append(time.perf_counter() - began)
        longest = max(longest, statistics.median(times))
        print(f"  {query:<22} {count:>5} blocks, {1e3 * statistics.median(times):6.1f} ms")
    return longest < SEARCH


def page(folder: Path) -> bool:
    """CPU seconds of a run of the library page over 5,000 sessions, half of them indexed."""
    from streamlit.testing.v1 import AppTest

    home = folder.parent / "home"
    projects = home / ".claude" / "projects"
    for n in range(5_000):
        path = projects / f"-home-project{n % 40}" / f"{n:06}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"type": "user"}\n')
    one = index_queries.list_sessions(folder.parent / "2.db")[0]
    os.environ |= {"HOME": str(home), "TURNSCOPE_DATA": str(home), "XDG_DATA_HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    with kept._begin_write(home / "library.db") as db:
        for n in range(0, 5_000, 2):
            path = projects / f"-home-project{n % 40}" / f"{n:06}.jsonl"
            values = {name: getattr(one, name) for name in one.__struct_fields__} | {"path": str(path), "title": f"Session {n}"}
            spent = tuple((f"{n}-{k}", f"2026-0{1 + n % 9}-{1 + k % 28:02}", "claude-opus-4-5", 10**9 * k) for k in range(40))
            kept._insert_row(db, kept.IndexedSession(type(one)(**values), spent, ((f"2026-0{1 + n % 9}-03", 1),), ()))
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120)
    app.run()
    app.switch_page("pages/library.py")
    times = []
    for _ in range(5):
        began = time.process_time()
        app.run()
        times.append(time.process_time() - began)
    assert not app.exception
    print(f"  first {times[0]:.2f} s, then {statistics.median(times[1:]):.2f} s of CPU, the test runner's own work included")
    return statistics.median(times[1:]) < PAGE


def conversation(n: int, messages: int = 12) -> dict[str, object]:
    """A ChatGPT conversation of some pages, with what else its export tells of each message."""
    nodes: dict[str, object] = {"root": {"id": "root", "message": None, "parent": None, "children": [f"{n}-0"]}}
    for k in range(messages):
        message = {
            "id": f"{n}-{k}",
            "author": {"role": ("user", "assistant")[k % 2], "name": None, "metadata": {}},
            "create_time": 1_750_000_000.5 + 1_000 * n + k,
            "content": {"content_type": "text", "parts": [f"word {n * k} " * 120]},
            "status": "finished_successfully",
            "weight": 1.0,
            "metadata": {"model_slug": "gpt-4o", "citations": [], "content_references": []},
            "recipient": "all",
        }
        below = [f"{n}-{k + 1}"] if k + 1 < messages else []
        nodes[f"{n}-{k}"] = {"id": f"{n}-{k}", "message": message, "parent": f"{n}-{k - 1}" if k else "root", "children": below}
    about = {"title": f"Conversation {n}", "create_time": 1_750_000_000.5 + 1_000 * n, "update_time": None}
    return {**about, "mapping": nodes, "current_node": f"{n}-{messages - 1}", "conversation_id": f"c{n}"}


def measure_listing(folder: Path) -> bool:
    """CPU seconds and megabytes of a process that lists an export, alone and in its zip."""
    file, packed = folder / "conversations.json", folder / "export.zip"
    with file.open("w") as out:
        out.write("[" + json.dumps(conversation(0)))
        out.writelines(", " + json.dumps(conversation(n)) for n in range(1, CONVERSATIONS))
        out.write("]")
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(file, file.name)
    good = True
    for path in (file, packed):
        command = [sys.executable, "-c", LIST, str(path)]
        told = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
        count, seconds, megabytes = map(float, told.stdout.split())
        print(f"  {path.name}, {file.stat().st_size / 1e6:.0f} MB: {count:.0f} in {seconds:.2f} s of CPU, {megabytes:.0f} MB")
        good &= count == CONVERSATIONS and seconds < LISTED and megabytes < HEAP
    return good


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=250)
    parser.add_argument("--open", type=Path, default=OPEN if OPEN.is_dir() else ROOT / "sample_sessions")
    given = parser.parse_args()
    files = [*given.open.glob("*.jsonl")] or given.open.rglob("*.jsonl")
    sources = sorted(path for path in files if b'"sessionId"' in path.read_bytes()[:20_000])
    if not sources:
        parser.error(f"no session of Claude Code lies in {given.open}")
    folder = Path(tempfile.mkdtemp(prefix="turnscope-library-")) / "logs"
    folder.mkdir()
    try:
        print("ChatGPT export")
        good = measure_listing(folder.parent)  # first: a process takes over how large the one that starts it was
        size = copies(sources, folder, given.megabytes * 1_000_000) / 1e6
        print(f"{size:,.0f} MB in {len(list(folder.rglob('*.jsonl')))} sessions")
        good &= measure_index(folder, size)
        print("search")
        good &= measure_searches(folder.parent / "2.db")
        print("library page, 5,000 sessions")
        good &= page(folder)
    finally:
        shutil.rmtree(folder.parent)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
