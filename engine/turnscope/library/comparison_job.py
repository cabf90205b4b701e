"""Replays one after another in a thread of their own, while a page shows how far they are: for rows of a comparison.

Of each replay only what was asked of it is kept, by whoever asked; a replay that is stepped through is a `Replaying`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Condition, Thread
from time import monotonic, sleep
from typing import Literal

from turnscope.envelope.plan import Plan
from turnscope.library.replay_job import IDLE_TIMEOUT, PAUSE
from turnscope.planning.trace import Trace

WORK_SLICE = 0.02  # seconds of work after which others get their turn; nobody steps through what is compared

State = Literal["waiting", "running", "done", "cancelled", "failed"]


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """One replay of a job. `begin`: its trace without plans, or with all of them, and the plans that make it whole; asked when
    it is its turn. `take` gets the whole trace. `is_done`: what it is wanted for was made meanwhile, so it is passed over."""

    begin: Callable[[], tuple[Trace, Iterable[Plan]]]
    take: Callable[[Trace], object]
    is_done: Callable[[], bool] = lambda: False


class ComparisonJob:
    """Replays under way. `done` of `count` requests of all of them are planned; `made` of the replays are at their end.

    `failed`: what went wrong in one of them, which ends the job.
    """

    def __init__(self, wanted: Sequence[ReplayTask], requests: int) -> None:
        self.wanted, self.requests = tuple(wanted), requests
        self.count = len(self.wanted) * requests
        self.done = self.made = 0
        self.state: State = "waiting"
        self.failed: Exception | None = None
        self._seen = monotonic()
        self._stop = False
        self._open: tuple[Trace, Iterator[Plan], list[Plan]] | None = None  # the one that was stopped amid its requests
        self._turn = Condition()

    def poll(self) -> None:
        """Somebody looks, so it goes on. Raises what went wrong in it."""
        with self._turn:
            self._seen = monotonic()
            if self.state == "waiting":
                self._start()
            if self.failed:
                raise self.failed

    def wait(self, seconds: float) -> None:
        """Wait until it is at its end, at most so long. Whoever waits looks."""
        with self._turn:
            self._seen = monotonic() + seconds
            self._turn.wait_for(lambda: self.state != "running", seconds)
            self._seen = monotonic()

    def cancel(self) -> None:
        """Stop after the request that is being planned; what was made stays."""
        with self._turn:
            self._stop = True
            if self.state == "waiting":
                self.state = "cancelled"

    def resume(self) -> None:
        """Go on after it was cancelled, where it was."""
        with self._turn:
            if self.state == "cancelled":
                self._start()

    def _start(self) -> None:
        self.state, self._stop = "running", False
        Thread(target=self._run, name="comparing", daemon=True).start()

    def _run(self) -> None:
        end: State = "failed"
        wrong: Exception | None = None
        try:
            end = self._run_all()
        except Exception as error:  # noqa: BLE001 - nobody above this thread could catch it; whoever looks gets it
            wrong = error
        with self._turn:
            self.state, self.failed = end, wrong
            self._turn.notify_all()

    def _run_all(self) -> State:
        while self.made < len(self.wanted):
            each = self.wanted[self.made]
            if not each.is_done():
                if ended := self._run_one(each):
                    return ended
                sleep(PAUSE)
            self.made += 1
            self.done = self.made * self.requests
        return "done"

    def _run_one(self, each: ReplayTask) -> State | None:
        """Plan one replay and hand it over; why that ended before its end."""
        if self._open is None:
            whole, rest = each.begin()
            self._open = whole, iter(rest), []
        whole, plans, made = self._open
        breathed = monotonic()
        for plan in plans:
            made.append(plan)
            self.done += 1
            now = monotonic()
            if self._stop:
                return "cancelled"
            if now - self._seen > IDLE_TIMEOUT:
                return "waiting"
            if now - breathed > WORK_SLICE:
                sleep(PAUSE)
                breathed = monotonic()
        self._open = None
        each.take(whole if len(whole.plans) == len(made) else replace(whole, plans=tuple(made)))
        return None
