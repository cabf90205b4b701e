"""What all taps of this machine spend in a day and in a session: each with a budget says so in a small database.

What others spent in a day their logs say. A tap that has ended, also by being killed, holds nothing any more; its log says what
it spent that day, and the database what it spent in each session. Where that cannot be used, a tap counts what it knows itself.
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
_SESSIONS = """create table if not exists sessions
(tap text, session text, spent int, held int, usual int, at real, primary key (session, tap))"""
KEPT_SECONDS = 90 * 86_400  # for which it is known what a session cost
_Row = tuple[str, int, int, int, str]  # log of a tap; what it spent and holds, its dearest request of late; its id


@dataclass(frozen=True, slots=True)
class Sums:
    """USD that were spent, that are held back for running requests, and that the dearest request of late cost."""

    spent: Decimal = Decimal(0)
    held: Decimal = Decimal(0)
    usual: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class Shares:
    """What one tap, or all others, spent today and in one session, and hold back."""

    day: Sums = Sums()
    session: Sums = Sums()


class SpendingLedger:
    """The part of one tap. Used by one thread at a time.

    Args:
        log: The tap's own log; the others lie beside it.
        make_sums: Makes what adds up the requests of a log; None = the day has no budget, and no log is read.
        name_day: Names the day of a moment.
        clock: Gives the time in seconds since the Unix epoch.
        report: Is told once that the database cannot be used.
    """

    def __init__(
        self,
        log: Path,
        make_sums: Callable[[Path], LogSums] | None,
        name_day: Callable[[float], str],
        clock: Callable[[], float],
        report: Callable[[str], None],
    ) -> None:
        self.log, self._make_sums, self._name_day, self._clock, self._report = log, make_sums, name_day, clock, report
        self._id, self._sums = uuid4().hex, dict[str, LogSums]()
        self._database: sqlite3.Connection | None = None
        self._failed = False

    @contextmanager
    def open(self, session: str, own: Callable[[], Shares]) -> Iterator[Shares]:
        """Give what other taps spent and hold, and keep them from asking until the block has ended.

        Args:
            session: Name of the session; "" = one of this tap alone.
            own: What this tap spent and holds. It is asked behind the block, and written.
        """
        begun = self._begin(session)
        try:
            yield begun[1] if begun else Shares()
        finally:
            if begun:
                self._end(begun[0], session, own())

    def write(self, session: str, own: Shares) -> None:
        """Tell the other taps what this one spent and holds.

        Args:
            session: Name of the session; "" = one of this tap alone.
            own: That.
        """
        try:
            database = self._connect()
            database.execute("begin immediate")
        except (sqlite3.Error, OSError) as error:
            self._fail(error)
            return
        self._end(database, session, own)

    def _begin(self, session: str) -> tuple[sqlite3.Connection, Shares] | None:
        try:
            database = self._connect()
            now, logs = self._look(database)
            of_session = self._add_session(database, session, {tap[4] for tap in now})
        except (sqlite3.Error, OSError) as error:
            self._fail(error)
            return None
        spent, held = (Decimal(sum(parts)) / _SHARE for parts in ([tap[1] for tap in now], [tap[2] for tap in now]))
        day = Sums(spent + logs.spent, held, max(logs.usual, *(tap[3] / _SHARE for tap in now), Decimal(0)))
        return database, Shares(day, of_session)

    def _add_session(self, database: sqlite3.Connection, session: str, running: set[str]) -> Sums:
        """What other taps spent in a session, also those that have ended, and what those that run hold."""
        query = "select tap, spent, held, usual from sessions where session = ? and tap != ?"
        rows = database.execute(query, (session, self._id)).fetchall()
        spent, held = sum(row[1] for row in rows), sum(row[2] for row in rows if row[0] in running)
        return Sums(spent / _SHARE, held / _SHARE, max((row[3] for row in rows), default=0) / _SHARE)

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
                found.append((log, spent if day == today else 0, held, usual, key))
        return found

    def _add_logs(self, running: set[str]) -> Sums:
        """What the logs say that no running tap speaks for, of today."""
        today, total, usual = self._name_day(self._clock()), Decimal(0), Decimal(0)
        if self._make_sums is None:
            return Sums()
        for path in self.log.parent.glob("*.jsonl"):
            if path == self.log or str(path) in running or self._name_day(path.stat().st_mtime) != today:
                continue
            if str(path) not in self._sums:
                self._sums[str(path)] = self._make_sums(path)
            total += self._sums[str(path)].compute_day(today)
            usual = max(usual, *self._sums[str(path)].recent, Decimal(0))
        return Sums(total, usual=usual)

    def _end(self, database: sqlite3.Connection, session: str, own: Shares) -> None:
        now = self._clock()
        sums = (_write(usd) for usd in (own.day.spent, own.day.held, own.day.usual))
        of_session = [_write(usd) for usd in (own.session.spent, own.session.held, own.session.usual)]
        place = (self._id, session, *of_session, now)
        row = (self._id, identify_process(), str(self.log), self._name_day(now), *sums, now)
        try:
            database.execute("insert or replace into taps values (?, ?, ?, ?, ?, ?, ?, ?)", row)
            if session:
                database.execute("insert or replace into sessions values (?, ?, ?, ?, ?, ?)", place)
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
            database.execute(_SESSIONS)
            database.execute("delete from sessions where at < ?", (self._clock() - KEPT_SECONDS,))
            self._database = database
        return self._database

    def _fail(self, error: Exception) -> None:
        if not self._failed:
            self._report(f"the spending of other taps is not counted: {error}")
        self._failed = True

    def close(self) -> None:
        """Hold nothing any more: from now on the log says what this tap spent in a day."""
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.execute("delete from taps where id = ?", (self._id,))
                self._database.close()
            self._database = None


def _write(usd: Decimal) -> int:
    return int(usd * _SHARE)
