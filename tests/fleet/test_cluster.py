"""Runs on a cluster: workers as processes, one that dies, a scheduler that is restarted, objects that are replaced."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from turnscope.errors import TurnscopeError
from turnscope.fleet import reader, tasks
from turnscope.fleet.cluster import Cluster, SerialCluster
from turnscope.fleet.dataset import open_fleet
from turnscope.fleet.reader import Reader, ReadTask
from turnscope.fleet.rows import Owner
from turnscope.fleet.run import FleetRun, build_options
from turnscope.fleet.sources import list_sources

from tests.bench import bench_fleet
from tests.bench.bench_scale import make
from tests.fleet.made import find_differences, write_log


def make_task(path: Path) -> ReadTask:
    return ReadTask(str(path), "s", str(path), "c", path.stat().st_size, Owner(), "v")


def test_a_process_that_dies_or_hangs_is_a_result_and_the_next_source_is_read(tmp_path: Path) -> None:
    task, reading = make_task(write_log(tmp_path / "a.jsonl")), Reader(60.0)
    try:
        assert reading.read(task).state == "read"
        assert reading._process is not None
        os.kill(reading._process.pid, signal.SIGKILL)
        assert reading.read(task).state == "crashed"
        reading.limit = 0.05  # shorter than a process takes to start
        assert reading.read(task).state == "hung"
        reading.limit = 60.0
        result = reading.read(task)
        assert (result.state, result.sessions) == ("read", 1)
        assert result.cpu_seconds > 0
        assert result.memory > 0 or sys.platform == "win32"
    finally:
        reading.close()


def test_memory_is_that_of_the_process_and_not_of_the_one_that_started_it(tmp_path: Path) -> None:
    held = b"1" * (1 << 29)
    with closing(Reader(60.0)) as reading:
        assert 0 <= reading.read(make_task(write_log(tmp_path / "a.jsonl"))).memory < len(held)


def test_a_process_is_replaced_after_some_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    class Process:
        """Stands for a process, of which only the start counts."""

        returncode = 0

        def __init__(self, module: str) -> None:
            started.append(module)
            self.stdin, self.stdout = open(os.devnull, "wb"), open(tmp_path / "results", "rb")  # noqa: PTH123, SIM115

        def kill(self) -> None:
            self.stdin.close()
            self.stdout.close()

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    import pickle

    with (tmp_path / "results").open("wb") as file:
        for _ in range(3):
            pickle.dump(reader.ReadResult("read"), file)
    monkeypatch.setattr(reader, "start_worker", Process)
    monkeypatch.setattr(reader, "MAX_SOURCES", 2)
    task, reading = make_task(write_log(tmp_path / "a.jsonl")), Reader(60.0)
    assert [reading.read(task).state for _ in range(3)] == ["read"] * 3
    assert len(started) == 2
    reading.close()


def test_a_scheduler_that_is_not_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnscope.fleet.cluster.CONNECT_SECONDS", 0.5)
    with pytest.raises(TurnscopeError, match="cannot be reached"), Cluster(f"tcp://127.0.0.1:{bench_fleet.find_port()}"):
        pass


@pytest.mark.thorough
def test_workers_of_this_machine_give_what_a_serial_run_gives(tmp_path: Path) -> None:
    """Starts processes, which takes seconds."""
    for n in range(8):
        write_log(tmp_path / "logs" / f"s{n}.jsonl", 2 + n, day=1 + n)
    units = list_sources(str(tmp_path / "logs"))
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    assert FleetRun(open_fleet(one), build_options()).run(units, Cluster(workers=2)).read == 8
    FleetRun(open_fleet(other), build_options()).run(units, SerialCluster())
    tasks._get_reader(1.0).close()
    assert find_differences(one, other) == []


@pytest.mark.thorough
def test_a_run_under_attack_gives_what_a_serial_run_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is killed, the scheduler restarted, objects replaced, on storage that behaves as S3: half a minute of CPU."""
    monkeypatch.setattr("turnscope.fleet.run.COMMIT_SECONDS", 2.0)
    folder = tmp_path / "logs"
    folder.mkdir()
    make(folder, 2.0, 40)
    made = bench_fleet.run_under_attack(folder)
    tasks._get_reader(1.0).close()
    assert (made.first.read, made.first.failed, made.first.left) == (40, 0, 0)
    assert made.second.failed == 0
    assert made.different == []
