"""Writes what passes the tap into a log, as it comes: JSON lines, each message of a request once. `reading.tap_log` reads them.

A thread of its own decodes and writes, so the agent never waits for the disk. What cannot be written is counted, reported once
and named in the log as soon as that can be written again. Keys are taken out: no header but a few is kept, and the credentials
of a request are replaced wherever they stand in a text.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import orjson

from turnscope.settings import hide_user
from turnscope.tap.body_pieces import split_body
from turnscope.tap.decoding import Decoder, decode_all

FORMAT = 1
PAUSE_SECONDS = 0.02  # what arrives in so many seconds is written at once
MAX_QUEUED_BYTES = 256_000_000  # beyond it, calls are not recorded until the disk has caught up
MOST_PIECES = 100_000  # digests that are remembered of what the log holds, those of the last requests; about 15 MB
KNOWN_BODIES = 32  # last bodies among which one is looked for that a new one goes on from
END_SECONDS = 10.0  # how long the end waits for what is still to be written
MASK = "[a key was here]"
MIN_KEY_CHARS = 16  # local servers take any word as a key, and that word may stand in every text

REQUEST_HEADERS = frozenset(
    "user-agent anthropic-version anthropic-beta openai-beta content-type content-encoding x-app x-client-request-id "
    "session_id session-id conversation_id x-session-id x-opencode-session x-claude-code-session-id "
    "x-parent-session-id thread-id x-codex-parent-thread-id x-codex-turn-metadata x-openai-subagent originator "
    "x-claude-code-agent-id x-claude-code-agent-type x-claude-code-auxiliary-type x-claude-code-compaction "
    "x-stainless-retry-count".split()
)
RESPONSE_HEADERS = frozenset(
    "content-type content-encoding request-id x-request-id retry-after retry-after-ms openai-processing-ms".split()
)
RATE_LIMITS = ("anthropic-ratelimit-", "x-ratelimit-")
Headers = Iterable[tuple[bytes, bytes]]


@dataclass(slots=True)
class _Call:
    """What is known of a call while it runs. Only the writing thread uses it."""

    secrets: tuple[str, ...]
    decoder: Decoder = field(default_factory=Decoder)
    streams: bool = False
    held: list[str] = field(default_factory=list)  # of a stream, the line that has begun; of any other answer, all of it
    parts: list[tuple[float, str]] = field(default_factory=list)


class Recorder:
    """The log of one tap. Its methods may be called from any thread and return at once.

    Args:
        path: The file. It is made, and belongs to the user alone.
        command: The command that the tap runs; () = none.
        report: Is told once when recording fails, and when it works again.
        clock: Gives the time in seconds since the Unix epoch.
    """

    def __init__(
        self,
        path: Path,
        command: Sequence[str] = (),
        report: Callable[[str], None] = print,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path, self.clock, self._report = path, clock, report
        self.calls = self.lost = 0
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._queued, self._lock = 0, threading.Lock()
        self._open: dict[int, _Call] = {}
        self._lines: list[bytes] = []
        self._pieces: dict[bytes, None] = {}  # digests of what the log holds, the one that was sent last at the end
        self._new: set[bytes] = set()  # of these, what the next write puts there
        self._bodies: dict[int, list[str]] = {}  # by call; what left in its place by its negative
        self._failing, self._unsaid = "", 0
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._add({"turnscope_tap": FORMAT, "started_at": clock(), "command": command[0] if command else ""})
        self._write()
        self._thread = threading.Thread(target=self._run, name="tap-recorder", daemon=True)
        self._thread.start()

    @property
    def failing(self) -> str:
        """Why recording fails now; "" = it works."""
        return self._failing

    def begin(self, api: str, url: str, headers: Headers, body: Sequence[bytes], secrets: Iterable[str], sent_at: float) -> int:
        """Record a request. Gives the number of its call; 0 where it is not recorded.

        Args:
            api: The API.
            url: The address, without its query.
            headers: Its headers.
            body: Its body as it was sent, in parts.
            secrets: Texts that are not to be stored.
            sent_at: When it was sent, in seconds since the Unix epoch.
        """
        with self._lock:
            self.calls += 1
            number = self.calls
        size = sum(map(len, body))
        hidden = tuple(secret for secret in secrets if len(secret) >= MIN_KEY_CHARS)
        plain = hide_user(url)
        begun = {"call": number, "api": api, "url": plain, "sent_at": sent_at, "headers": _choose(headers, REQUEST_HEADERS)}
        return number if self._put(size, lambda: self._begin(number, begun, b"".join(body), hidden)) else self._lose()

    def rule(self, number: int, about: Mapping[str, Any], sent: str) -> None:
        """Record what was ruled on a request.

        Args:
            number: Number of the call.
            about: The ruling.
            sent: The body that leaves, or would leave; "" = as it came.
        """
        if number:
            self._put(len(sent), lambda: self._rule(number, about, sent))

    def answer(self, number: int, status: int, headers: Headers) -> None:
        """Record the status of an answer and some of its headers.

        Args:
            number: Number of the call.
            status: The HTTP status.
            headers: The headers.
        """
        at, kept = self.clock(), _choose(headers, RESPONSE_HEADERS)
        if number:
            self._put(0, lambda: self._answer(number, status, kept, at))

    def add(self, number: int, data: bytes) -> None:
        """Record a part of an answer.

        Args:
            number: Number of the call.
            data: The part, as it came over the wire.
        """
        at = self.clock()
        if number and not self._put(len(data), lambda: self._add_part(number, data, at)):
            self._put(0, lambda: self._end(number, "not recorded whole", "the disk was too slow", at))

    def end(self, number: int, outcome: str, why: str = "") -> None:
        """Record how a call ended.

        Args:
            number: Number of the call.
            outcome: "complete", or what went wrong.
            why: More about that.
        """
        at = self.clock()
        if number:
            self._put(0, lambda: self._end(number, outcome, why, at))

    def close(self) -> None:
        """Write what is still to be written, and close the log. One that holds no call is removed."""
        self._queue.put(None)
        self._thread.join(END_SECONDS)
        if self._thread.is_alive():
            return
        os.close(self._file)
        if not self.calls:
            self.path.unlink(missing_ok=True)

    def _put(self, size: int, work: Callable[[], None]) -> bool:
        with self._lock:
            if size and self._queued + size > MAX_QUEUED_BYTES:
                return False
            self._queued += size

        def do() -> None:
            with self._lock:
                self._queued -= size
            work()

        self._queue.put(do)
        return True

    def _lose(self) -> int:
        self._put(0, lambda: self._fail(1, "the disk was too slow"))
        return 0

    def _run(self) -> None:
        """Do the work that was put, and write what it gave, until there is no more."""
        running = True
        while running:
            work = self._queue.get()
            time.sleep(PAUSE_SECONDS if work else 0)
            while True:
                running = running and work is not None
                if work is not None:
                    self._do(work)
                try:
                    work = self._queue.get_nowait()
                except Empty:
                    break
            self._do(self._write)

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever a body or an answer holds, the next ones are recorded
            self._fail(1, f"{type(error).__name__}: {error}")

    def _begin(self, number: int, begun: dict[str, Any], body: bytes, secrets: tuple[str, ...]) -> None:
        self._open[number] = _Call(secrets)
        data, trouble = decode_all(body, begun["headers"].get("content-encoding", ""))
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text, trouble = data.decode("utf-8", "replace"), trouble or "the body holds bytes that are no UTF-8"
        about = {"trouble": trouble} if trouble else {}
        self._add(begun | about | self._keep_body(number, _mask(text, secrets), "body"))

    def _rule(self, number: int, about: Mapping[str, Any], sent: str) -> None:
        call = self._open.get(number)
        secrets = call.secrets if call else ()
        kept = self._keep_body(-number, _mask(sent, secrets), "sent") if sent else {}
        masked = orjson.loads(_mask(orjson.dumps(about).decode(), secrets)) if secrets else about  # a reason may quote a text
        self._add({"call": number, "ruling": masked} | kept)

    def _keep_body(self, number: int, text: str, key: str) -> dict[str, Any]:
        """Keep the pieces of a body. Gives what of its record says where they stand."""
        parts = split_body(text)
        for at in range(1, len(parts), 2):
            parts[at] = self._keep_piece(parts[at])
        base, same = self._find_base(parts)
        self._bodies[number] = parts
        for old in [*self._bodies][:-KNOWN_BODIES]:
            del self._bodies[old]
        return ({"from": base, "keep": same} if same else {}) | {key: parts[same:]}

    def _keep_piece(self, text: str) -> str:
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
        key = digest.digest()
        if key in self._pieces:
            del self._pieces[key]
            self._pieces[key] = None
        elif key not in self._new:
            self._new.add(key)
            self._add({"piece": digest.hexdigest(), "text": text})
        return digest.hexdigest()

    def _find_base(self, parts: list[str]) -> tuple[int, int]:
        """Find the body that shares the most with a new one from its beginning: number of its call, and how many parts."""
        best = (0, 0)
        for number, known in self._bodies.items():
            pairs = enumerate(zip(known, parts, strict=False))
            same = next((at for at, (a, b) in pairs if a != b), min(len(known), len(parts)))
            if same - same % 2 >= best[1]:
                best = (number, same - same % 2)
        return best

    def _answer(self, number: int, status: int, headers: Mapping[str, str], at: float) -> None:
        if (call := self._open.get(number)) is not None:
            call.streams = "event-stream" in headers.get("content-type", "")
            call.decoder = Decoder(headers.get("content-encoding", ""))
            self._add({"call": number, "status": status, "headers": headers, "first_at": at})

    def _add_part(self, number: int, data: bytes, at: float) -> None:
        call = self._open.get(number)
        if call is None:
            return
        call.held.append(call.decoder.decode(data))
        if call.streams and "\n" in call.held[-1]:  # whole lines of a stream hold no half of a key
            whole, end, rest = "".join(call.held).rpartition("\n")
            call.parts.append((at, _mask(whole + end, call.secrets)))
            call.held = [rest]

    def _end(self, number: int, outcome: str, why: str, at: float) -> None:
        call = self._open.get(number)
        if call is None:
            return
        if rest := "".join(call.held) + call.decoder.end():
            call.parts.append((at, _mask(rest, call.secrets)))
        self._add_parts(number, call)
        del self._open[number]
        why = _mask(why, call.secrets) or call.decoder.trouble
        self._add({"call": number, "outcome": outcome, "ended_at": at} | ({"why": why} if why else {}))

    def _add_parts(self, number: int, call: _Call) -> None:
        if call.parts:
            self._add({"call": number, "parts": call.parts})
            call.parts = []

    def _add(self, record: Mapping[str, Any]) -> None:
        self._lines.append(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))

    def _write(self) -> None:
        """Write the lines of the last moments. A line that is cut by a full disk is ended before the next one begins."""
        for number, call in self._open.items():
            self._add_parts(number, call)
        lines, self._lines = self._lines, []
        if not lines:
            return
        lead = b"\n" if self._failing else b""
        lead += orjson.dumps({"lost": self._unsaid, "why": self._failing}) + b"\n" if self._unsaid else b""
        left = memoryview(lead + b"".join(lines))
        try:
            while left:
                left = left[_write_some(self._file, left) :]
        except OSError as error:
            self._fail(_count_cut_calls(lines, len(left)), str(error))
            self._bodies.clear()  # nothing may go on from what is not there
        else:
            self._pieces |= dict.fromkeys(self._new)
            for _ in range(len(self._pieces) - MOST_PIECES):
                del self._pieces[next(iter(self._pieces))]
            if self._failing:
                self._report(f"recording works again; {self.lost} calls are not in {self.path}")
            self._failing, self._unsaid = "", 0
        self._new = set()

    def _fail(self, calls: int, why: str) -> None:
        self.lost += calls
        self._unsaid += calls
        if not self._failing:
            self._report(f"recording fails, and the agent goes on without it: {why}")
        self._failing = why


def _write_some(file: int, data: memoryview) -> int:
    return os.write(file, data)


def _count_cut_calls(lines: Sequence[bytes], left: int) -> int:
    """Count the calls whose first line is among the last so many bytes of some lines, which were not written."""
    cut = 0
    for line in reversed(lines):
        if left <= 0:
            break
        left -= len(line)
        cut += line.startswith(b'{"call":') and b',"api":' in line[:40]
    return cut


def _choose(headers: Headers, names: frozenset[str]) -> dict[str, str]:
    found = ((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers)
    return {name: value for name, value in found if name in names or name.startswith(RATE_LIMITS)}


def _mask(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text
