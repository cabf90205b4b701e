"""Indexing under way: in processes of its own, so that no page waits for it; watched from any thread, and cancelled.

Holds the job, and the worker (`run_worker`): it reads paths from its input, a line each, and writes what became of each as a
line.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock, Thread
from typing import IO, Literal

import msgspec

from turnscope.library.indexing import HINT, IndexedSource, check_unchanged, index_source
from turnscope.storage import index as kept
from turnscope.storage.index import Problem

ROOT = Path(__file__).resolve().parents[2]
START = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from turnscope.library.index_job import run_worker; run_worker()"
QUEUED = 3  # sources that a worker has before it, so that it never waits for this process
SMALL_INDEX = 20_000_000  # bytes that are not worth a second process

State = Literal["running", "done", "cancelled", "failed"]
_Task = tuple[str, str, str | None]


class IndexJob:
    """Brings the index at `path` up to date with `sources`, as they are found. `done` of `count` sources are dealt with.

    `listed`: all that there is was found, so that `count` stands. `problems`: what could not be read, and why. `failed`: why it
    ended early, "" where it did not.
    """

    def __init__(self, path: Path, sources: Iterable[Path], processes: int = 2) -> None:
        self.path, self.processes = path, processes
        self.state: State = "running"
        self.listed = False
        self.done = self.count = self.fresh = self.sessions = self.bytes = 0
        self.problems: list[Problem] = []
        self.failed = ""
        self._sources, self._lock, self._stop, self._get_size = sources, Lock(), False, 0
        self._tasks: list[_Task] = []
        self._workers: list[subprocess.Popen[bytes]] = []
        self._thread = Thread(target=self._run, name="indexing", daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Stop. What was read stays; a source that is being read is left as it was known before."""
        with self._lock:
            self._stop = True
            for worker in self._workers:
                worker.kill()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until it is at its end, at most so long."""
        self._thread.join(seconds)

    def _run(self) -> None:
        end: State = "failed"
        try:
            self._list_sources()
            threads = [Thread(target=self._feed, name=f"indexing {n}", daemon=True) for n in range(self._count_workers())]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            end = "cancelled" if self._stop else "failed" if self.failed else "done"
        except Exception as error:  # noqa: BLE001 - nobody above this thread could catch it
            self.failed = str(error)
        self.state = end

    def _list_sources(self) -> None:
        """Find the sources that have to be read, the largest first: none is left for one process at the end."""
        known, sizes = kept.stamps(self.path), []
        for source in self._sources:
            if self._stop:
                return
            self.count += 1
            before = known.get(str(source))
            if same := check_unchanged(source, before):
                self._record(same)
            else:
                sizes.append((_get_size(source), str(source), before))
        self._get_size = sum(size for size, *_ in sizes)
        where = str(self.path)
        self._tasks = [(where, source, before) for _, source, before in sorted(sizes, key=lambda each: each[0])]
        self.listed = True

    def _count_workers(self) -> int:
        return 0 if not self._tasks else 1 if self._get_size < SMALL_INDEX else self.processes

    def _feed(self) -> None:
        """Hand tasks to a worker of its own until none is left; a worker that dies takes one task with it."""
        while (task := self._take_task()) is not None:
            with self._lock:
                if self._stop:
                    return
                pipe, null = subprocess.PIPE, subprocess.DEVNULL
                command = (sys.executable, "-P", "-c", START)
                worker = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null)  # noqa: S603
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
    """What the worker is asked for."""
    return (msgspec.json.decode(line, type=_Task) for line in lines)


def run_worker(questions: IO[bytes] | None = None, answers: IO[bytes] | None = None) -> None:
    """The worker."""
    answers = answers or sys.stdout.buffer
    with ExitStack() as stack:
        held: set[str] = set()
        for path, source, known in read_tasks(questions or sys.stdin.buffer):
            try:
                if path not in held:
                    stack.enter_context(kept.held(Path(path)))
                    held.add(path)
                done = index_source(Path(path), Path(source), known)
            except Exception as error:  # noqa: BLE001 - told to whoever asked
                done = IndexedSource(source, problem=Problem(source, str(error), getattr(error, "hint", HINT)))
            answers.write(msgspec.json.encode(done) + b"\n")
            answers.flush()


def count_reasons(problems: Sequence[Problem]) -> dict[str, int]:
    """How often each reason stands among the problems, the most frequent first; the file's own name left out."""
    reasons: dict[str, int] = {}
    for each in problems:
        reason = each.what.replace(Path(each.path).name, "").strip(" :,") or each.what
        reasons[reason] = reasons.get(reason, 0) + 1
    return dict(sorted(reasons.items(), key=lambda row: -row[1]))
