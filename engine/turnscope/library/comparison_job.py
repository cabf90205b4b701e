"""Replays one after another in one thread, while a page shows how far they are: for the rows of a comparison.

The caller keeps what it needs of each replay. A replay that is stepped through is a `ReplayJob`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import monotonic, sleep

from turnscope.envelope.plan import Plan
from turnscope.library.job import PAUSE, Job, State
from turnscope.planning.trace import Trace

WORK_SLICE = 0.02  # seconds of work after which other threads get their turn; nobody steps through what is compared


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """One replay of a job.

    `begin` is called when it is its turn. It returns the trace without plans, or with all of them, and the plans that make it
    whole. `take` gets the whole trace. `is_done`: the caller has the result already, so the replay is skipped.
    """

    begin: Callable[[], tuple[Trace, Iterable[Plan]]]
    take: Callable[[Trace], object]
    is_done: Callable[[], bool] = lambda: False


class ComparisonJob(Job):
    """Replays under way. `done` of `count` requests of all replays are planned; `made` replays are complete.

    Args:
        tasks: the replays, in their order.
        requests: requests of the session, which each replay plans.
    """

    def __init__(self, tasks: Sequence[ReplayTask], requests: int) -> None:
        super().__init__("comparing", len(tasks) * requests)
        self.tasks, self.requests = tuple(tasks), requests
        self.made = 0
        self._current: tuple[Trace, Iterator[Plan], list[Plan]] | None = None  # the replay that was stopped on its way

    def _work(self) -> State:
        while self.made < len(self.tasks):
            task = self.tasks[self.made]
            if not task.is_done():
                if interruption := self._replay(task):
                    return interruption
                sleep(PAUSE)
            self.made += 1
            self.done = self.made * self.requests
        return "done"

    def _replay(self, task: ReplayTask) -> State | None:
        """Make one replay and hand it over. Returns why it stopped on its way, None if it did not."""
        if self._current is None:
            whole, rest = task.begin()
            self._current = whole, iter(rest), []
        whole, plans, made = self._current
        paused_at = monotonic()
        for plan in plans:
            made.append(plan)
            self.done += 1
            if interruption := self._interruption():
                return interruption
            if monotonic() - paused_at > WORK_SLICE:
                sleep(PAUSE)
                paused_at = monotonic()
        self._current = None
        task.take(whole if len(whole.plans) == len(made) else replace(whole, plans=tuple(made)))
        return None
