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
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from queue import SimpleQueue
from typing import Any, TypeVar

A = TypeVar("A")
B = TypeVar("B")


def can_fork() -> bool:
    """Whether this process may be forked, and whether that would help."""
    others = (thread for thread in threading.enumerate() if thread is not threading.current_thread())
    idle = all(isinstance(thread, threading.Timer) for thread in others)
    return sys.platform == "linux" and idle and len(os.sched_getaffinity(0)) > 1


def iter_in_two(work: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
    """Apply a function to each item, some of them in a copy of this process, and yield the results in order, as they come.

    Each process takes the next item when it is done with one. What the copy does not hand back, this process does.

    Args:
        work: the function; its results are pickled by the copy.
        items: the items.

    >>> [*iter_in_two(len, ["a", "bb", "ccc"])]
    [1, 2, 3]
    """
    if len(items) < 2 or not can_fork():
        yield from map(work, items)
        return
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    taken = context.Value("i", 0)
    copy = context.Process(target=_run_copy, args=(work, items, taken, there), daemon=True)
    with _block_interrupts():  # Ctrl-C reaches both processes: the copy ends with this one, and prints nothing itself
        copy.start()
    there.close()
    theirs: SimpleQueue[tuple[int, B] | None] = SimpleQueue()
    receiver = threading.Thread(target=_receive, args=(here, theirs), daemon=True)  # else the copy waits for room in the pipe
    receiver.start()
    try:
        yield from _merge(work, items, _take_numbers(taken, len(items)), theirs)
    except BaseException:
        copy.terminate()
        raise
    finally:
        receiver.join()
        here.close()
        copy.join()


def _merge(
    work: Callable[[A], B], items: Sequence[A], mine: Iterator[int], theirs: SimpleQueue[tuple[int, B] | None]
) -> Iterator[B]:
    """Do the items that this process takes, and yield the results of both in order; what the copy left out is done here."""
    made: dict[int, B] = {}
    ended = False
    for wanted in range(len(items)):
        while wanted not in made:
            number = next(mine, None)
            if number is not None:
                made[number] = work(items[number])
            elif ended:
                made[wanted] = work(items[wanted])
            while not ended and wanted not in made and (number is None or not theirs.empty()):
                found = theirs.get()
                made.update([found] if found else [])
                ended = found is None
        yield made.pop(wanted)


def _take_numbers(taken: Synchronized[int], count: int) -> Iterator[int]:
    """Take the numbers of items, one by one, of which the other process takes some, too."""
    while True:
        with taken.get_lock():
            number = taken.value
            taken.value += 1
        if number >= count:
            return
        yield number


@contextmanager
def _block_interrupts() -> Iterator[None]:
    """Hold back Ctrl-C; a process that starts meanwhile ignores it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _receive(end: Connection, made: SimpleQueue[Any]) -> None:
    """Pass on what the copy hands back, until it ends; then None."""
    with suppress(EOFError, OSError):
        while True:
            made.put(end.recv())
    made.put(None)


def _run_copy(work: Callable[[A], B], items: Sequence[A], taken: Synchronized[int], end: Connection) -> None:
    with suppress(Exception):  # done again in the first process, which raises what went wrong
        for number in _take_numbers(taken, len(items)):
            end.send((number, work(items[number])))
