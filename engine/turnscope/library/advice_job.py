"""A search for advice in a process of its own, so that no page waits for it; any thread watches it and cancels it.

Holds the job and its worker. The worker reads the task from its input; it writes its progress, then the advice, as JSON lines.
Settings that a cancelled search had tried are stored, so the same job goes on from there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from turnscope.errors import TurnscopeError
from turnscope.library.advising import TRIALS, Progress, advise
from turnscope.library.job import Job, State, start_worker
from turnscope.planning.policy import parse
from turnscope.session.model import Session
from turnscope.session.portable import dumps, loads
from turnscope.views.advice import Advice


class AdviceTask(msgspec.Struct, frozen=True):
    """What to search. `text` is the TOML text of the policy called `policy`.

    `path`: a file or a folder of sessions; "" = the session that the job was made with. `folder`: where trials are stored.
    `keys`: keys of the parameters to search, () = the usual ones.
    """

    path: str
    policy: str
    text: str
    folder: str
    trials: int = TRIALS
    seed: int = 0
    keys: tuple[str, ...] = ()


class WorkerReport(msgspec.Struct):
    """One line of the worker: its progress (`done` of `of` settings), the advice, or why there is none."""

    done: int = 0
    of: int = 0
    advice: Advice | None = None
    failed: str = ""
    hint: str = ""


class AdviceJob(Job):
    """A search under way. `done` of `count` settings are tried; `advice` is there once it is done."""

    def __init__(self, task: AdviceTask, session: Session | None = None) -> None:
        super().__init__(f"advice on {task.policy}", task.trials)
        self.task = task
        self.advice: Advice | None = None
        self._session = session
        self._worker: subprocess.Popen[bytes] | None = None
        self.start()

    def _end_workers(self) -> None:
        if self._worker:
            self._worker.kill()

    def _work(self) -> State:
        with self._lock:
            if self._stop:
                return "cancelled"
            worker = self._worker = start_worker(__name__)
        last = WorkerReport()
        with worker, suppress(OSError):
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write(msgspec.json.encode(self.task) + b"\n" + (dumps(self._session) if self._session else b""))
            worker.stdin.close()
            for line in worker.stdout:
                if line.endswith(b"\n"):
                    last = msgspec.json.decode(line, type=WorkerReport)
                    self.done, self.count = (last.done, last.of) if last.of else (self.done, self.count)
        with self._lock:
            self._worker = None
            if self._stop:
                return "cancelled"
        if last.advice is None:
            ended = ("The process that searched ended before it was done", "Go on: what was tried is kept.")
            what, hint = (last.failed, last.hint) if last.failed else ended
            raise TurnscopeError(what, hint=hint)
        self.advice = last.advice
        return "done"


def run_worker(questions: IO[bytes] | None = None, answers: IO[bytes] | None = None) -> None:
    """Search in this process: read the task (and the session) from `questions`, write reports to `answers`.

    Args:
        questions: where the task comes from; None = standard input.
        answers: where reports go; None = standard output.
    """
    out = answers or sys.stdout.buffer

    def send(report: WorkerReport) -> None:
        out.write(msgspec.json.encode(report) + b"\n")
        out.flush()

    stream = questions or sys.stdin.buffer
    task = msgspec.json.decode(stream.readline(), type=AdviceTask)
    try:
        sessions = Path(task.path) if task.path else loads(json.loads(stream.read()))
        send(WorkerReport(advice=_search(sessions, task, lambda done, of: send(WorkerReport(done, of)))))
    except TurnscopeError as error:
        send(WorkerReport(failed=error.what, hint=error.hint))
    except OSError as error:
        send(WorkerReport(failed=str(error), hint="See whether the path is there and can be read."))


def _search(sessions: Path | Session, task: AdviceTask, progress: Progress) -> Advice:
    policy, folder = parse(task.policy, task.text), Path(task.folder)
    return advise(sessions, policy, trials=task.trials, seed=task.seed, keys=task.keys, folder=folder, progress=progress)
