"""A server that sends without end: it is left at a limit, with a sentence, and what came is kept."""

from __future__ import annotations

import gzip
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache

import pytest
from conftest import let_go
from malformed.rogue import Handler, Rogue, Wrong, events, frame, raw
from turnscope.errors import ProviderError
from turnscope.live import bounded_transport, provider
from turnscope.live.events import TextDelta
from turnscope.live.provider import connect, stream_answer, translate_errors
from turnscope.live.provider_errors import explain_refusal

BODY = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}
MB = 1 << 20


@pytest.fixture
def rogue() -> Iterator[Rogue]:
    with let_go(Rogue()) as server:
        yield server


@cache
def pack_zeros(size: int) -> bytes:
    """So many bytes of zeros, packed."""
    return gzip.compress(bytes(size), 1)


def write_on(piece: bytes, *, pause: float = 0.0, kind: str = "text/event-stream") -> Wrong:
    """The beginning of an answer, then the same piece again and again."""

    def write(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", kind)
        handler.end_headers()
        handler.close_connection = True
        with suppress(OSError):
            handler.wfile.write(b"".join(map(frame, events()[:4])))
            for _ in range(1 << 30):
                handler.wfile.write(piece)
                handler.wfile.flush()
                if pause:
                    time.sleep(pause)

    return write


def read(rogue: Rogue, *, streamed: bool, timeout: float = 10) -> tuple[str, ProviderError]:
    """The text that came, and the error that ended it."""
    client, text = connect(rogue.url, "a-key-of-mine", retries=0, timeout=timeout), ""
    try:
        if streamed:
            with stream_answer(client, BODY) as chunks:
                for chunk in chunks:
                    text += chunk.text if isinstance(chunk, TextDelta) else ""
        else:
            with translate_errors(client):
                client.complete(BODY)
    except ProviderError as error:
        return text, error
    raise AssertionError("nothing ended it")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "status", "streamed"),
    [("application/json", 200, False), ("application/json", 500, True), ("text/event-stream", 200, True)],
)
def test_a_small_body_that_expands_to_much_is_left(rogue: Rogue, kind: str, status: int, streamed: bool) -> None:
    rogue.wrongs.append(raw(pack_zeros(300 * MB), kind, status, content_encoding="gzip"))
    tracemalloc.start()
    _, error = read(rogue, streamed=streamed)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert " MB and was left" in error.what if status == 200 else "500" in error.what
    assert peak < 200 * MB


def test_a_stream_without_end_is_left_and_what_came_is_kept(rogue: Rogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_transport, "MAX_ANSWER_BYTES", 2 * MB)
    rogue.wrongs.append(write_on(b"x" * 65_536))
    text, error = read(rogue, streamed=True)
    assert "larger than 2 MB" in error.what
    assert text


def test_tiny_events_without_end_are_left(rogue: Rogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider, "MORE_EVENTS", 1_000)
    rogue.wrongs.append(
        write_on(frame({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}))
    )
    text, error = read(rogue, streamed=True)
    assert "more than 1,200 events" in error.what
    assert text.endswith("aaaa")


def test_comments_do_not_keep_a_connection_open(rogue: Rogue) -> None:
    rogue.wrongs.append(write_on(b": still here\n\n", pause=0.05))
    start = time.monotonic()
    _, error = read(rogue, streamed=True, timeout=0.5)
    assert "silent" in error.what
    assert time.monotonic() - start < 8


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "made-up"])
def test_a_compression_that_nobody_asked_for_is_refused(rogue: Rogue, coding: str) -> None:
    rogue.wrongs.append(raw(b"\x1b\x00\x00", "application/json", content_encoding=coding))
    _, error = read(rogue, streamed=False)
    assert "compresses it with" in error.what


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_packed_answer_is_read(rogue: Rogue, pack: Callable[[bytes], bytes]) -> None:
    data = b"".join(map(frame, events()))
    rogue.wrongs.append(raw(pack(data), content_encoding="gzip" if pack is gzip.compress else "deflate"))
    with stream_answer(connect(rogue.url, "a-key-of-mine", retries=0, timeout=5), BODY) as chunks:
        assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == "Grüße from Zürich."


def test_a_packed_answer_that_breaks_off_is_an_error(rogue: Rogue) -> None:
    rogue.wrongs.append(raw(gzip.compress(b"".join(map(frame, events())))[:60], content_encoding="gzip"))
    assert "no answer" in read(rogue, streamed=True)[1].what
    rogue.wrongs.append(raw(b"no gzip at all", content_encoding="gzip"))
    assert "cannot be read" in read(rogue, streamed=True)[1].what


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words", ["<html><title ", '{"n_prompt_tokens": 1', "maximum context length is 1 tokens ", "\0", "<!doctype"]
)
def test_a_long_error_is_read_in_little_time(words: str) -> None:
    start = time.process_time()
    assert len(explain_refusal(500, words * (MB // len(words))).what) < 500
    assert time.process_time() - start < 5
