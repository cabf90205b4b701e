"""A tap that an app runs: started and stopped by hand, and what it counts meanwhile."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import turnscope
from turnscope.errors import TurnscopeError
from turnscope.tap import recorder as recording
from turnscope.tap import traffic
from turnscope.tap.apis import Upstreams
from turnscope.tap.service import TapService
from turnscope.tap.snippets import list_snippets
from turnscope.tap.tools import BASE_VARIABLES
from turnscope.tap.traffic import OTHERS, Client, Traffic

from tests.tap.test_gateway import ANSWER, BODY, send
from tests.tap.upstream import serve, wait_for, whole


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TapService]:
    monkeypatch.setenv("TURNSCOPE_DATA", str(tmp_path))
    made = TapService()
    yield made
    made.stop()


def test_it_counts_what_passes_and_its_recording_opens(service: TapService) -> None:
    refusal = whole(b'{"error": {"message": "Overloaded"}}', "529 Overloaded")
    with serve(whole(ANSWER), refusal, whole(ANSWER)) as upstream:
        running = service.start(upstream.url, 0)
        assert service.start("http://elsewhere", 1) is running, "one runs at a time"
        for agent in ("claude-cli/2 (x)", "claude-cli/2 (x)", "OpenAI/Python 3.57.0"):
            send(running.tap, BODY, "/v1/messages", f"User-Agent: {agent}")
        wait_for(lambda: running.read_traffic().running == 0)
        now = running.read_traffic()
        assert (now.requests, now.errors, now.per_minute, now.last_error) == (3, 1, 3, "claude-cli/2: status 529")
        assert now.clients[1].last_at <= now.last_error_at <= now.clients[0].last_at
        assert [(one.name, one.requests, one.errors) for one in now.clients] == [
            ("OpenAI/Python 3.57.0", 1, 0),
            ("claude-cli/2", 2, 1),
        ]
    service.stop()
    assert (service.running, service.last) == (None, running.path)
    assert sum(request.attempts for request in turnscope.load(running.path).requests) == 3
    place = ("127.0.0.1", int(running.tap.address.rpartition(":")[2]))
    with pytest.raises(ConnectionRefusedError), socket.create_connection(place, 1):
        pass


def test_threads_take_turns_as_often_as_with_the_command(service: TapService) -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    service.start("http://127.0.0.1:1", 0)
    assert sys.getswitchinterval() < 0.001, "so that bytes pass on while a page computes"
    sys.setswitchinterval(before)


def test_a_provider_that_gives_no_answer_is_an_error(service: TapService) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    running = service.start(f"http://127.0.0.1:{port}", 0)
    assert b"502" in send(running.tap)
    wait_for(lambda: running.read_traffic().running == 0)
    assert (running.read_traffic().errors, running.read_traffic().last_error[:8]) == (1, "no name:")


def test_what_is_no_address_and_a_port_that_is_taken_are_refused(service: TapService) -> None:
    with pytest.raises(TurnscopeError, match="no address"):
        service.start("localhost:11434", 0)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(TurnscopeError, match="cannot listen"):
        service.start("", taken.getsockname()[1])
    assert (service.running, service.last) == (None, None)


def test_a_recording_that_fails_is_a_problem_until_it_works_again(service: TapService, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_file: int, _data: memoryview) -> int:
        raise OSError("no space is left")

    with serve(whole(ANSWER)) as upstream:
        running = service.start(upstream.url, 0)
        with monkeypatch.context() as full:
            full.setattr(recording, "_write_some", fail)
            assert b"200 OK" in send(running.tap)
            wait_for(lambda: bool(running.problem))
            assert (running.problem, running.lost) == ("no space is left", 1)
        send(running.tap)
        wait_for(lambda: not running.problem)


def test_the_rate_is_that_of_the_last_minute_and_clients_are_told_apart_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "MOST_CLIENTS", 2)
    now = [0.0]
    counts = Traffic(clock=lambda: now[0])
    for number in range(1, 5):
        now[0] += 25
        counts.begin(number, [(b"User-Agent", b"tool-%d/1 more" % number)])
    assert len(counts._recent) == 3, "what is older than a minute is not held until somebody looks"
    state = counts.read()
    assert (state.requests, state.per_minute, state.running) == (4, 3, 4)
    assert state.clients == (Client(OTHERS, 2, 0, 100), Client("tool-2/1", 1, 0, 50), Client("tool-1/1", 1, 0, 25))


def test_snippets_lead_each_tool_to_the_tap() -> None:
    found = {one.tool: one.text for one in list_snippets("http://127.0.0.1:8602", Upstreams("", {}))}
    assert found["Claude Code"] == "ANTHROPIC_BASE_URL=http://127.0.0.1:8602/anthropic claude"
    assert found["Codex"] == "codex -c 'openai_base_url=\"http://127.0.0.1:8602/openai/v1\"'"
    assert json.loads(found["pi"])["providers"]["anthropic"]["baseUrl"] == "http://127.0.0.1:8602/anthropic"
    assert all("127.0.0.1:8602" in text for text in found.values())
    whole_address = list_snippets("http://127.0.0.1:8602", Upstreams("http://localhost:11434", {}))
    assert all("/anthropic" not in one.text for one in whole_address), "one provider answers all"
    assert BASE_VARIABLES.keys() >= {line.split("=")[0].removeprefix("export ") for line in found["Any other"].splitlines()}
