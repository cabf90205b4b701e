"""A run over all sources: what is new is read by workers, and committed a part at a time, until all is dealt with.

What a run that was stopped has committed is not read again. A source that crashes or hangs its reader is tried again later, and
set aside after some tries.
"""

from __future__ import annotations

import heapq
import queue
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import msgspec

from turnscope.errors import PolicyError
from turnscope.fleet import tables
from turnscope.fleet.cluster import LEAST_AHEAD, Cluster, make_misfit
from turnscope.fleet.dataset import Fleet
from turnscope.fleet.privacy import hash_name
from turnscope.fleet.reader import ReadResult
from turnscope.fleet.sources import SourceUnit
from turnscope.fleet.sums import store_sums
from turnscope.fleet.tasks import CHANGED, MISFIT, Options, Outcome, find_problem, get_version, list_versions, run_task
from turnscope.fleet.upkeep import tidy
from turnscope.fleet.writing import READ, SET_ASIDE, UNREADABLE, Finished, Writer
from turnscope.library.opening import load_policy

MOST_TRIES = 3  # of a source that crashes or hangs its reader, or changes while it is read
BACK_OFF = 2.0  # seconds before the second try; the next one waits twice as long
COMMIT_SOURCES, COMMIT_BYTES, COMMIT_SECONDS = 500, 64_000_000, 60.0  # what is committed at once
RUNS = "_runs"
_AGAIN = frozenset(("crashed", "hung", CHANGED))


class Problem(msgspec.Struct, frozen=True):
    """A source that could not be read: its URL, its state in the tables, and why."""

    url: str
    state: str
    error: str


class RunReport(msgspec.Struct, frozen=True):
    """What a run did, and what it cost.

    Attributes:
        started: as ISO 8601 in UTC.
        seconds: from start to end.
        found, unchanged, read, failed: sources.
        sessions, bytes: of those that were read.
        cpu_seconds: CPU time of the workers for them, with those that failed.
        retried: tries beyond the first.
        left: sources that are not dealt with, because the run was stopped.
        problems: what could not be read.
    """

    started: str
    seconds: float = 0.0
    found: int = 0
    unchanged: int = 0
    read: int = 0
    failed: int = 0
    sessions: int = 0
    bytes: int = 0
    cpu_seconds: float = 0.0
    retried: int = 0
    left: int = 0
    problems: tuple[Problem, ...] = ()

    @property
    def cpu_per_gb(self) -> float | None:
        """CPU seconds per GB that was read; None where nothing was."""
        return self.cpu_seconds / self.bytes * 1e9 if self.bytes else None

    @property
    def cpu_per_session(self) -> float | None:
        """CPU seconds per session; None where there is none."""
        return self.cpu_seconds / self.sessions if self.sessions else None

    def to_json(self) -> str:
        """The report as JSON, with the costs per GB and per session."""
        values = msgspec.to_builtins(self) | {"cpu_per_gb": self.cpu_per_gb, "cpu_per_session": self.cpu_per_session}
        return msgspec.json.format(msgspec.json.encode(values)).decode() + "\n"

    def __repr__(self) -> str:
        amount = f"{self.sessions:,} sessions, {self.bytes / 1e6:,.1f} MB"
        rest = f"{self.unchanged:,} unchanged, {self.failed:,} failed"
        lines = [f"{self.read:,} of {self.found:,} sources read in {self.seconds:,.1f} s ({amount}), {rest}."]
        if self.cpu_per_gb is not None and self.cpu_per_session is not None:
            costs = f"{self.cpu_per_gb:,.0f} s per GB, {self.cpu_per_session:,.2f} s per session"
            lines.append(f"CPU time of the workers: {self.cpu_seconds:,.1f} s ({costs}).")
        if self.retried:
            lines.append(f"{self.retried:,} further tries.")
        for reason, many in Tally(f"{each.state}: {each.error}" for each in self.problems).most_common(10):
            lines.append(f"{many:,} {reason}")
        return "\n".join(lines)


def build_options(
    policies: Sequence[str] = (), *, with_text: bool = False, key: bytes | None = None, layout: str = ""
) -> Options:
    """Build the options of a run, with the version that follows from them.

    Args:
        policies: names of policies to replay, or paths of their TOML files.
        with_text: whether rows hold texts.
        key: hashes people and paths.
        layout: how paths say whose sessions they are.

    Raises:
        PolicyError: there is no policy of a name, or two have the same.
    """
    loaded = [load_policy(name) for name in sorted(policies)]
    texts = {policy.name: policy.to_toml() for policy in loaded}
    if len(texts) < len({*policies}):
        raise PolicyError("two policies have the same name", hint="Rename one of the files: tables know policies by name.")
    named = [f"{name}\n{text}" for name, text in texts.items()]
    hashed = hash_name(key, "version") if key else ""
    parts = (get_version(), str(tables.VERSION), str(with_text), hashed, layout, *named)
    made_by = sha256("\0".join(parts).encode()).hexdigest()[: tables.ID_DIGITS]
    return Options(made_by, texts, with_text, versions=list_versions())


@dataclass(slots=True)
class _Work:
    """The sources that are not dealt with yet: those that wait, those that wait for their next try, those at the workers."""

    waiting: list[SourceUnit]
    later: list[tuple[float, int, SourceUnit]] = field(default_factory=list)
    flying: dict[str, tuple[Any, SourceUnit]] = field(default_factory=dict)
    tries: Tally[str] = field(default_factory=Tally)
    submitted: int = 0

    def __len__(self) -> int:
        return len(self.waiting) + len(self.later) + len(self.flying)

    def take(self) -> SourceUnit | None:
        """The source that is next; None = none can be started at this moment."""
        if self.later and self.later[0][0] <= time.monotonic():
            return heapq.heappop(self.later)[2]
        return self.waiting.pop() if self.waiting else None

    def postpone(self, unit: SourceUnit, seconds: float) -> None:
        """Try a source again after a while."""
        self.submitted += 1
        heapq.heappush(self.later, (time.monotonic() + seconds, self.submitted, unit))

    def take_back(self) -> None:
        """Let what is at the workers wait again."""
        self.waiting += [unit for _, unit in self.flying.values()]
        self.flying.clear()


class FleetRun:
    """One run. `report` says at any time what it did so far.

    Args:
        fleet: the tables.
        options: how sources are read.
        key: hashes people and paths; None = they stay.
        most_tries: of a source that crashes, hangs or changes.
    """

    def __init__(self, fleet: Fleet, options: Options, key: bytes | None = None, most_tries: int = MOST_TRIES) -> None:
        self.options, self.most_tries = options, most_tries
        self.writer = Writer(fleet, options.made_by, key)
        self.report = RunReport(datetime.now(UTC).isoformat())
        self._began = self._committed = time.monotonic()
        self._finished: list[Finished] = []
        self._bytes = 0
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._work = _Work([])

    @property
    def fleet(self) -> Fleet:
        """The tables as they are now."""
        return self.writer.fleet

    def is_known(self, unit: SourceUnit, *, retry: bool = False) -> bool:
        """Whether a source has not changed since the tables got it.

        Args:
            unit: the source.
            retry: whether one that could not be read is tried again.
        """
        known = self.writer.known.get(unit.id)
        if known is None or not known.stamp or (retry and known.state in (UNREADABLE, SET_ASIDE)):
            return False
        return (known.stamp, known.made_by) == (unit.stamp, self.options.made_by)

    def run(
        self,
        units: Iterable[SourceUnit],
        cluster: Cluster,
        progress: Callable[[RunReport], object] = lambda _: None,
        *,
        retry: bool = False,
    ) -> RunReport:
        """Read what is new of some sources. What is done when it is stopped, by whatever exception, is committed.

        Args:
            units: the sources, those that were written first before the others.
            cluster: reads them. It is started where anything is new.
            progress: is given the report after each source.
            retry: whether sources that could not be read are tried again.

        Raises:
            TurnscopeError: storage or the scheduler fails, or another run wrote meanwhile.
        """
        every = [*units]
        new = [unit for unit in every if not self.is_known(unit, retry=retry)]
        self._work = _Work(new[::-1])
        self._change(found=len(every), unchanged=len(every) - len(new), left=len(new))
        try:
            if new:
                with cluster:
                    self._read_all(cluster, progress)
            self.writer.fleet = tidy(self.fleet)
            store_sums(self.fleet)
            if self.report.read or self.report.failed:
                self.fleet.remove_old_files()
        finally:
            self._commit()
            self._change(left=len(self._work), seconds=time.monotonic() - self._began)
            self._store_report()
        return self.report

    def _read_all(self, cluster: Cluster, progress: Callable[[RunReport], object]) -> None:
        cluster.check(find_problem, (self.options, sorted({unit.root for unit in self._work.waiting})))
        try:
            while len(self._work):
                self._step(cluster, progress)
            self._commit()
        finally:
            cluster.cancel([future for future, _ in self._work.flying.values()])

    def _step(self, cluster: Cluster, progress: Callable[[RunReport], object]) -> None:
        """Keep the workers busy, and deal with the next source that has ended."""
        if cluster.is_lost:
            self._work.take_back()
            self._commit()
            cluster.reconnect()
        self._fill(cluster)
        with suppress(queue.Empty):
            self._take(self._ended.get(timeout=0.5))
            progress(self.report)
        late = time.monotonic() - self._committed > COMMIT_SECONDS
        if len(self._finished) >= COMMIT_SOURCES or self._bytes >= COMMIT_BYTES or (self._finished and late):
            self._commit()

    def _fill(self, cluster: Cluster) -> None:
        ahead = max(LEAST_AHEAD, 2 * cluster.count_threads())
        while len(self._work.flying) < ahead and (unit := self._work.take()) is not None:
            self._work.submitted += 1
            key = f"turnscope-{unit.id}-{self._work.submitted}-{id(self)}"
            future = cluster.submit(run_task, (unit, self.options), key=key, done=self._ended.put)
            self._work.flying[key] = future, unit

    def _take(self, future: Any) -> None:
        """Deal with a task that has ended. One that a lost scheduler took with it waits again."""
        found = self._work.flying.pop(future.key, None)
        if found is None:
            return
        unit = found[1]
        if future.status in ("cancelled", "lost"):
            self._work.waiting.append(unit)
            return
        try:
            outcome: Outcome = future.result()
        except ImportError as error:
            raise make_misfit(f"a worker that joined cannot take part: {error}") from error
        except Exception as error:  # noqa: BLE001 - a worker that died with it too often, or a defect: both are reported
            outcome = Outcome(unit, ReadResult("crashed", error=f"{type(error).__name__}: {error}"[:300]))
        self._judge(outcome)

    def _judge(self, outcome: Outcome) -> None:
        """Count a source as dealt with, or try it again."""
        unit, result = outcome.unit, outcome.result
        if result.state == MISFIT:
            raise make_misfit(f"a worker that joined cannot take part: {result.error}")
        self._work.tries[unit.id] += 1
        tries = self._work.tries[unit.id]
        if result.state in _AGAIN and tries < self.most_tries:
            self._change(retried=self.report.retried + 1, cpu_seconds=self.report.cpu_seconds + result.cpu_seconds)
            self._work.postpone(unit, BACK_OFF * 2 ** (tries - 1))
            return
        state = READ if result.state == READ else SET_ASIDE if result.state in ("crashed", "hung") else UNREADABLE
        self._finished.append(Finished(outcome, state, tries))
        self._bytes += sum(map(len, result.tables.values()))
        report, was_read = self.report, state == READ
        problems = () if was_read else (Problem(unit.url, state, result.error),)
        self._change(
            read=report.read + was_read,
            failed=report.failed + (not was_read),
            sessions=report.sessions + result.sessions,
            bytes=report.bytes + (unit.size if was_read else 0),
            cpu_seconds=report.cpu_seconds + result.cpu_seconds,
            left=len(self._work),
            problems=(*report.problems, *problems),
        )

    def _commit(self) -> None:
        finished, self._finished, self._bytes = self._finished, [], 0
        self._committed = time.monotonic()
        self.writer.commit(finished)

    def _change(self, **values: Any) -> None:
        self.report = msgspec.structs.replace(self.report, **values)

    def _store_report(self) -> None:
        """Store what the run did beside the tables. Where paths are hashed, problems have no URL."""
        kept = self.report
        if self.writer.key:
            hidden = tuple(Problem("", each.state, "") for each in kept.problems)
            kept = msgspec.structs.replace(kept, problems=hidden)
        name = f"{kept.started.replace(':', '').partition('+')[0]}.json"
        self.fleet.storage.write(self.fleet.storage.join(RUNS, name), msgspec.json.encode(kept))


def list_runs(fleet: Fleet) -> Iterator[RunReport]:
    """The reports of all runs, the oldest first. TurnscopeError: they cannot be read."""
    for path in fleet.storage.list_files(fleet.storage.join(RUNS)):
        yield msgspec.json.decode(fleet.storage.read(path), type=RunReport)
