"""From what workers read to commits: rows of sources that changed take the place of older ones, all or none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from turnscope.errors import TurnscopeError
from turnscope.fleet.dataset import Fleet, PartFile
from turnscope.fleet.privacy import digest_person, find_forgotten, hide_names
from turnscope.fleet.reader import decode
from turnscope.fleet.rows import Row, make_table
from turnscope.fleet.storage import import_package
from turnscope.fleet.sums import store_sums
from turnscope.fleet.tables import TABLES
from turnscope.fleet.tasks import Outcome

if TYPE_CHECKING:
    import pyarrow as pa

READ, UNREADABLE, SET_ASIDE, FORGOTTEN = "read", "unreadable", "set aside", "forgotten"


class KnownSource(Struct, frozen=True):
    """What the tables know of a source: see the columns of `sources`."""

    source_id: str
    state: str
    stamp: str
    content: str
    made_by: str
    batch: int
    tries: int


class Finished(Struct, frozen=True):
    """A source that is dealt with.

    Attributes:
        outcome: what the last try came to.
        state: of its row in `sources`.
        tries: how many there were.
    """

    outcome: Outcome
    state: str
    tries: int = 1


def read_known(fleet: Fleet) -> dict[str, KnownSource]:
    """What the tables know of all sources, by id. TurnscopeError: they cannot be read."""
    names = list(KnownSource.__struct_fields__)
    rows = fleet.read("sources", names).to_pylist()
    return {row["source_id"]: KnownSource(**row) for row in rows}


class Writer:
    """Commits what was read.

    Attributes:
        fleet: the tables as they are now.
        known: what they know of sources.

    Args:
        fleet: the tables.
        made_by: version of all that makes rows.
        key: hashes people and paths; None = they stay.
    """

    def __init__(self, fleet: Fleet, made_by: str, key: bytes | None = None) -> None:
        self.fleet, self.made_by, self.key = fleet, made_by, key
        self.known = read_known(fleet)

    def commit(self, finished: Sequence[Finished]) -> None:
        """Commit some sources. TurnscopeError: storage fails, or another run wrote meanwhile."""
        if not finished:
            return
        batch = self.fleet.number + 1
        new = [each for each in finished if each.state == READ and not self._is_same(each)]
        tables = {name: self._join(name, new) for name in TABLES if name != "sources"}
        lost = find_forgotten(tables["sessions"], self.fleet.salt, self.fleet.forgotten)
        left_out = set(_select(tables["sessions"], "session", lost)["source_id"].to_pylist())
        if lost:
            tables = {name: _drop(rows, "session", lost) for name, rows in tables.items()}
        sources = make_table("sources", [self._describe(each, batch, left_out) for each in finished])
        tables["sources"] = hide_names("sources", sources, self.key) if self.key else sources
        ids = {each.outcome.unit.id for each in finished}
        replaced = {each.outcome.unit.id for each in finished if not self._keeps_rows(each)}
        added, removed = drop_sources(self.fleet, replaced, self.known, ids)
        for name, rows in tables.items():
            added += self.fleet.write_rows(name, rows, [batch])
        self.fleet = self.fleet.commit("read", added, removed)
        for row in sources.select([*KnownSource.__struct_fields__]).to_pylist():
            self.known[row["source_id"]] = KnownSource(**row)

    def _is_same(self, each: Finished) -> bool:
        """Whether the tables hold the same rows already: the bytes and what made them are alike."""
        before = self.known.get(each.outcome.unit.id)
        same = before and (before.state, before.content, before.made_by) == (READ, each.outcome.content, self.made_by)
        return bool(same)

    def _keeps_rows(self, each: Finished) -> bool:
        """Whether the rows that there are stay: they are the same, or nothing could be read this time."""
        return self._is_same(each) or (each.state != READ and not each.outcome.content and each.outcome.unit.id in self.known)

    def _join(self, name: str, finished: Iterable[Finished]) -> pa.Table:
        """The rows of a table from all sources."""
        parts = [each.outcome.result.tables[name] for each in finished if name in each.outcome.result.tables]
        rows = import_package("pyarrow").concat_tables([make_table(name, []), *(decode(name, part) for part in parts)])
        return hide_names(name, rows, self.key) if self.key else rows

    def _describe(self, each: Finished, batch: int, left_out: Collection[str]) -> Row:
        """The row of a source. Of one that is forgotten the URL is not kept."""
        unit, result, content = each.outcome.unit, each.outcome.result, each.outcome.content
        state = FORGOTTEN if unit.id in left_out else each.state
        return {
            "source_id": unit.id,
            "source": None if state == FORGOTTEN else unit.url,
            "state": state,
            "stamp": unit.stamp if content or state == SET_ASIDE else "",
            "content": content,
            "made_by": self.made_by,
            "size": unit.size,
            "sessions": result.sessions,
            "batch": self.known[unit.id].batch if self._keeps_rows(each) else batch,
            "error": result.error or None,
            "tries": each.tries,
            "read_at": datetime.now(UTC),
            "cpu_seconds": result.cpu_seconds,
        }


def drop_sources(
    fleet: Fleet, ids: Collection[str], known: dict[str, KnownSource], rows_of: Collection[str] = ()
) -> tuple[list[PartFile], list[str]]:
    """Write files anew without the rows of some sources. Gives the new files, and the paths of those they replace.

    Args:
        fleet: the tables.
        ids: sources whose sessions go.
        known: what the tables know of sources.
        rows_of: sources whose own rows go.
    """
    batches = {known[id].batch for id in ids if id in known}
    near = [file for file in fleet.files.values() if batches.intersection(file.batches) and file.table != "sources"]
    held = [file for file in near if file.table == "sessions"]
    listed = fleet.read_files("sessions", held, ["session", "source_id"])
    sessions = set(_select(listed, "source_id", ids)["session"].to_pylist())
    changes = [_drop_from(fleet, file, "session", sessions) for file in near] if sessions else []
    own = {id for id in rows_of if id in known}
    if own:
        changes += [_drop_from(fleet, file, "source_id", own) for file in fleet.files.values() if file.table == "sources"]
    made = [change for change in changes if change is not None]
    return [file for new, _ in made for file in new], [path for _, path in made]


def _drop_from(fleet: Fleet, file: PartFile, column: str, values: Collection[str]) -> tuple[list[PartFile], str] | None:
    """A file without some rows, and its old path; None where it has none of them."""
    if not _select(fleet.read_files(file.table, [file], [column]), column, values).num_rows:
        return None
    return fleet.rewrite(file, lambda rows: _drop(rows, column, values)), file.path


def _select(rows: pa.Table, column: str, values: Collection[str]) -> pa.Table:
    return rows.filter(_is_in(rows, column, values))


def _drop(rows: pa.Table, column: str, values: Collection[str]) -> pa.Table:
    return rows.filter(import_package("pyarrow.compute").invert(_is_in(rows, column, values)))


def _is_in(rows: pa.Table, column: str, values: Collection[str]) -> Any:
    pa, compute = import_package("pyarrow"), import_package("pyarrow.compute")
    return compute.is_in(rows.column(column), value_set=pa.array([*values], pa.string()))


def forget_person(fleet: Fleet, person: str) -> tuple[Fleet, int]:
    """Delete all rows of a person, and leave their sessions out from now on. Gives the tables, and how many sessions went.

    Every file that does not count any more is removed at once, as older ones may hold such rows, too.

    Args:
        fleet: the tables.
        person: as it stands in the tables.

    Raises:
        TurnscopeError: storage fails, or another run wrote meanwhile.
    """
    if not fleet.salt:
        raise TurnscopeError("there are no tables yet", hint="Run `turnscope fleet` first.")
    sessions = fleet.read("sessions", ["session", "source_id", "person"])
    theirs = _select(sessions, "person", [person])
    ids, known = set(theirs["source_id"].to_pylist()), read_known(fleet)
    gone = set(theirs["session"].to_pylist())
    made = (
        _drop_from(fleet, file, *(("source_id", ids) if file.table == "sources" else ("session", gone)))
        for file in fleet.files.values()
    )
    changes = [change for change in made if change is not None]
    marks = make_table("sources", [*_mark_forgotten(known[id] for id in sorted(ids) if id in known)])
    added = [file for new, _ in changes for file in new] + fleet.write_rows("sources", marks, [fleet.number + 1])
    after = fleet.commit("forget", added, [path for _, path in changes], [digest_person(fleet.salt, person)])
    store_sums(after)
    after.remove_old_files()
    return after, len(gone)


def _mark_forgotten(known: Iterable[KnownSource]) -> Iterator[Row]:
    """Rows of sources that are not read again, without their URL."""
    for each in known:
        values = {name: getattr(each, name) for name in ("source_id", "stamp", "content", "made_by", "batch", "tries")}
        rest = {"source": None, "size": 0, "sessions": 0, "error": None, "read_at": datetime.now(UTC), "cpu_seconds": 0.0}
        yield values | rest | {"state": FORGOTTEN}
