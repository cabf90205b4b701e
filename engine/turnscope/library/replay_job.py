"""Replays that go on by themselves: each in a thread of its own, looked at while it is under way, stopped and gone on with.

Holds one replay under way and the shelf that they stand on. It plans nothing (`planning.assemble` does) and draws nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from threading import Condition, Lock, Thread
from time import monotonic, sleep
from typing import Literal

from turnscope.envelope.envelope import Chunk, Envelope
from turnscope.envelope.plan import Plan
from turnscope.planning.trace import Trace
from turnscope.views.stepper import Steps, build_steps

FIRST_STAGE = 0.4  # seconds until the first requests are worth a look; from then on whenever it has taken twice as long
MIN_SHOWN = 10  # requests that are not
IDLE_TIMEOUT = 6.0  # seconds without anybody looking after which it waits
WORK_SLICE, PAUSE = 0.004, 0.001  # seconds of work after which others get their turn, and how long that is
DEFER = 0.1  # seconds for which others go first, at most, before the next request is planned

State = Literal["waiting", "running", "done", "cancelled", "full", "failed"]


def _do_nothing() -> None:
    """Nobody has to tidy up after a stage."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A replay as far as it had come: the trace of its first requests, and the same as the stepper needs it."""

    trace: Trace
    steps: Steps

    def __len__(self) -> int:
        return len(self.trace.plans)


class ReplayJob:
    """One replay. `done` of `count` requests are planned, and fill about `held` bytes; `stage` is the newest that can be seen.

    `whole`: its trace without plans, or with all of them where they are at hand; `plans` makes them, one by one. It is `full`
    where it fills more than `most` bytes: what it came to is kept. `settle` is called when a stage was made.
    """

    def __init__(
        self, key: str, whole: Trace, plans: Iterable[Plan], most: int = sys.maxsize, settle: Callable[[], object] = _do_nothing
    ) -> None:
        self.key = key
        self.count = len(whole.session.requests)
        self.state: State = "waiting"
        self.stage: Stage | None = None
        self.failed: Exception | None = None
        self.done = self.held = 0
        self._whole, self._rest, self._most, self._settle = whole, iter(plans), most, settle
        self._made: list[Plan] = []
        self._texts: set[int] = set()  # what was counted in `held`, by id
        self._seen = monotonic()
        self._stop = False
        self._turn = Condition()

    def __repr__(self) -> str:
        return f"<Replaying {self._whole.policy.name!r}: {self.state}, {self.done:,} of {self.count:,} requests>"

    def poll(self) -> Stage | None:
        """Somebody looks, so it goes on. Raises what went wrong in it."""
        with self._turn:
            self._seen = monotonic()
            if self.state == "waiting":
                self._start()
        if self.failed:
            raise self.failed
        return self.stage

    def wait(self, seconds: float) -> None:
        """Wait until it is at its end, at most so long. Whoever waits looks."""
        with self._turn:
            self._seen = monotonic() + seconds
            self._turn.wait_for(lambda: self.state != "running", seconds)
            self._seen = monotonic()

    def cancel(self) -> None:
        """Stop after the request that is being planned; what is there stays."""
        with self._turn:
            self._stop = True
            if self.state == "waiting":
                self.state = "cancelled"

    def resume(self) -> None:
        """Go on after it was cancelled."""
        with self._turn:
            if self.state == "cancelled":
                self._start()

    def _start(self) -> None:
        self.state, self._stop = "running", False
        Thread(target=self._run, name=f"replay {self._whole.policy.name}", daemon=True).start()

    def _run(self) -> None:
        end: State = "failed"
        try:
            end = self._plan_all()
            if end != "waiting":
                self._make_stage()
        except Exception as error:  # noqa: BLE001 - nobody above this thread could catch it; whoever looks gets it
            self.failed = error
        with self._turn:
            self.state = end if self.failed is None else "failed"
            self._turn.notify_all()

    def _plan_all(self) -> State:
        """Plan on, and show what is there now and then; gives why it ended."""
        began = breathed = monotonic()
        due, took, before = began + FIRST_STAGE, 0.0, self.done
        for plan in self._rest:
            if not self._whole.plans:  # else they belong to whoever has them
                self.held += _estimate_bytes(self._made[-1] if self._made else None, plan, self._texts)
            self._made.append(plan)
            self.done = len(self._made)
            now = monotonic()
            if self.held > self._most:
                return "full"
            if self._stop:
                return "cancelled"
            if now - self._seen > IDLE_TIMEOUT:
                return "waiting"
            left = (self.count - self.done) * (now - began) / (self.done - before)
            if now > due and self.done >= MIN_SHOWN and left > took:
                self._make_stage()
                took = monotonic() - now
                due = monotonic() + max(now - began, 3 * took)
            if now - breathed > WORK_SLICE:
                _yield_to_threads()
                breathed = monotonic()
        return "done"

    def _make_stage(self) -> None:
        """Make a stage of what is there."""
        plans = self._whole.plans if self.done == len(self._whole.plans) else tuple(self._made)
        trace = replace(self._whole, plans=plans)
        stage = Stage(trace, build_steps(trace))
        if self.stage:
            self.held -= len(self.stage.steps.data)
        self.held += len(stage.steps.data)
        self.stage = stage
        self._settle()


def _yield_to_threads() -> None:
    """Let other threads go first. One that has work to do makes a short sleep a long one."""
    began = woke = monotonic()
    while woke - began < DEFER:
        slept = woke
        sleep(PAUSE)
        woke = monotonic()
        if woke - slept < 2 * PAUSE:
            return


class ReplayCache:
    """Replays by key, shared by all who look. While they hold over `most` bytes, those go that nobody asked for longest."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: dict[str, ReplayJob] = {}
        self._lock = Lock()

    @property
    def size(self) -> int:
        """Bytes, about."""
        return sum(replay.held for replay in self._kept.values())

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: str, make: Callable[[], ReplayJob]) -> ReplayJob:
        """The replay of that key, made where there is none."""
        with self._lock:
            found = self._kept.pop(key, None) or make()
            self._kept[key] = found  # the newest stands last
            while self.size > self.most and len(self._kept) > 1:
                self._kept.pop(next(iter(self._kept))).cancel()
            return found

    def drop(self, key: str) -> None:
        """Forget one, so that it is begun anew when it is asked for again."""
        with self._lock:
            self._kept.pop(key, None)


# What a plan adds to the memory of a trace, in bytes; `tests/library/test_replaying.py` holds it against what is allocated.
_PLAN, _DECISION, _PIECE, _CHUNK, _SLOT = 1_100, 850, 250, 250, 8
_TEXT = 2.5  # a stand-in's text, and the same as what it is sent as and counted by


def _estimate_bytes(previous: Plan | None, plan: Plan, texts: set[int]) -> int:
    """About how many bytes a plan adds to those before it, with which it shares most of its chunks, and `texts` by id."""
    known = {id(chunk) for chunk in _iter_chunks(previous)} if previous else set()
    fresh = {id(chunk): len(chunk.pieces) for chunk in _iter_chunks(plan) if id(chunk) not in known}
    envelopes = {id(each): len(each.chunks) for each in _list_envelopes(plan)}
    made = [decision for decision in plan.decisions if decision.splice]
    said = {id(part.text): part.text for decision in made for part in decision.edit.body or ()}
    asked = {id(text): text for ask, answer in plan.asks for text in (ask.content, ask.prompt, answer.text)}
    size = sum(_TEXT * sys.getsizeof(text) for each, text in said.items() if each not in texts)
    size += sum(sys.getsizeof(text) for each, text in asked.items() if each not in texts)
    texts.update(said, asked)
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
