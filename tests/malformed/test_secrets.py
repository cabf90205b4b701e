"""A key goes to the origin that it was typed for, and whatever a provider echoes of it goes no further."""

from __future__ import annotations

import base64
import json
import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import let_go
from malformed.rogue import Handler, Rogue, Wrong, events, frame, raw, refusal, stream
from turnscope.errors import TurnscopeError
from turnscope.live import window_lookup
from turnscope.live.chat import Chat, Settings
from turnscope.live.events import AnswerInterrupted, Event, RequestDone, TurnFailed
from turnscope.live.live_session import LiveSession
from turnscope.live.offline.model import COUNTER
from turnscope.live.provider import connect
from turnscope.live.replay_summaries import request_summary
from turnscope.live.secrets import MASK, KeyRing, StreamScrubber, register_key, scrub
from turnscope.planning.policy import load
from turnscope.session import portable
from turnscope.session.destination import parse_origin
from turnscope.session.model import Ask, Session
from turnscope.storage.threads import Threads

KEY = "sk-canary-5up3r/s3cret+k3y=Zz"
TURNS = 200


def text(words: str, size: int) -> list[dict[str, Any]]:
    """An answer in pieces of a few characters, so that a key comes in many."""
    deltas = ({"type": "text_delta", "text": words[i : i + size]} for i in range(0, len(words), size))
    return events(({"type": "text", "text": ""}, *deltas))


def wrongs() -> list[Wrong]:
    """Where a server can put a key that it was sent."""
    bearer = base64.b64encode(KEY.encode()).decode()
    call = ({"type": "tool_use", "id": KEY, "name": "look", "input": {KEY: 1}},)
    streamed = (
        {"type": "tool_use", "id": "c", "name": KEY, "input": {}},
        {"type": "input_json_delta", "partial_json": json.dumps({"at": KEY})},
    )
    thought = (
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": KEY},
        {"type": "signature_delta", "signature": KEY},
    )
    return [
        refusal(401, f"invalid key {KEY}", param=KEY),
        raw(f"<html><title>{KEY}</title>{KEY}</html>".encode(), "text/html", 502, echo=KEY),
        raw(KEY.encode(), "text/plain", 500, **{"request-id": KEY, "retry-after": KEY}),
        raw(b"", "text/plain", 302, location=f"http://127.0.0.1:9/?key={KEY}"),
        stream(text(f"You sent {KEY}, and {bearer}.", 3)),
        stream(text(f"You sent {KEY}", 1)[:-2]),
        stream([*events()[:4], {"type": "error", "error": {"type": KEY, "message": KEY}}]),
        raw(b"".join([*map(frame, events()[:4]), f"event: x\ndata: {{{KEY}\n\n".encode()])),
        stream(events(call, reason="tool_use")),
        stream(events(streamed, reason="tool_use")),
        stream(events(thought, ({"type": "text", "text": KEY},))),
        stream([{**events()[0], "message": {**events()[0]["message"], "id": KEY, "model": KEY}}, *events()[1:]]),
        stream(events(reason=KEY)),
        raw(f"HTTP/1.1 {KEY}".encode(), "application/json"),
    ]


class Box:
    """A tool that says what it was given."""

    definitions = ({"name": "look", "description": "Look.", "input_schema": {"type": "object"}},)

    def run(self, name: str, given: Any) -> tuple[str, bool]:
        return f"{name}: {given}", False


@pytest.fixture
def rogue() -> Iterator[Rogue]:
    with let_go(Rogue()) as server:
        yield server


@contextmanager
def logged(path: Path) -> Iterator[None]:
    """Everything that is logged at any level, with tracebacks, into a file."""
    handler, root = logging.FileHandler(path), logging.getLogger()
    names = [root, *(logging.getLogger(name) for name in ("anthropic", "httpx2", "httpcore2"))]
    before = [logger.level for logger in names]
    root.addHandler(handler)
    for logger in names:
        logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()
        for logger, level in zip(names, before, strict=True):
            logger.setLevel(level)


def everything(errors: list[BaseException]) -> str:
    found = []
    for error in errors:
        found += [*traceback.format_exception(error), repr(error), str(error)]
        found.append(str(vars(error)) if isinstance(error, TurnscopeError) else "")
    return "\n".join(found)


def test_two_hundred_turns_with_an_echoing_server_leave_the_key_nowhere(rogue: Rogue, tmp_path: Path) -> None:
    threads, shown = Threads(tmp_path / "chats.db"), []
    thread, errors = threads.create(), []
    with logged(tmp_path / "all.log"):
        client = connect(rogue.url, KEY, retries=0, timeout=5)
        settings = Settings("offline-200k", load("last-20-messages"), count_from_share=0.0, max_tokens=100)
        talk = Chat(
            LiveSession(Session(thread, source="turnscope-chat"), COUNTER), client, threads.open_writer(thread), settings, Box()
        )
        for n in range(TURNS):
            rogue.wrongs.clear()
            rogue.wrongs.append(wrongs()[n % len(wrongs())])
            happened: list[Event] = list(talk.send(f"turn {n}"))
            errors += [e.error for e in happened if isinstance(e, TurnFailed | AnswerInterrupted)]
            shown.append(repr(happened))
        rogue.wrongs.append(refusal(401, KEY))
        answer = request_summary(client, "m", Ask("summary", "k", "Sum up.", "words", 10))
        logging.getLogger("anthropic._base_client").debug("headers %s", {"echo": KEY})
    assert any(head.get("authorization") == f"Bearer {KEY}" for head in rogue.heads), "it was sent where it belongs"
    stored = threads.load(thread)
    assert len([m for m in stored.messages if m.origin == "prompt"]) == TURNS
    assert stored.blocks == talk.live_session.session.blocks
    assert MASK in str([b.raw for b in stored.blocks])
    assert isinstance(list(talk.send("and now?"))[-1], RequestDone)
    told = (
        "".join(shown)
        + everything(errors)
        + repr(answer)
        + portable.dumps(stored).decode()
        + repr(threads.list_problems(thread))
    )
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    process = [Path("/proc/self", name) for name in ("environ", "cmdline")]
    files += [path.read_bytes() for path in process if path.exists()]
    assert (tmp_path / "all.log").stat().st_size > 10_000
    for look in (KEY, KEY[:20], base64.b64encode(KEY.encode()).decode().rstrip("="), "canary-5up3r"):
        assert look not in told
        assert not any(look.encode() in data for data in files)


def test_a_typed_address_receives_its_key_and_nothing_of_the_environment(rogue: Rogue, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "ANTHROPIC_API_KEY": "env-api-key-1234",
        "ANTHROPIC_AUTH_TOKEN": "env-auth-token-1234",
        "ANTHROPIC_CUSTOM_HEADERS": "X-Secret: env-header-1234\nAuthorization: Bearer env-header-1234",
        "HTTP_PROXY": "http://user:env-proxy-1234@127.0.0.1:9",
        "ALL_PROXY": "http://user:env-proxy-1234@127.0.0.1:9",
    }.items():
        monkeypatch.setenv(name, value)
    client = connect(rogue.url, "typed-for-this-one", retries=0, timeout=5)
    assert client.complete({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}).content
    assert rogue.heads[-1]["authorization"] == "Bearer typed-for-this-one"
    assert "env-" not in str(rogue.heads)
    assert client.destination.url == rogue.url


def test_a_redirect_is_not_followed_and_the_sentence_says_where_it_led(rogue: Rogue) -> None:
    with let_go(Rogue()) as other:

        def on(handler: Handler) -> None:
            raw(b"", "text/plain", 307, location=f"{other.url}/v1/messages")(handler)

        rogue.wrongs += [on, on]
        client = connect(rogue.url, KEY, retries=0, timeout=5)
        with pytest.raises(Exception, match="307") as raised:
            client.complete({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]})
        error = client.explain_error(raised.value)  # type: ignore[arg-type]
        assert other.url in error.what
        assert "not followed" in error.what
        assert window_lookup.fetch_window(rogue.url, "m", KEY).tokens == 0
        assert other.heads == []


def test_keys_are_kept_by_scheme_host_and_port() -> None:
    keys = KeyRing()
    keys.set_key("https://api.anthropic.com/v1", "for-anthropic")
    assert keys.get_key("https://API.anthropic.com:443/") == "for-anthropic"
    for other in ("http://api.anthropic.com", "https://api.anthropic.com:8443", "https://api.anthropic.com.evil.example", ""):
        assert keys.get_key(other) == ""
    assert "for-anthropic" not in repr(keys)
    assert parse_origin("https://user@api.anthropic.com@evil.example/") == "https://evil.example:443"
    assert parse_origin("ftp://x") == parse_origin("http://[::1") == parse_origin("nothing") == ""


@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_a_key_that_comes_in_pieces_is_scrubbed_and_every_other_text_stays(size: int) -> None:
    register_key(KEY)
    for words in (f"a {KEY} b {KEY}", f"{KEY}{KEY}", "sk-canary, but not it; sk-", f"ends with {KEY}", "ends with sk-c"):
        scrubber = StreamScrubber()
        found = "".join(scrubber(words[i : i + size]) for i in range(0, len(words), size)) + scrubber.flush()
        assert found == words.replace(KEY, MASK)
    assert scrub({KEY: [KEY, 1, None]}) == {MASK: [MASK, 1, None]}
