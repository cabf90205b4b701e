"""The built-in model keeps to the limit of an answer, as a provider does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from conftest import let_go
from turnscope.live.chat import Chat, Settings
from turnscope.live.events import RequestDone, TurnStopped
from turnscope.live.live_session import LiveSession
from turnscope.live.offline import OfflineServer
from turnscope.live.offline.model import COUNTER
from turnscope.live.provider import connect
from turnscope.live.sinks import NullSink
from turnscope.planning.policy import load
from turnscope.session.model import Session

CALL = {"name": "read_file", "description": "Read.", "input_schema": {"type": "object"}}


@pytest.fixture(scope="module")
def server() -> Iterator[OfflineServer]:
    with let_go(OfflineServer()) as server:
        yield server


def ask_model(server: OfflineServer, most: int, text: str = "Hello there, and tell me of it.", **more: Any) -> dict[str, Any]:
    asked = {"model": "offline-16k", "max_tokens": most, "messages": [{"role": "user", "content": text}], **more}
    status, answer = server.handle_message(asked)
    assert status == 200
    assert answer["usage"]["output_tokens"] <= most
    return answer


@pytest.mark.parametrize("most", [1, 4, 5, 6, 20, 50])
def test_an_answer_is_cut_at_its_limit(server: OfflineServer, most: int) -> None:
    whole, cut = ask_model(server, 1_000), ask_model(server, most)
    assert (whole["stop_reason"], cut["stop_reason"]) == ("end_turn", "max_tokens")
    text = "".join(block["text"] for block in cut["content"])
    assert whole["content"][0]["text"].startswith(text)
    assert bool(text) == (most > 4)
    assert cut["usage"]["output_tokens"] == most
    assert len(text) >= len(whole["content"][0]["text"]) * (most - 8) / whole["usage"]["output_tokens"], "it says what it may"
    exact = whole["usage"]["output_tokens"]
    assert ask_model(server, exact)["stop_reason"] == "end_turn"
    assert ask_model(server, exact - 1)["stop_reason"] == "max_tokens"


def test_a_call_comes_whole_or_not_at_all(server: OfflineServer) -> None:
    asked = {"text": "read file a_file_of_a_rather_long_name.py", "tools": [CALL]}
    assert [block["type"] for block in ask_model(server, 200, **asked)["content"]] == ["tool_use"]
    cut = ask_model(server, 8, **asked)
    assert (cut["content"], cut["stop_reason"]) == ([], "max_tokens")


@pytest.mark.parametrize("most", [3, 30, 60])
def test_a_chat_goes_on_after_an_answer_that_was_cut(server: OfflineServer, most: int) -> None:
    client = connect(server.url, "none", retries=0, timeout=20)
    settings = Settings("offline-16k", load("keep-everything"), max_tokens=most, thinking=True)
    talk = Chat(LiveSession(Session("cut"), COUNTER), client, NullSink(), settings)
    for n in range(3):
        *_, done, stop = talk.send(f"Tell me of point {n}.")
        assert isinstance(done, RequestDone)
        assert isinstance(stop, TurnStopped)
        assert done.request.stop_reason == "max_tokens"
        assert done.request.usage
        assert done.request.usage.output_tokens <= most
