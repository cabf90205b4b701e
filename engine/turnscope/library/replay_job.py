"""Replays in threads of their own: looked at while they are under way, cancelled, resumed, and kept in a cache.

Plans nothing (`planning.assemble` does) and draws nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from threading import Lock
from time import monotonic, sleep

from turnscope.envelope.plan import Plan
from turnscope.library.job import PAUSE, Job, State
from turnscope.planning.lint import Problem
from turnscope.planning.rejections import RequestChecker
from turnscope.planning.trace import Trace
from turnscope.session.model import Ask
from turnscope.views.overflow_tree import is_over_limit
from turnscope.views.replay_cost import RecordCost
from turnscope.views.stepper import Steps, StepsBuilder

FIRST_STAGE = 0.4  # seconds until the first stage; each later stage waits until the replay has taken twice as long
MIN_SHOWN = 10  # requests below which no stage is made
AHEAD = 20  # requests behind one that somebody wants to see that are shown with it: whoever came there goes on from there
WORK_SLICE = 0.004  # seconds of work after which other threads get their turn
DEFER = 0.1  # seconds for which other threads go first, at most, before the next request is planned


def _do_nothing() -> None:
    """The default of `on_stage`, and of `price_record`: nothing is known of a bill."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A replay as far as it has come.

    Attributes:
        trace: the trace of its first requests.
        steps: the same as the stepper needs it.
        problems: what is wrong with each of these requests, see `planning.rejections`.
        offline_asks: see `Trace.find_offline_asks`.
        over_limit: see `overflow_tree.find_over_limit`.
    """

    trace: Trace
    steps: Steps
    problems: tuple[tuple[Problem, ...], ...]
    offline_asks: tuple[Ask, ...]
    over_limit: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.trace.plans)


class StageBuilder:
    """Reads each plan once, as it is made: of a large replay most would be made again for whoever reads all of them later.

    Args:
        whole: the trace; its plans become more.
        sent: whether its requests go to the models that they really went to.
    """

    def __init__(self, whole: Trace, *, sent: bool) -> None:
        self._whole = whole
        self._steps = StepsBuilder(whole, sent=sent)
        self._checker = RequestChecker(whole.session)
        self._problems: list[tuple[Problem, ...]] = []
        self._asks: dict[str, Ask] = {}
        self._over_limit: list[int] = []

    def read(self, count: int) -> None:
        """Read the plans of the first requests, but for those that were read before.

        Args:
            count: how many they are.
        """
        for plan in map(self._whole.plans.__getitem__, range(len(self._problems), count)):
            self._steps.add(plan)
            self._problems.append(self._checker.check(plan, self._whole.prices))
            self._asks.update((ask.key, ask) for ask in plan.offline_asks)
            if is_over_limit(self._whole, plan.request.n):
                self._over_limit.append(plan.request.n)

    def build(self, trace: Trace, record: RecordCost | None) -> Stage:
        """Return a stage of the requests that were read.

        Args:
            trace: the trace with these requests.
            record: the cost of the record of its session, see `replay_cost.ReplayPricing`.
        """
        return Stage(
            trace,
            self._steps.build(trace, record),
            problems=tuple(self._problems),
            offline_asks=tuple(self._asks.values()),
            over_limit=tuple(self._over_limit),
        )


class ReplayJob(Job):
    """One replay. `done` of `count` requests are planned; `stage` is the newest one that can be shown.

    Args:
        key: names the replay in a `ReplayCache`.
        whole: its trace, whose plans become more as they are made, or with all of them where they are at hand.
        plans: the plans of all requests, in order.
        on_stage: called after each new stage.
        price_record: called for each stage; the cost of the record of its session, see `replay_cost.price_replay`.
        sent: whether its requests go to the models that they really went to.
    """

    def __init__(
        self,
        key: str,
        whole: Trace,
        plans: Iterable[Plan],
        on_stage: Callable[[], object] = _do_nothing,
        *,
        price_record: Callable[[], RecordCost | None] = _do_nothing,
        sent: bool = True,
    ) -> None:
        super().__init__(f"replay {whole.policy.name}", len(whole.session.requests))
        self.key = key
        self.stage: Stage | None = None
        self._whole, self._rest, self._on_stage = whole, iter(plans), on_stage
        self._price_record, self._sent = price_record, sent
        self._owns = not whole.plans  # else they belong to whoever holds that trace
        self._left = False  # it was let go
        self._builder: StageBuilder | None = None  # made anew where it was let go
        self.wanted = -1  # number of the request that somebody wants to see

    def __repr__(self) -> str:
        return f"<ReplayJob {self._whole.policy.name!r}: {self.state}, {self.done:,} of {self.count:,} requests>"

    @property
    def held(self) -> int:
        """Bytes that the replay holds, about."""
        plans = self._whole.held if self._owns else None
        return (plans.size if plans else 0) + (len(self.stage.steps.data) if self.stage else 0)

    def let_go(self) -> None:
        """Cancel it, and free what can be made again. Whoever still shows it, as a page that was left, can read on."""
        self._left = True
        self.cancel()
        if self.state != "running":  # else its thread frees it
            self._builder = None
        if self._owns and self._whole.held:
            self._whole.held.compact()

    def want(self, request: int) -> None:
        """Make a stage as soon as a request is planned, and the next `AHEAD` requests.

        Args:
            request: number of the request.
        """
        self.wanted = request

    def _work(self) -> State:
        self._left = False
        end = self._plan_all()
        if end != "waiting" and not self._left:
            self._make_stage()
        if end == "done" or self._left:
            self._builder = None
        return end

    def _plan_all(self) -> State:
        """Plan the remaining requests, and make a stage now and then. Returns the state that this ends in."""
        began = paused_at = monotonic()
        due, took, before = began + FIRST_STAGE, 0.0, self.done
        for _ in self._rest:
            self.done += 1
            self._read_plans()
            if interruption := self._interruption():
                return interruption
            now = monotonic()
            left = (self.count - self.done) * (now - began) / (self.done - before)
            wanted = len(self.stage or ()) <= self.wanted < self.done - AHEAD
            if (wanted or (now > due and self.done >= MIN_SHOWN)) and left > took:
                self._make_stage()
                took = monotonic() - now
                due = monotonic() + max(now - began, 3 * took)
            if now - paused_at > WORK_SLICE:
                _yield_to_threads()
                paused_at = monotonic()
        return "done"

    def _make_stage(self) -> None:
        """Make a stage of the requests that are planned."""
        trace = self._whole
        if self._owns or self.done < len(trace.plans):
            trace = replace(trace, plans=trace.plans[: self.done])
        self.stage = self._read_plans().build(trace, self._price_record())
        self._on_stage()

    def _read_plans(self) -> StageBuilder:
        if self._builder is None:
            self._builder = StageBuilder(self._whole, sent=self._sent)
        self._builder.read(self.done)
        return self._builder


def _yield_to_threads() -> None:
    """Let other threads go first. A thread that has work makes a short sleep a long one."""
    began = woke = monotonic()
    while woke - began < DEFER:
        slept = woke
        sleep(PAUSE)
        woke = monotonic()
        if woke - slept < 2 * PAUSE:
            return


class ReplayCache:
    """Replays by key, shared by all callers. While they hold more than `most` bytes, the least recently used are let go."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: dict[str, ReplayJob] = {}
        self._lock = Lock()

    @property
    def size(self) -> int:
        """Bytes that the replays hold, about."""
        return sum(replay.held for replay in self._kept.values())

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: str, make: Callable[[], ReplayJob]) -> ReplayJob:
        """The replay of a key, made where there is none.

        Args:
            key: the key.
            make: makes the replay.
        """
        with self._lock:
            found = self._kept.pop(key, None) or make()
            self._kept[key] = found  # the most recently used is last
            while self.size > self.most and len(self._kept) > 1:
                self._kept.pop(next(iter(self._kept))).let_go()
            return found

    def drop(self, key: str) -> None:
        """Drop a replay, so that it is made again the next time."""
        with self._lock:
            self._kept.pop(key, None)
