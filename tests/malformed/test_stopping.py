"""A turn is left at once, whatever it waits for; what came is kept and told once, and the server sees that nobody listens."""

from __future__ import annotations

import json
import select
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import let_go
from malformed.rogue import WORDS, Handler, Rogue, Wrong, call, events, frame, raw, refusal, stream
from turnscope.envelope.request_outcome import INTERRUPTED
from turnscope.live.background_turn import BackgroundTurn
from turnscope.live.chat import Chat, Settings
from turnscope.live.events import RequestDone, ToolCalled
from turnscope.live.live_session import LiveSession
from turnscope.live.offline.model import COUNTER
from turnscope.live.provider import connect
from turnscope.planning.policy import load
from turnscope.session.model import Session
from turnscope.storage.threads import Threads

SOON = 1.0  # seconds
LONG = 20.0
PING = b'event: ping\ndata: {"type": "ping"}\n\n'


class Listening:
    """How long the server's silences lasted, until the client hung up."""

    def __init__(self) -> None:
        self.ended: list[float] = []

    def after(self, data: bytes | None, *, pings: bool = False) -> Wrong:
        """So much of an answer (None: not even a status), then silence, or a ping now and then."""

        def write(handler: Handler) -> None:
            if data is not None:
                raw(data)(handler)
            began = time.monotonic()
            while time.monotonic() - began < LONG:
                if select.select([handler.connection], [], [], 0.05)[0] and not handler.connection.recv(1, socket.MSG_PEEK):
                    self.ended.append(time.monotonic())
                    break
                if pings:
                    handler.wfile.write(PING)
                    handler.wfile.flush()
            handler.close_connection = True

        return write


class Slow:
    """A tool that takes long."""

    definitions = ({"name": "look", "description": "Look.", "input_schema": {"type": "object"}},)

    def run(self, name: str, given: Any) -> tuple[str, bool]:
        time.sleep(3.0)
        return f"{name}: {given}, late", False


@contextmanager
def lock_store(threads: Threads) -> Iterator[None]:
    """Another program writes, and does not end."""
    with closing(sqlite3.connect(threads.path, isolation_level=None)) as db:
        db.execute("begin immediate")
        yield


@pytest.fixture
def rogue() -> Iterator[Rogue]:
    with let_go(Rogue()) as server:
        yield server


def begun(rogue: Rogue, path: Path, retries: int = 0, **more: Any) -> tuple[Chat, Threads]:
    threads = Threads(path / "chats.db")
    thread = threads.create()
    settings = Settings("offline-200k", load("keep-everything"), **{"count_from_share": 0.0, **more})
    client = connect(rogue.url, "a-key-of-this-server", retries=retries, timeout=LONG)
    return Chat(
        LiveSession(Session(thread, source="turnscope-chat"), COUNTER), client, threads.open_writer(thread), settings, Slow()
    ), threads


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 5
    while not true():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.005)


def stop_process(running: BackgroundTurn) -> float:
    """Stop it; gives the seconds until it had ended."""
    assert not running.is_done
    began = time.monotonic()
    running.stop()
    assert running.wait(LONG)
    return time.monotonic() - began


SILENT = {
    "not even a status": (None, "", False),
    "a status alone": (b"", "", False),
    "pings alone": (b"", "", True),
    "amid the answer": (b"".join(map(frame, events()[:4])), WORDS[0] + WORDS[1], False),
    "amid the answer, with pings": (b"".join(map(frame, events()[:4])), WORDS[0] + WORDS[1], True),
    "amid an event": (b"".join(map(frame, events()[:3])) + frame(events()[3])[:-9], WORDS[0], False),
}


@pytest.mark.parametrize("case", SILENT)
def test_a_silent_server_is_left_at_once_and_what_it_said_is_kept_once(case: str, rogue: Rogue, tmp_path: Path) -> None:
    data, said, pings = SILENT[case]
    server, (talk, threads) = Listening(), begun(rogue, tmp_path)
    rogue.wrongs.append(server.after(data, pings=pings))
    running = BackgroundTurn(talk.send("hello"), talk)
    until(lambda: rogue.bodies and running.text == said)
    time.sleep(0.05)
    assert stop_process(running) < SOON
    until(lambda: server.ended)
    assert running.error is None
    stored = threads.load(talk.live_session.session.id)
    assert (stored.blocks, stored.requests) == (talk.live_session.session.blocks, talk.live_session.session.requests)
    assert [r.stop_reason for r in stored.requests] == ["interrupted"]
    assert stored.requests[0].estimate, "it may have been billed"
    assert "".join(b.text for b in stored.blocks if b.role == "assistant" and b.text != INTERRUPTED) == said
    assert isinstance(list(talk.send("and now?"))[-1], RequestDone)
    assert json.dumps(rogue.bodies[-1], ensure_ascii=False).count(said or "hello") == 1
    assert len(rogue.bodies) == 2, "nothing was sent twice"


def test_a_silent_count_is_left_and_nothing_is_sent(rogue: Rogue, tmp_path: Path) -> None:
    server, (talk, threads) = Listening(), begun(rogue, tmp_path, count_from_share=1e-9)
    rogue.counts = True
    rogue.wrongs.append(server.after(None))
    running = BackgroundTurn(talk.send("hello"), talk)
    until(lambda: rogue.bodies)
    assert stop_process(running) < SOON
    assert threads.load(talk.live_session.session.id).requests == ()
    assert "max_tokens" not in rogue.bodies[-1], "only a count was asked for"
    rogue.counts = False
    assert isinstance(list(talk.continue_turn())[-1], RequestDone)


def test_who_waits_before_trying_again_is_left_and_does_not_try_again(rogue: Rogue, tmp_path: Path) -> None:
    talk, threads = begun(rogue, tmp_path, retries=2)
    rogue.wrongs.append(refusal(529, "overloaded"))
    running = BackgroundTurn(talk.send("hello"), talk)
    until(lambda: rogue.bodies)
    time.sleep(0.1)
    assert stop_process(running) < SOON
    assert [r.stop_reason for r in threads.load(talk.live_session.session.id).requests] == ["interrupted"]
    time.sleep(1.2)  # the client's own pause is half a second
    assert len(rogue.bodies) == 1


def test_a_silent_summary_is_left(rogue: Rogue, tmp_path: Path) -> None:
    server, (talk, _) = Listening(), begun(rogue, tmp_path)
    for n in range(4):
        assert isinstance(list(talk.send(f"turn {n} " + "words " * 50))[-1], RequestDone)
    rogue.wrongs.append(server.after(None))
    running = BackgroundTurn(talk.condense(), talk)
    until(lambda: len(rogue.bodies) == 5)
    assert stop_process(running) < SOON
    until(lambda: server.ended)
    assert isinstance(list(talk.send("and now?"))[-1], RequestDone)


def test_a_slow_tool_is_left_and_the_model_is_told_who_stopped_it(rogue: Rogue, tmp_path: Path) -> None:
    talk, _ = begun(rogue, tmp_path)
    rogue.wrongs.append(stream(call("{}")))
    running = BackgroundTurn(talk.send("hello"), talk)
    until(lambda: any(isinstance(event, ToolCalled) for event in running.events))
    assert stop_process(running) < SOON
    assert isinstance(list(talk.send("and now?"))[-1], RequestDone)
    assert "stopped" in json.dumps(rogue.bodies[-1])


def test_a_connection_serves_the_next_request_and_leaving_one_turn_does_not_end_another(rogue: Rogue, tmp_path: Path) -> None:
    talk, _ = begun(rogue, tmp_path)
    for n in range(3):
        running = BackgroundTurn(talk.send(f"turn {n}"), talk)
        assert running.wait(LONG)
        assert isinstance(running.events[-1], RequestDone)
        running.stop()  # too late
    assert isinstance(list(talk.send("and now?"))[-1], RequestDone)


def test_who_waits_for_a_locked_store_before_sending_is_left_and_nothing_is_sent(rogue: Rogue, tmp_path: Path) -> None:
    talk, threads = begun(rogue, tmp_path)
    with lock_store(threads):
        running = BackgroundTurn(talk.send("hello"), talk)
        time.sleep(0.2)
        assert stop_process(running) < SOON
    assert "locked" in str(running.error), "that the message was not kept is told"
    assert rogue.bodies == []
    assert isinstance(list(talk.send("hello"))[-1], RequestDone)
    assert [b.text for b in threads.load(talk.live_session.session.id).blocks if b.role == "user"] == ["hello"]


def test_who_waits_for_a_locked_store_at_the_end_is_left_and_the_answer_is_kept_later(rogue: Rogue, tmp_path: Path) -> None:
    talk, threads = begun(rogue, tmp_path)
    rogue.wrongs.append(Listening().after(b"".join(map(frame, events()[:4]))))
    running = BackgroundTurn(talk.send("hello"), talk)
    until(lambda: running.text == WORDS[0] + WORDS[1])
    with lock_store(threads):
        assert stop_process(running) < SOON
        assert talk.writes.pending, "it is held in memory"
    assert isinstance(list(talk.send("and now?"))[-1], RequestDone)
    stored = threads.load(talk.live_session.session.id)
    assert (stored.blocks, stored.requests) == (talk.live_session.session.blocks, talk.live_session.session.requests)
    assert stored.requests[0].stop_reason == "interrupted"


def test_who_waits_for_an_answer_to_be_written_is_left(rogue: Rogue, tmp_path: Path) -> None:
    talk, threads = begun(rogue, tmp_path)
    go, said = threading.Event(), [*map(frame, events())]

    def write(handler: Handler) -> None:
        raw(b"".join(said[:4]))(handler)
        go.wait(LONG)
        handler.wfile.write(b"".join(said[4:]))
        handler.close_connection = True

    rogue.wrongs.append(write)
    running = BackgroundTurn(talk.send("hello"), talk)
    until(lambda: running.text == WORDS[0] + WORDS[1])
    with lock_store(threads):
        go.set()
        until(lambda: running.text == "".join(WORDS))
        time.sleep(0.2)
        assert stop_process(running) < SOON
        assert talk.writes.pending
    talk.writes.flush()
    assert [r.stop_reason for r in threads.load(talk.live_session.session.id).requests] == ["end_turn"]
