"""Counts in a process of its own while this one reads a file.

Loading a vocabulary takes half a second, and toktok holds the interpreter's lock all that time. This file holds the worker
(the file itself, run as a script that imports toktok alone) and the class that asks it. Where the worker cannot be started,
or dies, the caller counts by itself.
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

IDLE_SECONDS = 60.0  # the worker ends after so many seconds without a question
_NUMBER = "Q"


class CountingProcess:
    """A worker that counts with one encoding. It loads the vocabulary at once. Any thread may ask."""

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding
        self._lock = Lock()
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        command = (sys.executable, "-P", __file__, encoding)
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null)  # noqa: S603 - ours
        self.timed_out = False  # the worker ended because there was nothing to count
        self._last_used = monotonic()
        self._idle = self._start_timer(IDLE_SECONDS)
        register(self.end)

    def count(self, texts: Sequence[str]) -> list[int] | None:
        """Count the tokens of each text. None where the worker is gone. UnicodeEncodeError for lone surrogates."""
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
            except (OSError, ValueError):  # the worker died, or was ended
                return None
        return found if len(found) == len(texts) else None

    def end(self) -> None:
        """End the process. Does nothing where it has ended."""
        with self._lock:
            self._idle.cancel()
            if self._process.stdin is not None:
                with suppress(OSError):  # the worker died while a question was written
                    self._process.stdin.close()
            self._process.wait()

    def _start_timer(self, seconds: float) -> Timer:
        timer = Timer(seconds, self._check_idle)
        timer.daemon = True
        timer.start()
        return timer

    def _check_idle(self) -> None:
        """End the process where it was idle.

        One timer checks the last use: restarting it at each question would cost as much as one.
        """
        with self._lock:
            if (left := self._last_used + IDLE_SECONDS - monotonic()) > 0:
                self._idle = self._start_timer(left)
                return
            self.timed_out = True
        self.end()


def _read_numbers(file: IO[bytes], count: int) -> list[int]:
    """Read the next numbers; fewer at the end of the file."""
    found = array(_NUMBER)
    data = file.read(count * found.itemsize)
    found.frombytes(data[: len(data) // found.itemsize * found.itemsize])
    return found.tolist()


def run_worker(questions: IO[bytes], answers: IO[bytes], encoding: str) -> None:
    """Run the worker: read texts, write their token counts.

    A question is the number of texts, the number of their bytes, the characters of each text, and the texts.

    Args:
        questions: Where questions come in.
        answers: Where counts go out.
        encoding: Name of the vocabulary.
    """
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
    os._exit(0)  # the caller may wait for the end; freeing the vocabulary piece by piece takes a tenth of a second
