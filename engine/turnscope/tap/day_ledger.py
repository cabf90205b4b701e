"""What all taps of this machine spend in a day: each that has a budget for it says in a small database what it spent and holds.

Of the others their logs say it. A tap that has ended, also by being killed, holds nothing any more, and its log says what it
spent. Where the database cannot be used, a tap counts what it knows itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

from turnscope.storage.pending_requests import identify_process, is_process_gone
from turnscope.tap.log_sums import LogSums

FILE = "spending.sqlite"
WAIT_SECONDS = 5.0  # for another tap that writes
ROUNDS = 3  # how often the logs are looked at again before they are read while others wait
_SHARE = Decimal(10) ** 12  # parts of a USD that are written: whole numbers add up exactly
_TABLE = """create table if not exists taps
(id text primary key, process text, log text, day text, spent int, held int, usual int, at real)"""
_Row = tuple[str, int, int, int]  # log of a tap; what it spent and holds, and its dearest request of late


@dataclass(frozen=True, slots=True)
class Sums:
    """USD that were spent, that are held back for running requests, and that the dearest request of late cost."""

    spent: Decimal = Decimal(0)
    held: Decimal = Decimal(0)
    usual: Decimal = Decimal(0)


class DayLedger:
    """The part of one tap. Used by one thread at a time.

    Args:
        log: The tap's own log; the others lie beside it.
        make_sums: Makes what adds up the requests of a log.
        name_day: Names the day of a moment.
        clock: Gives the time in seconds since the Unix epoch.
        report: Is told once that the database cannot be used.
    """

    def __init__(
        self,
        log: Path,
        make_sums: Callable[[Path], LogSums],
        name_day: Callable[[float], str],
        clock: Callable[[], float],
        report: Callable[[str], None],
    ) -> None:
        self.log, self._make_sums, self._name_day, self._clock, self._report = log, make_sums, name_day, clock, report
        self._id, self._sums = uuid4().hex, dict[str, LogSums]()
        self._database: sqlite3.Connection | None = None
        self._failed = False

    @contextmanager
    def open(self, own: Callable[[], Sums]) -> Iterator[Sums]:
        """Give what other taps spent today and hold, and keep them from asking until the block has ended.

        Args:
            own: What this tap spent today and holds. It is asked behind the block, and written.
        """
        begun = self._begin()
        try:
            yield begun[1] if begun else Sums()
        finally:
            if begun:
                self._end(begun[0], own())

    def write(self, own: Sums) -> None:
        """Tell the other taps what this one spent today and holds.

        Args:
            own: That.
        """
        try:
            database = self._connect()
            database.execute("begin immediate")
        except (sqlite3.Error, OSError) as error:
            self._fail(error)
            return
        self._end(database, own)

    def _begin(self) -> tuple[sqlite3.Connection, Sums] | None:
        try:
            database = self._connect()
            now, logs = self._look(database)
        except (sqlite3.Error, OSError) as error:
            self._fail(error)
            return None
        spent, held = (Decimal(sum(parts)) / _SHARE for parts in ([tap[1] for tap in now], [tap[2] for tap in now]))
        return database, Sums(spent + logs.spent, held, max(logs.usual, *(tap[3] / _SHARE for tap in now), Decimal(0)))

    def _look(self, database: sqlite3.Connection) -> tuple[list[_Row], Sums]:
        """Look at other taps, and at the logs that none of them speaks for, and keep them all from writing."""
        for _ in range(ROUNDS):
            running = {log for log, *_ in self._list_taps(database)}
            logs = self._add_logs(running)
            database.execute("begin immediate")
            now = self._list_taps(database)
            if {log for log, *_ in now} == running:
                return now, logs
            database.execute("rollback")  # one began or ended meanwhile
        database.execute("begin immediate")
        now = self._list_taps(database)
        return now, self._add_logs({log for log, *_ in now})

    def _list_taps(self, database: sqlite3.Connection) -> list[_Row]:
        """The other taps that run, with what they spent today and hold."""
        today, found = self._name_day(self._clock()), list[_Row]()
        for key, process, log, day, spent, held, usual, at in database.execute("select * from taps").fetchall():
            if key == self._id:
                continue
            if process != identify_process() and is_process_gone(process, at):
                database.execute("delete from taps where id = ?", (key,))
            else:
                found.append((log, spent if day == today else 0, held, usual))
        return found

    def _add_logs(self, running: set[str]) -> Sums:
        """What the logs say that no running tap speaks for, of today."""
        today, total, usual = self._name_day(self._clock()), Decimal(0), Decimal(0)
        for path in self.log.parent.glob("*.jsonl"):
            if path == self.log or str(path) in running or self._name_day(path.stat().st_mtime) != today:
                continue
            if str(path) not in self._sums:
                self._sums[str(path)] = self._make_sums(path)
            total += self._sums[str(path)].compute_day(today)
            usual = max(usual, *self._sums[str(path)].recent, Decimal(0))
        return Sums(total, usual=usual)

    def _end(self, database: sqlite3.Connection, own: Sums) -> None:
        now = self._clock()
        sums = (_write(usd) for usd in (own.spent, own.held, own.usual))
        row = (self._id, identify_process(), str(self.log), self._name_day(now), *sums, now)
        try:
            database.execute("insert or replace into taps values (?, ?, ?, ?, ?, ?, ?, ?)", row)
            database.execute("commit")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                database.execute("rollback")
            self._fail(error)

    def _connect(self) -> sqlite3.Connection:
        if self._database is None:
            path = self.log.parent / FILE
            database = sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False)
            path.chmod(0o600)
            database.execute("pragma synchronous = off")  # nothing of it matters when the machine has stopped
            database.execute(_TABLE)
            self._database = database
        return self._database

    def _fail(self, error: Exception) -> None:
        if not self._failed:
            self._report(f"the spending of other taps is not counted: {error}")
        self._failed = True

    def close(self) -> None:
        """Hold nothing any more: from now on the log says what this tap spent."""
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.execute("delete from taps where id = ?", (self._id,))
                self._database.close()
            self._database = None


def _write(usd: Decimal) -> int:
    return int(usd * _SHARE)
