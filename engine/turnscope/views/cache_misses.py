"""Why the prompt caches of all sessions were cold: every miss with its cause, what it cost, and what would have avoided it.

The rows come from the index of all sessions; `cache_breaks` finds them in a session.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from pathlib import PurePath
from typing import Any, Literal

from turnscope.numbering import format_request
from turnscope.views.phrases import format_duration, format_tokens, format_usd
from turnscope.views.text_tables import format_csv, format_text
from turnscope.views.usage import PICO_PER_USD, UNDATED

_Table = tuple[Sequence[str], Sequence[Sequence[Any]]]
Grouping = Literal["causes", "days", "sessions", "misses", "warm"]

CAUSES = {  # by `cache_breaks.Cause`: what happened, and what would have avoided it
    "idle": ("a pause outlived the cache", "Answer sooner, or have the prompt cached for an hour where pauses are usual."),
    "compaction": ("older messages were summed up", "Compact seldom, and after a pause, when the cache is cold anyway."),
    "edit": ("earlier messages changed", "Change them seldom and many at once: all behind the first change is billed again."),
    "thinking": ("old thinking was dropped", "Keep it, or choose a model that does: from Opus 4.5 and Sonnet 4.6 on they do."),
    "model": ("the model changed", "Change it at the beginning or after a pause: each model has a cache of its own."),
    "static": (
        "system prompt or tools changed",
        "Load tools and MCP servers before the first request; leave the prompt alone.",
    ),
    "settings": ("a setting changed", "Leave thinking and tool choice as they are within a session."),
    "off": ("caching was not requested", "Have the agent set cache breakpoints."),
    "unknown": ("no cause shows", "The provider may have evicted it; its cache diagnosis, where a log has one, says more."),
}


@dataclass(frozen=True, slots=True)
class MissRow:
    """One cache miss. `part`: 0 = the session's main path, else the number of a branch or subagent, and `part_name` says which.

    `request` counts from 0, `at` is in seconds since the Unix epoch, `idle` in seconds; None = unknown.

    `tokens` were cached and had to be billed again; `pico` is what that cost beyond reading them, in 10**-12 USD.
    """

    path: str
    entry: str
    title: str
    project: str
    tool: str
    part: int
    part_name: str
    request: int
    at: float | None
    cause: str
    tokens: int
    pico: int | None
    idle: float | None
    evidence: str

    @property
    def usd(self) -> float | None:
        """Its cost in USD beyond reading; None without a known price."""
        return None if self.pico is None else self.pico / PICO_PER_USD


@dataclass(frozen=True, slots=True)
class WarmRow:
    """A session whose cache is still held. `until` in seconds since the Unix epoch, `tokens` of its last prompt."""

    path: str
    title: str
    project: str
    tool: str
    tokens: int
    until: float


@dataclass(frozen=True, slots=True)
class MissGroup:
    """Misses together: what they share, how many, the tokens that were billed again, and the cost beyond reading them."""

    name: str
    misses: int = 0
    tokens: int = 0
    pico: int = 0
    idle_pico: int = 0

    def add(self, row: MissRow) -> MissGroup:
        """Return the group with a miss added."""
        pico = row.pico or 0
        idle = pico if row.cause == "idle" else 0
        return MissGroup(self.name, self.misses + 1, self.tokens + row.tokens, self.pico + pico, self.idle_pico + idle)

    @property
    def usd(self) -> float:
        """Cost in USD beyond reading."""
        return self.pico / PICO_PER_USD

    @property
    def idle_usd(self) -> float:
        """The part of it that pauses cost."""
        return self.idle_pico / PICO_PER_USD


@dataclass(frozen=True, slots=True)
class CacheMisses:
    """Misses of sessions, by cause, day or session, or one by one; and the sessions whose cache is warm.

    Attributes:
        by: What a line stands for.
        rows: The misses, the oldest first.
        warm: Sessions that are still warm, the one that goes cold first before the others.
        spent: What all requests of these sessions cost, in USD, for shares; 0 = no price is known.
        zone: The time zone of days and times; None = this machine's.
        now: The present time in seconds since the Unix epoch.
    """

    by: Grouping
    rows: tuple[MissRow, ...]
    warm: tuple[WarmRow, ...] = ()
    spent: float = 0.0
    zone: tzinfo | None = None
    now: float = 0.0

    @property
    def groups(self) -> tuple[MissGroup, ...]:
        """By cause or session the most expensive first, by day in order."""
        found: dict[str, MissGroup] = {}
        for row in self.rows:
            key, name = self._find_group(row)
            found[key] = (found.get(key) or MissGroup(name)).add(row)
        if self.by == "days":
            return tuple(found[key] for key in sorted(found))
        return tuple(sorted(found.values(), key=lambda group: (-group.pico, -group.tokens)))

    @property
    def total(self) -> MissGroup:
        """All misses together."""
        whole = MissGroup("all")
        for row in self.rows:
            whole = whole.add(row)
        return whole

    def to_csv(self) -> str:
        """Return a line per cause, day, session, miss or warm session."""
        return format_csv(*self._list_table(raw=True))

    def to_json(self) -> str:
        """Return the rows, the sum and the warm sessions."""
        whole = self.total
        made = {
            "by": self.by,
            "rows": _list_dicts(self._list_table(raw=True)),
            "total": {"misses": whole.misses, "tokens": whole.tokens, "usd": round(whole.usd, 6)},
            "spent_usd": round(self.spent, 6),
            "warm": _list_dicts(self._list_warm(raw=True)),
        }
        return json.dumps(made, indent=2) + "\n"

    def __repr__(self) -> str:
        """The table for a terminal, what it comes to, and what would avoid the most expensive cause."""
        head, rows = self._list_table(raw=False)
        if not rows:
            return "No cache is warm." if self.by == "warm" else "No cache miss was found."
        lines = [format_text(head, rows)]
        if self.by != "warm":
            whole = self.total
            share = f", {whole.usd / self.spent:.0%} of {format_usd(self.spent)}" if self.spent else ""
            lines += ["", f"{whole.misses:,} misses cost {format_usd(whole.usd)} beyond reading{share}."]
            name, advice = CAUSES[replace(self, by="causes").groups[0].name]
            lines.append(f"Most expensive: {name}. {advice}")
        if self.by != "warm" and self.warm:
            lines.append(f"{len(self.warm):,} sessions are still warm: `turnscope cache warm` lists them.")
        return "\n".join(lines)

    def _find_group(self, row: MissRow) -> tuple[str, str]:
        """What a miss is added to: its key, and its name."""
        if self.by == "days":
            day = _format_time(row.at, self.zone)[:10] or UNDATED
            return day, day
        if self.by == "sessions":
            return f"{row.path}\0{row.entry}", _name_session(row)
        cause = row.cause if row.cause in CAUSES else "unknown"
        return cause, cause

    def _list_table(self, *, raw: bool) -> _Table:
        """The head and the cells: numbers and keys where `raw`, texts for a person elsewhere."""
        if self.by == "warm":
            return self._list_warm(raw=raw)
        if self.by == "misses":
            return self._list_misses(raw=raw)
        name = {"causes": "cause", "days": "day", "sessions": "session"}[self.by]
        if raw:
            return (name, "misses", "tokens", "usd", "usd_of_pauses"), [
                (group.name, group.misses, group.tokens, round(group.usd, 6), round(group.idle_usd, 6)) for group in self.groups
            ]
        return (name, "misses", "tokens", "USD", "of pauses"), [
            (
                *(CAUSES[group.name][0] if self.by == "causes" else _cut(group.name), f"{group.misses:,}"),
                *(format_tokens(group.tokens), format_usd(group.usd), format_usd(group.idle_usd)),
            )
            for group in self.groups
        ]

    def _list_misses(self, *, raw: bool) -> _Table:
        if raw:
            head = (
                "path",
                "conversation",
                "title",
                "part",
                "request",
                "time",
                "cause",
                "tokens",
                "usd",
                "idle_seconds",
                "evidence",
            )
            return head, [
                (
                    *(row.path, row.entry, row.title, row.part_name, row.request + 1, _format_time(row.at, self.zone)),
                    *(row.cause, row.tokens),
                    *(None if row.usd is None else round(row.usd, 6), row.idle, row.evidence),
                )
                for row in self.rows
            ]
        below = any(row.part for row in self.rows)
        return ("session", *(["part"] * below), "request", "time", "USD", "tokens", "pause", "why"), [
            (
                *(_cut(_name_session(row), 32), *([_cut(row.part_name, 28)] * below)),
                *(format_request(row.request), _format_time(row.at, self.zone)),
                *(format_usd(row.usd), format_tokens(row.tokens), format_duration(row.idle) if row.idle else ""),
                CAUSES[row.cause][0],
            )
            for row in self.rows
        ]

    def _list_warm(self, *, raw: bool) -> _Table:
        if raw:
            return ("path", "title", "project", "tool", "tokens", "warm_until", "seconds_left"), [
                (
                    *(row.path, row.title, row.project, row.tool, row.tokens),
                    *(_format_time(row.until, self.zone), round(row.until - self.now)),
                )
                for row in self.warm
            ]
        return ("session", "project", "tokens", "warm until", "left"), [
            (
                *(_cut(_name_session(row)), _cut(row.project, 30), format_tokens(row.tokens)),
                *(_format_time(row.until, self.zone)[11:], format_duration(row.until - self.now)),
            )
            for row in self.warm
        ]


def select(
    rows: Iterable[MissRow], accepts: Callable[[MissRow], bool], since: float | None = None, until: float | None = None
) -> tuple[MissRow, ...]:
    """Select misses.

    Args:
        rows: Misses.
        accepts: Says whether a miss counts.
        since: The first moment that counts, in seconds since the Unix epoch; None = any, and those without a time.
        until: The first moment that does not count any more.
    """
    return tuple(
        row
        for row in rows
        if accepts(row)
        and (since is None or (row.at is not None and row.at >= since))
        and (until is None or (row.at is not None and row.at < until))
    )


def _list_dicts(table: _Table) -> list[dict[str, Any]]:
    head, rows = table
    return [dict(zip(head, row, strict=True)) for row in rows]


def _name_session(row: MissRow | WarmRow) -> str:
    return row.title or PurePath(row.path).name


def _format_time(at: float | None, zone: tzinfo | None) -> str:
    """A moment as 2026-11-28 14:05; "" where it is unknown."""
    return "" if at is None else datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d %H:%M")


def _cut(text: str, most: int = 44) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"
