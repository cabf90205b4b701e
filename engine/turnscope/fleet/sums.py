"""What the tables of a fleet come to, stored beside them, so that whoever opens them reads no request.

Small tables are stored after a commit, with a digest of the files that each day was made of. Whoever opens the fleet takes the
days whose files are the same, and makes the others of the tables. So where stored ones are missing, damaged or older than the
tables, opening takes longer, and what comes out is the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from turnscope.errors import TurnscopeError
from turnscope.fleet import tables
from turnscope.fleet.database import connect, open_database, report_damage
from turnscope.fleet.dataset import SUMS, Fleet
from turnscope.fleet.storage import report_errors

# `sums`: per day and owner tokens and cost of the requests that count, cache misses, and how full windows were, in tenths.
QUERIES = {
    "sums": """
FROM requests
SELECT day, team, project, person, tool, model,
    count(*) AS requests,
    count(*) FILTER (usd IS NULL AND uncached + cache_write_5m + cache_write_1h + cache_read + output > 0) AS unpriced,
    sum(usd) AS usd, sum(uncached)::BIGINT AS uncached,
    sum(cache_write_5m)::BIGINT AS cache_write_5m, sum(cache_write_1h)::BIGINT AS cache_write_1h,
    sum(cache_read)::BIGINT AS cache_read, sum(output)::BIGINT AS output, count(miss) AS misses, sum(miss_usd) AS miss_usd,
    count(*) FILTER (event IN ('compact', 'cut', 'clear')) AS cuts,
    count(*) FILTER (fill < 0.1) AS fill_0, count(*) FILTER (fill >= 0.1 AND fill < 0.2) AS fill_1,
    count(*) FILTER (fill >= 0.2 AND fill < 0.3) AS fill_2, count(*) FILTER (fill >= 0.3 AND fill < 0.4) AS fill_3,
    count(*) FILTER (fill >= 0.4 AND fill < 0.5) AS fill_4, count(*) FILTER (fill >= 0.5 AND fill < 0.6) AS fill_5,
    count(*) FILTER (fill >= 0.6 AND fill < 0.7) AS fill_6, count(*) FILTER (fill >= 0.7 AND fill < 0.8) AS fill_7,
    count(*) FILTER (fill >= 0.8 AND fill < 0.9) AS fill_8, count(*) FILTER (fill >= 0.9 AND fill <= 1) AS fill_9,
    count(*) FILTER (fill > 1) AS fill_10
WHERE counted GROUP BY ALL
""",
    "missed": """
FROM requests
SELECT day, team, project, person, tool, model, miss AS cause, count(*) AS misses, sum(miss_tokens)::BIGINT AS tokens,
    sum(miss_usd) AS usd
WHERE counted AND miss IS NOT NULL GROUP BY ALL
""",
    "prompts": """
FROM requests
SELECT day, team, project, person, tool, model, prompt_digest AS digest, count(*) AS requests, count(usd) AS priced,
    sum(usd) AS usd, sum("system" + tools + "prefix")::BIGINT AS static, count(prompt) AS sized
WHERE counted AND prompt_digest IS NOT NULL GROUP BY ALL
""",
    "opened": """
FROM sessions
SELECT * EXCLUDE (content, made_by, source_id, model),
    model AS models, list_transform(string_split(model, ','), lambda name: trim(name)) AS model
""",
    "replayed": """
FROM losses l JOIN opened s ON s.session = l.session
SELECT l.*, s.team, s.project, s.person, s.tool, s.model
""",
    "called": """
FROM tools t JOIN opened s ON s.session = t.session
SELECT t.*, s.team, s.project, s.person, s.tool, s.model
""",
}
ORDERS = {"replayed": "ORDER BY policy, session"}  # so that questions need not sort
NEEDS = {"replayed": "opened", "called": "opened"}
MADE_OF = ("sessions", "requests", "losses", "tools")
MADE_BY = sha256("\0".join((*QUERIES.values(), str(tables.VERSION))).encode()).hexdigest()[:8]
DAYS = "days.json"


class SumTables:
    """The small tables of a fleet in a DuckDB, each of which is made when it is asked for. One thread uses it at a time.

    Attributes:
        connection: the DuckDB.
        is_stored: whether all of it was stored, so that no table of the fleet is read.
        uses_stored: whether some of it was.

    Args:
        fleet: the tables.
        use_stored: whether what was stored is used.

    Raises:
        TurnscopeError: DuckDB is not installed, or a table cannot be read.
    """

    def __init__(self, fleet: Fleet, *, use_stored: bool = True) -> None:
        self._fleet, self._made = fleet, set[str]()
        folder, days = _find_stored(fleet) if use_stored else ("", {})
        now = digest_days(fleet)
        new = {day for day, digest in now.items() if days.get(day) != digest}
        self._folder, self._old, self._some_new = folder, {*days} & ({*now} - new), bool(new)
        self._all_old = self._old == {*days}
        self.uses_stored = bool(folder)
        self.is_stored = self.uses_stored and self._all_old and not new
        files = {path: file for path, file in fleet.files.items() if file.day in new and file.table in MADE_OF}
        # what has to be read of the fleet is all that its connection has under the names of tables
        self.connection = connect(replace(fleet, files=files)) if new or not folder else open_database(fleet)

    def make(self, name: str) -> bool:
        """Make a table, where it is not there yet; gives whether it was not.

        Args:
            name: the table.

        Raises:
            TurnscopeError: it cannot be read.
        """
        if name in self._made:
            return False
        if needed := NEEDS.get(name):
            self.make(needed)
        storage = self._fleet.storage
        with report_errors(storage.make_url(storage.root), "read"), report_damage(self._fleet):
            self.connection.execute(f"CREATE TABLE {name} AS {self._write_query(name)}")
        self._made.add(name)
        return True

    def _write_query(self, name: str) -> str:
        """The SQL of a table: what is stored of it, with what is made of the days that changed."""
        query, order = QUERIES[name], ORDERS.get(name, "")
        if not self._folder:
            return f"{query} {order}"
        path = self._fleet.storage.make_url(f"{self._folder}/{name}.parquet").replace("'", "''")
        days = ", ".join("'" + day.replace("'", "''") + "'" for day in sorted(self._old))
        kept = "true" if self._all_old else f"coalesce(day::VARCHAR, '') IN ({days})" if days else "false"
        stored = f"SELECT * FROM read_parquet('{path}', hive_partitioning = false) WHERE {kept}"  # noqa: S608  both are quoted
        return f"{stored} UNION ALL BY NAME ({query}) {order}" if self._some_new else stored


def open_sums(fleet: Fleet, names: Iterable[str]) -> SumTables:
    """Open the small tables of a fleet. Where what was stored of them cannot be read, they are made anew.

    Args:
        fleet: the tables.
        names: of the small tables that are made at once.

    Raises:
        TurnscopeError: DuckDB is not installed, or a table of the fleet cannot be read.
    """
    wanted, made = [*names], SumTables(fleet)
    if made.uses_stored:
        with suppress(TurnscopeError):
            for name in wanted:
                made.make(name)
            return made
        made = SumTables(fleet, use_stored=False)
    for name in wanted:
        made.make(name)
    return made


def digest_days(fleet: Fleet) -> dict[str, str]:
    """For each day what changes with any row that the small tables hold of it; "" is no day.

    Args:
        fleet: the tables.
    """
    paths = defaultdict[str, list[str]](list)
    for file in fleet.files.values():
        if file.table in MADE_OF:
            paths[file.day].append(file.path)
    return {day: sha256("\0".join(sorted(found)).encode()).hexdigest()[:16] for day, found in paths.items()}


def _find_stored(fleet: Fleet) -> tuple[str, dict[str, str]]:
    """The folder of what was stored last, with the digests of its days; none where there is none."""
    storage = fleet.storage
    with suppress(TurnscopeError, msgspec.MsgspecError):
        found = [path for path in storage.list_files(storage.join(SUMS)) if path.endswith(f"-{MADE_BY}/{DAYS}")]
        for path in sorted(found, reverse=True)[:1]:
            return path.rpartition("/")[0], msgspec.json.decode(storage.read(path), type=dict[str, str])
    return "", {}


def store_sums(fleet: Fleet) -> bool:
    """Store the small tables, where those that are stored are not of these files. Gives whether they were.

    Args:
        fleet: the tables, as they are committed.

    Raises:
        TurnscopeError: storage fails.
    """
    if not fleet.number or SumTables(fleet).is_stored:
        return False
    made = open_sums(fleet, QUERIES)
    storage, folder = fleet.storage, fleet.storage.join(SUMS, f"{fleet.number:08d}-{MADE_BY}")
    with TemporaryDirectory(prefix="turnscope-sums-") as name:
        for table in QUERIES:
            path = Path(name, f"{table}.parquet")
            to = str(path).replace("'", "''")
            made.connection.execute(f"COPY {table} TO '{to}' (FORMAT parquet, COMPRESSION zstd)")
            storage.write(f"{folder}/{path.name}", path.read_bytes())
    storage.write(f"{folder}/{DAYS}", msgspec.json.encode(digest_days(fleet)))
    return True
