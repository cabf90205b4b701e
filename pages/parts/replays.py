"""Replays of a session under several policies, one after another in a thread; what each came to is kept as a row.

A policy whose replay is not held any more is not replayed again for its row.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic

import streamlit as st
from turnscope import Policy, Trace, TurnscopeError, library
from turnscope.views import Answer, Plan, comparison

from pages.parts import cache, opening, policies

SWITCH = 0.001  # seconds for which a thread may keep others waiting
PATIENCE = 0.5  # seconds that a page waits for a replay before it shows how far that is
POLL = 0.5  # seconds
ANEW = 2.0  # seconds after which the page shows the rows that were made meanwhile
_KEPT = 256  # rows
_PLANS = 20_000  # requests of all replays that are held
_JOBS = 8  # that are remembered
Key = tuple[str, int, int, str]


def answers() -> dict[str, Answer]:
    """What models answered to questions of rules, in chats and where somebody asked: replays take it over."""
    return cache.chat_store().list_answers()


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is compared: policies by name, with the budget that was chosen; `model`: as if it had been asked, "" = as it was.

    `answered`: how many answers of models replays take over; with more of them they come out otherwise.
    """

    policies: Mapping[str, Policy]
    model: str = ""
    answered: int = field(default_factory=lambda: len(answers()))


def at_hand(shown: opening.Shown, chosen: Chosen) -> bool:
    """Whether the row of every policy was made before."""
    return all(key(shown, policy, chosen) in _rows() for policy in chosen.policies.values())


def replayed(shown: opening.Shown, chosen: Chosen, place: str = "compare") -> tuple[comparison.Row, ...]:
    """The rows of the policies that are replayed; for the others how far they are, and the page is drawn again.

    `place`: for what, where a page replays for several.
    """
    keys = {key(shown, policy, chosen): policy for policy in chosen.policies.values()}

    def take(name: Key, trace: Trace) -> None:
        _keep_trace(name, trace)
        _rows()[name] = comparison.build_row(trace, shared(shown), sent=not chosen.model)
        while len(_rows()) > _KEPT:
            _rows().pop(next(iter(_rows())))

    one_by_one(shown, chosen.model, keys, _rows(), take, place)
    return tuple(_rows()[name] for name in keys if name in _rows())


def one_by_one(
    shown: opening.Shown,
    model: str,
    wanted: Mapping[Key, Policy],
    made: Mapping[Key, object],
    take: Callable[[Key, Trace], object],
    place: str,
) -> None:
    """Replay those policies that are not in `made` yet, one after another, in a thread; how far that is, with one button for
    all. `take` gets each whole replay. Raises what went wrong in one, after which asking again begins anew."""
    if all(name in made for name in wanted):
        return
    name = (place, *wanted)
    job = _jobs().get(name)
    if job is None or job.state == "done":
        recorded, known = library.replace_model(shown.trace, model), answers()

        def begin(name: Key, policy: Policy) -> tuple[Trace, Iterable[Plan]]:
            if kept := _traces().get(name):
                return kept, kept.plans
            if recorded.policy == policy and not model:
                return recorded, recorded.plans
            return library.begin_replay(recorded, policy, known if policy.name != policies.RECORDED else {})

        tasks = [
            library.ReplayTask(partial(begin, each, policy), partial(take, each), partial(made.__contains__, each))
            for each, policy in wanted.items()
        ]
        while len(_jobs()) >= _JOBS:
            _jobs().pop(next(iter(_jobs()))).cancel()
        job = _jobs()[name] = library.ComparisonJob(tasks, len(shown.view))
    try:
        job.poll()
        job.wait(PATIENCE)
        job.poll()
    except Exception:
        _jobs().pop(name, None)
        raise
    if job.state != "done":
        _progress(job, place)
    else:
        _jobs().pop(name, None)


@st.cache_resource(show_spinner=False)
def _jobs() -> dict[tuple[object, ...], library.ComparisonJob]:
    """Replays under way, by what they are for; several tabs watch them. From then on threads take turns more often."""
    sys.setswitchinterval(SWITCH)
    return {}


def key(shown: opening.Shown, policy: Policy, chosen: Chosen) -> Key:
    """What a row is kept by: the session as it is, the policy with all its parameters, the model that is asked, and answers."""
    told = f"{policy.name}\n{chosen.model}\n{chosen.answered}\n{policy.to_toml()}"
    return shown.key, shown.part, len(shown.view), told


@st.cache_resource(show_spinner=False)
def _rows() -> dict[Key, comparison.Row]:
    return {}


@st.cache_resource(show_spinner=False)
def _traces() -> dict[Key, Trace]:
    """The newest whole replays, for those parts of the page that look at single blocks."""
    return {}


def _keep_trace(name: Key, trace: Trace) -> None:
    held = _traces()
    held.pop(name, None)
    held[name] = trace
    while len(held) > 2 and sum(len(each.plans) for each in held.values()) > _PLANS:
        held.pop(next(iter(held)))


def traces(shown: opening.Shown, chosen: Chosen, names: Iterable[str], place: str) -> dict[str, Trace]:
    """Whole replays under two policies, replayed again where they are not held any more; how far that is until then.

    More may not be held of a long session: whoever needs many takes what it wants of each (`one_by_one`).
    """
    wanted = {key(shown, chosen.policies[name], chosen): chosen.policies[name] for name in names}
    for name in wanted:
        if name in _traces():
            _keep_trace(name, _traces()[name])  # so that it is not the next to go
    one_by_one(shown, chosen.model, wanted, _traces(), _keep_trace, place)
    return {policy.name: _traces()[each] for each, policy in wanted.items() if each in _traces()}


def shared(shown: opening.Shown) -> comparison.SharedFacts:
    """What all replays of a session share; read once."""
    return _shared(shown.key, shown.part, len(shown.view), shown.trace)


@st.cache_resource(max_entries=4, show_spinner=False)
def _shared(key: str, part: int, many: int, _trace: Trace) -> comparison.SharedFacts:  # noqa: ARG001  what the cache goes by
    return comparison.SharedFacts.from_trace(_trace)


def _progress(job: library.ComparisonJob, place: str) -> None:
    """How far the replays are, with one button for all. The page is drawn anew when they are at their end, and now and then."""
    began, before, running = monotonic(), job.made, job.state == "running"

    def draw() -> None:
        with suppress(TurnscopeError):  # told where the whole page is drawn
            job.poll()
        if running and (job.state != "running" or (job.made > before and monotonic() - began > ANEW)):
            st.rerun()
        with st.container(key=f"replay-bar-{place}", horizontal=True, vertical_alignment="center", gap="small"):
            said = "under way" if job.state == "running" else "stopped"
            many = f"{job.made:,} of {len(job.tasks):,} replays, {job.done:,} of {job.count:,} requests"
            st.progress(job.done / max(1, job.count), f"Replays {said}: {many}")
            if job.state == "running":
                st.button("Cancel", icon=":material/stop_circle:", key=f"{place}.cancel", on_click=job.cancel)
            elif st.button("Go on", icon=":material/play_arrow:", key=f"{place}.on"):
                job.resume()
                st.rerun()

    st.fragment(draw, run_every=POLL if running else None)()
