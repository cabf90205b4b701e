"""Messages of Cline's screen beside those of the API's history, and the cache breakpoints that Cline sets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import turnscope
from importers.test_task_folder import (
    HISTORY,
    NOON,
    SCREEN,
    folder,
    make_caching_task,
    make_event,
    make_request,
    say,
    task,
    text,
)
from turnscope.errors import TurnscopeError
from turnscope.views.cache_layout import Breakpoint, lay_out_cache
from turnscope.views.overview import build_overview
from turnscope.views.screen_messages import describe_messages, has_screen, read_screen

ROO = "data/open/roo-cline/ac8aa7b4"


def find_breakpoints(path: Path, n: int) -> tuple[turnscope.Session, tuple[Breakpoint, ...]]:
    trace = turnscope.replay(turnscope.load(path))
    return trace.session, lay_out_cache(trace, build_overview(trace), n).breakpoints


def test_each_message_of_the_screen_belongs_to_the_message_that_it_showed(tmp_path: Path) -> None:
    history, screen = task(2)
    ask = {"ts": NOON + 6_000, "type": "ask", "ask": "followup", "text": "which?", "conversationHistoryIndex": 0}
    screen[3:3] = [ask, say("checkpoint_created", 1), say("user_feedback", 1)]
    screen.append(say("user_feedback", 3))
    history.append({"role": "user", "content": [text("<feedback>\nno\n</feedback>")], "ts": NOON + 20_000})
    folder(tmp_path, history, screen)
    found = read_screen(tmp_path)
    assert [(m.name, m.request, m.message) for m in found] == [
        ("task", -1, 0),
        ("api_req_started", 0, 0),
        ("text", 0, 1),
        ("followup", 0, 1),
        ("checkpoint_created", 0, -1),
        ("user_feedback", 0, 2),
        ("api_req_started", 1, 2),
        ("text", 1, 3),
        ("user_feedback", 1, 4),
    ]
    assert [m.index for m in found] == [-1, -1, None, 0, 1, 1, 1, None, 3]
    assert (found[3].kind, found[3].text, found[3].sent_at) == ("ask", "which?", (NOON + 6_000) / 1_000)


def test_a_message_says_how_it_stands_in_the_request(tmp_path: Path) -> None:
    history, screen = task(3)
    screen[6]["conversationHistoryDeletedRange"] = [2, 3]
    trace = turnscope.replay(folder(tmp_path, history, screen))
    described = describe_messages(trace, 2, {-1, 0, 2, 5, 6})
    assert {n: found.states for n, found in described.items()} == {0: ("here",), 2: ("absent",), 5: ("later",)}
    assert described[2].role == "user"
    assert described[2].text.startswith("[list_files for '1'] Result:")
    assert described[0].tokens > 0


def test_the_breakpoints_of_cline_are_at_the_end_of_the_last_two_messages_of_the_user(tmp_path: Path) -> None:
    folder(tmp_path, *make_caching_task())
    session, found = find_breakpoints(tmp_path, 2)
    assert [each.at for each in found] == [session.messages[2].stop - 1, session.messages[4].stop - 1]
    assert [each.inferred for each in found] == [True, True]
    assert found[-1].tokens == session.requests[2].usage.prompt_tokens  # type: ignore[union-attr]
    assert [each.at for each in find_breakpoints(tmp_path, 0)[1]] == [session.messages[0].stop - 1]


def test_a_message_that_is_masked_bears_no_breakpoint(tmp_path: Path) -> None:
    history, screen = make_caching_task()
    screen[6]["conversationHistoryDeletedRange"] = [2, 3]
    folder(tmp_path, history, screen)
    session, found = find_breakpoints(tmp_path, 2)
    assert [each.at for each in found] == [session.messages[0].stop - 1, session.messages[4].stop - 1]


@pytest.mark.parametrize(
    ("model", "cached"), [("gpt-5", {"cacheReads": 300}), ("claude-sonnet-4-5", {"cacheReads": 0, "cacheWrites": 0})]
)
def test_without_claude_or_caching_there_are_none(tmp_path: Path, model: str, cached: dict[str, int]) -> None:
    folder(tmp_path, *make_caching_task(model, **cached))
    assert find_breakpoints(tmp_path, 2)[1] == ()


def test_a_task_without_its_screen_has_no_messages_and_a_folder_that_went_is_an_error(tmp_path: Path) -> None:
    session = folder(tmp_path, task(2)[0], None)
    assert has_screen(session)
    assert read_screen(tmp_path / HISTORY) == ()
    (tmp_path / HISTORY).unlink()
    with pytest.raises(TurnscopeError):
        read_screen(tmp_path / HISTORY)


@pytest.mark.parametrize("odd", [None, [], {}, "1", True, -5, 1e300])
def test_odd_values_are_passed_over(tmp_path: Path, odd: Any) -> None:
    history, screen = task(1)
    screen += [
        {**make_event(NOON + 7_000), "text": odd, "conversationHistoryIndex": odd},
        {**make_request(NOON + 9_000, 1), "text": odd},
    ]
    folder(tmp_path, history, screen)
    found = read_screen(tmp_path / SCREEN)
    assert [m.request for m in found] == [-1, 0, 0, 0, 1]
    assert [m.index for m in found[3:]] == [-5 if odd == -5 else None, 1]


@pytest.mark.parametrize("ts", [2**52, 1.5])
def test_a_time_that_cannot_be_is_none(tmp_path: Path, ts: float) -> None:
    history, screen = task(1)
    folder(tmp_path, history, [*screen, make_event(ts)])  # type: ignore[arg-type]
    assert read_screen(tmp_path / SCREEN)[-1].sent_at is None


def test_a_real_task_was_read_from_the_cache_up_to_the_breakpoint_before_the_last(shared: Callable[..., Path]) -> None:
    path = shared(ROO)
    trace = turnscope.replay(turnscope.load(path))
    view = build_overview(trace)
    seen = 0
    for request in trace.session.requests:
        found = lay_out_cache(trace, view, request.n).breakpoints
        if found and request.usage and request.usage.cache_read_input_tokens and request.n in range(37, 45):
            read = request.usage.cache_read_input_tokens
            assert found[0].tokens == pytest.approx(read, rel=0.005)
            seen += 1
    assert seen == 8
    messages = read_screen(path)
    assert len(messages) == len(json.loads((path / SCREEN).read_text("utf-8")))
    thoughts = [m.message for m in messages if m.name == "reasoning"]
    assert {trace.session.messages[number].role for number in thoughts} == {"assistant"}
    asked = [m for m in messages if m.name == "api_req_started"]
    assert [trace.session.messages[m.message].stop for m in asked] == [request.cut for request in trace.session.requests]


def test_a_question_that_calls_itself_a_request_is_none(tmp_path: Path) -> None:
    history, screen = task(1)
    screen.append({"ts": NOON + 9_000, "type": "ask", "ask": "api_req_started", "text": "really?"})
    folder(tmp_path, history, screen)
    assert [message.request for message in read_screen(tmp_path)][-1] == 0
