"""A search for advice under way: in a process of its own, so that no page waits for it; watched from any thread, and stopped.

Holds the job, and the worker (`run_worker`): it reads what to search from its input, and writes how far it is, then the advice,
as lines. What a stopped search had tried is kept, so the same job started again goes on there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import IO, Literal

import msgspec

from turnscope.errors import TurnscopeError
from turnscope.library.advising import TRIALS, Progress, advise
from turnscope.planning.policy import parse
from turnscope.session.model import Session
from turnscope.session.portable import dumps, loads
from turnscope.views.advice import Advice

ROOT = Path(__file__).resolve().parents[2]
START = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from turnscope.library.advice_job import run_worker; run_worker()"

State = Literal["running", "done", "cancelled", "failed"]


class AdviceTask(msgspec.Struct, frozen=True):
    """What to search: the policy by the text of its file, over one `path` (a file or a folder), "" = the session that comes
    with it. `folder`: where it is kept what was tried."""

    path: str
    policy: str
    text: str
    folder: str
    trials: int = TRIALS
    seed: int = 0
    turn: tuple[str, ...] = ()


class WorkerReport(msgspec.Struct):
    """A line of the worker: how far it is, or what it came to."""

    done: int = 0
    of: int = 0
    advice: Advice | None = None
    failed: str = ""
    hint: str = ""


class AdviceJob:
    """A search under way. `done` of `count` settings are tried; `advice` is there at its end, or `failed` says why not."""

    def __init__(self, task: AdviceTask, session: Session | None = None) -> None:
        self.task, self._session = task, session
        self.state: State = "running"
        self.done, self.count = 0, task.trials
        self.advice: Advice | None = None
        self.failed = self.hint = ""
        self._lock = Lock()
        self._worker: subprocess.Popen[bytes] | None = None
        self._start()

    def cancel(self) -> None:
        """Stop it. What was tried is kept."""
        with self._lock:
            if self.state == "running":
                self.state = "cancelled"
            if self._worker:
                self._worker.kill()

    def resume(self) -> None:
        """Go on after it was stopped."""
        self.wait()
        with self._lock:
            if self.state in ("cancelled", "failed"):
                self.state, self.failed, self.hint = "running", "", ""
                self._start()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until it is at its end, at most so long."""
        self._thread.join(seconds)

    def _start(self) -> None:
        self._thread = Thread(target=self._run, name=f"advice on {self.task.policy}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        with self._lock:
            if self.state != "running":
                return
            worker = self._worker = subprocess.Popen(  # noqa: S603
                (sys.executable, "-P", "-c", START), stdin=pipe, stdout=pipe, stderr=null
            )
        with worker, suppress(OSError):
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write(msgspec.json.encode(self.task) + b"\n" + (dumps(self._session) if self._session else b""))
            worker.stdin.close()
            for line in worker.stdout:
                if line.endswith(b"\n"):
                    self._record(msgspec.json.decode(line, type=WorkerReport))
        with self._lock:
            self._worker = None
            if self.state != "running":
                return
            if not self.advice and not self.failed:
                self.failed, self.hint = "The process that searched ended before it was done", "Go on: what was tried is kept."
            self.state = "failed" if self.failed else "done"

    def _record(self, told: WorkerReport) -> None:
        self.done, self.count = (told.done, told.of) if told.of else (self.done, self.count)
        self.advice, self.failed, self.hint = told.advice, told.failed, told.hint


def run_worker(questions: IO[bytes] | None = None, answers: IO[bytes] | None = None) -> None:
    """The worker."""
    out = answers or sys.stdout.buffer

    def say(told: WorkerReport) -> None:
        out.write(msgspec.json.encode(told) + b"\n")
        out.flush()

    given = questions or sys.stdin.buffer
    task = msgspec.json.decode(given.readline(), type=AdviceTask)
    try:
        of = Path(task.path) if task.path else loads(json.loads(given.read()))
        say(WorkerReport(advice=_search(of, task, lambda done, of: say(WorkerReport(done, of)))))
    except TurnscopeError as error:
        say(WorkerReport(failed=error.what, hint=error.hint))
    except OSError as error:
        say(WorkerReport(failed=str(error), hint="See whether the path is there and can be read."))


def _search(of: Path | Session, task: AdviceTask, tell: Progress) -> Advice:
    return advise(
        of, parse(task.policy, task.text), trials=task.trials, seed=task.seed, turn=task.turn,
        folder=Path(task.folder), tell=tell,
    )  # fmt: skip
