"""What is asked of a fleet's tables, against sums in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from turnscope.errors import TurnscopeError
from turnscope.fleet import queries
from turnscope.fleet.cluster import SerialCluster
from turnscope.fleet.dataset import Fleet, open_fleet
from turnscope.fleet.queries import OWNERS
from turnscope.fleet.run import FleetRun, build_options
from turnscope.fleet.sources import list_sources
from turnscope.fleet.warehouse import Selection, Warehouse
from turnscope.library.index_queries import PICO_PER_USD
from turnscope.library.policy_table import MeasuredSession, build_table

from tests.fleet.conftest import make_fleet
from tests.fleet.made import write_log

SELECTIONS = {
    "everything": Selection(),
    "days": Selection(since=date(2026, 1, 5), until=date(2026, 1, 20)),
    "team": Selection(team="payments"),
    "tool and model": Selection(tool="Claude Code", model="claude-sonnet-4-6"),
    "person not known": Selection(person=""),
    "project": Selection(project="/work/payments/service-4", until=date(2026, 1, 25)),
    "nothing": Selection(team="no such team"),
}
Row = dict[str, Any]


@pytest.fixture(scope="module")
def warehouse(small_fleet: Fleet) -> Warehouse:
    return Warehouse(small_fleet)


@pytest.fixture(scope="module")
def requests(small_fleet: Fleet) -> list[Row]:
    return [row for row in small_fleet.read("requests").to_pylist() if row["counted"]]


@pytest.fixture(scope="module")
def sessions(small_fleet: Fleet) -> list[Row]:
    return small_fleet.read("sessions").to_pylist()


def is_chosen(row: Row, chosen: Selection) -> bool:
    day = row["day"]
    if (chosen.since or chosen.until) and day is None:
        return False
    if (chosen.since and day < chosen.since) or (chosen.until and day > chosen.until):
        return False
    return all(getattr(chosen, name) in (None, row[name]) for name in OWNERS)


def name_day(row: Row) -> str:
    return row["day"].isoformat() if row["day"] else ""


KEYS: dict[str, Callable[[Row], str]] = {name: lambda row, name=name: row[name] for name in OWNERS} | {"day": name_day}


@pytest.mark.parametrize("chosen", SELECTIONS.values(), ids=SELECTIONS)
@pytest.mark.parametrize("by", KEYS)
def test_costs_are_the_sums_of_counted_requests(
    warehouse: Warehouse, requests: list[Row], sessions: list[Row], chosen: Selection, by: Any
) -> None:
    found = {row.name: row for row in queries.list_costs(warehouse, chosen, by)}
    groups: dict[str, list[Row]] = {}
    for row in requests:
        if is_chosen(row, chosen):
            groups.setdefault(KEYS[by](row), []).append(row)
    assert set(found) == set(groups)
    began = Counter(KEYS[by](row) for row in sessions if is_chosen(row, chosen))
    for name, rows in groups.items():
        usd = [row["usd"] for row in rows if row["usd"] is not None]
        cost = found[name]
        assert cost.usd == (sum(usd) if usd else None), "exact, as decimals"
        assert (cost.requests, cost.sessions) == (len(rows), began[name])
        for column in ("uncached", "cache_write_5m", "cache_write_1h", "cache_read", "output"):
            assert getattr(cost, column) == sum(row[column] for row in rows)
        assert cost.unpriced == sum(row["usd"] is None for row in rows)
        assert cost.misses == sum(row["miss"] is not None for row in rows)
        assert cost.cuts == sum(row["event"] is not None for row in rows)


@pytest.mark.parametrize("chosen", SELECTIONS.values(), ids=SELECTIONS)
def test_parts_add_up_to_the_whole(warehouse: Warehouse, chosen: Selection) -> None:
    whole = queries.sum_costs(warehouse, chosen)
    for by in (*OWNERS, "day"):
        parts = queries.list_costs(warehouse, chosen, by)
        assert sum((part.usd or Decimal() for part in parts), Decimal()) == (whole.usd or 0)
        assert sum(part.requests for part in parts) == whole.requests
        spent = queries.list_spending(warehouse, chosen, by)
        assert sum(row.pico or 0 for row in spent) == (whole.usd or 0) * PICO_PER_USD
    made = queries.measure_distributions(warehouse, chosen)
    assert sum(cause.misses for cause in made.causes) == whole.misses
    assert sum(many for _, many in made.compactions) == whole.sessions


@pytest.mark.parametrize("chosen", SELECTIONS.values(), ids=SELECTIONS)
def test_distributions_count_each_request_and_session_once(
    warehouse: Warehouse, requests: list[Row], sessions: list[Row], chosen: Selection
) -> None:
    made = queries.measure_distributions(warehouse, chosen)
    fills = Counter(min(9, int(row["fill"] * 10)) for row in requests if is_chosen(row, chosen) and row["fill"] is not None)
    assert made.requests == (*(fills[n] for n in range(10)), 0)
    peaks = Counter(min(9, int(row["peak_fill"] * 10)) for row in sessions if is_chosen(row, chosen))
    assert made.peaks == (*(peaks[n] for n in range(10)), 0)
    assert dict(made.compactions) == Counter(row["compactions"] for row in sessions if is_chosen(row, chosen))
    causes = {cause.cause: (cause.misses, cause.tokens) for cause in made.causes}
    assert {name: many for name, (many, _) in causes.items()} == Counter(
        row["miss"] for row in requests if is_chosen(row, chosen) and row["miss"]
    )
    assert sum(tokens for _, tokens in causes.values()) == sum(
        row["miss_tokens"] for row in requests if is_chosen(row, chosen) and row["miss"]
    )


@pytest.mark.parametrize("chosen", SELECTIONS.values(), ids=SELECTIONS)
def test_policies_are_summed_up_as_the_table_of_policies_does(
    warehouse: Warehouse, small_fleet: Fleet, sessions: list[Row], chosen: Selection
) -> None:
    known = {row["session"]: row for row in sessions if is_chosen(row, chosen)}
    rows = [row for row in small_fleet.read("losses").to_pylist() if row["session"] in known]
    rows.sort(key=lambda row: row["session"])  # the draws go by the order
    measured = [
        MeasuredSession(**{name: row[name] for name in MeasuredSession.__struct_fields__ if name != "kinds"}, kinds=kinds)
        for row in rows
        for kinds in [frozenset(row["kinds"].split(","))]
    ]
    found = {each.row.policy: each for each in queries.list_policies(warehouse, chosen)}
    table = {row.policy: row for row in build_table(measured)} if measured else {}
    assert set(found) == set(table)
    for name, row in table.items():
        made = found[name].row
        for column in ("sessions", "cost", "low", "high", "uncached", "lost", "peak", "unsent", "calls", "growth", "by_kind"):
            assert getattr(made, column) == pytest.approx(getattr(row, column), nan_ok=True), column
        assert found[name].usd == pytest.approx(sum(each.usd for each in measured if each.policy == name))
        assert found[name].hits == sum(each.hits for each in measured if each.policy == name)


def test_names_are_listed_with_the_most_expensive_first(warehouse: Warehouse, requests: list[Row]) -> None:
    usd: dict[str, Decimal] = {}
    for row in requests:
        usd[row["team"]] = usd.get(row["team"], Decimal()) + (row["usd"] or 0)
    assert queries.list_names(warehouse, "team") == tuple(sorted(usd, key=lambda name: -usd[name]))
    days = [row["day"] for row in requests if row["day"]]
    assert queries.find_days(warehouse) == (min(days), max(days))


def test_a_name_that_is_sql_is_only_a_name(warehouse: Warehouse) -> None:
    for name in ("x' OR '1'='1", "'; DROP TABLE sums; --", "$team", "%", "\\", "\0"):
        assert queries.list_costs(warehouse, Selection(team=name), "team") == ()
    assert queries.sum_costs(warehouse, Selection()).requests


def test_tables_in_object_storage_give_the_same(small_fleet: Fleet, warehouse: Warehouse) -> None:
    url = "memory://fleet-of-queries"
    other = Warehouse(make_fleet(url))
    assert queries.list_costs(other, Selection(), "team") == queries.list_costs(warehouse, Selection(), "team")


def test_no_tables_are_no_costs(tmp_path: Any) -> None:
    empty = Warehouse(open_fleet(str(tmp_path)))
    assert queries.sum_costs(empty, Selection()).requests == 0
    assert queries.find_days(empty) is None
    assert queries.list_policies(empty, Selection()) == ()
    assert sum(queries.measure_distributions(empty, Selection()).requests) == 0


def test_a_damaged_table_is_one_sentence(tmp_path: Any) -> None:
    fleet = make_fleet(str(tmp_path / 'broken\'s "fleet"'), 200, 8, 4)
    for path in tmp_path.glob('broken\'s "fleet"/requests/*/*.parquet'):
        path.write_bytes(b"no Parquet")
    with pytest.raises(TurnscopeError, match="cannot be read"):
        Warehouse(fleet)


def test_costs_as_csv_have_a_line_for_each_row(warehouse: Warehouse) -> None:
    rows = queries.list_costs(warehouse, Selection(), "project")
    lines = queries.costs_to_csv(rows).splitlines()
    assert len(lines) == len(rows) + 1
    assert lines[0].startswith("name,requests,sessions,usd,")
    assert lines[1].split(",")[0] == rows[0].name


def test_costs_are_grouped_by_the_first_owner_that_sets_requests_apart(warehouse: Warehouse, tmp_path: Path) -> None:
    assert queries.find_group(warehouse) == "team"
    found = []
    for n, cwds in enumerate((["/home/lynn/shop"], ["/home/lynn/shop", "/home/lynn/api"])):
        for k, cwd in enumerate(cwds):
            write_log(tmp_path / f"{n}" / f"s{k}.jsonl", cwd=cwd)
        run = FleetRun(open_fleet(str(tmp_path / f"tables{n}")), build_options())
        run.run(list_sources(str(tmp_path / f"{n}")), SerialCluster())
        found.append(queries.find_group(Warehouse(run.fleet)))
    assert found == ["project", "project"]
    assert queries.find_group(Warehouse(open_fleet(str(tmp_path / "none")))) == "team"
