"""Work in a thread of its own, so that no page waits for it: progress, cancel, resume, error. A kind of job says what it does.

A job that plans requests pauses while nobody polls it. A job that uses processes of its own starts them with `start_worker`.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from threading import Condition, Thread
from time import monotonic
from typing import Literal

IDLE_TIMEOUT = 6.0  # seconds without a poll after which a job pauses
PAUSE = 0.001  # seconds of sleep that let other threads work

State = Literal["waiting", "running", "done", "cancelled", "failed"]

_SOURCE_ROOT = Path(__file__).resolve().parents[2]


class Job(ABC):
    """Work under way. Any thread may poll, cancel, resume or wait for it.

    `state`: waiting (not started, or paused because nobody polled), running, done, cancelled or failed. `done` of `count` steps
    are made; what a step is, the kind of job says. `error`: why it failed.
    """

    def __init__(self, name: str, count: int = 0) -> None:
        self.name = name
        self.count = count
        self.done = 0
        self.state: State = "waiting"
        self.error: Exception | None = None
        self._stop = False
        self._polled_at = monotonic()
        self._lock = Condition()

    @abstractmethod
    def _work(self) -> State:
        """Do the work, or go on with it; runs in the job's thread. Returns the state that it ends in."""

    def _end_workers(self) -> None:  # noqa: B027 - most jobs have none
        """End what `_work` waits for; called with the lock held when the job is cancelled."""

    def start(self) -> None:
        """Start the work, unless it was started before."""
        with self._lock:
            if self.state == "waiting":
                self._start()

    def poll(self) -> None:
        """Start the work if it waits, and keep it from pausing. Raises the error of a job that failed."""
        with self._lock:
            self._polled_at = monotonic()
            if self.state == "waiting":
                self._start()
            if self.error:
                raise self.error

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the work ends, at most `seconds`; None = without limit. It does not pause meanwhile."""
        with self._lock:
            self._polled_at = monotonic() + (math.inf if seconds is None else seconds)
            self._lock.wait_for(lambda: self.state != "running", seconds)
            self._polled_at = monotonic()

    def cancel(self) -> None:
        """Stop the work after its current step. What is done stays."""
        with self._lock:
            self._stop = True
            self._end_workers()
            if self.state == "waiting":
                self.state = "cancelled"

    def resume(self) -> None:
        """Go on with work that was cancelled, from where it stopped."""
        with self._lock:
            if self.state == "cancelled":
                self._start()

    def _start(self) -> None:
        self.state, self.error, self._stop = "running", None, False
        Thread(target=self._run, name=self.name, daemon=True).start()

    def _run(self) -> None:
        end: State = "failed"
        error: Exception | None = None
        try:
            end = self._work()
        except Exception as caught:  # noqa: BLE001 - nobody above this thread could catch it; whoever polls gets it
            error = caught
        with self._lock:
            self.state, self.error = end, error
            self._lock.notify_all()

    def _interruption(self) -> State | None:
        """Why the work ends before its end: it was cancelled, or nobody polls it. None = it goes on."""
        if self._stop:
            return "cancelled"
        return "waiting" if monotonic() - self._polled_at > IDLE_TIMEOUT else None


def start_worker(module: str, **variables: str) -> subprocess.Popen[bytes]:
    """Start a process that calls `run_worker()` of a module, with pipes to its input and from its output.

    Args:
        module: the module.
        **variables: added to its environment.
    """
    skip = "from turnscope.skipped_imports import skip_pandas; skip_pandas()"
    code = f"import sys; sys.path.insert(0, {str(_SOURCE_ROOT)!r}); {skip}; from {module} import run_worker; run_worker()"
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    command = (sys.executable, "-P", "-c", code)
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null, env=os.environ | variables)  # noqa: S603
