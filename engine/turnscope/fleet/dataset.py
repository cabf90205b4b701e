"""The stored tables of a fleet: Parquet files, and a log of commits that says which of them count.

A file counts once a commit names it. So what an interrupted run leaves is never read, a commit shows all of its rows or none,
and of two runs that write at once the second one notices.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import msgspec

from turnscope.errors import TurnscopeError
from turnscope.fleet.storage import Storage, import_package, open_storage
from turnscope.fleet.tables import TABLES, VERSION, make_schema

if TYPE_CHECKING:
    import pyarrow as pa

COMMITS = "_commits"
SUMS = "_sums"  # what the tables come to; see the module of that name
SNAPSHOT_EVERY = 20  # commits, after which one lists all files, so that few have to be read
UNDATED = "__HIVE_DEFAULT_PARTITION__"  # what Hive, Spark and DuckDB read as an empty value
ROW_GROUP = 250_000
RESTORE = "Restore the file, or read everything into another folder."


class PartFile(msgspec.Struct, frozen=True):
    """A Parquet file of a table. `path`: below the tables' folder; `batches`: numbers of the commits that wrote its rows."""

    path: str
    table: str
    rows: int
    bytes: int
    batches: tuple[int, ...]
    day: str = ""  # "" = no day


class Commit(msgspec.Struct, frozen=True):
    """A change of the tables: files that count from now on, and files that count no more.

    Attributes:
        at: when it was made, as ISO 8601 in UTC.
        what: what made it: read, tidy, forget.
        files: all that count after it; None = those of the commit before, with these changes.
        salt: key of the digests of people who are forgotten.
        forgotten: those digests.
        version: of the tables.
    """

    number: int
    at: str
    what: str
    added: tuple[PartFile, ...] = ()
    removed: tuple[str, ...] = ()
    files: tuple[PartFile, ...] | None = None
    salt: str = ""
    forgotten: tuple[str, ...] = ()
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Fleet:
    """The tables at a URL as of a commit.

    Attributes:
        number: of the commit; 0 = there is none yet.
        files: the files that count, by path.
        salt, forgotten: see `Commit`.
    """

    storage: Storage
    number: int
    files: Mapping[str, PartFile]
    salt: str = ""
    forgotten: tuple[str, ...] = ()

    def list_files(self, name: str) -> tuple[str, ...]:
        """The files of a table as DuckDB takes them: paths of a local folder, else URLs."""
        return tuple(self._find(path) for path, file in self.files.items() if file.table == name)

    def _find(self, path: str) -> str:
        return self.storage.make_url(self.storage.join(path))

    def count_rows(self, name: str) -> int:
        """Rows of a table."""
        return sum(file.rows for file in self.files.values() if file.table == name)

    def read(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Read a table.

        Args:
            name: the table.
            columns: those that are wanted; None = all.

        Raises:
            TurnscopeError: a file cannot be read.
        """
        return self.read_files(name, (file for file in self.files.values() if file.table == name), columns)

    def read_files(self, name: str, files: Iterable[PartFile], columns: Sequence[str] | None = None) -> pa.Table:
        """Read some files of a table.

        Args:
            name: the table.
            files: its files that are wanted.
            columns: see `read`.

        Raises:
            TurnscopeError: a file cannot be read.
        """
        pa, parquet = import_package("pyarrow"), import_package("pyarrow.parquet")
        schema = make_schema(name)
        wanted = schema if columns is None else pa.schema([schema.field(column) for column in columns])
        parts = []
        for file in files:
            path = self.storage.join(file.path)
            data = io.BytesIO(self.storage.read(path))
            try:
                parts.append(parquet.ParquetFile(data).read(columns=wanted.names).cast(wanted))
            except (pa.ArrowException, OSError, ValueError) as error:
                raise _explain_damage(self.storage.make_url(path), error) from error
        return pa.concat_tables(parts) if parts else wanted.empty_table()

    def write_rows(self, name: str, rows: pa.Table, batches: Sequence[int]) -> list[PartFile]:
        """Write rows as files, one for each day. They count once they are committed.

        Args:
            name: the table.
            rows: its rows.
            batches: the commits that the rows are from.

        Raises:
            TurnscopeError: a file cannot be written.
        """
        if not rows.num_rows:
            return []
        table, rows = TABLES[name], rows.cast(make_schema(name))
        rows = rows.sort_by([(key, "ascending") for key in (*(["day"] if table.by_day else []), *table.key)])
        return [self._write_part(name, part, day, batches) for day, part in _split_by_day(rows, by_day=table.by_day)]

    def _write_part(self, name: str, rows: pa.Table, day: date | None, batches: Sequence[int]) -> PartFile:
        parquet, out = import_package("pyarrow.parquet"), io.BytesIO()
        parquet.write_table(rows, out, compression="zstd", row_group_size=ROW_GROUP)
        folder = f"day={day.isoformat() if day else UNDATED}/" if TABLES[name].by_day else ""
        path = f"{name}/{folder}{max(batches, default=0):08d}-{token_hex(6)}.parquet"
        self.storage.write(self.storage.join(path), out.getvalue())
        return PartFile(path, name, rows.num_rows, out.tell(), tuple(sorted(batches)), day.isoformat() if day else "")

    def rewrite(self, file: PartFile, change: Callable[[pa.Table], pa.Table]) -> list[PartFile]:
        """Write the rows of a file anew. The new files count once they are committed in place of the old one.

        Args:
            file: the file.
            change: gives the rows that stay, of its rows.
        """
        return self.write_rows(file.table, change(self.read_files(file.table, [file])), file.batches)

    def remove_old_files(self) -> int:
        """Remove every file that does not count any more, and commits before the last snapshot. Gives how many there were.

        Call it after a commit only: whoever wrote meanwhile cannot commit any more. TurnscopeError: storage fails.
        """
        storage, gone = self.storage, list[str]()
        for name in TABLES:
            gone += [path for path in storage.list_files(storage.join(name)) if self._cut_root(path) not in self.files]
        known = storage.join(SUMS, f"{self.number:08d}-")
        gone += [path for path in storage.list_files(storage.join(SUMS)) if not path.startswith(known)]
        commits = storage.list_files(storage.join(COMMITS))
        snapshot = self.number - (self.number - 1) % SNAPSHOT_EVERY
        gone += [path for path in commits if _read_number(path) < snapshot]
        gone += storage.list_parts()  # of runs that were killed
        for path in gone:
            storage.remove(path)
        return len(gone)

    def _cut_root(self, path: str) -> str:
        return path[len(self.storage.join("")) :]

    def commit(self, what: str, added: Iterable[PartFile], removed: Iterable[str] = (), forgotten: Iterable[str] = ()) -> Fleet:
        """Make files count, and others count no more. Gives the tables as they are then.

        Args:
            what: what makes the change.
            added: files that were written.
            removed: paths of files.
            forgotten: digests of people who are forgotten from now on.

        Raises:
            TurnscopeError: another run wrote meanwhile, or the commit cannot be written.
        """
        new, gone, number = tuple(added), tuple(removed), self.number + 1
        files = {path: file for path, file in self.files.items() if path not in {*gone}} | {file.path: file for file in new}
        salt, lost = self.salt or token_hex(16), tuple(dict.fromkeys((*self.forgotten, *forgotten)))
        whole = tuple(files.values()) if number % SNAPSHOT_EVERY == 1 else None
        commit = Commit(number, datetime.now(UTC).isoformat(), what, new, gone, whole, salt, lost)
        path = self.storage.join(COMMITS, f"{number:08d}.json")
        if not self.storage.create(path, msgspec.json.encode(commit)):
            what = f"another run wrote to {self.storage.make_url(self.storage.root)} meanwhile"
            raise TurnscopeError(what, hint="Let it end, and start this one again: it goes on where it was.")
        return Fleet(self.storage, number, files, salt, lost)


def open_fleet(url: str) -> Fleet:
    """Open the tables at a URL; where there are none yet, none.

    Args:
        url: as `open_storage` takes it.

    Raises:
        TurnscopeError: they cannot be read.
    """
    storage = open_storage(url)
    listed = [path for path in storage.list_files(storage.join(COMMITS)) if path.endswith(".json")]
    newest: list[Commit] = []
    for path in reversed(listed):
        newest.append(_read_commit(storage, path))
        if newest[-1].files is not None:
            break
    if not newest:
        return Fleet(storage, 0, {})
    if newest[0].version > VERSION:
        what = f"the tables at {url} were written by a newer version of Turnscope"
        raise TurnscopeError(what, hint="Install that version, or read everything into another folder.")
    first, *later = reversed(newest)
    files = {file.path: file for file in (first.files or first.added)}
    for commit in later:
        files |= {file.path: file for file in commit.added}
        for gone in commit.removed:
            files.pop(gone, None)
    return Fleet(storage, newest[0].number, files, newest[0].salt, newest[0].forgotten)


def _read_number(path: str) -> int:
    """The number of a commit's file."""
    return int(path.rpartition("/")[2].partition(".")[0])


def _read_commit(storage: Storage, path: str) -> Commit:
    try:
        return msgspec.json.decode(storage.read(path), type=Commit)
    except msgspec.MsgspecError as error:
        raise _explain_damage(storage.make_url(path), error) from error


def _explain_damage(url: str, error: Exception) -> TurnscopeError:
    return TurnscopeError(f"{url} is damaged: {str(error).splitlines()[0].rstrip('.')}", hint=RESTORE)


def _split_by_day(rows: pa.Table, *, by_day: bool) -> list[tuple[date | None, pa.Table]]:
    """The rows of each day. They are in the order of days, those without one last."""
    if not by_day:
        return [(None, rows)]
    compute: Any = import_package("pyarrow.compute")
    ends = compute.run_end_encode(rows.column("day").combine_chunks())
    found, start = [], 0
    for day, stop in zip(ends.values.to_pylist(), ends.run_ends.to_pylist(), strict=True):
        found.append((day, rows.slice(start, stop - start)))
        start = stop
    return found
