"""A session replayed under a policy: what the URL says of it, the shelf of replays, and the place the stepper stands at.

`?policy=<name>&set=<changed parameters>&request=<n>&step=<k>`, beside what `state` reads. A policy's name is looked up among
the built-in ones and those in the user's folder; what a URL says is never joined into a path.
"""

from __future__ import annotations

import hashlib
import sys
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st
from turnscope import Policy, Trace, library, settings
from turnscope.live.threads import Threads
from turnscope.views import Answer, CacheUse, overflow_tree, parameters, replay_cost, request_summary, stepper
from turnscope.views import rejections as refused
from turnscope.views.cached_cost import CachePrice, price_decisions

from pages.parts import state

RECORDED = "as-recorded"
HELD = 60_000_000  # bytes of all replays, but for the one that is looked at
MOST = 200_000_000  # bytes of each
SWITCH = 0.001  # seconds for which a thread may keep others waiting
PATIENCE = 0.5  # seconds that a page waits for a replay before it shows how far that is
_PLACE = "replays.place"
_CHOICE = "replays.choice"


@dataclass(frozen=True, slots=True)
class Replay:
    """A trace and its steps, of all requests or of the first ones. `key` names session, part, policy and how many those are;
    `packed` is what the browser gets, under that name. `run` is the replay that it was taken from."""

    key: str
    policy: Policy
    trace: Trace
    steps: stepper.Steps
    run: library.ReplayJob

    @property
    def packed(self) -> bytes:
        return self.key.encode() + b"\n" + self.steps.data

    @property
    def whole(self) -> bool:
        """Every request of the session is in it."""
        return len(self.trace.plans) == self.run.count


@dataclass(frozen=True, slots=True)
class Place:
    """Where the stepper stands. `seq` changes when the app moves it, not when it moved by itself.

    `key` names session, part and policy; `ahead`: the place that the URL names is not replayed yet, this is the nearest;
    `linked`: the app took it from an address, which a browser in a hurry may have left since.
    """

    key: str
    request: int
    step: int
    block: int | None
    seq: int
    ahead: bool = False
    linked: bool = False


# Which policy: the URL


def folder() -> Path:
    """The user's own policies."""
    return settings.find_data_folder() / "policies"


def shelf() -> library.PolicyCatalog:
    """Every policy there is, read again when the user's folder changes."""
    files = sorted(folder().glob("*.toml"))
    return _shelf(str(folder()), tuple((file.name, file.stat().st_mtime_ns) for file in files))


@st.cache_resource(max_entries=4, show_spinner=False)
def _shelf(where: str, files: tuple[tuple[str, int], ...]) -> library.PolicyCatalog:  # noqa: ARG001  what the cache goes by
    return library.load_catalog(folder(), settings.read_context_pairs())


def recall() -> None:
    """After a switch of pages, put back the policy that the URL said."""
    if "policy" not in st.query_params:
        st.query_params.update(st.session_state.get(_CHOICE, {}))


def chosen(known: library.PolicyCatalog) -> str:
    """Name of the policy that the URL names, else of what was really sent."""
    wanted = st.query_params.get("policy", RECORDED)
    if wanted not in known.policies and (now := known.resolve_name(wanted)) != wanted:
        st.query_params["policy"] = wanted = now
    return wanted if wanted in known.policies else RECORDED


def turned() -> dict[str, Any]:
    """Changed parameters. PolicyError where the link cannot be read."""
    return parameters.decode_changes(st.query_params.get("set", ""))


def choose(name: str, changes: Mapping[str, Any] | None = None) -> None:
    """Show the session under another policy, at the same request."""
    st.session_state[_CHOICE] = {"policy": name} | ({"set": parameters.encode_changes(changes)} if changes else {})
    for gone in ("step", "set"):
        st.query_params.pop(gone, None)
    st.query_params.update(st.session_state[_CHOICE])


# The replay


def replayed(
    shown: state.Shown, chosen_policy: Policy, model: str = "", wait: float | None = None
) -> tuple[library.ReplayJob, Replay | None]:
    """The session under a policy: replayed as long as somebody looks, once for all tabs; and as much of it as there is.

    `model`: as if that one had been asked; "" = those that were. `wait`: seconds, at most; None = `PATIENCE`. Raises
    what went wrong in it; then it is begun anew when it is asked for again.
    """
    digest = hashlib.sha256(f"{chosen_policy.name}\n{chosen_policy.to_toml()}".encode()).hexdigest()[:16]
    known = answers() if chosen_policy.name != RECORDED else {}
    key = ":".join(map(str, (shown.key, shown.part, len(shown.view), digest, len(known), *([model] if model else ()))))

    def make() -> library.ReplayJob:
        recorded = library.replace_model(shown.trace, model)
        if recorded.policy == chosen_policy and not model:
            return library.ReplayJob(key, recorded, recorded.plans, MOST, state.settle)
        return library.ReplayJob(key, *library.begin_replay(recorded, chosen_policy, known), MOST, state.settle)

    run = _replays().get(key, make)
    try:
        run.poll()
        run.wait(PATIENCE if wait is None else wait)
        run.poll()
    except Exception:
        _replays().drop(key)
        raise
    stage = run.stage
    return run, Replay(f"{key}:{len(stage)}", chosen_policy, stage.trace, stage.steps, run) if stage else None


def answers() -> dict[str, Answer]:
    """What models answered to questions of rules, in chats and where somebody asked: replays take it over."""
    return Threads(state.chats_file()).list_answers()


@st.cache_resource(show_spinner=False)
def _replays() -> library.ReplayCache:
    """Every replay that is held. From then on threads take turns more often, so that a page need not wait for a replay."""
    sys.setswitchinterval(SWITCH)
    return library.ReplayCache(HELD)


def rejected(replay: Replay) -> refused.Rejections:
    """What the provider would refuse of a replay; once for all tabs."""
    return _rejected(replay.trace, replay.key)


@st.cache_resource(max_entries=8, show_spinner=False)
def _rejected(_trace: Trace, key: str) -> refused.Rejections:  # noqa: ARG001  what the cache goes by
    return refused.find_rejections(_trace)


def cache_price(replay: Replay, request: int, number: int) -> CachePrice | None:
    """What decision `number` (from 0) of a request does to the prompt cache; None where it changed nothing."""
    decision = replay.trace.plans[request].decisions[number]
    return (
        price_decisions(replay.trace, _walked(replay.trace, replay.key), request).get(decision.seq) if decision.splice else None
    )


@st.cache_resource(max_entries=8, show_spinner=False)
def _walked(_trace: Trace, key: str) -> tuple[CacheUse, ...]:  # noqa: ARG001  what the cache goes by
    return replay_cost.simulate_cache(_trace)


def over_limit(replay: Replay) -> tuple[int, ...]:
    """The requests of a replay that came over their limit."""
    return _over_limit(replay.trace, replay.key)


@st.cache_resource(max_entries=8, show_spinner=False)
def _over_limit(_trace: Trace, key: str) -> tuple[int, ...]:  # noqa: ARG001  what the cache goes by
    return overflow_tree.find_over_limit(_trace)


# The place: the URL, and what the stepper reports


def place() -> Place:
    """Where the stepper stands, or has to go."""
    at: Place = st.session_state[_PLACE]
    return at


def arrive(shown: state.Shown, replay: Replay) -> None:
    """Take the place from the URL, else the first change. Once per run of the page: a fragment's run may bring an older URL.

    Where that is not replayed yet the URL stays, and the stepper waits at the last request that there is.
    """
    held: Place | None = st.session_state.get(_PLACE)
    request, step = _number("request"), _number("step")
    plans, changes = replay.trace.plans, replay.steps.changes
    ahead = not replay.whole and (not changes if request is None else request >= len(plans))
    if request is None:
        request = changes[0].request if changes else request_summary.find_opening_request(shown.view)
    request = max(0, min(len(plans) - 1, request))
    if step is None:  # the first change of this request says more than its beginning
        after = bisect_left(changes, (request, 0))
        step = changes[after].step if after < len(changes) and changes[after].request == request else 0
    step = max(0, min(len(plans[request].decisions), step))
    if held is None or held.key != replay.run.key or (held.request, held.step, held.ahead) != (request, step, ahead):
        held = Place(replay.run.key, request, step, None, held.seq + 1 if held else 1, ahead, linked=True)
    keep(shown, held)


def _number(name: str) -> int | None:
    try:
        return int(st.query_params.get(name, ""))
    except ValueError:
        return None


def keep(shown: state.Shown, at: Place) -> None:
    """Write a place to the URL and to memory; while the URL's own is not replayed yet, to memory alone."""
    st.session_state[_PLACE] = at
    if at.ahead:
        return
    st.session_state["state.session"] = shown.entry.id
    base = {"session": shown.entry.id, "request": str(at.request)} | ({"part": str(shown.part)} if shown.part else {})
    st.session_state["state.query"] = base
    choice = {"policy": chosen(shelf())} | ({"set": st.query_params["set"]} if st.query_params.get("set") else {})
    st.session_state[_CHOICE] = choice
    wanted = {**base, **choice, "step": str(at.step)}
    if st.query_params.to_dict() != wanted:
        st.query_params.from_dict(wanted)


def moved(shown: state.Shown, replay: Replay, sent: Mapping[str, Any]) -> None:
    """The stepper reports where it stopped; numbers from a browser are taken with care."""
    held: Place | None = st.session_state.get(_PLACE)
    plans, blocks = replay.trace.plans, replay.trace.session.blocks
    request = max(0, min(len(plans) - 1, int(sent.get("request") or 0)))
    step = max(0, min(len(plans[request].decisions), int(sent.get("step") or 0)))
    block = sent.get("block")
    picked = int(block) if isinstance(block, (int, float)) and 0 <= block < len(blocks) else None
    waits = held is not None and held.ahead and (held.request, held.step) == (request, step)
    keep(shown, Place(replay.run.key, request, step, picked, held.seq if held else 1, waits))


def go(shown: state.Shown, *, request: int | None = None, step: int = 0, block: int | None = None) -> None:
    """The app moves the stepper from where it stands by now: to another place, or to a block of this one."""
    at: Place = st.session_state[_PLACE]
    there = (at.request, at.step) if request is None else (request, step)
    keep(shown, Place(at.key, *there, block, at.seq + 1, at.ahead and request is None))
