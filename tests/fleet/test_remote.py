"""`turnscope fleet` with a scheduler and workers of Dask as processes: Ctrl-C, workers that lack something, packages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import start
from turnscope.cli import ExitCode
from turnscope.cli.fleet import STOPPED
from turnscope.fleet.cluster import SerialCluster
from turnscope.fleet.dataset import open_fleet
from turnscope.fleet.run import FleetRun, build_options
from turnscope.fleet.sources import list_sources

from tests.bench import bench_fleet
from tests.bench.bench_scale import make
from tests.extensions.conftest import installed_plugin  # noqa: F401 - a fixture
from tests.fleet.made import find_differences, write_log

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(sys.platform != "linux", reason="looks at processes below /proc")]

NONE = """
import sys

class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "turnscope":
            raise ModuleNotFoundError("No module named 'turnscope'", name=name)

sys.meta_path.insert(0, Lacking())
"""


class Dask:
    """A scheduler that lacks Turnscope, and the workers that are started for it."""

    def __init__(self, folder: Path) -> None:
        self.lacking = folder / "lacking"
        self.lacking.mkdir()
        (self.lacking / "sitecustomize.py").write_text(NONE)
        self.port = bench_fleet.find_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        words = ("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")
        self.processes = [self._start(*words, paths=(self.lacking,))]
        bench_fleet.wait_for(lambda: bench_fleet.is_open(self.port), 60)

    def add_worker(self, *paths: Path) -> None:
        """Start a worker. `paths`: folders of packages that it has besides."""
        words = ("distributed.cli.dask_worker", self.address, "--nthreads", "1", "--no-dashboard")
        self.processes.append(self._start(*words, paths=paths))

    def _start(self, *words: str, paths: tuple[Path, ...]) -> subprocess.Popen[bytes]:
        null, env = subprocess.DEVNULL, os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
        return subprocess.Popen([sys.executable, "-m", *words], env=env, stdout=null, stderr=null)

    def connect(self, workers: int) -> Any:
        """A client, once so many workers are there."""
        import distributed

        client = distributed.Client(self.address, timeout=60, set_as_default=False)
        client.wait_for_workers(workers, timeout=60)
        return client

    def close(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(60)


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Dask]:
    started = Dask(tmp_path)
    yield started
    started.close()


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    make(folder, 10.0, 40)
    return folder


def list_ours(client: Any) -> list[str]:
    """The tasks of runs that the scheduler holds."""
    held = client.run_on_scheduler(lambda dask_scheduler: [*dask_scheduler.tasks])
    return [key for key in held if str(key).startswith("turnscope-")]


def test_ctrl_c_ends_a_run_on_a_scheduler_and_the_next_one_goes_on(
    dask: Dask, logs: Path, tmp_path: Path, data_folder: Path
) -> None:
    dask.add_worker()
    dask.add_worker()
    out, client = tmp_path / "out", dask.connect(2)
    words = ("fleet", str(logs), "--out", str(out), "--scheduler", dask.address)
    process, seen = start(*words, env={**os.environ}), set[str]()

    def has_begun() -> bool:
        seen.update(list_ours(client))
        return len(seen) > 8  # more than wait at once: some were read

    bench_fleet.wait_for(has_begun, 120)
    os.killpg(process.pid, signal.SIGINT)
    text, errors = process.communicate(timeout=60)
    *progress, last = errors.splitlines()
    assert (process.returncode, text, last) == (ExitCode.INTERRUPTED, "", f"turnscope: {STOPPED}")
    assert all(line.endswith(" left") for line in progress), errors
    bench_fleet.wait_for(lambda: not list_ours(client), 60)
    assert not [*out.rglob("*.part")]
    was_read = open_fleet(str(out)).count_rows("sessions")
    assert 0 < was_read < 40
    process = start(*words, env={**os.environ})
    text, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert f"{was_read} unchanged, 0 failed" in text
    FleetRun(open_fleet(str(tmp_path / "serial")), build_options()).run(list_sources(str(logs)), SerialCluster())
    assert find_differences(str(out), str(tmp_path / "serial")) == []
    client.close()


def test_ctrl_c_in_a_terminal_comes_to_no_worker_of_this_machine(logs: Path, tmp_path: Path, data_folder: Path) -> None:
    process = start("fleet", str(logs), "--out", str(tmp_path / "out"), "--workers", "2", env={**os.environ})
    below = lambda: [*bench_fleet.list_descendants(process.pid)]  # noqa: E731
    bench_fleet.wait_for(lambda: len(below()) >= 6, 120)  # itself, a tracker, two workers, two that read for them
    processes = below()
    os.killpg(process.pid, signal.SIGINT)
    told = process.communicate(timeout=60)
    assert (process.returncode, *told) == (ExitCode.INTERRUPTED, "", f"turnscope: {STOPPED}\n"), told
    bench_fleet.wait_for(lambda: not any(Path("/proc", str(pid)).exists() for pid in processes), 30)


def test_a_worker_that_lacks_turnscope_is_named_at_the_start_and_later(
    dask: Dask, logs: Path, tmp_path: Path, data_folder: Path
) -> None:
    words = ("fleet", str(logs), "--out", str(tmp_path / "out"), "--scheduler", dask.address)
    process = start(*words, env={**os.environ})
    assert process.stderr is not None
    assert process.stderr.readline() == "turnscope: No worker is there; the run waits for one.\n"
    dask.add_worker(dask.lacking)  # it joins a run that has begun
    _, late = process.communicate(timeout=120)
    early = start(*words, env={**os.environ})
    _, first = early.communicate(timeout=120)
    for code, told in ((process.returncode, late), (early.returncode, first)):
        assert code == ExitCode.ERROR
        assert "cannot take part" in told
        assert "No module named 'turnscope'" in told
        assert told.count("\n") == 1, told
    assert "1 of 1 workers" in first
    assert open_fleet(str(tmp_path / "out")).count_rows("sources") == 0  # nothing was set aside for it


def test_a_policy_of_a_package_is_replayed_where_workers_have_the_package(
    dask: Dask,
    installed_plugin: Path,  # noqa: F811
    tmp_path: Path,
    data_folder: Path,
) -> None:
    for n in range(3):
        write_log(tmp_path / "logs" / f"s{n}.jsonl", 4)
    env = os.environ | {"PYTHONPATH": str(installed_plugin)}
    words = ("fleet", str(tmp_path / "logs"), "--out", str(tmp_path / "out"), "--scheduler", dask.address)
    words = (*words, "--policies", "remind-of-task,balanced")
    dask.add_worker(installed_plugin)
    dask.connect(1).close()
    process = start(*words, env=env)
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
    made = open_fleet(str(tmp_path / "out")).read("losses")["policy"].to_pylist()
    assert sorted(made) == ["balanced"] * 3 + ["remind-of-task"] * 3
    dask.add_worker()
    dask.connect(2).close()
    process = start(*words, env=env)  # nothing is new: no worker is needed
    assert process.wait(120) == 0
    write_log(tmp_path / "logs" / "new.jsonl", 4)
    process = start(*words, env=env)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == ExitCode.ERROR
    assert "1 of 2 workers cannot take part" in errors
    assert "it lacks the importer diary" in errors
    assert "turnscope-diary 1.0" in errors
