"""Whatever a person does to a chat, and whatever goes wrong once: nothing is rejected, and the next message is answered.

Random courses against the strict provider; longer ones are `bench/bench_chat_laws.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from chat_courses import MODELS, TOOL, Course, Driver, Files, drive, list_offered
from msgspec import structs
from strict_server import READ, StrictProvider
from turnscope.errors import RuleError
from turnscope.live import branches
from turnscope.live.chat import Chat, Settings
from turnscope.live.events import FellBack, LimitReached, QueryAnswered, RequestDone, RequestRefused, TurnFailed
from turnscope.live.provider import ProviderAnswer
from turnscope.live.sinks import NullSink
from turnscope.planning.policy import load
from turnscope.rules.cline import hide_oldest_pairs
from turnscope.session.model import Usage
from turnscope.storage.threads import Threads

SEEDS = 13  # of each policy: about a thousand courses
STORED = 4  # every so many courses the chat is stored, and may branch


def make_course(name: str, seed: int) -> Course:
    """A short course: the window is small, so that each policy cuts."""
    random = Random(f"{name} {seed}")
    window = random.choice((0, 5_000, 7_000, 10_000))
    words = 700 if window else 1_500
    thinking = random.random() < 0.5
    return Course(name, seed, 6, random.choice(MODELS), window, thinking, 0.6, words, stored=seed % STORED == 0)


@pytest.mark.thorough(every=20)
@pytest.mark.parametrize("name", list_offered())
def test_no_course_ends_a_chat(name: str, tmp_path: Path) -> None:
    threads, wrong = Threads(tmp_path / "chats.db"), []
    for seed in range(SEEDS):
        outcome = drive(make_course(name, seed), threads)
        wrong += [(seed, what) for what in outcome.wrong]
        assert outcome.requests
    assert not wrong


@pytest.mark.parametrize("name", ["cline-classic", "roo", "librechat-agents"])
def test_a_long_chat_with_tools_goes_on(name: str, tmp_path: Path) -> None:
    """Windows of 32,000 tokens that fill up several times, with condensing by hand."""
    may = ("condense", "condense", "undo", "edit", "window")
    course = Course(name, 1, 60, "offline-64k", 32_000, False, 0.3, 1_500, stored=False, may=may)
    assert not drive(course, Threads(tmp_path / "chats.db")).wrong


@pytest.fixture
def chat() -> tuple[Chat, StrictProvider]:
    provider = StrictProvider()
    settings = Settings("offline-16k", load("cline-classic"), max_tokens=400)
    return branches.start_chat("s", provider, NullSink(), settings, "You are brief.", []), provider


def last(events: Iterator[Any]) -> list[Any]:
    return [*events]


def test_a_rule_that_fails_is_left_out_once_and_says_so(
    chat: tuple[Chat, StrictProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    talk, provider = chat
    for n in range(3):
        assert isinstance(last(talk.send(f"Point {n}."))[-1], RequestDone)

    def fail(*_: object) -> Any:
        raise RuleError("a placeholder cannot be cut", hint="")

    with monkeypatch.context() as patch:
        patch.setattr(hide_oldest_pairs, "_decide", fail)
        events = last(talk.send("And now?"))
    fell = [event for event in events if isinstance(event, FellBack)]
    assert len(fell) == 1
    assert "'cline-classic'" in fell[0].what
    assert "a placeholder cannot be cut" in fell[0].what
    assert isinstance(events[-1], RequestDone)
    assert any("a placeholder cannot be cut" in d.edit.because for d in events[-1].plan.decisions)
    again = last(talk.send("And then?"))
    assert isinstance(again[-1], RequestDone)
    assert not any(isinstance(event, FellBack) for event in again)
    assert not provider.rejected


def test_a_policy_that_makes_too_little_room_is_left_once(chat: tuple[Chat, StrictProvider]) -> None:
    """The window becomes much smaller than what stands in the chat."""
    talk, _ = chat
    for n in range(8):
        assert isinstance(last(talk.send(f"Point {n}. " + "The heron stands in the reeds. " * 150))[-1], RequestDone)
    talk.settings = Settings("offline-16k", load("short-tool-results"), max_tokens=400, window=4_000)
    events = last(talk.send("And now?"))
    assert [type(event) for event in events].count(FellBack) == 1
    assert isinstance(events[-1], RequestDone)
    sent = str(talk.bodies.build(events[-1].plan, talk.live_session.session))
    assert "Point 7." in sent
    assert "Point 0." not in sent


def test_a_policy_that_keeps_everything_refuses_and_another_one_goes_on(chat: tuple[Chat, StrictProvider]) -> None:
    talk, _ = chat
    talk.settings = Settings("offline-16k", load("keep-everything"), max_tokens=400, window=3_000)
    refused = None
    for n in range(9):
        refused = last(talk.send(f"Point {n}. " + "The heron stands in the reeds. " * 150))[-1]
    assert isinstance(refused, RequestRefused)
    talk.settings = Settings("offline-16k", load("last-5-pairs"), max_tokens=400, window=3_000)
    assert isinstance(last(talk.send("And now?"))[-1], RequestDone)


def test_a_message_that_no_window_holds_is_refused_and_loses_nothing(chat: tuple[Chat, StrictProvider]) -> None:
    talk, _ = chat
    assert isinstance(last(talk.send("Point 0."))[-1], RequestDone)
    refused = last(talk.send("The heron stands in the reeds. " * 4_000))
    assert isinstance(refused[-1], RequestRefused)
    assert not any(isinstance(event, FellBack) for event in refused)
    talk.exclude_message(refused[-1].error.message)
    done = last(talk.send("And now?"))[-1]
    assert isinstance(done, RequestDone)
    assert "Point 0." in str(talk.bodies.build(done.plan, talk.live_session.session))


def test_a_branch_of_a_branch_knows_the_policies_that_were_in_force(tmp_path: Path) -> None:
    driver = Driver(Course("last-5-pairs", 3, may=()), Threads(tmp_path / "chats.db"))
    for n in range(3):
        assert driver.turn(f"Point {n}.")
    for _ in range(2):
        at = driver.chat.live_session.session.messages[-1].stop
        driver.thread = driver.threads.create(parent=driver.thread, at=at)
        driver.do_resume()
    assert [(n, policy.name) for n, policy in driver.threads.list_policies(driver.thread)] == [(0, "last-5-pairs")]
    assert not any(isinstance(event, TurnFailed) for event in driver.chat.send("And now?"))


def test_condensing_by_hand_reads_a_long_chat_in_several_requests(chat: tuple[Chat, StrictProvider]) -> None:
    """None is larger than the window, all are billed, and the summary stands in the next request."""
    talk, provider = chat
    talk.settings = Settings("offline-64k", load("keep-everything"), max_tokens=400)
    for n in range(16):
        assert isinstance(last(talk.send(f"Point {n}. " + "The heron stands in the reeds. " * 400))[-1], RequestDone)
    talk.settings = Settings("offline-64k", load("keep-everything"), max_tokens=400, summary_model="offline-16k")
    before = len(provider.memory.billed)
    answered = [event for event in talk.condense(1) if isinstance(event, QueryAnswered)]
    assert len(answered) == 1
    assert not answered[0].answer.failed
    usage = answered[0].answer.usage
    assert usage
    asked = provider.memory.billed[before:]
    assert len(usage.passes) == len(asked) > 1
    assert sum(one.prompt_tokens for one in usage.passes) == sum(one[key] for one in asked for key in READ)
    done = last(talk.send("And now?"))[-1]
    assert isinstance(done, RequestDone)
    assert "Summary of the earlier conversation" in str(talk.bodies.build(done.plan, talk.live_session.session))


def test_a_turn_that_costs_much_asks_once(chat: tuple[Chat, StrictProvider]) -> None:
    talk, _ = chat
    assert talk.settings.turn_limit == 5
    talk.append_message("tools", [TOOL], "tools")
    talk.tools = Files(Random(1), 30)
    talk.settings = Settings("claude-opus-5-5", load("keep-everything"), turn_limit=Decimal("0.0001"))
    held = last(talk.send("read file a.txt"))[-1]
    assert isinstance(held, LimitReached)
    assert re.match(r"this turn has cost \$0\.\d\d; beyond \$0\.0001 the chat asks", held.why)
    assert isinstance(last(talk.continue_turn(over_limit=True))[-1], RequestDone)
    assert isinstance(last(talk.send("And now?"))[-1], RequestDone)


class Liar(StrictProvider):
    """Bills one prompt so many times."""

    factor = 1

    def _answer(self, body: Any, fault: str) -> ProviderAnswer:
        answer, factor = super()._answer(body, fault), self.factor
        self.factor = 1
        tokens = answer.usage.prompt_tokens * factor if answer.usage else 0
        return structs.replace(answer, usage=Usage(tokens, output_tokens=9)) if factor > 1 else answer


@pytest.mark.parametrize("factor", [3, 5, 10])
@pytest.mark.parametrize("name", ["keep-everything", "balanced", "cline-classic"])
def test_a_bill_that_is_many_times_off_stops_no_policy(name: str, factor: int) -> None:
    provider = Liar()
    talk = branches.start_chat("s", provider, NullSink(), Settings("offline-16k", load(name), max_tokens=400), "Brief.", [])
    for n in range(8):
        provider.factor = factor if n == 4 else 1
        assert isinstance(last(talk.send(f"Point {n}. " + "The heron stands in the reeds. " * 100))[-1], RequestDone)


def test_a_second_summary_reads_nothing_of_what_came_after_it(tmp_path: Path) -> None:
    """Continue's counts its own summary as one of the messages: a replay read one message too many, the next answer."""
    course = Course("continue-cli", 2, 45, "offline-16k", 0, False, 0.2, 400, stored=False, may=("stop", "thinking"))
    assert not drive(course, Threads(tmp_path / "chats.db")).wrong
