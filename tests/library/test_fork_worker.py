"""Work in two processes comes to what it comes to in one, and in order."""

from __future__ import annotations

import os
import sys
from collections import deque
from threading import Event, Thread
from time import perf_counter, sleep

import pytest
import turnscope
from conftest import ROOT
from turnscope.library import comparing, fork_worker

POLICIES = ("as-recorded", "keep-everything", "last-5-pairs", "condense-oldest")
forks = pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux alone")


@pytest.fixture
def copying(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nothing else went on: pytest and its plug-ins may have threads."""
    monkeypatch.setattr(fork_worker, "can_fork", lambda: True)


@forks
@pytest.mark.usefixtures("copying")
def test_some_items_are_done_in_a_copy_and_all_come_back_in_order() -> None:
    here = os.getpid()

    def work(n: int) -> tuple[int, bool]:
        sleep(0.2 if n else 0.6)
        return n * n, os.getpid() == here

    made = [*fork_worker.iter_in_two(work, range(5))]
    assert [square for square, _ in made] == [0, 1, 4, 9, 16]
    assert sum(mine is not made[0][1] for _, mine in made) >= 2  # while one is at the longest, the other does the rest
    assert [*fork_worker.iter_in_two(lambda n: n, [7])] == [7]


@forks
@pytest.mark.usefixtures("copying")
def test_a_result_is_handed_on_while_later_ones_are_not_there_yet() -> None:
    began, here = perf_counter(), os.getpid()

    def work(_: int) -> int:
        sleep(0.3)
        return os.getpid()

    made = fork_worker.iter_in_two(work, range(6))
    first = next(made)
    assert perf_counter() - began < 6 * 0.3 / 2
    assert {first, *made} > {here}


@forks
@pytest.mark.usefixtures("copying")
def test_results_larger_than_a_pipe_come_back() -> None:
    assert [*map(len, fork_worker.iter_in_two(bytes, [1_000_000] * 6))] == [1_000_000] * 6


@forks
@pytest.mark.usefixtures("copying")
def test_what_a_copy_cannot_do_or_hand_back_is_done_here() -> None:
    here = os.getpid()

    def dies(n: int) -> int:
        if os.getpid() != here:
            os._exit(1)
        return n

    assert [*fork_worker.iter_in_two(dies, range(4))] == [0, 1, 2, 3]
    assert [f() for f in fork_worker.iter_in_two(lambda n: lambda: n, range(4))] == [0, 1, 2, 3]  # a function cannot be pickled
    with pytest.raises(ZeroDivisionError):
        deque(fork_worker.iter_in_two(lambda n: 1 // (n - 1), range(4)), maxlen=0)


def test_a_process_with_a_thread_at_work_is_not_copied() -> None:
    done = Event()
    thread = Thread(target=done.wait)
    thread.start()
    try:
        assert not fork_worker.can_fork()
    finally:
        done.set()
        thread.join()


@forks
@pytest.mark.usefixtures("copying")
def test_a_comparison_in_two_processes_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    path = ROOT / "sample_sessions" / "cache-goes-cold.jsonl"
    alone = turnscope.compare(turnscope.load(path), POLICIES)
    monkeypatch.setattr(comparing, "FORK_FROM", 0)
    told: list[str] = []
    both = turnscope.compare(turnscope.load(path), POLICIES, on_row=lambda row: told.append(row.policy))
    assert told == [*POLICIES]
    assert both.rows == alone.rows
    assert [trace.plans for trace in both.traces] == [trace.plans for trace in alone.traces]
    assert both.find_divergence("keep-everything", "last-5-pairs") == alone.find_divergence("keep-everything", "last-5-pairs")
