"""What the address says of the debugger: a policy with its parameters, and the place where the stepper stands.

`?policy=<name>&set=<changed parameters>&request=<n>&step=<k>&stops=<breakpoints>`, with what `url` reads. A policy's name is
looked up among those that are known; what an address says is never joined into a path.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st
from turnscope import library
from turnscope.views import parameters, request_summary

from pages.debugger.policy_replay import Replay
from pages.parts import opening, url
from pages.parts.policies import RECORDED, load_policies

_PLACE = "replays.place"
_CHOICE = "replays.choice"
MAX_STOPS = 200  # characters of breakpoints in an address


@dataclass(frozen=True, slots=True)
class Place:
    """Where the stepper stands. `seq` changes when the app moves it, not when it moved by itself.

    `key` names session, part and policy; `ahead`: the place that the URL names is not replayed yet, this is the nearest;
    `linked`: the app last moved it to where an address says, which a browser in a hurry may have left since; `view`: the range
    that is chosen on the strip and the breakpoints, as the address says them.
    """

    key: str
    request: int
    step: int
    block: int | None
    seq: int
    ahead: bool = False
    linked: bool = False
    view: tuple[str, ...] = ()


def recall_policy() -> None:
    """After a switch of pages, restore the policy of the URL."""
    if "policy" not in st.query_params:
        st.query_params.update(st.session_state.get(_CHOICE, {}))


def read_policy_name(known: library.PolicyCatalog) -> str:
    """Name of the policy that the URL names, else of what was really sent."""
    wanted = st.query_params.get("policy", RECORDED)
    if wanted not in known.policies and (now := known.resolve_name(wanted)) != wanted:
        st.query_params["policy"] = wanted = now
    return wanted if wanted in known.policies else RECORDED


def read_request() -> int | None:
    """Number of the request that the URL names, if any."""
    return _read_number("request")


def read_changes() -> dict[str, Any]:
    """Changed parameters. PolicyError where the link cannot be read."""
    return parameters.decode_changes(st.query_params.get("set", ""))


def choose_policy(name: str, changes: Mapping[str, Any] | None = None) -> None:
    """Show the session under another policy, at the same request.

    Args:
        name: name of the policy.
        changes: parameters that differ from its file, by key; None = none.
    """
    st.session_state[_CHOICE] = {"policy": name} | ({"set": parameters.encode_changes(changes)} if changes else {})
    for gone in ("step", "set"):
        st.query_params.pop(gone, None)
    st.query_params.update(st.session_state[_CHOICE])


def get_place() -> Place:
    """Where the stepper stands, or has to go."""
    at: Place = st.session_state[_PLACE]
    return at


def arrive(shown: opening.ShownSession, replay: Replay) -> None:
    """Take the place from the URL, else the first change. Once per run of the page: a fragment's run may bring an older URL.

    Where that is not replayed yet the URL stays, and the stepper waits at the last request that there is.

    Args:
        shown: the session that is shown.
        replay: the replay that is shown.
    """
    place: Place | None = st.session_state.get(_PLACE)
    request, step = read_request(), _read_number("step")
    plans, changes = replay.trace.plans, replay.steps.changes
    ahead = not replay.is_whole and (not changes if request is None else request >= len(plans))
    if request is None:
        request = changes[0].request if changes else request_summary.find_opening_request(shown.view)
    request = max(0, min(len(plans) - 1, request))
    if step is None:  # the first change of this request says more than its beginning
        after = bisect_left(changes, (request, 0))
        step = changes[after].step if after < len(changes) and changes[after].request == request else 0
    step = max(0, min(len(plans[request].decisions), step))
    view = _read_view()
    wanted = (replay.run.key, request, step, ahead, view)
    if place is None or (place.key, place.request, place.step, place.ahead, place.view) != wanted:
        seq = place.seq + 1 if place else 1
        place = Place(replay.run.key, request, step, None, seq, ahead, linked=True, view=view)
    keep_place(shown, place)


def _read_view() -> tuple[str, ...]:
    return tuple(url.get_view(name) for name in ("range", "stops"))


def _read_number(name: str) -> int | None:
    try:
        return int(st.query_params.get(name, ""))
    except ValueError:
        return None


def keep_place(shown: opening.ShownSession, at: Place) -> None:
    """Write a place to the URL and to memory; while the URL's own is not replayed yet, to memory alone.

    Args:
        shown: the session that is shown.
        at: the place.
    """
    st.session_state[_PLACE] = at
    if at.ahead:
        return
    base = url.note_request(shown, at.request)
    choice = {"policy": read_policy_name(load_policies())} | (
        {"set": st.query_params["set"]} if st.query_params.get("set") else {}
    )
    st.session_state[_CHOICE] = choice
    wanted = {**base, **choice, "step": str(at.step)}
    if st.query_params.to_dict() != wanted:
        st.query_params.from_dict(wanted)


def follow_stepper(shown: opening.ShownSession, replay: Replay, sent: Mapping[str, Any]) -> None:
    """The stepper reports where it stopped; numbers from a browser are taken with care.

    Args:
        shown: the session that is shown.
        replay: the replay that is shown.
        sent: the report: request, step, block, range, stops.
    """
    span = sent.get("range")
    whole = isinstance(span, (list, tuple)) and len(span) == 2 and all(isinstance(end, (int, float)) for end in span)
    url.set_span("range", (int(span[0]), int(span[1])) if span and whole else None)
    url.set_view("stops", str(sent.get("stops") or "")[:MAX_STOPS])
    place: Place | None = st.session_state.get(_PLACE)
    plans, blocks = replay.trace.plans, replay.trace.session.blocks
    request = max(0, min(len(plans) - 1, int(sent.get("request") or 0)))
    step = max(0, min(len(plans[request].decisions), int(sent.get("step") or 0)))
    block = sent.get("block")
    picked = int(block) if isinstance(block, (int, float)) and 0 <= block < len(blocks) else None
    waits = place is not None and place.ahead and (place.request, place.step) == (request, step)
    # Both stay as they are: a busy browser may draw this answer alone, and not the one before with the place of an address.
    seq, linked = (place.seq, place.linked) if place else (1, False)
    keep_place(shown, Place(replay.run.key, request, step, picked, seq, waits, linked, view=_read_view()))


def go(shown: opening.ShownSession, *, request: int | None = None, step: int = 0, block: int | None = None) -> None:
    """The app moves the stepper from where it stands by now: to another place, or to a block of this one.

    Args:
        shown: the session that is shown.
        request: number of the request; None = this one.
        step: decisions that are applied, 0 = none yet.
        block: number of the block; None = the one that the step is about.
    """
    at: Place = st.session_state[_PLACE]
    there = (at.request, at.step) if request is None else (request, step)
    keep_place(shown, Place(at.key, *there, block, at.seq + 1, at.ahead and request is None, view=at.view))
