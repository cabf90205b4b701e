"""A key goes to the origin that it was typed for, and whatever a provider echoes of it goes no further."""

from __future__ import annotations

import base64
import json
import logging
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import let_go
from malformed.echoes import list_echoes
from malformed.rogue import Handler, Rogue, Wrong, events, frame, raw, refusal, stream
from turnscope.errors import TurnscopeError
from turnscope.live import window_lookup
from turnscope.live.chat import Chat, Settings
from turnscope.live.endpoints import Endpoint, connect_endpoint
from turnscope.live.events import AnswerInterrupted, Event, RequestDone, TurnFailed
from turnscope.live.live_session import LiveSession
from turnscope.live.offline import OfflineServer
from turnscope.live.offline.model import COUNTER
from turnscope.live.provider import connect, translate_errors
from turnscope.live.rule_queries import request_summary
from turnscope.live.secrets import MASK, KeyRing, StreamScrubber, register_key, scrub
from turnscope.planning.policy import load
from turnscope.session import portable
from turnscope.session.destination import parse_origin, strip_address
from turnscope.session.model import Ask, Session
from turnscope.settings import Telemetry
from turnscope.share.export_formats import list_formats
from turnscope.storage.threads import Threads
from turnscope.telemetry.chats import trace_requests
from turnscope.telemetry.export import Exporter

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
        stream(
            [*events()[:-1], {"type": "message_delta", "context_management": {"applied_edits": [{"type": KEY}]}}, events()[-1]]
        ),
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
def record_log(path: Path) -> Iterator[None]:
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


def join_texts(errors: list[BaseException]) -> str:
    found = []
    for error in errors:
        found += [*traceback.format_exception(error), repr(error), str(error)]
        found.append(str(vars(error)) if isinstance(error, TurnscopeError) else "")
    return "\n".join(found)


@pytest.mark.thorough
def test_two_hundred_turns_with_an_echoing_server_leave_the_key_nowhere(rogue: Rogue, tmp_path: Path) -> None:
    threads, shown = Threads(tmp_path / "chats.db"), []
    thread, errors = threads.create(), []
    with record_log(tmp_path / "all.log"):
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
        + join_texts(errors)
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


@pytest.mark.parametrize(("name", "echo"), list_echoes(KEY).items())
def test_a_key_is_found_in_every_form(name: str, echo: str) -> None:
    register_key(KEY)
    text = f"You sent {echo}, thanks."
    rest = scrub({"type": [text]})["type"][0]
    assert MASK in rest, name
    assert not any(echo[at : at + 12] in rest for at in range(len(echo) - 11))
    for size in (1, 3, 7, 40):
        scrubber = StreamScrubber()
        found = "".join(scrubber(text[at : at + size]) for at in range(0, len(text), size)) + scrubber.flush()
        assert found.startswith("You sent [")
        assert not any(echo[at : at + 12] in found for at in range(len(echo) - 11)), f"{name} in pieces of {size}"


@pytest.mark.thorough
def test_forms_of_a_key_reach_neither_page_nor_file(rogue: Rogue, tmp_path: Path) -> None:
    """What is shown, stored, logged, traced with its content and exported, in one chat in which a server echoes every form."""
    threads, shown = Threads(tmp_path / "chats.db"), []
    thread, traces = threads.create(), Exporter(Telemetry(tmp_path / "traces.jsonl"))
    with record_log(tmp_path / "all.log"):
        client = connect(rogue.url, KEY, retries=0, timeout=5)
        settings = Settings("offline-200k", load("last-20-messages"), count_from_share=0.0, max_tokens=100)
        session = LiveSession(Session(thread, source="turnscope-chat"), COUNTER)
        talk = Chat(session, client, threads.open_writer(thread), settings, Box())
        for name, echo in list_echoes(KEY).items():
            call = (
                {"type": "tool_use", "id": "c", "name": "look", "input": {}},
                {"type": "input_json_delta", "partial_json": json.dumps({"at": echo})},
            )
            answers = (stream(events(call, reason="tool_use")), stream(text(f"Key: {echo}.", 5)))
            rogue.wrongs += [refusal(400, f"bad key {echo}"), *answers]
            for message in (f"first {name}", f"again {name}"):
                turn = trace_requests(lambda chat, said=message: chat.send(said), traces, content=True)
                shown.append(repr(list(turn(talk))))
            assert not rogue.wrongs
    traces.close()
    stored = threads.load(thread)
    for form in list_formats().values():
        (tmp_path / f"export.{form.suffix}").write_bytes(form.encode(stored))
    assert (tmp_path / "traces.jsonl").stat().st_size > 100_000
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert MASK.encode() in kept
    for name, echo in list_echoes(KEY).items():
        assert echo.encode() not in kept, name
        assert echo not in "".join(shown), name


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("hostile", ["a%", "%41", "aa:", "\\u", "&#1", "=", "A", "12 ", KEY[:9], "x" * 7 + " "])
def test_a_long_text_is_scrubbed_in_linear_time(hostile: str) -> None:
    register_key(KEY)
    start = time.process_time()
    scrub(hostile * (1_000_000 // len(hostile)) + "g")
    assert time.process_time() - start < 5


def test_ordinary_texts_stay_as_they_are() -> None:
    register_key(KEY)
    words = "Read `src/app.py`, line 12: 0x7f, %20, &amp; and 3f2504e0-4f89-11d3-9a0c-0305e82c3301 in the list [1, 2, 3]. "
    assert scrub(words * 20) == words * 20


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("https://me:pa55word@api.example.com/v1", "https://api.example.com/v1"),
        ("http://127.0.0.1:8080/?api_key=s3cret#x", "http://127.0.0.1:8080"),
        (" http://key@[::1]:8080 ", "http://[::1]:8080"),
    ],
)
def test_an_address_is_kept_without_a_key(typed: str, kept: str) -> None:
    assert strip_address(typed).rstrip("/") == Endpoint("server", typed).address == kept


@pytest.mark.parametrize(
    "typed",
    ["http://ⓛocalhost:1", "http://127.0.0.1:1/\x00x", "http://127.0.0.1:1\r\nX: y", "http://[::1", "http://\ud800:1"]  # noqa: RUF005
    + ["https://\u202elocalhost:1", "http://127.0.0.1:99999", "javascript:alert(1)", "file:///etc/passwd", "http://a..b:1"],
)
def test_an_odd_address_is_a_sentence(typed: str) -> None:
    with let_go(OfflineServer()) as offline, pytest.raises(TurnscopeError) as raised:  # noqa: PT012 - whichever of the two
        client = connect_endpoint(Endpoint("server", typed, "k" * 12), offline)
        with translate_errors(client):
            client.complete({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]})
    assert raised.value.hint
    assert window_lookup.fetch_window(typed, "m", "k").tokens == 0


def test_a_key_of_few_letters_scrubs_no_ordinary_word() -> None:
    register_key("w-o-r-d-s")
    assert scrub("Ordinary words stay.") == "Ordinary words stay."
    assert scrub("You sent w-o-r-d-s.") == f"You sent {MASK}."
