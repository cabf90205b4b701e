"""Work in two processes comes to what it comes to in one, and in order."""

from __future__ import annotations

import os
import sys
from threading import Event, Thread

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
def test_every_second_item_is_done_in_a_copy_and_all_come_back_in_order() -> None:
    here = os.getpid()
    made = fork_worker.map_in_two(lambda n: (n * n, os.getpid() == here), range(5))
    assert made == [(0, True), (1, False), (4, True), (9, False), (16, True)]
    assert fork_worker.map_in_two(lambda n: n, [7]) == [7]


@forks
@pytest.mark.usefixtures("copying")
def test_what_a_copy_cannot_do_or_hand_back_is_done_here() -> None:
    here = os.getpid()

    def dies(n: int) -> int:
        if os.getpid() != here:
            os._exit(1)
        return n

    assert fork_worker.map_in_two(dies, range(4)) == [0, 1, 2, 3]
    assert [f() for f in fork_worker.map_in_two(lambda n: lambda: n, range(4))] == [0, 1, 2, 3]  # a function cannot be pickled
    with pytest.raises(ZeroDivisionError):
        fork_worker.map_in_two(lambda n: 1 // (n - 1), range(4))


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
    both = turnscope.compare(turnscope.load(path), POLICIES)
    assert both.rows == alone.rows
    assert [trace.plans for trace in both.traces] == [trace.plans for trace in alone.traces]
    assert both.find_divergence("keep-everything", "last-5-pairs") == alone.find_divergence("keep-everything", "last-5-pairs")
