"""What is put right over all sessions once new ones are there: requests that several hold, and days with many small files.

What comes out does not depend on the order in which sources were read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from turnscope.fleet.database import open_database
from turnscope.fleet.dataset import Fleet, PartFile
from turnscope.fleet.storage import import_package

if TYPE_CHECKING:
    import pyarrow as pa

MANY_FILES = 12  # of one day, from which on they become one
LARGE = 256_000_000  # bytes; a larger file stays as it is

# Of requests with the same id the earliest counts, of those that are as early the first by session, part and number.
_WRONG = """
with several as (select id from requests where id is not null group by id having count(*) > 1),
ranked as (
  select filename, session, part, number, counted,
    row_number() over (partition by id order by sent_at nulls last, session, part, number) = 1 as first
  from requests where id in (select id from several)
)
select filename, session, part, number from ranked where counted <> first
union all
select filename, session, part, number from requests
where not counted and (id is null or id not in (select id from several))
"""


def create_views(db: Any, fleet: Fleet, names: tuple[str, ...]) -> None:
    """Give the tables their names in a connection. One without a file is empty.

    Args:
        db: a connection of `open_database`.
        fleet: the tables.
        names: those that are wanted.
    """
    for name in names:
        files = [*fleet.list_files(name)]
        if files:
            db.read_parquet(files, filename=True, union_by_name=False, hive_partitioning=False).create_view(name)
        else:
            db.register(name, fleet.read(name))


def tidy(fleet: Fleet) -> Fleet:
    """Let each request count once, and join the files of days that have many. TurnscopeError: storage fails.

    Args:
        fleet: the tables.

    Returns:
        The tables after that; the same ones where there was nothing to do.
    """
    added, removed = list[PartFile](), list[str]()
    if fleet.list_files("requests"):
        for file, rows in _find_wrong(fleet):
            added += fleet.rewrite(file, partial(_flip, wrong=rows))
            removed.append(file.path)
    fleet = fleet.commit("tidy", added, removed) if removed else fleet
    added, removed = [], []
    for files in _list_crowded(fleet):
        batches = sorted({batch for file in files for batch in file.batches})
        added += fleet.write_rows(files[0].table, fleet.read_files(files[0].table, files), batches)
        removed += [file.path for file in files]
    return fleet.commit("tidy", added, removed) if removed else fleet


def _find_wrong(fleet: Fleet) -> Iterator[tuple[PartFile, set[tuple[str, str, int]]]]:
    """The files in which a request counts that must not, or the other way round, with those requests."""
    files = {PurePosixPath(path).name: file for path, file in fleet.files.items() if file.table == "requests"}
    db = open_database(fleet)
    try:
        create_views(db, fleet, ("requests",))
        found: dict[str, set[tuple[str, str, int]]] = defaultdict(set)
        for filename, *key in db.execute(_WRONG).fetchall():
            found[PurePosixPath(filename).name].add((key[0], key[1], key[2]))
    finally:
        db.close()
    yield from ((files[name], rows) for name, rows in found.items())


def _flip(table: pa.Table, wrong: set[tuple[str, str, int]]) -> pa.Table:
    """The rows with `counted` the other way round in some of them."""
    pa = import_package("pyarrow")
    keys = zip(*(table.column(name).to_pylist() for name in ("session", "part", "number")), strict=True)
    counted = [is_counted != (key in wrong) for is_counted, key in zip(table.column("counted").to_pylist(), keys, strict=True)]
    at = table.schema.get_field_index("counted")
    return table.set_column(at, table.schema.field(at), pa.array(counted))


def _list_crowded(fleet: Fleet) -> Iterator[list[PartFile]]:
    """The files of each day that has many small ones."""
    days: dict[tuple[str, str], list[PartFile]] = defaultdict(list)
    for file in fleet.files.values():
        if file.bytes < LARGE:
            days[file.table, file.day].append(file)
    yield from (files for files in days.values() if len(files) >= MANY_FILES)
