"""The sessions of a fleet that are worth opening, each with its reason: what stands out by cost, cache, fill, losses, errors.

The limits are those of the library where it has the same kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Literal

from turnscope.fleet.warehouse import Selection, Warehouse
from turnscope.library.notable import FULL_SHARE, MIN_CUTS, MIN_USD, MISSED_SHARE, OUTLIER_FACTOR
from turnscope.planning.assemble import AS_RECORDED
from turnscope.views.phrases import format_usd

Kind = Literal["cost", "cache", "full", "cuts", "lost", "errors", "listed"]

ERROR_SHARE, MIN_ERRORS = 0.25, 5  # of the calls of tools
_ROWS = "($since, $until, $team, $project, $person, $tool, $model)"
_COLUMNS = """s.session, s.day, s.source, s.entry, s.team, s.project, s.person, s.tool, s.models, s.title, s.requests, s.usd,
    s.peak_fill, s.peak_tokens, s.peak_request, s.compactions, s.cuts, s.clearings, s.misses, s.missed_usd, s.tool_calls,
    s.tool_errors"""
_QUERIES: dict[Kind, str] = {
    "cost": f"""
FROM (FROM chosen_opened{_ROWS} SELECT *, median(usd) OVER (PARTITION BY project) AS usual) s
SELECT {_COLUMNS}, s.usual, NULL AS hits, NULL AS uses
WHERE s.usd >= $usd AND s.usd >= $factor * s.usual ORDER BY s.usd DESC, s.session LIMIT $most
""",
    "cache": f"""
FROM chosen_opened{_ROWS} s SELECT {_COLUMNS}, NULL AS usual, NULL AS hits, NULL AS uses
WHERE s.missed_usd >= $usd AND s.missed_usd >= $share * s.usd ORDER BY s.missed_usd DESC, s.session LIMIT $most
""",
    "full": f"""
FROM chosen_opened{_ROWS} s SELECT {_COLUMNS}, NULL AS usual, NULL AS hits, NULL AS uses
WHERE s.peak_fill >= $fill ORDER BY s.peak_fill DESC, s.usd DESC, s.session LIMIT $most
""",
    "cuts": f"""
FROM chosen_opened{_ROWS} s SELECT {_COLUMNS}, NULL AS usual, NULL AS hits, NULL AS uses
WHERE s.compactions + s.cuts + s.clearings >= $cuts ORDER BY s.compactions + s.cuts + s.clearings DESC, s.session LIMIT $most
""",
    "lost": f"""
FROM chosen_opened{_ROWS} s JOIN replayed l ON l.session = s.session AND l.policy = $policy
SELECT {_COLUMNS}, NULL AS usual, l.hits, l.uses WHERE l.hits > 0 ORDER BY l.hits DESC, s.session LIMIT $most
""",
    "errors": f"""
FROM chosen_opened{_ROWS} s SELECT {_COLUMNS}, NULL AS usual, NULL AS hits, NULL AS uses
WHERE s.tool_errors >= $errors AND s.tool_errors >= $error_share * s.tool_calls
ORDER BY s.tool_errors DESC, s.session LIMIT $most
""",
    "listed": f"""
FROM chosen_opened{_ROWS} s SELECT {_COLUMNS}, NULL AS usual, NULL AS hits, NULL AS uses
ORDER BY s.usd DESC NULLS LAST, s.session LIMIT $most
""",
}
_LIMITS: dict[Kind, dict[str, object]] = {
    "cost": {"usd": MIN_USD, "factor": OUTLIER_FACTOR},
    "cache": {"usd": MIN_USD, "share": MISSED_SHARE},
    "full": {"fill": FULL_SHARE},
    "cuts": {"cuts": MIN_CUTS},
    "lost": {"policy": AS_RECORDED},
    "errors": {"errors": MIN_ERRORS, "error_share": ERROR_SHARE},
    "listed": {},
}
TITLES: dict[Kind, str] = {
    "cost": "Cost outliers",
    "cache": "Most missed cache",
    "full": "Fullest windows",
    "cuts": "Most truncated",
    "lost": "Most lost references",
    "errors": "Failing tools",
    "listed": "Most expensive",
}


@dataclass(frozen=True, slots=True)
class NotableSession:
    """A session and why it is worth opening.

    Attributes:
        source: where it was read.
        entry: its conversation there.
        title: "" = not kept.
        request: number of its fullest request, from 0; -1 = not known.
    """

    kind: Kind
    reason: str
    session: str
    day: date | None
    source: str
    entry: str
    team: str
    project: str
    person: str
    tool: str
    models: str
    title: str
    requests: int
    usd: Decimal | None
    request: int


def find_sessions(warehouse: Warehouse, chosen: Selection, most: int = 5) -> dict[Kind, tuple[NotableSession, ...]]:
    """Find the sessions that stand out, by kind, the strongest first.

    Args:
        warehouse: the tables.
        chosen: what is looked at.
        most: sessions of a kind.
    """
    return {
        kind: tuple(_make(kind, row) for row in warehouse.ask(text, chosen, most=most, **_LIMITS[kind]))
        for kind, text in _QUERIES.items()
    }


def _make(kind: Kind, row: dict[str, Any]) -> NotableSession:
    return NotableSession(
        kind,
        _explain(kind, row),
        row["session"],
        row["day"],
        row["source"],
        row["entry"],
        row["team"],
        row["project"],
        row["person"],
        row["tool"],
        row["models"],
        row["title"] or "",
        row["requests"],
        row["usd"],
        row["peak_request"],
    )


def _explain(kind: Kind, row: dict[str, Any]) -> str:
    """The reason as a sentence."""
    match kind:
        case "cost":
            usual = f", {row['usd'] / row['usual']:,.0f} times the median of its project" if row["usual"] else ""
            return f"{format_usd(row['usd'])}{usual}."
        case "cache":
            times = "once" if row["misses"] == 1 else f"{row['misses']:,} times"
            return f"Missed the cache {times}: {format_usd(row['missed_usd'])} to send again what it had held."
        case "full":
            return f"A prompt of {row['peak_tokens']:,} tokens filled {row['peak_fill']:.0%} of the window."
        case "cuts":
            times = row["compactions"] + row["cuts"] + row["clearings"]
            return f"Compacted, cut or cleared {times:,} times in {row['requests']:,} requests."
        case "lost":
            return f"{row['hits']:,} of {row['uses']:,} references are to what had left the window."
        case "errors":
            return f"{row['tool_errors']:,} of {row['tool_calls']:,} tool calls failed."
        case "listed":
            return f"{format_usd(row['usd'])} in {row['requests']:,} requests."
