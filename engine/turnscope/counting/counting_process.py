"""Counting in a process of its own while this one reads: a vocabulary takes half a second of work, and toktok holds the
interpreter's lock all that time.

Holds the worker (this file, run as a script: toktok and nothing else of this project) and who asks it. Where it cannot be
started, or dies, whoever asks counts by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from atexit import register
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from threading import Lock, Timer
from time import monotonic
from typing import IO

import toktok

IDLE_SECONDS = 60.0  # seconds without a question after which the worker ends
_NUMBER = "Q"


class CountingProcess:
    """A worker that counts with one encoding, whose vocabulary it begins to load at once. Any thread may ask."""

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding
        self._lock = Lock()
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        command = (sys.executable, "-P", __file__, encoding)
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null)  # noqa: S603 - ours
        self.timed_out = False  # it ended for want of questions
        self._last_used = monotonic()
        self._idle = self._start_timer(IDLE_SECONDS)
        register(self.end)

    def count(self, texts: Sequence[str]) -> list[int] | None:
        """Tokens of each text; None where nobody is there to count any more. UnicodeEncodeError of halves of characters."""
        data = b"".join([text.encode() for text in texts])  # one by one: a single wide character would widen all of them
        with self._lock:
            self._last_used = monotonic()
            stdin, stdout = self._process.stdin, self._process.stdout
            assert stdin is not None
            assert stdout is not None
            try:
                stdin.write(array(_NUMBER, [len(texts), len(data), *map(len, texts)]).tobytes())
                stdin.write(data)
                stdin.flush()
                found = _read_numbers(stdout, len(texts))
            except (OSError, ValueError):  # it died, or was ended
                return None
        return found if len(found) == len(texts) else None

    def end(self) -> None:
        """Let the process end. Nothing happens where it has."""
        with self._lock:
            self._idle.cancel()
            if self._process.stdin is not None:
                with suppress(OSError):  # it died with a question half asked
                    self._process.stdin.close()
            self._process.wait()

    def _start_timer(self, seconds: float) -> Timer:
        timer = Timer(seconds, self._check_idle)
        timer.daemon = True
        timer.start()
        return timer

    def _check_idle(self) -> None:
        """Look whether it was asked meanwhile: a clock wound at every question would cost as much as the question."""
        with self._lock:
            if (left := self._last_used + IDLE_SECONDS - monotonic()) > 0:
                self._idle = self._start_timer(left)
                return
            self.timed_out = True
        self.end()


def _read_numbers(file: IO[bytes], count: int) -> list[int]:
    """The next numbers, fewer at the end."""
    found = array(_NUMBER)
    data = file.read(count * found.itemsize)
    found.frombytes(data[: len(data) // found.itemsize * found.itemsize])
    return found.tolist()


def run_worker(questions: IO[bytes], answers: IO[bytes], encoding: str) -> None:
    """The worker: reads how many texts come, their bytes in all, the characters of each, and the texts; writes their tokens."""
    toktok.batch_count([], encoding)
    while len(sizes := _read_numbers(questions, 2)) == 2:
        many, size = sizes
        ends = [0, *accumulate(_read_numbers(questions, many))]
        whole = questions.read(size).decode()
        texts = [whole[start:end] for start, end in pairwise(ends)]
        answers.write(array(_NUMBER, toktok.batch_count(texts, encoding)).tobytes())
        answers.flush()


if __name__ == "__main__":
    run_worker(sys.stdin.buffer, sys.stdout.buffer, sys.argv[1])
    os._exit(0)  # whoever asked may wait for the end; to give a vocabulary back piece by piece takes a tenth of a second
