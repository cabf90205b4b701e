"""What all sessions of this machine were billed, by day, week, month, session, project, tool, model or block of five hours.

Each request counts once, in whichever sessions and branches it stands. The rows come from the index of all sessions.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, tzinfo
from pathlib import PurePath
from typing import Any, Literal

from turnscope.views.phrases import format_tokens, format_usd
from turnscope.views.text_tables import format_csv, format_text

Period = Literal["daily", "weekly", "monthly", "sessions", "projects", "tools", "models", "blocks"]

PICO_PER_USD = 10**12  # costs are stored as whole 10**-12 USD, so that sums are exact
QUARTER_HOUR = 900  # seconds that one row adds up: every time zone begins its days at such a step
BLOCK_HOURS = 5  # of the limits of Anthropic's plans
UNDATED = "no time"
NAMES: dict[Period, str] = {
    "daily": "day",
    "weekly": "week",
    "monthly": "month",
    "sessions": "session",
    "projects": "project",
    "tools": "tool",
    "models": "model",
    "blocks": "block",
}
TOKENS = ("input", "cache_write_5m", "cache_write_1h", "cache_read", "output")
HEAD = ("requests", *(f"{name}_tokens" for name in TOKENS), "usd", "unpriced_requests", "models")


@dataclass(frozen=True, slots=True)
class UsageRow:
    """Requests of a quarter hour, a model and a session, each request once.

    `quarter`: the number of the quarter hour since 1970, None = the log has no time. `pico`: 10**-12 USD, None = no price.
    Tokens: `uncached`, `written` to the cache for five minutes, `written_1h` for an hour, `read` from it, `output`.
    """

    quarter: int | None
    model: str
    path: str
    entry: str
    title: str
    project: str
    tool: str
    requests: int
    pico: int | None
    uncached: int
    written: int
    written_1h: int
    read: int
    output: int


@dataclass(frozen=True, slots=True)
class UsageLine:
    """What requests were billed together.

    Attributes:
        name: The day, session, project ... that they share.
        tokens: By kind, as `TOKENS`; input is what was neither read from the cache nor written to it.
        pico: 10**-12 USD of those with a known price; None = none has one.
        unpriced: Requests without a known price.
        models: Their models, by name.
        path: The file of a session.
        ends: When a block ends, in seconds since the Unix epoch; None = no block.
    """

    name: str
    requests: int = 0
    tokens: tuple[int, ...] = (0, 0, 0, 0, 0)
    pico: int | None = None
    unpriced: int = 0
    models: frozenset[str] = frozenset()
    path: str = ""
    ends: float | None = None

    @property
    def usd(self) -> float | None:
        """USD of the requests with a known price; None = none has one."""
        return None if self.pico is None else self.pico / PICO_PER_USD

    def add(self, row: UsageRow) -> UsageLine:
        """Return the line with a row of the index added."""
        more = (row.uncached, row.written, row.written_1h, row.read, row.output)
        return replace(
            self,
            requests=self.requests + row.requests,
            tokens=tuple(a + b for a, b in zip(self.tokens, more, strict=True)),
            pico=self.pico if row.pico is None else (self.pico or 0) + row.pico,
            unpriced=self.unpriced + (row.requests if row.pico is None and any(more) else 0),
            models=self.models | {row.model} if row.model else self.models,
        )

    def merge(self, other: UsageLine) -> UsageLine:
        """Return the line with another one added; it keeps its name."""
        return replace(
            self,
            requests=self.requests + other.requests,
            tokens=tuple(a + b for a, b in zip(self.tokens, other.tokens, strict=True)),
            pico=self.pico if other.pico is None else (self.pico or 0) + other.pico,
            unpriced=self.unpriced + other.unpriced,
            models=self.models | other.models,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it, without its name."""
        values = dict(zip(HEAD, self._list_values(), strict=True)) | {"models": sorted(self.models)}
        return {**values, **({"path": self.path} if self.path else {})}

    def to_row(self) -> list[Any]:
        """Return it as CSV has it."""
        return [self.name, *self._list_values()]

    def _list_values(self) -> list[Any]:
        usd = None if self.usd is None else round(self.usd, 6)
        return [self.requests, *self.tokens, usd, self.unpriced, " ".join(sorted(self.models))]


@dataclass(frozen=True, slots=True)
class Usage:
    """A table of what was billed, and its sum.

    Attributes:
        period: What a line stands for.
        lines: The lines.
        total: All of them together.
        now: When it was made, in seconds since the Unix epoch.
        unread: Files that could not be read.
        width: Characters of a line of the terminal.
    """

    period: Period
    lines: tuple[UsageLine, ...]
    total: UsageLine
    now: float = 0.0
    unread: int = 0
    width: int = field(default_factory=lambda: shutil.get_terminal_size((120, 24)).columns)

    def to_csv(self) -> str:
        """Return a line per row, without the sum."""
        return format_csv((NAMES[self.period], *HEAD), (line.to_row() for line in self.lines))

    def to_json(self) -> str:
        """Return the rows, the sum and how many files could not be read."""
        name = NAMES[self.period]
        rows = [{name: line.name} | line.to_dict() for line in self.lines]
        made = {"by": self.period, "rows": rows, "total": self.total.to_dict()}
        return json.dumps(made | {"unread_files": self.unread}, indent=2) + "\n"

    def __repr__(self) -> str:
        """The table for a terminal: with the models where they fit, and with every number in full where those fit."""
        lines = (*self.lines, self.total)
        text = ""
        for models, number in ((True, "{:,}".format), (False, "{:,}".format), (True, format_tokens), (False, format_tokens)):
            names = (NAMES[self.period], "requests", "input", "write 5m", "write 1h", "read", "output", "USD")
            head = [*names, "models"] if models else names
            text = format_text(head, (self._list_cells(line, number, models=models) for line in lines))
            if max(map(len, text.splitlines())) <= self.width:
                break
        if not self.total.unpriced:
            return text
        return f"{text}\n\n+ {self.total.unpriced:,} requests of models without a known price, whose tokens are in the table."

    def _list_cells(self, line: UsageLine, number: Callable[[int], str], *, models: bool) -> list[str]:
        usd = format_usd(line.usd) + ("+" if line.unpriced and line.usd is not None else "")
        name = line.name if line.ends is None or line.ends <= self.now else f"{line.name} (now)"
        shown = name if len(name) <= 44 else f"{name[:43]}…"
        cells = [shown, f"{line.requests:,}", *map(number, line.tokens), usd]
        return [*cells, ", ".join(sorted(line.models)) if line is not self.total else ""] if models else cells


def sum_usage(
    rows: Iterable[UsageRow],
    period: Period,
    *,
    zone: tzinfo | None = None,
    since: date | None = None,
    until: date | None = None,
    project: str = "",
    tool: str = "",
    now: float = 0.0,
) -> Usage:
    """Add up what was billed.

    Args:
        rows: The rows of the index, the oldest first.
        period: What a line of the result stands for.
        zone: The time zone that days, weeks, months and blocks are named in; None = this machine's.
        since: The first day that counts; requests without a time are left out where it is given.
        until: The last day that counts, likewise.
        project: Count projects alone whose path or name holds this, in any case.
        tool: Count tools alone whose name holds this, in any case.
        now: The present time in seconds since the Unix epoch, for the block that is under way.
    """
    chosen = [
        row
        for row in select_days(rows, zone, since, until)
        if project.casefold() in row.project.casefold() and tool.casefold() in row.tool.casefold()
    ]
    if period == "blocks":
        lines = _sum_blocks(chosen, zone)
    else:
        groups: dict[tuple[str, str], list[UsageRow]] = {}
        for row in chosen:
            groups.setdefault(_find_line(row, period, zone), []).append(row)
        found = {key: _sum_rows(name, rows, period) for (key, name), rows in groups.items()}
        dated = period in ("daily", "weekly", "monthly")
        lines = [found[key] for key in sorted(found)] if dated else sorted(found.values(), key=lambda line: -(line.pico or 0))
    total = UsageLine("all")
    for line in lines:
        total = total.merge(line)
    return Usage(period, tuple(lines), total, now)


def select_days(
    rows: Iterable[UsageRow], zone: tzinfo | None = None, since: date | None = None, until: date | None = None
) -> Iterator[UsageRow]:
    """Select what was billed on some days.

    Args:
        rows: The rows of the index.
        zone: The time zone that days begin in; None = this machine's.
        since: The first day that counts; requests without a time are left out where it is given.
        until: The last day that counts, likewise.
    """
    return (row for row in rows if _is_within(_find_time(row, zone), since, until))


def _sum_rows(name: str, rows: Sequence[UsageRow], period: Period) -> UsageLine:
    """The line of some rows: what adding them one by one gives, in a fraction of the time."""
    known = [row.pico for row in rows if row.pico is not None]
    unpriced = (row for row in rows if row.pico is None)
    return UsageLine(
        name,
        sum(row.requests for row in rows),
        (
            *(sum(row.uncached for row in rows), sum(row.written for row in rows), sum(row.written_1h for row in rows)),
            *(sum(row.read for row in rows), sum(row.output for row in rows)),
        ),
        sum(known) if known else None,
        sum(row.requests for row in unpriced if row.uncached or row.written or row.written_1h or row.read or row.output),
        frozenset(row.model for row in rows if row.model),
        rows[0].path if period == "sessions" else "",
    )


def _find_line(row: UsageRow, period: Period, zone: tzinfo | None) -> tuple[str, str]:
    """What a row is added to: its key, and its name."""
    if period == "sessions":
        return f"{row.path}\0{row.entry}", row.title or PurePath(row.path).name
    if period in ("projects", "tools", "models"):
        name = {"projects": row.project, "tools": row.tool}.get(period, row.model)
        return name, name or "unknown"
    at = _find_time(row, zone)
    if at is None:
        return "", UNDATED
    day = at.date() - timedelta(days=at.weekday()) if period == "weekly" else at.date()
    name = day.isoformat()[:7] if period == "monthly" else day.isoformat()
    return name, name


def _sum_blocks(rows: Sequence[UsageRow], zone: tzinfo | None) -> list[UsageLine]:
    """Blocks of five hours: one begins at the full hour of the first request after the one before has ended.

    Requests without a time are the first line, as they are among days.
    """
    undated = [row for row in rows if row.quarter is None]
    before = [_sum_rows(UNDATED, undated, "blocks")] if undated else []
    lines: list[UsageLine] = []
    for row in rows:
        if row.quarter is None:
            continue
        at = row.quarter * QUARTER_HOUR
        if not lines or at >= (lines[-1].ends or 0):
            hour = at - at % 3_600
            named = datetime.fromtimestamp(hour, zone).strftime("%Y-%m-%d %H:%M")
            lines.append(UsageLine(named, ends=float(hour + BLOCK_HOURS * 3_600)))
        lines[-1] = lines[-1].add(row)
    return before + lines


def _find_time(row: UsageRow, zone: tzinfo | None) -> datetime | None:
    return None if row.quarter is None else datetime.fromtimestamp(row.quarter * QUARTER_HOUR, zone)


def _is_within(at: datetime | None, since: date | None, until: date | None) -> bool:
    if at is None:
        return since is None and until is None
    return (since is None or since <= at.date()) and (until is None or at.date() <= until)
