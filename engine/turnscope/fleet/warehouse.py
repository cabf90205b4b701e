"""The tables of a fleet in DuckDB: small sums of the requests, and the sessions, in memory, so that questions take little.

Opening reads every counted request. Questions are SQL of the modules next to this one; what a person chose is bound to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, Literal

from turnscope.errors import TurnscopeError
from turnscope.fleet.dataset import Fleet
from turnscope.fleet.storage import import_package, report_errors
from turnscope.fleet.tables import TABLES, make_schema

Owner = Literal["team", "project", "person", "tool", "model"]

# Every request that sums count: per day and owner its tokens and cost, cache misses, and how full windows were, in tenths.
_SUMS = """
CREATE TABLE sums AS FROM requests
SELECT day, team, project, person, tool, model,
    count(*) AS requests,
    count(*) FILTER (usd IS NULL AND uncached + cache_write_5m + cache_write_1h + cache_read + output > 0) AS unpriced,
    sum(usd) AS usd, sum(uncached) AS uncached, sum(cache_write_5m) AS cache_write_5m, sum(cache_write_1h) AS cache_write_1h,
    sum(cache_read) AS cache_read, sum(output) AS output, count(miss) AS misses, sum(miss_usd) AS miss_usd,
    count(*) FILTER (event IN ('compact', 'cut', 'clear')) AS cuts,
    count(*) FILTER (fill < 0.1) AS fill_0, count(*) FILTER (fill >= 0.1 AND fill < 0.2) AS fill_1,
    count(*) FILTER (fill >= 0.2 AND fill < 0.3) AS fill_2, count(*) FILTER (fill >= 0.3 AND fill < 0.4) AS fill_3,
    count(*) FILTER (fill >= 0.4 AND fill < 0.5) AS fill_4, count(*) FILTER (fill >= 0.5 AND fill < 0.6) AS fill_5,
    count(*) FILTER (fill >= 0.6 AND fill < 0.7) AS fill_6, count(*) FILTER (fill >= 0.7 AND fill < 0.8) AS fill_7,
    count(*) FILTER (fill >= 0.8 AND fill < 0.9) AS fill_8, count(*) FILTER (fill >= 0.9 AND fill <= 1) AS fill_9,
    count(*) FILTER (fill > 1) AS fill_10
WHERE counted GROUP BY ALL
"""
_MISSED = """
CREATE TABLE missed AS FROM requests
SELECT day, team, project, person, tool, model, miss AS cause, count(*) AS misses, sum(miss_tokens) AS tokens,
    sum(miss_usd) AS usd
WHERE counted AND miss IS NOT NULL GROUP BY ALL
"""
_PROMPTS = """
CREATE TABLE prompts AS FROM requests
SELECT day, team, project, person, tool, model, prompt_digest AS digest, count(*) AS requests, count(usd) AS priced,
    sum(usd) AS usd, sum("system" + tools + "prefix") AS static, count(prompt) AS sized
WHERE counted AND prompt_digest IS NOT NULL GROUP BY ALL
"""
_OPENED = """
CREATE TABLE opened AS FROM sessions
SELECT * EXCLUDE (content, made_by, source_id, model),
    model AS models, list_transform(string_split(model, ','), lambda name: trim(name)) AS model
"""
_REPLAYED = """
CREATE TABLE replayed AS FROM losses l JOIN opened s ON s.session = l.session
SELECT l.*, s.team, s.project, s.person, s.tool, s.model ORDER BY l.policy, l.session
"""
_CALLED = """
CREATE TABLE called AS FROM tools t JOIN opened s ON s.session = t.session
SELECT t.*, s.team, s.project, s.person, s.tool, s.model
"""
# Rows of a table that a selection leaves. Of `opened`, `replayed` and `called`, `model` is a list: a session may use several.
_CHOSEN = """
CREATE MACRO chosen_{table}(since_, until_, team_, project_, person_, tool_, model_) AS TABLE FROM {table}
WHERE (since_::DATE IS NULL OR day >= since_::DATE) AND (until_::DATE IS NULL OR day <= until_::DATE)
    AND (team_::VARCHAR IS NULL OR team = team_::VARCHAR) AND (project_::VARCHAR IS NULL OR project = project_::VARCHAR)
    AND (person_::VARCHAR IS NULL OR person = person_::VARCHAR) AND (tool_::VARCHAR IS NULL OR tool = tool_::VARCHAR)
    AND (model_::VARCHAR IS NULL OR {model})
"""
_NAME = """
CREATE MACRO name_of(by_, day_, team_, project_, person_, tool_, model_) AS CASE by_::VARCHAR
    WHEN 'team' THEN team_ WHEN 'project' THEN project_ WHEN 'person' THEN person_ WHEN 'tool' THEN tool_
    WHEN 'model' THEN model_ WHEN 'day' THEN coalesce(day_::VARCHAR, '') ELSE '' END
"""
MODEL_NAME, MODEL_LIST = "model = model_::VARCHAR", "list_contains(model, model_::VARCHAR)"
CHOSEN = {
    **dict.fromkeys(("sums", "missed", "prompts"), MODEL_NAME),
    **dict.fromkeys(("opened", "replayed", "called"), MODEL_LIST),
}


@dataclass(frozen=True, slots=True)
class Selection:
    """What is looked at: the days from `since` to `until`, both included, and one of each owner; None = all, "" = not named.

    Rows without a day are left out where a day is given.
    """

    since: date | None = None
    until: date | None = None
    team: str | None = None
    project: str | None = None
    person: str | None = None
    tool: str | None = None
    model: str | None = None


EVERYTHING = Selection()


class Warehouse:
    """The tables of a fleet, to be asked. It may be asked by several threads at once.

    Attributes:
        fleet: the tables that it was made of.
    """

    def __init__(self, fleet: Fleet) -> None:
        """Read the tables.

        Args:
            fleet: the tables; they stay where they are.

        Raises:
            TurnscopeError: DuckDB is not installed, or a table cannot be read.
        """
        self.fleet = fleet
        self._connection = connect(fleet)
        texts = (_SUMS, _MISSED, _PROMPTS, _OPENED, _REPLAYED, _CALLED, _NAME)
        with report_errors(fleet.storage.make_url(fleet.storage.root), "read"), report_damage(fleet):
            for text in texts:
                self._connection.execute(text)
            for table, model in CHOSEN.items():
                self._connection.execute(_CHOSEN.format(table=table, model=model))

    def ask(self, text: str, chosen: Selection = EVERYTHING, **more: object) -> list[dict[str, Any]]:
        """Run a query of ours; gives its rows.

        Args:
            text: SQL with `$since`, `$until`, `$team`, `$project`, `$person`, `$tool` and `$model`.
            chosen: what these are.
            **more: other parameters.
        """
        rows: list[dict[str, Any]] = self.ask_arrow(text, chosen, **more).to_pylist()
        return rows

    def ask_arrow(self, text: str, chosen: Selection = EVERYTHING, **more: object) -> Any:
        """The same as a table of Arrow.

        Args:
            text: as of `ask`.
            chosen: as of `ask`.
            **more: other parameters.
        """
        cursor = self._connection.cursor()  # one for each question: threads must not share it
        try:
            return cursor.sql(text, params=asdict(chosen) | more).to_arrow_table()
        finally:
            cursor.close()


def open_database(fleet: Fleet, **config: object) -> Any:
    """Open a DuckDB in memory that can read the files of a fleet, wherever they lie.

    Args:
        fleet: the tables.
        **config: settings of DuckDB.

    Raises:
        TurnscopeError: DuckDB is not installed.
    """
    # No variable of Python, and no extension from the network, is ever found by a name in a query.
    safe = {"python_enable_replacements": False, "autoinstall_known_extensions": False, "autoload_known_extensions": False}
    connection = import_package("duckdb").connect(config={**safe, **config})
    if not fleet.storage.is_local:
        connection.register_filesystem(fleet.storage.fs)
    return connection


def connect(fleet: Fleet, **config: object) -> Any:
    """Connect to a DuckDB in memory that has a view of each table of a fleet.

    Args:
        fleet: the tables.
        **config: settings of DuckDB.

    Raises:
        TurnscopeError: DuckDB is not installed, or a table cannot be read.
    """
    connection = open_database(fleet, **config)
    with report_errors(fleet.storage.make_url(fleet.storage.root), "read"), report_damage(fleet):
        for name in TABLES:
            files = list(fleet.list_files(name))
            if files:
                connection.from_parquet(files, hive_partitioning=False, union_by_name=False).create_view(name)
            else:
                connection.from_arrow(make_schema(name).empty_table()).create(name)
    return connection


@contextmanager
def report_damage(fleet: Fleet) -> Iterator[None]:
    """Raise what DuckDB finds wrong with files as a sentence."""
    try:
        yield
    except import_package("duckdb").Error as error:
        where, first = fleet.storage.make_url(fleet.storage.root), str(error).splitlines()[0]
        raise TurnscopeError(f"the tables at {where} cannot be read: {first}", hint="Run `turnscope fleet` again.") from error
