"""The tables of a fleet in DuckDB: small sums of the requests, and the sessions, in memory, so that questions take little.

Questions are SQL of the modules next to this one; what a person chose is bound to them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date
from threading import Lock, Thread
from typing import Any, Literal

from turnscope.errors import TurnscopeError
from turnscope.fleet.dataset import Fleet
from turnscope.fleet.sums import open_sums

Owner = Literal["team", "project", "person", "tool", "model"]

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
LATER = ("replayed", "called")  # made once the others are there: they are large, and the first look needs neither
EAGER = tuple(name for name in CHOSEN if name not in LATER)


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
        self._tables, self._lock = open_sums(fleet, EAGER), Lock()
        self._connection = self._tables.connection
        for text in (_NAME, *(_CHOSEN.format(table=name, model=CHOSEN[name]) for name in EAGER)):
            self._connection.execute(text)
        Thread(target=self._make_later, daemon=True).start()

    def _make_later(self) -> None:
        for name in LATER:
            with suppress(TurnscopeError):  # whoever asks for it is told
                self._make(name)

    def _make(self, name: str) -> None:
        """Have a table, where it is not there yet."""
        with self._lock:
            if self._tables.make(name):
                self._connection.execute(_CHOSEN.format(table=name, model=CHOSEN[name]))

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
        for name in LATER:
            if name in text:
                self._make(name)
        cursor = self._connection.cursor()  # one for each question: threads must not share it
        try:
            return cursor.sql(text, params=asdict(chosen) | more).to_arrow_table()
        finally:
            cursor.close()
