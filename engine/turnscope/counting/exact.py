"""Exact Claude token counts, offline, with `ctok` where it is installed. A process of low priority counts.

The module holds the count of one text, the worker (`python -m turnscope.counting.exact`, JSON lines in and out), and
`ExactCounts`, which feeds a worker from a thread. It counts text only, no images and no documents. It stores nothing.

ctok 1.3 reproduces Anthropic's count_tokens on all recorded cases of two of its families and on 99 % of the third. A count
here is the content alone. It leaves out the frame of a message (7, 11 or 6 tokens), which belongs to the message.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from time import monotonic
from typing import IO, NamedTuple, Self

# Tokenizer families of ctok: its names for them, and the tokens that it adds for the frame of a single user message.
CTOK_VERSIONS = {"claude-3": "3.0", "claude-4.7": "4.7", "claude-4.8": "4.8"}
FRAME_TOKENS = {"claude-3": 7, "claude-4.7": 11, "claude-4.8": 6}

CTOK_MISSING = "ctok is not installed: counts stay estimates. It needs Python 3.12 or newer: pip install ctok"
CTOK_MISSING_CODE = 3  # exit code of a worker without ctok

# Runs this file without its folder on the path: the worker loads ctok and nothing else of this project.
WORKER_COMMAND = (sys.executable, "-P", __file__)

_SEGMENT = 64  # characters; longer segments are too rare to be worth remembering
_SEGMENTS = 400_000
_REPORT_EVERY = 0.25  # seconds between two calls of `done`
_DEATHS = 3  # workers in a row that die without an answer before counting is given up


def is_available() -> bool:
    """Whether ctok is installed. It is not imported to find out."""
    return find_spec("ctok") is not None


def count_exactly(text: str, family: str) -> int:
    """Count the tokens of `text` as content of one message, without the message's frame; 0 for an empty text.

    1 MB takes seconds.

    Args:
        text: The text.
        family: A tokenizer family of `CTOK_VERSIONS`.

    Raises:
        KeyError: The family is not in `CTOK_VERSIONS`.
        ImportError: ctok is not installed.
    """
    return _load_counter(family)(text) if text else 0


@cache
def _load_counter(family: str) -> Callable[[str], int]:
    """Load the fastest counting function that the installed ctok allows. All give the same counts."""
    version, frame = CTOK_VERSIONS[family], FRAME_TOKENS[family]
    import ctok

    def count_plain(text: str) -> int:
        return int(ctok.token_count(text, version)) - frame

    try:
        return _make_segment_counter(version, frame)
    except (ImportError, AttributeError, TypeError, ValueError):  # another version of ctok, built differently
        return count_plain


def _make_segment_counter(version: str, frame: int) -> Callable[[str], int]:
    """Make a counter that remembers segments, 1.4-2 times as fast as ctok's own `engine.tile`.

    No piece of the vocabulary holds the end-of-word mark except at its end, so no token crosses one. The marked text splits
    after each mark, and the cheapest tiling of the whole is the sum over the segments. ValueError where that does not hold.
    """
    from ctok import constants, engine, main
    from ctok.normalize import nfc, raw_head_space, stream_norm  # ctok itself exports a function `normalize`

    model = main._model(main._family(version))  # noqa: SLF001 - ctok has no public function for this; any change ends in the fallback
    mark = constants.EOW_G
    if model.message_overhead != frame or any(mark in piece[:-1] for piece in model.vocab):
        raise ValueError("the vocabulary of this ctok does not split at the ends of words")
    costs: dict[str, int] = {}

    def cost(segment: str) -> int:
        def floor(at: int) -> int:
            return 1 if segment[at] in constants.MARKER_GLYPHS else int(engine.char_cost(model, segment[at]))

        return int(engine.min_vocab_tile(segment, model.trie, floor)[0])

    def count(text: str) -> int:
        norm = nfc(text, fold_quotes=model.fold_quotes)
        total = len(engine.frame_tail(len(norm) - len(norm.rstrip("\n")), model))
        marked = stream_norm(norm, model, raw_head_space=raw_head_space(text))
        *words, last = marked.split(mark)
        for segment in [word + mark for word in words] + [last]:
            known = costs.get(segment)
            if known is None:
                known = cost(segment)
                if len(segment) <= _SEGMENT and len(costs) < _SEGMENTS:
                    costs[segment] = known
            total += known
        return total

    if count("one word, Two") != int(main.token_count("one word, Two", version)) - frame:
        raise ValueError("this ctok counts differently inside")
    return count


def run_worker(lines: Iterable[str], out: IO[str]) -> None:
    """Run the worker. For each line {"digest", "text", "family"} it writes {"digest", "tokens"}, or {"digest", "error"}.

    Args:
        lines: Questions, one JSON object per line.
        out: Where the answers go.
    """
    for line in lines:
        answer: dict[str, object] = {}
        try:
            item = json.loads(line)
            answer["digest"] = item["digest"]
            answer["tokens"] = count_exactly(item["text"], item["family"])
        except Exception as error:  # noqa: BLE001 - one bad item must not stop the others; the reader sees the error
            answer["error"] = f"{type(error).__name__}: {error}"
        out.write(json.dumps(answer) + "\n")
        out.flush()


def main() -> int:
    """Run the worker on stdin and stdout. Without ctok: exit code 3 and a sentence on stderr."""
    if not is_available():
        sys.stderr.write(CTOK_MISSING + "\n")
        return CTOK_MISSING_CODE
    if hasattr(os, "nice"):
        os.nice(15)
    run_worker(sys.stdin, sys.stdout)
    return 0


class _Worker:
    """A running worker process that answers one line at a time: this interpreter with this module, or the caller's command."""

    def __init__(self, command: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8")  # noqa: S603

    def ask(self, line: str) -> str:
        """Ask one question. "" where the process died."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(line)
            stdin.flush()
            return stdout.readline()
        except OSError:
            return ""

    def end(self) -> tuple[int, str]:
        """End the process. Gives its exit code, and the last line that it wrote to stderr."""
        try:
            _, errors = self.process.communicate(timeout=0.5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            _, errors = self.process.communicate()
        code = self.process.returncode
        return code, (errors.strip().splitlines() or [f"the worker ended with code {code}"])[-1]


class _Job(NamedTuple):
    family: str
    texts: dict[str, str]
    done: Callable[[dict[str, int]], None]


class ExactCounts:
    """A background process that counts exactly. A resource: `close()` it, or use it in a `with` statement.

    `failed` is "" or the reason why no further counts will come. A text that the worker cannot count is left out. `command`
    starts the worker, by default this module. The process ends when nothing is left to count.
    """

    def __init__(self, command: Sequence[str] = WORKER_COMMAND) -> None:
        self.failed = ""
        self._command = tuple(command)
        self._lock = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._requested: set[tuple[str, str]] = set()
        self._known: dict[tuple[str, str], int | None] = {}  # None: tried, and cannot be counted
        self._running = False
        self._worker: _Worker | None = None
        self._deaths = 0  # workers that died in a row, without an answer in between
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def progress(self) -> tuple[int, int]:
        """Texts done (counted, or found impossible to count) and texts requested, each distinct text once."""
        with self._lock:
            return len(self._known), len(self._requested)

    def start(self, items: Iterable[tuple[str, str]], family: str, done: Callable[[dict[str, int]], None]) -> bool:
        """Count texts in the background, each digest once. Returns at once.

        Args:
            items: Pairs of digest and text.
            family: A tokenizer family.
            done: Gets {digest: tokens} a few times per second, from the background thread.

        Returns:
            False where nothing will be counted: the family is not ctok's, or this object is closed or has failed.
        """
        if family not in CTOK_VERSIONS:
            return False
        texts = dict(items)
        with self._lock:
            if self._closed or self.failed:
                return False
            self._requested.update((family, digest) for digest in texts)
            self._jobs.append(_Job(family, texts, done))
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="exact counts", daemon=True).start()
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until everything is counted and reported, or the object is closed, or it failed.

        False after `timeout` seconds.
        """
        with self._lock:
            return self._lock.wait_for(lambda: not self._running, timeout)

    def close(self) -> None:
        """Stop counting and kill the worker. Waits for neither."""
        with self._lock:
            self._closed = True
            self._jobs.clear()
            if self._worker is not None:
                self._worker.process.kill()

    def _run(self) -> None:
        """Run one job after the other. The thread, and the worker, end when none is left."""
        try:
            while job := self._take_job():
                self._count(job)
        except Exception as error:  # noqa: BLE001 - a callback or the system failed: report it, since nobody sees a thread die
            self.failed = f"{type(error).__name__}: {error}"
            self._take_job()

    def _take_job(self) -> _Job | None:
        """Take the next job.

        Where there is none, everything ends here, under the lock, so that the next `start` begins a new thread.
        """
        with self._lock:
            if self._jobs and not self.failed:
                return self._jobs.popleft()
            self._jobs.clear()
            self._running = False
            if self._worker is not None:
                self._worker.process.kill()
                self._worker.end()
            self._worker = None
            self._lock.notify_all()
            return None

    def _count(self, job: _Job) -> None:
        found: dict[str, int] = {}
        reported = monotonic()
        for digest, text in job.texts.items():
            key = (job.family, digest)
            if key not in self._known and not self._count_text(key, text):
                break
            if (tokens := self._known[key]) is not None:
                found[digest] = tokens
            if found and monotonic() - reported > _REPORT_EVERY:
                job.done(found)
                found, reported = {}, monotonic()
        if found and not self._closed:
            job.done(found)

    def _count_text(self, key: tuple[str, str], text: str) -> bool:
        """Count one text, or give it up when two workers died on it. False when counting has ended."""
        line = json.dumps({"digest": key[1], "text": text, "family": key[0]}) + "\n"
        answer = self._ask(line) or self._ask(line)
        if self._closed or self.failed:
            return False
        tokens = json.loads(answer).get("tokens") if answer else None
        with self._lock:
            self._known[key] = tokens if isinstance(tokens, int) else None
        return True

    def _ask(self, line: str) -> str:
        """Ask the worker; start one where there is none. "" where it died. The last death in a row is written to `failed`."""
        with self._lock:
            if self._closed or self.failed:
                return ""
            worker = self._worker = self._worker or _Worker(self._command)
        if answer := worker.ask(line):
            self._deaths = 0
            return answer
        code, errors = worker.end()
        with self._lock:
            self._worker = None
            self._deaths += 1
            if code == CTOK_MISSING_CODE or self._deaths > _DEATHS:
                self.failed = errors
        return ""


if __name__ == "__main__":
    sys.exit(main())
