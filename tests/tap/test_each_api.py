"""What can go wrong with bodies and connections, with each API: it passes as it is, and is recorded as what it was."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
import turnscope
from turnscope.session.model import Session

from tests.tap.test_gateway import make_request, pack_zstd, read_call, read_log, send, split, tapped
from tests.tap.upstream import Answer, is_whole, join_chunks, read_answer, stream, wait_for, whole


class Api(NamedTuple):
    """`events`: of an answer that says "good" in two of them."""

    path: str
    events: tuple[bytes, ...]
    prompt: str  # the name of the messages in a body
    error: Any

    def make_body(self, text: str = "h\u00e9llo \U0001f331") -> bytes:
        parts = {"contents": [{"role": "user", "parts": [{"text": text}]}]}
        said = parts if self.prompt == "contents" else {self.prompt: [{"role": "user", "content": text}]}
        about = {} if self.prompt == "contents" else {"model": "m-1", "stream": True}
        limit = {"max_tokens": 9} if self.path == "/v1/messages" else {}
        return json.dumps({**about, **limit, **said}, ensure_ascii=False).encode()


def make_events(*values: Any) -> tuple[bytes, ...]:
    return tuple(
        (f"event: {value['type']}\n" if "type" in value else "").encode() + b"data: %s\n\n" % json.dumps(value).encode()
        for value in values
    )


def make_choice(text: str, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": [choice]}


def make_candidate(text: str, **about: Any) -> dict[str, Any]:
    return {
        "candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "index": 0, **about}],
        "modelVersion": "m-1",
    }


def make_delta(text: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "content_index": 0, "delta": text}


def make_item(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
    return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}


RESPONSE = {"id": "r1", "object": "response", "created_at": 1, "model": "m-1", "status": "completed"}
USAGE = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
APIS = {
    "anthropic": Api(
        "/v1/messages",
        make_events(
            {
                "type": "message_start",
                "message": {"id": "m1", "role": "assistant", "model": "m-1", "content": [], "usage": USAGE},
            },
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "go"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "od"}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
            {"type": "message_stop"},
        ),
        "messages",
        {"type": "error", "error": {"type": "overloaded_error", "message": "too much"}},
    ),
    "chat": Api(
        "/v1/chat/completions",
        (*make_events(make_choice(""), make_choice("go"), make_choice("od"), make_choice("", "stop")), b"data: [DONE]\n\n"),
        "messages",
        {"error": {"message": "too much", "type": "server_error", "code": None}},
    ),
    "responses": Api(
        "/v1/responses",
        make_events(
            {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": make_item("")},
            make_delta("go"),
            make_delta("od"),
            {"type": "response.output_item.done", "output_index": 0, "item": make_item("good")},
            {"type": "response.completed", "response": {**RESPONSE, "output": [make_item("good")], "usage": USAGE}},
        ),
        "input",
        {"error": {"message": "too much", "type": "server_error", "code": None}},
    ),
    "gemini": Api(
        "/v1beta/models/m-1:streamGenerateContent?alt=sse",
        make_events(make_candidate("go"), make_candidate("od", finishReason="STOP")),
        "contents",
        {"error": {"code": 503, "message": "too much", "status": "UNAVAILABLE"}},
    ),
}


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Api:
    return APIS[request.param]


def read_session(path: Path) -> Session:
    return turnscope.load(path / "log.jsonl")


def read_said(session: Session) -> str:
    """What the model has said in the last request."""
    last = session.requests[-1]
    return "".join(block.text for block in session.blocks[last.cut : last.stop])


def begin(api: Api, port: int, body: bytes, *headers: str) -> socket.socket:
    """A connection over which a request was sent."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.sendall(make_request(body, api.path, *headers).format(port=port).encode() + body)
    return connection


def test_packed_bodies_over_one_connection_pass_as_they_are_and_are_read(api: Api, tmp_path: Path) -> None:
    packers = {"identity": bytes, "gzip": gzip.compress, "zstd": pack_zstd}
    packed = {name: pack(b"".join(api.events)) for name, pack in packers.items()}
    answers = [stream(data[:25], data[25:], headers=[f"Content-Encoding: {name}"]) for name, data in packed.items()]
    with tapped(tmp_path, *answers) as (tap, upstream):
        port = int(tap.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            for name, pack in packers.items():
                body = pack(api.make_body())
                request = make_request(body, api.path, f"Content-Encoding: {name}").format(port=port).encode()
                connection.sendall(request + body)
                assert join_chunks(split(read_answer(connection))[1]) == packed[name]
                assert upstream.came[-1][1] == body
                assert upstream.came[-1][0].split()[1] == api.path.encode()
    assert upstream.connections == 1
    calls = read_log(tmp_path).calls
    assert [call.body.encode() for call in calls] == [api.make_body()] * 3
    assert ["".join(call.answer).encode() for call in calls] == [b"".join(api.events)] * 3
    assert read_said(read_session(tmp_path)) == "good"


@pytest.mark.thorough
def test_twenty_megabytes_pass_both_ways_and_are_recorded(api: Api, tmp_path: Path) -> None:
    text = "".join(Random(1).choices("abcdefghij \n", k=20_000_000))
    body = api.make_body(text)
    events = [event.replace(b'"go"', json.dumps(text).encode()) for event in api.events]
    packed = gzip.compress(body, 1)
    with tapped(tmp_path, stream(*events)) as (tap, upstream):
        assert join_chunks(split(send(tap, packed, api.path, "Content-Encoding: gzip"))[1]) == b"".join(events)
        assert upstream.came[0][1] == packed
    call = read_call(tmp_path)
    assert (call.body.encode() == body, "".join(call.answer).encode() == b"".join(events)) == (True, True)


def test_a_client_that_is_gone_in_mid_stream_ends_the_request_and_what_came_is_kept(api: Api, tmp_path: Path) -> None:
    at = next(number for number, event in enumerate(api.events) if b'"go"' in event)

    def go_on() -> Iterator[bytes]:
        yield from stream(*api.events[: at + 1], end=False)
        while True:
            time.sleep(0.02)
            yield b"7\r\n: ping\n\r\n"

    with tapped(tmp_path, go_on()) as (tap, upstream):
        send(tap, api.make_body(), api.path, until=b": ping")
        wait_for(upstream.closed.is_set)
    assert read_call(tmp_path).outcome == "client gone"
    session = read_session(tmp_path)
    assert (read_said(session), session.requests[0].stop_reason) == ("go", "interrupted")


def test_a_provider_that_stalls_in_mid_stream_is_waited_for_and_what_came_is_not_held_back(api: Api, tmp_path: Path) -> None:
    over = threading.Event()
    with tapped(tmp_path, stream(api.events[0], lambda: over.wait(20), *api.events[1:])) as (tap, _):
        connection = begin(api, int(tap.address.rpartition(":")[2]), api.make_body())
        first = read_answer(connection, api.events[0][-20:])
        wait_for(lambda: [call for call in read_log(tmp_path).calls if call.answer])
        assert (read_call(tmp_path).outcome, is_whole(first)) == ("", False)
        over.set()
        rest = read_answer(connection, b"\r\n0\r\n\r\n")
        connection.close()
    assert join_chunks(split(first + rest)[1]) == b"".join(api.events)
    assert (read_call(tmp_path).outcome, read_said(read_session(tmp_path))) == ("complete", "good")


@pytest.mark.parametrize(
    "odd",
    [
        b"data: {no json\n\n",
        b"event\r\n\xff\xfe: 1\n\n",
        b"data: [1, null]\n\ndata: 7\n\n",
        b"\x00\n\ndata:",
        b'data: {"type": 5}\n\n',
    ],
)
def test_events_that_are_none_pass_and_what_is_whole_among_them_is_read(api: Api, tmp_path: Path, odd: bytes) -> None:
    parts = [part for event in api.events for part in (event, odd)]
    with tapped(tmp_path, stream(*parts)) as (tap, _):
        assert join_chunks(split(send(tap, api.make_body(), api.path))[1]) == b"".join(parts)
    call = read_call(tmp_path)
    assert (call.outcome, "".join(call.answer)) == ("complete", b"".join(parts).decode("utf-8", "replace"))
    assert len(read_session(tmp_path).requests) == 1


def test_a_client_that_waits_for_leave_gets_it_and_its_body_passes(api: Api, tmp_path: Path) -> None:
    with tapped(tmp_path, stream(*api.events)) as (tap, upstream):
        port, body = int(tap.address.rpartition(":")[2]), api.make_body()
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(make_request(body, api.path, "Expect: 100-continue").format(port=port).encode())
            assert read_answer(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")
            connection.sendall(body)
            assert join_chunks(split(read_answer(connection))[1]) == b"".join(api.events)
    assert upstream.came[0][1] == body
    assert b"expect" not in upstream.came[0][0].lower()


@pytest.mark.parametrize("status", ["400 Bad Request", "429 Too Many Requests", "503 Service Unavailable"])
def test_errors_pass_and_are_recorded_as_such(api: Api, tmp_path: Path, status: str) -> None:
    error = json.dumps(api.error).encode()
    with tapped(tmp_path, whole(error, status, "Retry-After: 3")) as (tap, _):
        head, body = split(send(tap, api.make_body(), api.path))
    assert (head[0].split(b" ")[1], body, b"Retry-After: 3" in head) == (status[:3].encode(), error, True)
    assert (read_call(tmp_path).status, read_call(tmp_path).response) == (int(status[:3]), api.error)
    session = read_session(tmp_path)
    assert session.requests[0].stop_reason == "error"
    assert any("too much" in note.what for note in session.notes)


def test_an_answer_that_breaks_off_breaks_off_for_the_client_and_what_came_is_kept(api: Api, tmp_path: Path) -> None:
    at = next(number for number, event in enumerate(api.events) if b'"go"' in event)
    broken: Answer = stream(*api.events[: at + 1], end=False)
    with tapped(tmp_path, broken) as (tap, _):
        answer = send(tap, api.make_body(), api.path)
    assert b'"go"' in answer
    assert not answer.endswith(b"0\r\n\r\n")
    session = read_session(tmp_path)
    assert (read_call(tmp_path).outcome, session.requests[0].stop_reason) == ("provider failed", "interrupted")
    assert read_said(session) == "go"


def test_a_client_that_goes_before_its_request_is_whole_is_recorded_and_the_provider_gets_no_whole_one(
    api: Api, tmp_path: Path
) -> None:
    with tapped(tmp_path, stream(*api.events)) as (tap, upstream):
        port, body = int(tap.address.rpartition(":")[2]), api.make_body()
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(make_request(body, api.path).format(port=port).encode() + body[:-9])
            time.sleep(0.05)
        wait_for(lambda: (tmp_path / "log.jsonl").exists() and read_log(tmp_path).calls and read_call(tmp_path).outcome)
        assert not upstream.came
    assert read_call(tmp_path).outcome == "client gone"
