"""The debugger while a replay is under way: what it shows, what the link says, how it is stopped, and what goes wrong in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import streamlit as st
from turnscope import library
from turnscope.envelope.plan import Plan
from turnscope.errors import RuleError
from turnscope.library import replay_job

from pages.debugger.address import Place
from pages.parts import replays

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

FIRST = "tool-results-eat-the-window"


class Gate:
    """Lets replays plan as many requests as a test says, and then fail if it says so."""

    def __init__(self) -> None:
        self._open = threading.Semaphore(0)
        self.idle = threading.Event()  # the replay waits at the gate, so no stage is being made
        self.planned = 0
        self.error: Exception | None = None

    def let(self, many: int) -> None:
        self.idle.clear()
        self._open.release(many)

    def through(self, plans: Iterator[Plan]) -> Iterator[Plan]:
        for plan in plans:
            if not self._open.acquire(blocking=False):
                self.idle.set()
                self._open.acquire()
                self.idle.clear()
            if self.error:
                raise self.error
            self.planned += 1
            yield plan


@pytest.fixture
def gate(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate()
    begun = library.begin_replay

    def slowly(*given: Any) -> Any:
        whole, plans = begun(*given)
        return whole, made.through(plans)

    monkeypatch.setattr(library, "begin_replay", slowly)
    monkeypatch.setattr(replay_job, "FIRST_STAGE", 0.0)
    monkeypatch.setattr(replays, "PATIENCE", 0.05)
    st.cache_resource.clear()
    yield made
    made._open.release(10_000)
    st.cache_resource.clear()


def open_replay(app: AppTest, **query: str) -> None:
    app.run()
    del app.session_state["state.query"]  # the place on the page before
    app.query_params.clear()
    app.switch_page("pages/debugger.py")
    for name, value in query.items():
        app.query_params[name] = value
    app.run()


def bodies(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def query(app: AppTest) -> dict[str, str]:
    return {name: value[0] if isinstance(value, list) else value for name, value in app.query_params.items()}


def runs_until(app: AppTest, true: Callable[[], object]) -> None:
    """Run the page again and again, as its fragment does."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, bodies(app)
        app.run()
        assert not app.exception


def test_the_page_is_drawn_before_anything_is_replayed(app: AppTest, gate: Gate) -> None:
    open_replay(app, session=FIRST, policy="balanced")
    assert not app.exception
    assert "Replaying 0 of 325 requests" in bodies(app)
    assert "Nothing to show yet." in bodies(app)
    assert query(app) == {"session": FIRST, "policy": "balanced"}


@pytest.mark.thorough
def test_the_first_requests_are_shown_and_the_link_stays(app: AppTest, gate: Gate) -> None:
    link = {"session": FIRST, "policy": "balanced", "request": "300", "step": "0"}
    open_replay(app, **link)
    gate.let(120)
    runs_until(app, gate.idle.is_set)
    app.run()
    assert "Below: the first" in bodies(app)
    at = replays_place(app)
    assert at.ahead
    assert 0 < at.request < 120
    assert query(app) == link
    assert "changes in" not in bodies(app), "nothing is said of the whole"
    next(each for each in app.number_input if each.label == "Block").set_value(3).run()
    assert "#3 · " in bodies(app)
    assert query(app) == link, "to look at a block is not to go elsewhere"
    gate.let(325)
    runs_until(app, lambda: "Replaying" not in bodies(app))
    assert (replays_place(app).request, replays_place(app).ahead) == (300, False)
    assert query(app) == link
    assert "changes in" in bodies(app)


def test_without_a_request_in_the_link_the_first_change_is_waited_for(app: AppTest, gate: Gate) -> None:
    open_replay(app, session=FIRST, policy="cline-classic")
    gate.let(50)
    runs_until(app, lambda: "Below: the first" in bodies(app))
    assert "request" not in query(app)
    gate.let(325)
    runs_until(app, lambda: "Replaying" not in bodies(app))
    assert query(app)["request"] == "113"


def replays_place(app: AppTest) -> Place:
    place: Place = app.session_state["replays.place"]
    return place


@pytest.mark.thorough
def test_a_replay_can_be_cancelled_and_gone_on_with(app: AppTest, gate: Gate) -> None:
    open_replay(app, session=FIRST, policy="balanced", request="10", step="0")
    gate.let(60)
    runs_until(app, lambda: "Replaying 60 of 325 requests" in bodies(app))
    app.button(key="replay.cancel").click().run()
    gate.let(1)
    runs_until(app, lambda: "Stopped after 61 of 325 requests" in bodies(app))
    runs_until(app, lambda: "Below: the first 61 requests." in bodies(app))
    gate.let(5)
    app.run()
    assert "Stopped after 61 of 325 requests" in bodies(app)
    gate.let(325)
    app.button(key="replay.on").click().run()
    runs_until(app, lambda: "changes in" in bodies(app))
    assert "Stopped after" not in bodies(app)


def test_another_tab_goes_on_with_the_same_replay(app: AppTest, gate: Gate) -> None:
    from conftest import ROOT
    from streamlit.testing.v1 import AppTest

    open_replay(app, session=FIRST, policy="balanced")
    gate.let(40)
    other = AppTest.from_file(str(ROOT / "app.py"), default_timeout=30)
    open_replay(other, session=FIRST, policy="balanced")
    runs_until(other, lambda: "Replaying 40 of 325 requests" in bodies(other))
    assert gate.planned == 40, "no request is planned twice"


def test_what_a_rule_does_wrong_is_told_as_elsewhere(app: AppTest, gate: Gate) -> None:
    open_replay(app, session=FIRST, policy="balanced")
    gate.error = RuleError("span 3:9 is not inside", hint="This is a bug in a rule.")
    gate.let(1)
    time.sleep(0.1)
    app.run()
    assert not app.exception
    assert 'role="alert"' in bodies(app)
    assert "span 3:9 is not inside" in bodies(app)
    gate.error = None
    app.run()
    assert 'role="alert"' not in bodies(app), "it was begun anew"


def test_any_other_mistake_is_shown_as_an_exception(app: AppTest, gate: Gate) -> None:
    open_replay(app, session=FIRST, policy="balanced")
    gate.error = ZeroDivisionError("somewhere")
    gate.let(1)
    time.sleep(0.1)
    app.run()
    assert [found.value for found in app.exception] == ["somewhere"]
