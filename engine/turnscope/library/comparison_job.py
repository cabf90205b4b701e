"""Replays one after another in a thread, while a page shows how far they are: for the rows of a comparison.

Where there is much to do, a process of its own makes some of the rows meanwhile (`row_worker`). The caller keeps what it needs
of each replay. A replay that is stepped through is a `ReplayJob`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Thread
from time import monotonic, sleep

from turnscope.envelope.plan import Plan
from turnscope.library.comparing import FORK_FROM
from turnscope.library.job import PAUSE, Job, State
from turnscope.library.row_worker import ComparisonBasis, RowWorker
from turnscope.planning.held_plans import PlanSequence
from turnscope.planning.policy import Policy
from turnscope.planning.trace import Trace
from turnscope.views.comparison import Row

WORK_SLICE = 0.02  # seconds of work after which other threads get their turn; nobody steps through what is compared
GLANCE = 0.05  # seconds after which a thread that waits for the other process looks whether it should stop


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """One replay of a job.

    `begin` is called when it is its turn. It returns a trace, and the plans that make it whole when read (`begin_replay`).
    `take` gets the whole trace. `is_done`: the caller has the result already, so the replay is skipped. `policy` and
    `take_row`: another process may make the row of this policy; `take_row` gets the whole trace and the row, in a thread of
    its own.
    """

    begin: Callable[[], tuple[Trace, Iterable[Plan]]]
    take: Callable[[Trace], object]
    is_done: Callable[[], bool] = lambda: False
    policy: Policy | None = None
    take_row: Callable[[Trace, Row], object] | None = None


class ComparisonJob(Job):
    """Replays under way. `done` of `count` requests of all replays are planned; `made` replays are complete.

    Args:
        tasks: the replays, in their order.
        requests: requests of the session, which each replay plans.
        basis: what another process would make rows from; None = all is done here.
    """

    def __init__(self, tasks: Sequence[ReplayTask], requests: int, basis: ComparisonBasis | None = None) -> None:
        super().__init__("comparing", len(tasks) * requests)
        self.tasks, self.requests, self.basis = tuple(tasks), requests, basis
        self.made = 0
        self._left = [*self.tasks]
        self._current: tuple[ReplayTask, Trace, Iterator[Plan]] | None = None  # the replay that was stopped on its way
        self._planned = 0  # its requests that are planned
        self._worker: RowWorker | None = None
        self._ending = False  # no other process may be started

    def _work(self) -> State:
        helper = Thread(target=self._help, name="comparing in another process", daemon=True)
        self._ending = False
        if self._is_worth_a_process():
            helper.start()
        try:
            while True:
                while self._begin_next():
                    if interruption := self._replay():
                        return interruption
                    sleep(PAUSE)
                if not helper.is_alive() and not self._left:
                    return "done"
                if interruption := self._interruption():
                    return interruption
                if helper.is_alive():
                    helper.join(GLANCE)
        finally:
            with self._lock:
                self._end_workers()
            if helper.ident:
                helper.join()

    def _end_workers(self) -> None:
        self._ending = True
        if self._worker:
            self._worker.kill()

    def _is_worth_a_process(self) -> bool:
        theirs = sum(1 for task in self._left if task.take_row and not task.is_done())
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return self.basis is not None and theirs > 1 < cores and theirs * self.requests >= FORK_FROM

    def _take_task(self, *, theirs: bool = False) -> ReplayTask | None:
        """The next replay, or the next that another process may make. What the caller has already is left out."""
        with self._lock:
            while found := next((task for task in self._left if task.take_row or not theirs), None):
                self._left.remove(found)
                if not found.is_done():
                    return found
                self._count(self.requests, made=1)
            return None

    def _count(self, requests: int, made: int = 0) -> None:
        with self._lock:
            self.done += requests
            self.made += made

    def _begin_next(self) -> bool:
        """Begin the next replay, unless one is under way; False = there is none here."""
        if self._current is None and (task := self._take_task()):
            whole, plans = task.begin()
            self._current, self._planned = (task, whole, iter(plans)), 0
        return self._current is not None

    def _replay(self) -> State | None:
        """Make one replay and hand it over. Returns why it stopped on its way, None if it did not."""
        assert self._current is not None
        task, whole, plans = self._current
        paused_at = monotonic()
        for _ in plans:
            self._planned += 1
            self._count(1)
            if interruption := self._interruption():
                return interruption
            if monotonic() - paused_at > WORK_SLICE:
                sleep(PAUSE)
                paused_at = monotonic()
        self._current = None
        task.take(whole)
        self._count(self.requests - self._planned, made=1)
        return None

    def _help(self) -> None:
        """Have another process make rows until none is left. What it does not make is made here."""
        assert self.basis is not None
        with self._lock:
            if self._ending:
                return
            worker = self._worker = RowWorker(self.basis)
        task: ReplayTask | None = None
        try:
            while task := self._take_task(theirs=True):
                assert task.policy is not None
                assert task.take_row is not None
                made = worker.make_row(task.policy)
                if made is None:
                    break
                whole, _ = task.begin()
                if whole.held:
                    made.held.take_over(whole.held)
                task.take_row(replace(whole, plans=PlanSequence(made.held)), made.row)
                self._count(self.requests, made=1)
                task = None
        finally:
            if task:
                self._left.insert(0, task)  # the thread that others watch reports whatever is wrong with it
            worker.close()
