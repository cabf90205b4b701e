"""What passes the tap: the same bytes in both directions, at once, whatever happens on either side."""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import brotli
import pytest
import turnscope
from turnscope.reading.source import Source
from turnscope.reading.tap_log import TapCall, TapLog, read_tap_log
from turnscope.tap.apis import Upstreams
from turnscope.tap.recorder import Recorder
from turnscope.tap.server import Tap, run_tap
from turnscope.views.findings import rank_findings

from tests.tap.upstream import Answer, Upstream, ask, is_whole, join_chunks, read_answer, serve, stream, wait_for, whole

KEY = "sk-ant-a-key-that-nobody-may-read"
BODY = b'{"model": "m-1",\n  "max_tokens":9, "messages":[ {"role":"user","content":"h\\u00e9llo \xf0\x9f\x8c\xb1"} ] }'
MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "model": "m-1", "stop_reason": "end_turn"}
ANSWER = json.dumps(
    MESSAGE | {"content": [{"type": "text", "text": "good"}], "usage": {"input_tokens": 5, "output_tokens": 2}}
).encode()
EVENTS = [
    (
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","model":"m-1","content":[],'
        b'"usage":{"input_tokens":5,"output_tokens":1}}}\n\n'
    ),
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n',
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"go',
    b'od"}}\n\n',
    (
        b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}\n'
        b'\nevent: message_stop\ndata: {"type":"message_stop"}\n\n'
    ),
]


def pack_zstd(data: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.compress(data)


def make_request(body: bytes = BODY, path: str = "/v1/messages", *headers: str, host: str = "127.0.0.1:{port}") -> str:
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])


@contextmanager
def tapped(path: Path, *answers: Answer) -> Iterator[tuple[Tap, Upstream]]:
    with serve(*answers) as upstream, run_tap(path / "log.jsonl", Upstreams(upstream.url, {})) as tap:
        yield tap, upstream


def send(tap: Tap, body: bytes = BODY, path: str = "/v1/messages", *headers: str, until: bytes = b"") -> bytes:
    port = tap.address.rpartition(":")[2]
    return ask(tap.address, make_request(body, path, *headers).format(port=port).encode() + body, until=until)


def read_log(path: Path) -> TapLog:
    return read_tap_log(Source(path / "log.jsonl"))


def read_call(path: Path) -> TapCall:
    (call,) = read_log(path).calls
    return call


def split(answer: bytes) -> tuple[list[bytes], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.split(b"\r\n"), body


def test_bodies_and_headers_pass_unchanged_in_both_directions(tmp_path: Path) -> None:
    back = whole(
        ANSWER, "200 OK", "X-One: a", "Set-Cookie: b=1", "Set-Cookie: c=2", "request-id: req_1", "Connection: keep-alive"
    )
    sent = ("X-Api-Key: " + KEY, "X-Twice: 1", "anthropic-beta: one,two", "X-Twice: 2", "Accept-Encoding: br")
    with tapped(tmp_path, back) as (tap, upstream):
        head, body = split(send(tap, BODY, "/v1/messages?beta=true", *sent))
    (asked,) = upstream.came
    lines, received = asked[0].split(b"\r\n"), asked[1]
    assert (received, body) == (BODY, ANSWER)
    assert lines[0] == b"POST /v1/messages?beta=true HTTP/1.1"
    names = [name.lower() for name, _, _ in (line.partition(b": ") for line in lines[1:])]
    assert names == b"host content-type x-api-key x-twice anthropic-beta x-twice accept-encoding content-length".split()
    assert [value for name, _, value in (line.partition(b": ") for line in lines) if name.lower() == b"x-twice"] == [b"1", b"2"]
    assert head == [line for line in back[0].partition(b"\r\n\r\n")[0].split(b"\r\n") if b"Connection" not in line]
    call = read_call(tmp_path)
    assert (call.body, call.response, call.status, call.outcome) == (BODY.decode(), json.loads(ANSWER), 200, "complete")


def test_a_stream_passes_chunk_by_chunk_before_it_has_ended(tmp_path: Path) -> None:
    seen = threading.Event()
    with tapped(tmp_path, stream(*EVENTS[:2], lambda: seen.wait(10), *EVENTS[2:])) as (tap, _):
        port = int(tap.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(make_request().format(port=port).encode() + BODY)
            first = read_answer(connection, EVENTS[1][-20:])
            assert not seen.is_set()
            seen.set()
            rest = b"" if is_whole(first) else read_answer(connection, b"0\r\n\r\n")
    assert join_chunks(split(first + rest)[1]) == b"".join(EVENTS)
    session = turnscope.load(tmp_path / "log.jsonl")
    (request,) = session.requests
    assert (session.blocks[-1].text, request.usage.output_tokens, request.stop_reason) == ("good", 2, "end_turn")


@pytest.mark.parametrize(
    ("name", "pack"), [("gzip", gzip.compress), ("zstd", pack_zstd), ("br", brotli.compress), ("identity", bytes)]
)
def test_packed_bodies_pass_as_they_are_and_are_recorded_unpacked(tmp_path: Path, name: str, pack: Any) -> None:
    packed, asked = pack(b"".join(EVENTS)), pack(BODY) if name != "br" else BODY
    about = [f"Content-Encoding: {name}"]
    sent = about if name != "br" else []
    with tapped(tmp_path, stream(packed[:40], packed[40:], headers=about)) as (tap, upstream):
        head, body = split(send(tap, asked, "/v1/messages", *sent))
    assert upstream.came[0][1] == asked
    assert join_chunks(body) == packed
    assert f"Content-Encoding: {name}".encode() in head
    call = read_call(tmp_path)
    assert (call.body, "".join(call.answer)) == (BODY.decode(), b"".join(EVENTS).decode())


def test_an_encoding_that_nobody_knows_passes_and_is_named_in_the_log(tmp_path: Path) -> None:
    with tapped(tmp_path, whole(b"\x01\x02", "200 OK", "Content-Encoding: odd")) as (tap, _):
        assert split(send(tap))[1] == b"\x01\x02"
    assert "the encoding odd is not known" in read_call(tmp_path).why


@pytest.mark.parametrize(("word", "trouble"), [("\ufffd".encode(), ""), (b"\xff", "the body holds bytes that are no UTF-8")])
def test_bytes_that_are_no_text_are_named_and_a_character_that_stands_for_some_is_not(
    tmp_path: Path, word: bytes, trouble: str
) -> None:
    body = BODY.replace(b"h\\u00e9llo", word)
    with tapped(tmp_path, whole(ANSWER)) as (tap, upstream):
        send(tap, body)
    assert upstream.came[0][1] == body
    assert (read_call(tmp_path).trouble, "\ufffd" in read_call(tmp_path).body) == (trouble, True)


@pytest.mark.thorough
def test_bodies_of_twenty_megabytes_pass_and_are_recorded(tmp_path: Path) -> None:
    text = "".join(Random(1).choices("abcdefghij \n", k=20_000_000))
    body = json.dumps({"model": "m-1", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}).encode()
    back = json.dumps(MESSAGE | {"content": [{"type": "text", "text": text}], "usage": {"input_tokens": 5}}).encode()
    with tapped(tmp_path, whole(back)) as (tap, upstream):
        assert split(send(tap, body))[1] == back
        assert upstream.came[0][1] == body
    call = read_call(tmp_path)
    assert (call.body.encode() == body, call.response == json.loads(back)) == (True, True)


def test_a_body_without_a_length_passes_in_chunks(tmp_path: Path) -> None:
    head = "POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nTransfer-Encoding: chunked\r\n\r\n"
    with tapped(tmp_path, whole(ANSWER)) as (tap, upstream):
        port = tap.address.rpartition(":")[2]
        chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
        assert split(ask(tap.address, head.format(port=port).encode() + chunks))[1] == ANSWER
    assert upstream.came[0][1] == BODY


def test_a_client_that_goes_away_ends_its_request_and_the_part_that_came_is_kept(tmp_path: Path) -> None:
    def more() -> Iterator[bytes]:
        yield from stream(*EVENTS[:2], b"".join(EVENTS[2:4]), end=False)
        while True:
            time.sleep(0.02)
            yield b"7\r\n: ping\n\r\n"

    with tapped(tmp_path, more()) as (tap, upstream):
        assert b'od"}}' in send(tap, until=b": ping")
        wait_for(upstream.closed.is_set)
    call = read_call(tmp_path)
    assert call.outcome == "client gone"
    session = turnscope.load(tmp_path / "log.jsonl")
    assert (session.blocks[-1].text, session.requests[0].stop_reason) == ("good", "interrupted")
    assert any("the client closed the connection" in note.what for note in session.notes)


def test_a_provider_that_is_silent_keeps_its_client_waiting_as_long_as_it_wants(tmp_path: Path) -> None:
    over = threading.Event()
    with tapped(tmp_path, [lambda: over.wait(20)]) as (tap, _):
        port = int(tap.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(make_request().format(port=port).encode() + BODY)
            connection.settimeout(0.5)
            with pytest.raises(TimeoutError):
                connection.recv(1)
        wait_for(lambda: read_call(tmp_path).outcome)
        over.set()
    assert (read_call(tmp_path).outcome, read_call(tmp_path).status) == ("client gone", 0)


def test_events_that_are_none_pass_and_are_recorded_as_they_are(tmp_path: Path) -> None:
    odd = b"data: {no json\n\nevent\r\n\xff\xfe: 1\n\n"
    with tapped(tmp_path, stream(EVENTS[0], odd)) as (tap, _):
        assert join_chunks(split(send(tap))[1]) == EVENTS[0] + odd
    assert "".join(read_call(tmp_path).answer) == EVENTS[0].decode() + odd.decode("utf-8", "replace")
    assert len(turnscope.load(tmp_path / "log.jsonl").requests) == 1


def test_a_client_that_waits_for_leave_to_send_gets_it(tmp_path: Path) -> None:
    with tapped(tmp_path, whole(ANSWER)) as (tap, upstream):
        port = int(tap.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(make_request(BODY, "/v1/messages", "Expect: 100-continue").format(port=port).encode())
            assert read_answer(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")
            connection.sendall(BODY)
            assert split(read_answer(connection))[1] == ANSWER
    assert upstream.came[0][1] == BODY


@pytest.mark.parametrize("status", ["400 Bad Request", "401 Unauthorized", "429 Too Many Requests", "529 Overloaded"])
def test_errors_of_the_provider_pass_and_are_recorded_as_such(tmp_path: Path, status: str) -> None:
    error = json.dumps({"type": "error", "error": {"type": "some_error", "message": f"no: {KEY}"}}).encode()
    with tapped(tmp_path, whole(error, status, "Retry-After: 3")) as (tap, _):
        head, body = split(send(tap, BODY, "/v1/messages", f"x-api-key: {KEY}"))
    assert (head[0].split(b" ", 1)[1].split(b" ")[0], body) == (status.split(maxsplit=1)[0].encode(), error)
    session = turnscope.load(tmp_path / "log.jsonl")
    assert session.requests[0].stop_reason == "error"
    assert any("no: [a key was here]" in note.what for note in session.notes)


def test_one_connection_carries_several_requests(tmp_path: Path) -> None:
    with tapped(tmp_path, whole(ANSWER)) as (tap, upstream):
        port = int(tap.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            for _ in range(3):
                connection.sendall(make_request().format(port=port).encode() + BODY)
                assert split(read_answer(connection))[1] == ANSWER
    assert (len(upstream.came), upstream.connections) == (3, 1)
    assert len(read_log(tmp_path).calls) == 3


def test_an_answer_that_breaks_off_breaks_off_for_the_client_as_well(tmp_path: Path) -> None:
    with tapped(tmp_path, stream(*EVENTS[:3], end=False)) as (tap, _):
        answer = send(tap)
    assert not answer.endswith(b"0\r\n\r\n")
    assert read_call(tmp_path).outcome == "provider failed"
    assert turnscope.load(tmp_path / "log.jsonl").requests[0].stop_reason == "interrupted"


def test_a_provider_that_cannot_be_reached_is_said_in_an_error_that_sdks_read(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with run_tap(tmp_path / "log.jsonl", Upstreams(f"http://127.0.0.1:{port}", {})) as tap:
        head, body = split(send(tap))
    assert head[0].split()[1] == b"502"
    assert "gave no answer" in json.loads(body)["error"]["message"]
    assert "gave no answer" in turnscope.load(tmp_path / "log.jsonl").notes[0].what


def test_other_paths_pass_without_being_recorded(tmp_path: Path) -> None:
    with tapped(tmp_path, whole(b'{"data": []}')) as (tap, upstream):
        port = tap.address.rpartition(":")[2]
        answer = ask(tap.address, f"GET /v1/models?limit=1 HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
        assert split(answer)[1] == b'{"data": []}'
    assert upstream.came[0][0].startswith(b"GET /v1/models?limit=1 ")
    assert not (tmp_path / "log.jsonl").exists(), "a log without a call is removed"


@pytest.mark.parametrize(
    ("host", "headers"),
    [
        ("evil.example", ()),
        ("evil.example:{port}", ()),
        ("127.0.0.1:1", ()),
        ("127.0.0.1:{port}", ("Origin: https://evil.example",)),
        ("127.0.0.1:{port}", ("Origin: null",)),
        ("127.0.0.1:{port}", ("Origin: http://127.0.0.1:1",)),
        ("127.0.0.1:{port}", ("Origin: https://evil.example", "Origin: http://127.0.0.1:{port}")),
        ("127.0.0.1:{port}", ("Origin: http://[",)),
        ("127.0.0.1:{port}", ("Sec-Fetch-Site: cross-site",)),
        ("evil.example@127.0.0.1:{port}", ()),
        ("[", ()),
    ],
)
def test_foreign_hosts_and_origins_are_refused(tmp_path: Path, host: str, headers: tuple[str, ...]) -> None:
    with tapped(tmp_path, whole(ANSWER)) as (tap, upstream):
        port = tap.address.rpartition(":")[2]
        request = make_request(BODY, "/v1/messages", *headers, host=host).format(port=port).encode()
        answer = ask(tap.address, request + BODY)
    assert answer.split()[1] == b"403"
    assert upstream.came == []


def test_a_request_with_two_lengths_leaves_with_one(tmp_path: Path) -> None:
    """Servers differ in which of them they go by: what follows could be read as another request."""
    with tapped(tmp_path, whole(ANSWER)) as (tap, upstream):
        port = tap.address.rpartition(":")[2]
        head = make_request(BODY, "/v1/messages", "Transfer-Encoding: chunked").format(port=port).encode()
        ask(tap.address, head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY))
    ((asked, body),) = upstream.came
    assert (body, b"content-length" in asked, b"transfer-encoding: chunked" in asked) == (BODY, False, True)


def test_beyond_this_machine_an_address_needs_the_token(tmp_path: Path) -> None:
    with serve(whole(ANSWER)) as upstream:
        options = {"host": "0.0.0.0", "token": "t" * 24}
        with run_tap(tmp_path / "log.jsonl", Upstreams(upstream.url, {}), **options) as tap:
            port = tap.address.split("/")[2].rpartition(":")[2]
            assert tap.address.endswith("/token/" + "t" * 24)
            for path, status in (("", b"403"), ("/token/" + "u" * 24, b"403"), ("/token/" + "t" * 24, b"200")):
                request = make_request(BODY, path + "/v1/messages", host="any.example").encode() + BODY
                assert ask(f"http://127.0.0.1:{port}", request).split()[1] == status
    assert [head.split()[1] for head, _ in upstream.came] == [b"/v1/messages"]
    assert "tttt" not in (tmp_path / "log.jsonl").read_text()


def test_no_key_is_stored_whatever_carries_it(tmp_path: Path) -> None:
    echo = [f"data: {KEY[:9]}".encode(), f"{KEY[9:]} and {KEY}\n\n".encode()]
    body = BODY.replace(b"h\\u00e9llo", f"my key is {KEY}".encode())
    carried = [f"Authorization: Bearer {KEY}", f"Cookie: session={KEY}", "X-Other: kept-from-the-log-by-its-name"]
    with tapped(tmp_path, stream(*EVENTS, *echo, headers=[f"Set-Cookie: a={KEY}"])) as (tap, upstream):
        send(tap, body, f"/v1/messages?key={KEY}", *carried)
    assert upstream.came[0][1] == body
    text = (tmp_path / "log.jsonl").read_text()
    assert (KEY in text, "kept-from-the-log" in text, "/v1/messages?" in text) == (False, False, False)
    assert text.count("[a key was here]") == 3
    assert (tmp_path / "log.jsonl").stat().st_mode & 0o077 == 0


def test_the_password_of_an_upstream_is_sent_and_not_stored(tmp_path: Path) -> None:
    with serve(whole(ANSWER)) as upstream:
        address = upstream.url.replace("://", f"://me:{KEY}@")
        with run_tap(tmp_path / "log.jsonl", Upstreams(address, {})) as tap:
            send(tap)
        assert b"authorization: basic" in upstream.came[0][0].lower()
    assert KEY not in (tmp_path / "log.jsonl").read_text()
    assert read_call(tmp_path).url == f"{upstream.url}/v1/messages"


def test_a_reason_that_quotes_a_key_is_stored_without_it(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "log.jsonl")
    number = recorder.begin("anthropic-messages", "http://x/v1/messages", [], [BODY], [KEY], 1.0)
    recorder.rule(number, {"action": "passed", "why": f"not understood: {KEY}"}, "")
    recorder.close()
    assert KEY not in (tmp_path / "log.jsonl").read_text()
    assert read_call(tmp_path).ruling["why"] == "not understood: [a key was here]"


def test_a_target_without_a_slash_never_names_another_host(tmp_path: Path) -> None:
    with tapped(tmp_path, whole(ANSWER)) as (tap, upstream):
        other = upstream.url.removeprefix("http://")
        assert split(send(tap, BODY, f"@{other}/v1/messages"))[0][0].split()[1] == b"404"
    assert not upstream.came


def test_a_session_of_two_hundred_requests_costs_its_growth(tmp_path: Path) -> None:
    system = [{"type": "text", "text": "be good. " * 2_000, "cache_control": {"type": "ephemeral"}}]
    messages: list[Any] = []
    sent = 0
    with tapped(tmp_path, whole(ANSWER)) as (tap, _):
        for number in range(200):
            block = {"type": "text", "text": f"{number} " * 400}
            marked = {"role": "user", "content": [{**block, "cache_control": {"type": "ephemeral"}}]}
            body = json.dumps({"model": "m-1", "max_tokens": 9, "system": system, "messages": [*messages, marked]}).encode()
            send(tap, body)
            sent += len(body)
            messages += [{"role": "user", "content": [block]}, {"role": "assistant", "content": "good"}]
    size = (tmp_path / "log.jsonl").stat().st_size
    assert size < 2.5 * len(body) < sent / 30
    assert json.loads(read_log(tmp_path).calls[-1].body) == json.loads(body)
    assert len(turnscope.load(tmp_path / "log.jsonl").requests) == 200


def test_a_disk_that_fails_never_stops_an_agent_and_the_log_says_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from turnscope.tap import recorder

    write = recorder._write_some
    with tapped(tmp_path, whole(ANSWER)) as (tap, _):
        room = [20]  # bytes that are left on the disk

        def fill(file: int, data: memoryview) -> int:
            if not room:
                raise OSError(28, "No space left on device")
            return os.write(file, data[: room.pop()])

        monkeypatch.setattr(recorder, "_write_some", fill)
        assert split(send(tap))[1] == ANSWER
        wait_for(lambda: tap.recorder.lost)
        monkeypatch.setattr(recorder, "_write_some", write)
        assert split(send(tap, BODY.replace(b"h\\u00e9llo", b"again")))[1] == ANSWER
        wait_for(lambda: read_log(tmp_path).calls)
    said = capsys.readouterr().err
    assert "recording fails, and the agent goes on without it: [Errno 28] No space left on device" in said
    assert "recording works again; 1 calls are not in" in said
    session = turnscope.load(tmp_path / "log.jsonl")
    assert "again" in session.blocks[0].text
    assert any("1 request passed here without being recorded" in note.what for note in session.notes)
    first = rank_findings(turnscope.replay(session), turnscope.overview(session))[0]
    why = "[Errno 28] No space left on device"
    assert first.text.startswith(f"Not recorded: 1 request passed the tap, and the log holds nothing of it ({why}).")


TAP = """
import sys, time
from pathlib import Path
from turnscope.tap.apis import Upstreams
from turnscope.tap.server import run_tap
with run_tap(Path(sys.argv[1]), Upstreams(sys.argv[2], {}), port=int(sys.argv[3])) as tap:
    print(tap.address, flush=True)
    time.sleep(60)
"""


@pytest.mark.thorough
def test_killed_at_any_moment_the_log_opens_and_each_call_says_how_it_ended(tmp_path: Path) -> None:
    random = Random(5)
    slow = [part for event in EVENTS for part in (event, lambda: time.sleep(0.02))]
    with serve(stream(*slow)) as upstream:
        for turn in range(8):
            path, port = tmp_path / f"{turn}.jsonl", 0
            arguments = [sys.executable, "-c", TAP, str(path), upstream.url, str(port)]
            with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
                address = process.stdout.readline().strip()
                ports = address.rpartition(":")[2]
                request = make_request().format(port=ports).encode() + BODY
                clients = [threading.Thread(target=_ask_and_lose, args=(address, request), daemon=True) for _ in range(4)]
                for client in clients:
                    client.start()
                    time.sleep(0.02)
                time.sleep(random.random() * 0.3)
                process.send_signal(signal.SIGKILL)
            for client in clients:
                client.join(10)
            log = read_tap_log(Source(path))
            assert [note for note in log.notes if note.severity == "error"] == []
            assert {call.outcome for call in log.calls} <= {"", "complete"}
            if log.calls:
                session = turnscope.load(path)
                unended = sum(not call.outcome for call in log.calls)
                assert len(session.requests) <= len(log.calls)
                assert bool(unended) == any("no end of it is recorded" in note.what for note in session.notes)


def _ask_and_lose(address: str, request: bytes) -> None:
    with suppress(OSError):
        ask(address, request)
