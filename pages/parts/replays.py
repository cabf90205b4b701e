"""Replays of a session under several policies, one after another in a thread; what each came to is kept as a row.

A policy whose replay is not held any more is not replayed again for its row.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from time import monotonic

import streamlit as st
from turnscope import Policy, Trace, TurnscopeError, library
from turnscope.views import Answer, Plan, comparison, replay_cost

from pages.parts import cache, opening, policies, widgets

SWITCH = 0.001  # seconds for which a thread may keep others waiting
PATIENCE = 0.5  # seconds that a page waits for a replay before it shows how far that is
POLL = 0.5  # seconds
ANEW = 2.0  # seconds after which the page shows the rows that were made meanwhile
_KEPT = 256  # rows
_HELD = 100_000_000  # bytes of the whole replays that are held
_JOBS = 8  # that are remembered
_KEEPING = Lock()  # rows of one comparison come from two threads
Key = tuple[str, int, int, str]


def list_answers() -> dict[str, Answer]:
    """What models answered to questions of rules, in chats and on request: replays take it over."""
    return cache.open_chat_store().list_answers()


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """What is compared: policies by name, with the budget that was chosen; `model`: as if it had answered, "" = as it was.

    `answered`: how many answers of models replays take over; with more of them they come out otherwise.
    """

    policies: Mapping[str, Policy]
    model: str = ""
    answer_count: int = field(default_factory=lambda: len(list_answers()))


def has_rows(shown: opening.ShownSession, chosen: PolicyChoice) -> bool:
    """Whether the row of every policy was made before.

    Args:
        shown: the session that is shown.
        chosen: the policies, model and budget that are chosen.
    """
    return all(make_key(shown, policy, chosen) in _get_rows() for policy in chosen.policies.values())


def replay_rows(shown: opening.ShownSession, chosen: PolicyChoice, place: str = "compare") -> tuple[comparison.Row, ...]:
    """The rows of the policies that are replayed; for the others how far they are, and the page is drawn again.

    Args:
        shown: the session that is shown.
        chosen: the policies, model and budget that are chosen.
        place: what they are for, where a page replays for several things.
    """
    keys = {make_key(shown, policy, chosen): policy for policy in chosen.policies.values()}

    def take(name: Key, trace: Trace) -> None:
        take_row(name, trace, comparison.build_row(trace, get_shared_facts(shown), sent=not chosen.model))

    def take_row(name: Key, trace: Trace, row: comparison.Row) -> None:
        _keep_trace(name, trace)
        with _KEEPING:
            _get_rows()[name] = row
            while len(_get_rows()) > _KEPT:
                _get_rows().pop(next(iter(_get_rows())))

    replay_each(shown, chosen.model, keys, _get_rows(), take, place, take_row)
    return tuple(_get_rows()[name] for name in keys if name in _get_rows())


def replay_each(
    shown: opening.ShownSession,
    model: str,
    wanted: Mapping[Key, Policy],
    made: Mapping[Key, object],
    take: Callable[[Key, Trace], object],
    place: str,
    take_row: Callable[[Key, Trace, comparison.Row], object] | None = None,
) -> None:
    """Replay those policies that are not in `made` yet, one after another, in a thread; how far that is, with one button.

    What went wrong in one is raised; the next call begins anew.

    Args:
        shown: the session that is shown.
        model: the model that answers; "" = the recorded ones.
        wanted: policies by key.
        made: what is there already, by key.
        take: gets each whole replay.
        place: what they are for.
        take_row: gets each whole replay whose row another process made; None = all is done here.
    """
    if all(name in made for name in wanted):
        return
    name = (place, *wanted)
    job = _get_jobs().get(name)
    if job is None or job.state == "done":
        basis = library.ComparisonBasis(shown.trace, model, list_answers(), partial(get_shared_facts, shown))
        tasks = _build_tasks(basis, wanted, made, take, take_row)
        while len(_get_jobs()) >= _JOBS:
            _get_jobs().pop(next(iter(_get_jobs()))).cancel()
        job = _get_jobs()[name] = library.ComparisonJob(tasks, len(shown.view), basis if take_row else None)
    try:
        job.poll()
        job.wait(PATIENCE)
        job.poll()
    except Exception:
        _get_jobs().pop(name, None)
        raise
    if job.state != "done":
        _draw_progress(job, place)
    else:
        _get_jobs().pop(name, None)


def _build_tasks(
    basis: library.ComparisonBasis,
    wanted: Mapping[Key, Policy],
    made: Mapping[Key, object],
    take: Callable[[Key, Trace], object],
    take_row: Callable[[Key, Trace, comparison.Row], object] | None,
) -> list[library.ReplayTask]:
    """A task for each policy; see `replay_each`."""
    recorded = library.replace_model(basis.record, basis.model)

    def begin(name: Key, policy: Policy) -> tuple[Trace, Iterable[Plan]]:
        if trace := _get_traces().get(name):
            return trace, trace.plans
        if recorded.policy == policy and not basis.model:
            return recorded, recorded.plans
        return library.begin_replay(recorded, policy, basis.answers if policy.name != policies.RECORDED else {})

    def build_task(name: Key, policy: Policy) -> library.ReplayTask:
        task = library.ReplayTask(partial(begin, name, policy), partial(take, name), partial(made.__contains__, name))
        if take_row is None or name in _get_traces() or policy.name == policies.RECORDED:
            return task
        return replace(task, policy=policy, take_row=partial(take_row, name))

    return [build_task(name, policy) for name, policy in wanted.items()]


@st.cache_resource(show_spinner=False)
def _get_jobs() -> dict[tuple[object, ...], library.ComparisonJob]:
    """Replays under way, by what they are for; several tabs watch them. From then on threads take turns more often."""
    sys.setswitchinterval(min(SWITCH, sys.getswitchinterval()))  # a tap asks for less
    return {}


def make_key(shown: opening.ShownSession, policy: Policy, chosen: PolicyChoice) -> Key:
    """What a row is kept by: the session as it is, the policy with all its parameters, the model that answers, and answers.

    Args:
        shown: the session that is shown.
        policy: the policy, with all its parameters.
        chosen: the policies, model and budget that are chosen.
    """
    parameters = f"{policy.name}\n{chosen.model}\n{chosen.answer_count}\n{policy.to_toml()}"
    return shown.key, shown.part, len(shown.view), parameters


@st.cache_resource(show_spinner=False)
def _get_rows() -> dict[Key, comparison.Row]:
    return {}


@st.cache_resource(show_spinner=False)
def _get_traces() -> dict[Key, Trace]:
    """The newest whole replays, for those parts of the page that look at single blocks."""
    return {}


def _keep_trace(name: Key, trace: Trace) -> None:
    traces = _get_traces()
    if trace.held and trace.held.size > _HELD // 2:
        trace.held.compact()
    with _KEEPING:
        traces.pop(name, None)
        traces[name] = trace
        while len(traces) > 2 and sum(each.held.size for each in traces.values() if each.held) > _HELD:
            traces.pop(next(iter(traces)))


def replay_traces(shown: opening.ShownSession, chosen: PolicyChoice, names: Iterable[str], place: str) -> dict[str, Trace]:
    """Whole replays under two policies, replayed again where they are not held any more; how far that is until then.

    More may not be held of a long session: whoever needs many takes what it wants of each (`one_by_one`).

    Args:
        shown: the session that is shown.
        chosen: the policies, model and budget that are chosen.
        names: names of the policies.
        place: what they are for.
    """
    wanted = {make_key(shown, chosen.policies[name], chosen): chosen.policies[name] for name in names}
    for name in wanted:
        if name in _get_traces():
            _keep_trace(name, _get_traces()[name])  # so that it is not the next to go
    replay_each(shown, chosen.model, wanted, _get_traces(), _keep_trace, place)
    return {policy.name: _get_traces()[each] for each, policy in wanted.items() if each in _get_traces()}


def get_shared_facts(shown: opening.ShownSession) -> comparison.SharedFacts:
    """What all replays of a session share; read once."""
    return _read_shared_facts(shown.key, shown.part, len(shown.view), shown.trace, price_record(shown))


@st.cache_resource(max_entries=4, show_spinner=False)
def _read_shared_facts(  # the cache goes by the first three
    key: str,  # noqa: ARG001
    part: int,  # noqa: ARG001
    many: int,  # noqa: ARG001
    _trace: Trace,
    _record: replay_cost.RecordCost,
) -> comparison.SharedFacts:
    return comparison.SharedFacts.from_trace(_trace, _record)


def price_record(shown: opening.ShownSession) -> replay_cost.RecordCost:
    """What the path that is shown was billed, and what is simulated of it; once for all pages."""
    return _price_record(shown.key, shown.part, len(shown.view), shown.trace)


@st.cache_resource(max_entries=16, show_spinner=False)
def _price_record(key: str, part: int, many: int, _trace: Trace) -> replay_cost.RecordCost:  # noqa: ARG001  what the cache goes by
    return replay_cost.price_record(_trace)


def _draw_progress(job: library.ComparisonJob, place: str) -> None:
    """How far the replays are, with one button for all. The page is drawn anew with the first, now and then, at the end."""
    began, before, running = monotonic(), job.made, job.state == "running"

    def draw() -> None:
        with suppress(TurnscopeError):  # shown where the whole page is drawn
            job.poll()
        if running and (job.state != "running" or (job.made > before and (not before or monotonic() - began > ANEW))):
            widgets.rerun_page()
        with st.container(key=f"replay-bar-{place}", horizontal=True, vertical_alignment="center", gap="small"):
            state = "under way" if job.state == "running" else "stopped"
            many = f"{job.made:,} of {len(job.tasks):,} replays, {job.done:,} of {job.count:,} requests"
            st.progress(job.done / max(1, job.count), f"Replays {state}: {many}")
            if job.state == "running":
                st.button("Cancel", icon=":material/stop_circle:", key=f"{place}.cancel", on_click=job.cancel)
            elif st.button("Go on", icon=":material/play_arrow:", key=f"{place}.on"):
                job.resume()
                st.rerun()

    st.fragment(draw, run_every=POLL if running else None)()
