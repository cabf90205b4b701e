"""Indexing in processes of their own, so that no page waits for it; any thread watches it and cancels it.

Holds the job and its worker. The worker reads tasks from its input, a line each, and writes what became of each as a line.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from typing import IO

import msgspec

from turnscope.library.indexing import HINT, IndexedSource, check_unchanged, index_source
from turnscope.library.job import Job, State, start_worker
from turnscope.storage import library_index as kept
from turnscope.storage.library_index import Problem

QUEUED = 3  # sources that a worker has in its queue, so that it never waits
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "1000000"}  # of glibc: what a large file took goes back to the system; 4 % more CPU time
SMALL_INDEX = 20_000_000  # bytes to read below which one process is enough

_Task = tuple[str, str, str | None]  # path of the index, path of the source, its stamp when it was read last


class IndexJob(Job):
    """Brings an index up to date with sources, as they are found. `done` of `count` sources are dealt with.

    `listed`: all sources are found, so that `count` does not grow any more. `fresh`: sources that were read. `sessions` and
    `bytes`: what they held. `problems`: what could not be read, and why. A source that is being read when the job is cancelled
    stays as it was known before.

    Args:
        path: the index.
        sources: files and folders to index.
        processes: how many may read at once.
    """

    def __init__(self, path: Path, sources: Iterable[Path], processes: int = 2) -> None:
        super().__init__("indexing")
        self.path, self.processes = path, processes
        self.listed = False
        self.fresh = self.sessions = self.bytes = 0
        self.problems: list[Problem] = []
        self._sources = sources
        self._size = 0  # bytes to read
        self._tasks: list[_Task] = []
        self._workers: list[subprocess.Popen[bytes]] = []
        self.start()

    def _end_workers(self) -> None:
        for worker in self._workers:
            worker.kill()

    def _work(self) -> State:
        self._list_sources()
        threads = [Thread(target=self._feed, name=f"indexing {n}", daemon=True) for n in range(self._count_workers())]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return "cancelled" if self._stop else "done"

    def _list_sources(self) -> None:
        """Find the sources that have to be read, the largest first, so that none is left for one process at the end."""
        known, sizes = kept.read_stamps(self.path), []
        for source in self._sources:
            if self._stop:
                return
            self.count += 1
            before = known.get(str(source))
            if same := check_unchanged(source, before):
                self._record(same)
            else:
                sizes.append((_get_size(source), str(source), before))
        self._size = sum(size for size, *_ in sizes)
        where = str(self.path)
        self._tasks = [(where, source, before) for _, source, before in sorted(sizes, key=lambda each: each[0])]
        self.listed = True

    def _count_workers(self) -> int:
        return 0 if not self._tasks else 1 if self._size < SMALL_INDEX else self.processes

    def _feed(self) -> None:
        """Hand tasks to a worker of its own until none is left. A worker that dies takes one task with it."""
        while (task := self._take_task()) is not None:
            with self._lock:
                if self._stop:
                    return
                worker = start_worker(__name__, **ALLOCATOR)
                self._workers.append(worker)
            with worker:
                self._run_worker(worker, task)

    def _run_worker(self, worker: subprocess.Popen[bytes], first: _Task) -> None:
        assert worker.stdin is not None
        assert worker.stdout is not None
        under_way: list[_Task] = []
        task: _Task | None = first
        with suppress(OSError):
            while True:
                while task is not None:
                    under_way.append(task)
                    worker.stdin.write(msgspec.json.encode(task) + b"\n")
                    worker.stdin.flush()
                    task = self._take_task() if len(under_way) < QUEUED else None
                if not under_way:
                    return
                line = worker.stdout.readline()
                if not line.endswith(b"\n"):
                    break
                under_way.pop(0)
                self._record(msgspec.json.decode(line, type=IndexedSource))
                task = self._take_task()
        if self._stop:
            return
        lost, *again = under_way
        with self._lock:
            self._tasks += again
        what = f"the process that read {Path(lost[1]).name} ended before it was done"
        self._record(IndexedSource(lost[1], problem=Problem(lost[1], what, HINT)))

    def _take_task(self) -> _Task | None:
        with self._lock:
            return self._tasks.pop() if self._tasks and not self._stop else None

    def _record(self, done: IndexedSource) -> None:
        with self._lock:
            self.done += 1
            self.bytes += done.bytes
            self.fresh += done.fresh
            self.sessions += done.sessions
            if done.problem:
                self.problems.append(done.problem)


def _get_size(source: Path) -> int:
    with suppress(OSError):
        return source.stat().st_size
    return 0


def read_tasks(lines: Iterable[bytes]) -> Iterator[_Task]:
    """Read the tasks of a worker."""
    return (msgspec.json.decode(line, type=_Task) for line in lines)


def run_worker(questions: IO[bytes] | None = None, answers: IO[bytes] | None = None) -> None:
    """Index in this process: read tasks from `questions`, write results to `answers`.

    Args:
        questions: where tasks come from; None = standard input.
        answers: where results go; None = standard output.
    """
    answers = answers or sys.stdout.buffer
    with ExitStack() as stack:
        keys: set[str] = set()
        for path, source, known in read_tasks(questions or sys.stdin.buffer):
            try:
                if path not in keys:
                    stack.enter_context(kept.hold_open(Path(path)))
                    keys.add(path)
                done = index_source(Path(path), Path(source), known)
            except Exception as error:  # noqa: BLE001 - it is reported to the first process
                done = IndexedSource(source, problem=Problem(source, str(error), getattr(error, "hint", HINT)))
            answers.write(msgspec.json.encode(done) + b"\n")
            answers.flush()


def count_reasons(problems: Sequence[Problem]) -> dict[str, int]:
    """Count each reason among the problems, the most frequent first, without the names of files."""
    reasons: dict[str, int] = {}
    for each in problems:
        reason = each.what.replace(Path(each.path).name, "").strip(" :,") or each.what
        reasons[reason] = reasons.get(reason, 0) + 1
    return dict(sorted(reasons.items(), key=lambda row: -row[1]))
