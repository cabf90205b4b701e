"""What was billed, added up by day, week, month, block and name."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from turnscope.views.usage import PICO_PER_USD, QUARTER_HOUR, Period, UsageRow, sum_usage


def make_row(at: str = "", model: str = "m", usd: float | None = 1.0, requests: int = 1, **more: str) -> UsageRow:
    """A row with 1, 2, 3, 4 and 5 tokens of each kind. `at`: a time in UTC; "" = none."""
    quarter = int(datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp() // QUARTER_HOUR) if at else None
    pico = None if usd is None else round(usd * PICO_PER_USD)
    names = {"path": "/s1", "entry": "", "title": "One", "project": "/work/Shop", "tool": "Claude Code"} | more
    return UsageRow(
        quarter, model, requests=requests, pico=pico, uncached=1, written=2, written_1h=3, read=4, output=5, **names
    )


def list_names(rows: list[UsageRow], period: Period, **more: object) -> list[str]:
    return [line.name for line in sum_usage(rows, period, **{"zone": UTC} | more).lines]  # type: ignore[arg-type]


NIGHT = [make_row("2026-11-29 23:30"), make_row("2026-11-30 00:15"), make_row("2026-12-01 12:00")]


def test_days_weeks_and_months_begin_in_the_time_zone_that_is_wanted() -> None:
    assert list_names(NIGHT, "daily") == ["2026-11-29", "2026-11-30", "2026-12-01"]
    assert list_names(NIGHT, "daily", zone=ZoneInfo("Europe/Berlin")) == ["2026-11-30", "2026-12-01"]
    assert list_names(NIGHT, "daily", zone=ZoneInfo("Asia/Kathmandu")) == ["2026-11-30", "2026-12-01"], "5 h 45 min ahead"
    assert list_names(NIGHT, "weekly") == ["2026-11-23", "2026-11-30"], "weeks begin on Mondays"
    assert list_names(NIGHT, "monthly") == ["2026-11", "2026-12"]


def test_the_first_and_the_last_day_count_and_what_has_no_time_counts_where_no_day_is_wanted() -> None:
    rows = [make_row(), *NIGHT]
    assert list_names(rows, "daily") == ["no time", "2026-11-29", "2026-11-30", "2026-12-01"]
    assert list_names(rows, "daily", since=date(2026, 11, 30)) == ["2026-11-30", "2026-12-01"]
    assert list_names(rows, "daily", until=date(2026, 11, 30)) == ["2026-11-29", "2026-11-30"]
    assert sum_usage(rows, "models", zone=UTC, since=date(2026, 12, 2)).total.requests == 0


def test_a_block_begins_at_a_full_hour_and_the_next_one_with_the_first_request_after_its_end() -> None:
    times = ("08:45", "12:45", "13:00", "13:15", "23:00")
    rows = [make_row(f"2026-11-28 {at}") for at in times]
    found = sum_usage(rows, "blocks", zone=UTC, now=datetime(2026, 11, 28, 23, 30, tzinfo=UTC).timestamp())
    assert [(line.name, line.requests) for line in found.lines] == [
        ("2026-11-28 08:00", 2),
        ("2026-11-28 13:00", 2),
        ("2026-11-28 23:00", 1),
    ]
    assert repr(found).count("(now)") == 1
    assert "23:00 (now)" in repr(found)
    assert list_names([make_row(), rows[0]], "blocks") == ["no time", "2026-11-28 08:00"], "the sum is that of the lines"


def test_names_are_added_up_the_most_expensive_first() -> None:
    rows = [
        make_row("2026-11-28 08:00", model="small", usd=0.5),
        make_row("2026-11-28 09:00", model="large", usd=2.0, path="/s2", project="/work/Depot", title="Two"),
        make_row("2026-11-29 09:00", model="small", usd=0.25, tool="Codex"),
    ]
    assert list_names(rows, "models") == ["large", "small"]
    assert list_names(rows, "projects") == ["/work/Depot", "/work/Shop"]
    assert list_names(rows, "sessions") == ["Two", "One"]
    assert list_names(rows, "models", project="depot") == ["large"]
    assert list_names(rows, "models", tool="codex") == ["small"]
    small = sum_usage(rows, "models", zone=UTC).lines[1]
    assert (small.requests, small.tokens, small.usd) == (2, (2, 4, 6, 8, 10), 0.75)
    assert sum_usage(rows, "models", zone=UTC).total.usd == 2.75


def test_what_has_no_price_is_counted_apart() -> None:
    found = sum_usage([make_row(usd=None, requests=3), make_row(usd=1.5)], "projects", zone=UTC)
    assert (found.total.usd, found.total.unpriced, found.total.requests) == (1.5, 3, 4)
    assert "3 requests of models without a known price" in repr(found)
    assert "$1.50+" in repr(found)
    alone = sum_usage([make_row(usd=None)], "projects", zone=UTC).total
    assert alone.usd is None


def test_every_form_has_the_same_numbers() -> None:
    found = sum_usage(NIGHT, "daily", zone=UTC)
    rows = [*csv.DictReader(io.StringIO(found.to_csv(), newline=""))]
    made = json.loads(found.to_json())
    assert [row["day"] for row in rows] == [row["day"] for row in made["rows"]] == [line.name for line in found.lines]
    for row, each in zip(rows, made["rows"], strict=True):
        assert {key: value for key, value in row.items() if key.endswith("tokens")} == {
            key: str(value) for key, value in each.items() if key.endswith("tokens")
        }
        assert float(row["usd"]) == each["usd"] == 1.0
    assert made["total"]["cache_read_tokens"] == sum(int(row["cache_read_tokens"]) for row in rows) == 12


@pytest.mark.parametrize("width", [200, 90, 68])
def test_the_table_fits_the_terminal(width: int) -> None:
    big = [make_row(f"2026-11-{day:02} 08:00", model="claude-opus-4-5-20251101", requests=12_345) for day in range(1, 9)]
    object.__setattr__(found := sum_usage(big, "daily", zone=UTC), "width", width)
    lines = repr(found).splitlines()
    assert max(map(len, lines)) <= width
    assert ("models" in lines[0]) == (width == 200)
    assert len(lines) == 10
