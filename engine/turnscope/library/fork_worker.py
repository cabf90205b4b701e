"""Divides work between this process and a copy of it (a fork), where that is safe and there are two cores.

The copy has everything that was read already. Where a fork is not safe, or the copy fails, this process does all the work. It
is safe if no other thread runs; on macOS forks may crash after system libraries were used, so it is never tried there.
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
    """Whether this process may be forked, and whether that would help."""
    others = (thread for thread in threading.enumerate() if thread is not threading.current_thread())
    idle = all(isinstance(thread, threading.Timer) for thread in others)
    return sys.platform == "linux" and idle and len(os.sched_getaffinity(0)) > 1


def map_in_two(work: Callable[[A], B], items: Sequence[A]) -> list[B]:
    """Apply a function to each item, every second one in a copy of this process. Results are in order.

    Args:
        work: the function; its results are pickled by the copy.
        items: the items.

    >>> map_in_two(len, ["a", "bb", "ccc"])
    [1, 2, 3]
    """
    if len(items) < 2 or not can_fork():
        return [work(item) for item in items]
    here, there = multiprocessing.Pipe(duplex=False)
    copy = multiprocessing.get_context("fork").Process(target=_run_copy, args=(work, items[1::2], there), daemon=True)
    with _block_interrupts():  # Ctrl-C reaches both processes: the copy ends with this one, and prints nothing itself
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
    """Hold back Ctrl-C; a process that starts meanwhile ignores it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _receive(end: Connection) -> Any:
    """The results of the copy; None where it ended without any."""
    try:
        return end.recv()
    except EOFError:
        return None


def _run_copy(work: Callable[[A], B], items: Sequence[A], end: Connection) -> None:
    try:
        end.send([work(item) for item in items])
    except Exception:  # noqa: BLE001 - done again in the first process, which raises what went wrong
        end.send(None)
