"""Replays in threads of their own: looked at while they are under way, cancelled, resumed, and kept in a cache.

Plans nothing (`planning.assemble` does) and draws nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from threading import Lock
from time import monotonic, sleep

from turnscope.envelope.envelope import Chunk, Envelope
from turnscope.envelope.plan import Plan
from turnscope.library.job import PAUSE, Job, State
from turnscope.planning.trace import Trace
from turnscope.views.stepper import Steps, build_steps

FIRST_STAGE = 0.4  # seconds until the first stage; each later stage waits until the replay has taken twice as long
MIN_SHOWN = 10  # requests below which no stage is made
WORK_SLICE = 0.004  # seconds of work after which other threads get their turn
DEFER = 0.1  # seconds for which other threads go first, at most, before the next request is planned


def _do_nothing() -> None:
    """The default of `on_stage`."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A replay as far as it has come: the trace of its first requests, and the same as the stepper needs it."""

    trace: Trace
    steps: Steps

    def __len__(self) -> int:
        return len(self.trace.plans)


class ReplayJob(Job):
    """One replay. `done` of `count` requests are planned, in about `held` bytes; `stage` is the newest one that can be shown.

    Its state is full once it holds more than `most` bytes; the stage that it has come to stays.

    Args:
        key: names the replay in a `ReplayCache`.
        whole: its trace without plans, or with all of them where they are at hand.
        plans: the plans of all requests, in order.
        most: bytes that the replay may hold.
        on_stage: called after each new stage.
    """

    def __init__(
        self,
        key: str,
        whole: Trace,
        plans: Iterable[Plan],
        most: int = sys.maxsize,
        on_stage: Callable[[], object] = _do_nothing,
    ) -> None:
        super().__init__(f"replay {whole.policy.name}", len(whole.session.requests))
        self.key = key
        self.stage: Stage | None = None
        self.held = 0
        self._whole, self._rest, self._most, self._on_stage = whole, iter(plans), most, on_stage
        self._made: list[Plan] = []
        self._texts: set[int] = set()  # ids of the texts that `held` counts

    def __repr__(self) -> str:
        return f"<ReplayJob {self._whole.policy.name!r}: {self.state}, {self.done:,} of {self.count:,} requests>"

    def _work(self) -> State:
        end = self._plan_all()
        if end != "waiting":
            self._make_stage()
        return end

    def _plan_all(self) -> State:
        """Plan the remaining requests, and make a stage now and then. Returns the state that this ends in."""
        began = paused_at = monotonic()
        due, took, before = began + FIRST_STAGE, 0.0, self.done
        for plan in self._rest:
            if not self._whole.plans:  # else the plans belong to whoever holds that trace
                self.held += _estimate_bytes(self._made[-1] if self._made else None, plan, self._texts)
            self._made.append(plan)
            self.done = len(self._made)
            if self.held > self._most:
                return "full"
            if interruption := self._interruption():
                return interruption
            now = monotonic()
            left = (self.count - self.done) * (now - began) / (self.done - before)
            if now > due and self.done >= MIN_SHOWN and left > took:
                self._make_stage()
                took = monotonic() - now
                due = monotonic() + max(now - began, 3 * took)
            if now - paused_at > WORK_SLICE:
                _yield_to_threads()
                paused_at = monotonic()
        return "done"

    def _make_stage(self) -> None:
        """Make a stage of the requests that are planned."""
        plans = self._whole.plans if self.done == len(self._whole.plans) else tuple(self._made)
        trace = replace(self._whole, plans=plans)
        stage = Stage(trace, build_steps(trace))
        if self.stage:
            self.held -= len(self.stage.steps.data)
        self.held += len(stage.steps.data)
        self.stage = stage
        self._on_stage()


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
    """Replays by key, shared by all callers. While they hold more than `most` bytes, the least recently used are dropped."""

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
                self._kept.pop(next(iter(self._kept))).cancel()
            return found

    def drop(self, key: str) -> None:
        """Drop a replay, so that it is made again the next time."""
        with self._lock:
            self._kept.pop(key, None)


# What a plan adds to the memory of a trace, in bytes; `tests/library/test_replay_job.py` compares it with what is allocated.
_PLAN, _DECISION, _PIECE, _CHUNK, _SLOT = 1_100, 850, 250, 250, 8
_TEXT = 2.5  # a placeholder's text, and the copies of it that are sent and counted


def _estimate_bytes(previous: Plan | None, plan: Plan, texts: set[int]) -> int:
    """Estimate the bytes that a plan adds to those before it, with which it shares most of its chunks. `texts`: ids counted
    before.
    """
    known = {id(chunk) for chunk in _iter_chunks(previous)} if previous else set()
    fresh = {id(chunk): len(chunk.pieces) for chunk in _iter_chunks(plan) if id(chunk) not in known}
    envelopes = {id(each): len(each.chunks) for each in _list_envelopes(plan)}
    made = [decision for decision in plan.decisions if decision.splice]
    placeholders = {id(part.text): part.text for decision in made for part in decision.edit.body or ()}
    queries = {id(text): text for ask, answer in plan.asks for text in (ask.content, ask.prompt, answer.text)}
    size = sum(_TEXT * sys.getsizeof(text) for each, text in placeholders.items() if each not in texts)
    size += sum(sys.getsizeof(text) for each, text in queries.items() if each not in texts)
    texts.update(placeholders, queries)
    return (
        _PLAN
        + _DECISION * (len(plan.decisions) + len(plan.server))
        + _PIECE * sum(len(decision.splice.new) + 1 for decision in made if decision.splice)
        + sum(_CHUNK + _SLOT * many for many in (*fresh.values(), *envelopes.values()))
        + int(size)
    )


def _list_envelopes(plan: Plan) -> tuple[Envelope, ...]:
    return plan.before, plan.after, plan.seen, plan.kept, plan.base


def _iter_chunks(plan: Plan) -> Iterator[Chunk]:
    return (chunk for envelope in _list_envelopes(plan) for chunk in envelope.chunks)
