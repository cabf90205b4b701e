"""Work shared out between this process and a copy of it, where that is safe: no other thread is at work; on two cores.

A copy has all that was read already. Else, and where a copy fails, everything is done here. On macOS copies of a process that
has used system libraries may crash, so it is not tried there.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, TypeVar

A = TypeVar("A")
B = TypeVar("B")


def can_fork() -> bool:
    """Whether this process may be copied, and that would help."""
    others = (thread for thread in threading.enumerate() if thread is not threading.current_thread())
    idle = all(isinstance(thread, threading.Timer) for thread in others)
    return sys.platform == "linux" and idle and len(os.sched_getaffinity(0)) > 1


def map_in_two(work: Callable[[A], B], items: Sequence[A]) -> list[B]:
    """What `work` makes of each item, in order; every second one in a copy of this process, which hands back pickled values."""
    if len(items) < 2 or not can_fork():
        return [work(item) for item in items]
    here, there = multiprocessing.Pipe(duplex=False)
    copy = multiprocessing.get_context("fork").Process(target=_run_copy, args=(work, items[1::2], there), daemon=True)
    with _block_interrupts():  # Ctrl-C reaches both: the copy is ended with this process, and says nothing itself
        copy.start()
    there.close()
    try:
        mine = [work(item) for item in items[::2]]
        theirs = _receive(here)
    except BaseException:
        copy.terminate()
        raise
    here.close()
    copy.join()
    if theirs is None:
        theirs = [work(item) for item in items[1::2]]
    made: list[B] = [mine[0]] * len(items)
    made[::2], made[1::2] = mine, theirs
    return made


@contextmanager
def _block_interrupts() -> Iterator[None]:
    """Hold back Ctrl-C; a process that is started meanwhile never hears of it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _receive(end: Connection) -> Any:
    """What the copy made; None where it ended without a word."""
    try:
        return end.recv()
    except EOFError:
        return None


def _run_copy(work: Callable[[A], B], items: Sequence[A], end: Connection) -> None:
    try:
        end.send([work(item) for item in items])
    except Exception:  # noqa: BLE001 - done again in the first process, where whoever asked sees what went wrong
        end.send(None)
