"""The table of policies over many sessions, made in a process of its own; any thread watches it and cancels it.

Holds the job and its worker. The worker reads its task from its input and writes each session under each policy as a line. What
is measured is kept by the job, so one that was cancelled goes on from there.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from turnscope.errors import TurnscopeError
from turnscope.library.job import Job, State, start_worker
from turnscope.library.loading import load
from turnscope.library.policy_table import MeasuredSession, is_measurable, measure_session


class TableTask(msgspec.Struct, frozen=True):
    """What to measure: sessions by path and conversation, and the policies by name."""

    sessions: tuple[tuple[str, str], ...]
    policies: tuple[str, ...]


class _Line(msgspec.Struct):
    """A line of the worker: a session under a policy, or the number of a session that is done and why it has no rows."""

    row: MeasuredSession | None = None
    done: int = -1
    problem: str = ""


class PolicyTableJob(Job):
    """The table under way: `done` of `count` sessions are measured.

    `rows`: what is measured so far. `problems`: why a session has no rows, by path.
    """

    def __init__(self, task: TableTask) -> None:
        super().__init__("measuring policies", len(task.sessions))
        self.task = task
        self.problems: dict[str, str] = {}
        self._rows: list[list[MeasuredSession]] = []
        self._worker: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def rows(self) -> tuple[MeasuredSession, ...]:
        """The sessions that are measured under every policy, so that all policies are held to the same ones."""
        with self._lock:
            return tuple(row for rows in self._rows for row in rows)

    def _end_workers(self) -> None:
        if self._worker:
            self._worker.kill()

    def _work(self) -> State:
        with self._lock:
            if self._stop:
                return "cancelled"
            worker = self._worker = start_worker(__name__)
        left = msgspec.structs.replace(self.task, sessions=self.task.sessions[self.done :])
        with worker, suppress(OSError):
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write(msgspec.json.encode(left))
            worker.stdin.close()
            rows: list[MeasuredSession] = []
            for text in worker.stdout:
                if not text.endswith(b"\n"):
                    break
                line = msgspec.json.decode(text, type=_Line)
                if line.row:
                    rows.append(line.row)
                else:
                    self._finish(rows, line.problem)
                    rows = []
        if self._stop:
            return "cancelled"
        if self.done < self.count:
            path = self.task.sessions[self.done][0]
            raise TurnscopeError(f"the process that measured {Path(path).name} ended before it was done", hint="Leave it out.")
        return "done"

    def _finish(self, rows: Sequence[MeasuredSession], problem: str) -> None:
        with self._lock:
            if problem:
                self.problems[self.task.sessions[self.done][0]] = problem
            self._rows.append([*rows])
            self.done += 1


def run_worker(question: IO[bytes] | None = None, answers: IO[bytes] | None = None) -> None:
    """Measure in this process: read a task from `question`, write lines to `answers`.

    Args:
        question: Where the task comes from; None = standard input.
        answers: Where lines go; None = standard output.
    """
    task = msgspec.json.decode((question or sys.stdin.buffer).read(), type=TableTask)
    out = answers or sys.stdout.buffer

    def write(line: _Line) -> None:
        out.write(msgspec.json.encode(line) + b"\n")
        out.flush()

    for number, (path, entry) in enumerate(task.sessions):
        problem = ""
        try:
            session, empty = load(path, entry), True
            if is_measurable(session):
                for row in measure_session(session, task.policies):
                    empty = False
                    write(_Line(row=row))
            problem = "it has no price, or too few requests with usage" if empty else ""
        except TurnscopeError as error:
            problem = error.what
        except Exception as error:  # noqa: BLE001 - one session must not stop the others, and its problem is reported
            problem = f"{type(error).__name__}: {error}"[:300]
        write(_Line(done=number, problem=problem))
