"""A fleet under attack, and what it costs: `python tests/bench/bench_fleet.py [--sessions N] [--megabytes N] [--part NAME]`.

Sessions are generated with the proportions of real ones (`bench_scale`), into a folder that goes again or into `--folder`,
which stays and is used again as it is. The parts:

- attack: a scheduler and two workers as processes on loopback, and a server that behaves as S3 (moto) with sources and tables.
  A worker is killed in the middle, the scheduler is restarted, objects are replaced while the run goes on. After a second run
  the tables equal those of a serial run, row by row.
- cost: throughput on one worker and on two, of sources on a disk; the memory of workers and of the processes that read for
  them, from quarter to quarter of the run; what 1 TB would take at that rate.
- memory: two workers read the sources from that server, while one of them is killed early and objects are replaced; what each
  worker and the process that reads for it hold, after every source: the median of the first third against that of the last.

Exit 1 if tables differ, if the memory of the last quarter is over 1.3 times that of the second, or that of a last third over
1.1 times that of the first.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "engine"), str(ROOT / "tests" / "bench")]

from bench_scale import make  # noqa: E402
from turnscope.fleet import run as runs  # noqa: E402
from turnscope.fleet.cluster import Cluster, SerialCluster  # noqa: E402
from turnscope.fleet.dataset import open_fleet  # noqa: E402
from turnscope.fleet.run import FleetRun, RunReport, build_options  # noqa: E402
from turnscope.fleet.sources import list_sources  # noqa: E402
from turnscope.fleet.storage import open_storage  # noqa: E402

from tests.fleet.made import find_differences  # noqa: E402

REPLACED = 5  # objects, while the run goes on
GROWN, GROWN_THIRD = 1.3, 1.1
TERABYTE = 1e12


def find_port() -> int:
    """A port that is free now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def start(*words: str) -> subprocess.Popen[bytes]:
    """Start a module of Python as a process that says nothing."""
    path = os.pathsep.join(filter(None, (str(ROOT / "engine"), os.environ.get("PYTHONPATH"))))
    env = os.environ | {"PYTHONPATH": path, "DASK_LOGGING__DISTRIBUTED": "critical"}
    return subprocess.Popen([sys.executable, "-m", *words], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process."""
    process.kill()
    process.wait()


@contextmanager
def serve_s3() -> Iterator[None]:
    """A server that behaves as S3, which this process and those that it starts take for S3."""
    port = find_port()
    server, kept = start("moto.server", "-p", str(port)), dict(os.environ)
    url = f"http://127.0.0.1:{port}"
    os.environ |= {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
    try:
        wait_for(lambda: bool(urllib.request.urlopen(url, timeout=1).status), 60)
        open_storage("s3://fleet").fs.mkdir("fleet")
        yield
    finally:
        end(server)
        os.environ.clear()
        os.environ.update(kept)


def wait_for(is_there: Callable[[], bool], seconds: float) -> None:
    """Wait until something is so."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(OSError):
            if is_there():
                return
        time.sleep(0.1)
    raise TimeoutError("it did not come")


class Processes:
    """A scheduler and its workers as processes. Workers that end are started again, as a supervisor does.

    Args:
        workers: how many.
    """

    def __init__(self, workers: int) -> None:
        self.port, self.many = find_port(), workers
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler = self._start_scheduler()
        self.workers: list[subprocess.Popen[bytes]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._supervise, daemon=True)
        self._thread.start()

    def _start_scheduler(self) -> subprocess.Popen[bytes]:
        words = ("--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")
        return start("distributed.cli.dask_scheduler", *words)

    def _supervise(self) -> None:
        while not self._stop.wait(0.3):
            self.workers = [worker for worker in self.workers if worker.poll() is None]
            while len(self.workers) < self.many:
                words = (self.address, "--nthreads", "1", "--no-dashboard", "--no-nanny", "--death-timeout", "30")
                self.workers.append(start("distributed.cli.dask_worker", *words))

    def kill_worker(self) -> None:
        """Kill a worker at once."""
        end(self.workers[0])

    def restart_scheduler(self) -> None:
        """Kill the scheduler at once, and start another one at its address."""
        end(self.scheduler)
        self.scheduler = self._start_scheduler()

    def close(self) -> None:
        """End them all."""
        self._stop.set()
        self._thread.join()
        for process in (*self.workers, self.scheduler):
            end(process)


def attack(
    processes: Processes, folder: Path, source: str, ats: tuple[float, ...] = (0.1, 0.3, 0.6)
) -> Callable[[RunReport], None]:
    """What is done to a run at parts of its way: a function that takes its report.

    Args:
        processes: the cluster.
        folder, source: where sources lie, and where they are read.
        ats: when objects are replaced, a worker killed, the scheduler restarted; over 1 = never.
    """
    storage, done = open_storage(source), set[str]()
    names = sorted(path for path in folder.rglob("*.jsonl"))

    def replace() -> None:
        """Put another session in the place of some objects: one that is read early, some that are read late."""
        for n in range(REPLACED):
            target = names[n * (len(names) - 1) // (REPLACED - 1)]
            target.write_bytes(names[(n * 7 + 3) % len(names)].read_bytes())
            storage.write(storage.join(target.relative_to(folder).as_posix()), target.read_bytes())

    def act(report: RunReport) -> None:
        part = (report.read + report.failed) / max(1, report.found)
        whats = (replace, processes.kill_worker, processes.restart_scheduler)
        for at, name, what in zip(ats, ("replace", "kill a worker", "restart the scheduler"), whats, strict=True):
            if part >= at and name not in done:
                done.add(name)
                what()

    act.done = done  # type: ignore[attr-defined]
    return act


@dataclass
class Attacked:
    """What came of an attack: reports of three runs, tables that differ, and memory per worker by tenths of the first."""

    first: RunReport
    second: RunReport
    serial: RunReport
    different: list[str]
    memory: list[float]


def run_under_attack(folder: Path) -> Attacked:
    """Read a folder from S3 under attack, then once more, and once serially."""
    source, dest, other = "s3://fleet/logs", "s3://fleet/tables", "s3://fleet/serial"
    with serve_s3(), ExitStack() as stack:
        storage = open_storage(source)
        storage.fs.put(f"{folder}/", f"{storage.root}/", recursive=True)
        processes = Processes(2)
        stack.callback(processes.close)
        acts, memory = attack(processes, folder, source), [0.0] * 10

        def watch(report: RunReport) -> None:
            acts(report)
            tenth = min(9, 10 * report.read // max(1, report.found))
            held = measure_memory([worker.pid for worker in processes.workers]) / max(1, len(processes.workers))
            memory[tenth] = max(memory[tenth], held)

        cluster = Cluster(processes.address)
        wait_for(lambda: processes.scheduler.poll() is None and is_open(processes.port), 60)
        first = FleetRun(open_fleet(dest), build_options()).run(list_sources(source), cluster, watch)
        assert len(acts.done) == 3, acts.done  # type: ignore[attr-defined]
        second = FleetRun(open_fleet(dest), build_options()).run(list_sources(source), Cluster(processes.address))
        serial = FleetRun(open_fleet(other), build_options()).run(list_sources(source), SerialCluster())
        return Attacked(first, second, serial, find_differences(dest, other), memory)


def show_memory(folder: Path) -> bool:
    """Print what workers hold while they read from S3; gives whether that stays."""
    source, samples = "s3://fleet/logs", defaultdict[int, list[tuple[int, float]]](list)
    with serve_s3(), ExitStack() as stack:
        storage = open_storage(source)
        storage.fs.put(f"{folder}/", f"{storage.root}/", recursive=True)
        processes = Processes(2)
        stack.callback(processes.close)
        acts = attack(processes, folder, source, (0.4, 0.02, 2.0))

        def watch(report: RunReport) -> None:
            acts(report)
            for worker in [*processes.workers]:
                samples[worker.pid].append((report.read, measure_memory([worker.pid])))

        wait_for(lambda: is_open(processes.port), 60)
        units = list_sources(source)
        report = FleetRun(open_fleet("s3://fleet/tables"), build_options()).run(units, Cluster(processes.address), watch)
    print(f"memory: {report!r}")
    flat = True
    for held in samples.values():
        first = [megabytes for number, megabytes in held if len(units) / 20 < number <= len(units) / 3]
        last = [megabytes for number, megabytes in held if number > len(units) * 2 / 3]
        if first and last:  # not the one that was killed
            begin, end_ = median(first), median(last)
            most = max(megabytes for _, megabytes in held)
            print(f"  a worker: first third {begin:,.0f} MB, last third {end_:,.0f} MB, at most {most:,.0f} MB")
            flat &= end_ <= GROWN_THIRD * begin
    return flat


def is_open(port: int) -> bool:
    """Whether something listens."""
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def list_descendants(pid: int) -> Iterator[int]:
    """The processes below one, with itself."""
    yield pid
    for task in Path("/proc", str(pid), "task").glob("*/children"):
        with suppress(OSError):
            for child in task.read_text().split():
                yield from list_descendants(int(child))


def measure_memory(pids: list[int]) -> float:
    """Megabytes that processes and those below them hold now."""
    total = 0
    for one in {each for pid in pids for each in list_descendants(pid)}:
        with suppress(OSError):
            total += int(Path("/proc", str(one), "statm").read_text().split()[1])
    return total * os.sysconf("SC_PAGESIZE") / 1e6


def measure_run(folder: Path, dest: Path, workers: int) -> tuple[RunReport, list[float]]:
    """Read a folder with so many workers. Gives the report, and the most memory per worker in each quarter, in megabytes."""
    processes, quarters = Processes(workers), [0.0] * 4
    try:
        wait_for(lambda: is_open(processes.port), 60)

        def watch(report: RunReport) -> None:
            quarter = min(3, 4 * report.read // max(1, report.found))
            held = measure_memory([worker.pid for worker in processes.workers]) / workers
            quarters[quarter] = max(quarters[quarter], held)

        units = list_sources(str(folder))
        return FleetRun(open_fleet(str(dest)), build_options()).run(units, Cluster(processes.address), watch), quarters
    finally:
        processes.close()


def show_costs(folder: Path, work: Path) -> bool:
    """Print throughput and memory for one worker and for two; gives whether memory is flat."""
    flat = True
    for workers in (1, 2):
        report, quarters = measure_run(folder, work / f"tables{workers}", workers)
        rate = report.bytes / report.seconds / 1e6
        amount = f"{report.sessions:,} sessions, {report.bytes / 1e6:,.0f} MB"
        print(f"{workers} on the work: {amount} in {report.seconds:,.0f} s: {rate:,.2f} MB/s")
        print(
            f"  CPU {report.cpu_seconds:,.0f} s: {report.cpu_per_gb:,.0f} s per GB, {report.cpu_per_session:,.2f} s per session"
        )
        print(f"  memory per worker, by quarter of the run: {', '.join(f'{each:,.0f}' for each in quarters)} MB")
        hours = report.cpu_per_gb * TERABYTE / 1e9 / 3_600 if report.cpu_per_gb else 0
        print(f"  1 TB at that rate: {hours:,.0f} core hours, {hours / 64:,.1f} hours on 64 cores")
        flat &= quarters[3] <= GROWN * quarters[1]
    return flat


def main() -> int:
    parser = argparse.ArgumentParser(description="A fleet under attack, and what it costs.")
    parser.add_argument("--sessions", type=int, default=2_000)
    parser.add_argument("--megabytes", type=float, default=200.0)
    parser.add_argument("--part", choices=("attack", "cost", "memory"))
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = given.folder or Path(name, "logs")
        if not folder.exists():
            folder.mkdir()
            make(folder, given.megabytes, given.sessions)
        if given.part in (None, "memory"):
            copy = Path(name, "watched")
            shutil.copytree(folder, copy)
            failed |= not show_memory(copy)
        if given.part in (None, "cost"):
            failed |= not show_costs(folder, Path(name))
        if given.part in (None, "attack"):
            copy = Path(name, "attacked")
            shutil.copytree(folder, copy)
            runs.COMMIT_SECONDS = 10.0
            made = run_under_attack(copy)
            print(f"under attack: {made.first!r}\nthe second run: {made.second!r}\none after the other: {made.serial!r}")
            print(f"memory per worker, by tenth of the run: {', '.join(f'{each:,.0f}' for each in made.memory)} MB")
            print(
                f"tables that differ from a serial run's: {', '.join(made.different) or 'none'}; load {os.getloadavg()[0]:.0f}"
            )
            failed |= bool(made.different)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
