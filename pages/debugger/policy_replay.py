"""A session replayed under one policy for the debugger: as much of it as there is, held once for all tabs."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass

import streamlit as st
from turnscope import Policy, Trace, library
from turnscope.views import rejections as refused
from turnscope.views import stepper
from turnscope.views.cached_cost import CachePrice, price_decisions

from pages.parts import opening, policies, replays

HELD = 60_000_000  # bytes of all replays, but for the one that is looked at


@dataclass(frozen=True, slots=True)
class Replay:
    """A stage of a replay, with all requests or the first ones. `key` names session, part, policy and how many those are;
    `run` is the replay that it was taken from."""

    key: str
    policy: Policy
    stage: library.Stage
    run: library.ReplayJob

    @property
    def trace(self) -> Trace:
        return self.stage.trace

    @property
    def steps(self) -> stepper.Steps:
        return self.stage.steps

    @property
    def browser_data(self) -> bytes:
        return self.key.encode() + b"\n" + self.steps.data

    @property
    def is_whole(self) -> bool:
        """Every request of the session is in it."""
        return len(self.trace.plans) == self.run.count


def replay_policy(
    shown: opening.ShownSession, chosen_policy: Policy, model: str = "", wait: float | None = None
) -> tuple[library.ReplayJob, Replay | None]:
    """The session under a policy: replayed as long as somebody looks, once for all tabs; and as much of it as there is.

    What went wrong in it is raised; then it is begun anew when it is requested again.

    Args:
        shown: the session that is shown.
        chosen_policy: the policy.
        model: replay as if this model had answered; "" = the recorded ones.
        wait: seconds to wait for it, at most; None = `PATIENCE`.
    """
    digest = hashlib.sha256(f"{chosen_policy.name}\n{chosen_policy.to_toml()}".encode()).hexdigest()[:16]
    known = replays.list_answers() if chosen_policy.name != policies.RECORDED else {}
    key = ":".join(map(str, (shown.key, shown.part, len(shown.view), digest, len(known), *([model] if model else ()))))

    def make() -> library.ReplayJob:
        recorded = library.replace_model(shown.trace, model)
        same = recorded.policy == chosen_policy and not model
        whole, plans = (recorded, recorded.plans) if same else library.begin_replay(recorded, chosen_policy, known)
        return library.ReplayJob(
            key, whole, plans, opening.freeze_objects, price_record=lambda: replays.price_record(shown), sent=not model
        )

    run = _get_replays().get(key, make)
    try:
        run.poll()
        run.wait(replays.PATIENCE if wait is None else wait)
        run.poll()
    except Exception:
        _get_replays().drop(key)
        raise
    stage = run.stage
    return run, Replay(f"{key}:{len(stage)}", chosen_policy, stage, run) if stage else None


@st.cache_resource(show_spinner=False)
def _get_replays() -> library.ReplayCache:
    """Every replay that is held. From then on threads take turns more often, so that a page need not wait for a replay."""
    sys.setswitchinterval(min(replays.SWITCH, sys.getswitchinterval()))  # a tap asks for less
    return library.ReplayCache(HELD)


def find_rejections(replay: Replay) -> refused.Rejections:
    """What the provider would refuse of a replay; once for all tabs."""
    return _find_rejections(replay.stage, replay.key)


@st.cache_resource(max_entries=8, show_spinner=False)
def _find_rejections(_stage: library.Stage, key: str) -> refused.Rejections:  # noqa: ARG001  what the cache goes by
    return refused.select_rejections(_stage.trace, _stage.problems)


def price_decision(replay: Replay, request: int, number: int) -> CachePrice | None:
    """What a decision does to the prompt cache; None where it changed nothing.

    Args:
        replay: the replay that is shown.
        request: number of the request.
        number: number of the decision in its request, from 0.
    """
    decision = replay.trace.plans[request].decisions[number]
    return price_decisions(replay.trace, replay.steps.cache, request).get(decision.seq) if decision.splice else None
