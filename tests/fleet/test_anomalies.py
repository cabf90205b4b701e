"""Anomalies of a fleet, against the median and its spread in plain Python; and the sessions worth opening."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import turnscope
from turnscope.errors import TurnscopeError
from turnscope.fleet import anomalies
from turnscope.fleet.anomalies import LIMIT, MIN_USD, MIN_WEEKS, WEEKS, find_anomalies, measure_off
from turnscope.fleet.dataset import Fleet, open_fleet
from turnscope.fleet.known_fleets import list_fleets, make_id, remember_fleet
from turnscope.fleet.notable_sessions import find_sessions
from turnscope.fleet.source_files import fetch_source
from turnscope.fleet.sources import list_sources
from turnscope.fleet.tables import make_schema
from turnscope.fleet.warehouse import Selection, Warehouse

from tests.bench import make_fleet_tables

FIRST = date(2026, 1, 5)  # a Monday
Row = dict[str, Any]


@pytest.fixture(scope="module")
def template(small_fleet: Fleet) -> dict[str, Row]:
    """A row of each table."""
    return {name: small_fleet.read(name).to_pylist()[0] for name in ("requests", "sessions", "tools", "losses")}


def write(folder: Path, **tables: list[Row]) -> Warehouse:
    fleet = open_fleet(str(folder))
    files = []
    for name, rows in tables.items():
        files += fleet.write_rows(name, pa.Table.from_pylist(rows, schema=make_schema(name)), [1])
    return Warehouse(fleet.commit("read", files))


def make_request(template: dict[str, Row], day: int, usd: float, **more: object) -> Row:
    row = {"session": f"s{day}", "number": day, "day": FIRST + timedelta(days=day), "usd": Decimal(f"{usd:.4f}")}
    return template["requests"] | row | {"counted": True, "team": "web", "tool": "Codex", "prompt_digest": "old"} | more


def test_a_day_is_held_against_the_same_weekday_of_the_weeks_before(tmp_path: Path, template: dict[str, Row]) -> None:
    rng = np.random.default_rng(3)
    usd = [float(100 + (40 if day % 7 < 5 else 0) + 8 * rng.normal()) for day in range(120)]
    usd[100] = 400.0
    usd[101] = 10.0
    del usd[110:112]
    warehouse = write(tmp_path, requests=[make_request(template, day, value) for day, value in enumerate(usd)])
    found = {one.since: one for one in find_anomalies(warehouse, Selection(), "team") if one.kind == "day"}
    expected = {}
    for day, value in enumerate(usd):
        before = [round(usd[day - 7 * week], 4) for week in range(1, WEEKS + 1) if day >= 7 * week]
        if len(before) >= MIN_WEEKS:
            usual, off = measure_off(round(value, 4), before, 1.0)
            if abs(off) >= LIMIT and abs(value - usual) >= MIN_USD:
                expected[FIRST + timedelta(days=day)] = usual, off
    assert {day: (one.usual, one.off) for day, one in found.items()} == {
        day: pytest.approx(values) for day, values in expected.items()
    }
    odd = found[FIRST + timedelta(days=100)]
    assert (odd.name, odd.group, odd.value) == ("web", "team", 400.0)
    assert odd.text.startswith("$400.00; the 8 Wednesdays before have a median of $")
    assert found[FIRST + timedelta(days=101)].off < -LIMIT
    assert next(iter(found)) == FIRST + timedelta(days=100), "the most USD off comes first"
    alone = find_anomalies(warehouse, Selection(), "day")
    assert [(one.since, one.name) for one in alone] == [(day, "") for day in found]
    assert not find_anomalies(warehouse, Selection(until=FIRST + timedelta(days=99)), "team")[:0]


@pytest.mark.parametrize(("day", "weeks"), [(28, 4), (41, 5), (63, 8)])
def test_the_sentence_says_how_many_weeks_were_there(day: int, weeks: int, tmp_path: Path, template: dict[str, Row]) -> None:
    rows = [make_request(template, each, 100.0 if each < day else 400.0) for each in range(day + 1)]
    rows.append(make_request(template, -70, 1.0, team="older"))
    found = find_anomalies(write(tmp_path, requests=rows), Selection(), "team")
    (text,) = [one.text for one in found if one.kind == "day"]
    assert f"the {weeks} {FIRST + timedelta(days=day):%A}s before" in text


def test_one_outlier_before_hides_no_other(tmp_path: Path, template: dict[str, Row]) -> None:
    usd = [50.0 + day % 3 for day in range(90)]
    usd[70] = usd[77] = 500.0
    warehouse = write(tmp_path, requests=[make_request(template, day, value) for day, value in enumerate(usd)])
    found = find_anomalies(warehouse, Selection(), "team")
    assert [one.since for one in found] == [FIRST + timedelta(days=70), FIRST + timedelta(days=77)]


def test_days_without_cost_count_once_their_owner_had_any(tmp_path: Path, template: dict[str, Row]) -> None:
    usd = dict.fromkeys(range(0, 70, 7), 60.0) | {70: 61.0, 84: 60.0, 91: 60.0}  # Mondays, but for the one of day 77
    warehouse = write(tmp_path, requests=[make_request(template, day, value) for day, value in usd.items()])
    found = find_anomalies(warehouse, Selection(), "team")
    assert [(one.since, one.value) for one in found] == [(FIRST + timedelta(days=77), 0.0)]


def test_a_tool_that_fails_more_than_before_is_found(tmp_path: Path, template: dict[str, Row]) -> None:
    session = template["sessions"] | {"session": "s", "day": FIRST}
    rows, sessions = [], []
    for week in range(12):
        day = FIRST + timedelta(days=7 * week + 2)
        session = template["sessions"] | {"session": f"s{week}", "day": day}
        sessions.append(session)
        for name, errors in (("Bash", 60 if week == 11 else 10 + week % 2), ("Read", 2), ("Rare", 3)):
            facts = {"name": name, "calls": 4 if name == "Rare" else 200, "errors": errors}
            rows.append(template["tools"] | {"session": f"s{week}", "day": day} | facts)
    warehouse = write(tmp_path, tools=rows, sessions=sessions)
    [found] = find_anomalies(warehouse, Selection(), "team")
    assert (found.kind, found.name, found.value) == ("tool", "Bash", 0.3)
    assert found.usual == median([10 / 200, 11 / 200] * 4)
    assert "60 of 200 calls failed, 30.0%; the 8 weeks before have a median of 5.3%" in found.text


def test_another_prompt_is_named_with_what_a_request_cost_before_and_after(tmp_path: Path, template: dict[str, Row]) -> None:
    rows = []
    for day in range(40):
        new = day >= 20
        facts = {"prompt_digest": "new" if new else "old", "system": 0, "tools": 0, "prefix": 30_000 if new else 18_000}
        usd = (0.3 if new else 0.2) + 0.001 * (day % 3)
        rows += [make_request(template, day, usd, number=100 * day + n, prompt=50_000, **facts) for n in range(4)]
        rows.append(make_request(template, day, 9.0, number=100 * day + 50, **facts | {"prompt_digest": f"other {day}"}))
    [found] = [one for one in find_anomalies(write(tmp_path, requests=rows), Selection(), "team") if one.kind == "prompt"]
    assert (found.name, found.since) == ("Codex", FIRST + timedelta(days=20))
    assert (found.usual, found.value) == (pytest.approx(0.201), pytest.approx(0.301))
    assert found.off == pytest.approx(0.1 / (anomalies.LEAST_SPREAD * 0.201))
    assert "$0.3010 instead of $0.2010 in the median of 20 and 20 days" in found.text
    assert "30,000 tokens instead of 18,000" in found.text


def test_the_made_up_change_of_a_prompt_is_found(tmp_path: Path) -> None:
    fleet = make_fleet_tables.write(str(tmp_path), 8_000, 600, 60)
    [found] = [one for one in find_anomalies(Warehouse(fleet), Selection(), "team") if one.kind == "prompt"]
    assert (found.name, found.since) == ("Claude Code", make_fleet_tables.START + timedelta(days=36))


def test_sessions_that_stand_out_have_their_reason(tmp_path: Path, template: dict[str, Row]) -> None:
    plain = template["sessions"] | {"compactions": 0, "cuts": 0, "clearings": 0, "tool_errors": 0, "tool_calls": 40}
    plain |= {"usd": Decimal(2), "missed_usd": Decimal(0), "misses": 0, "peak_fill": 0.4, "project": "p", "team": "web"}
    special = {
        "dear": {"usd": Decimal(40)},
        "missed": {"missed_usd": Decimal("1.5"), "misses": 7},
        "full": {"peak_fill": 0.97, "peak_tokens": 194_000},
        "cut": {"compactions": 2, "clearings": 1, "requests": 90},
        "failing": {"tool_errors": 12},
    }
    rows = [plain | {"session": f"plain {n}"} for n in range(9)] + [plain | {"session": k} | v for k, v in special.items()]
    lost = template["losses"] | {"session": "plain 3", "hits": 8, "uses": 120}
    losses = [lost | {"policy": policy} for policy in ("as-recorded", "keep-everything")]
    warehouse = write(tmp_path, sessions=rows, losses=losses)
    found = {
        kind: [(one.session, one.reason) for one in found] for kind, found in find_sessions(warehouse, Selection()).items()
    }
    assert found["cost"] == [("dear", "$40.00, 20 times the median of its project.")]
    assert found["cache"] == [("missed", "Missed the cache 7 times: $1.50 to send again what it had held.")]
    assert found["full"] == [("full", "A prompt of 194,000 tokens filled 97% of the window.")]
    assert found["cuts"] == [("cut", "Compacted, cut or cleared 3 times in 90 requests.")]
    assert found["errors"] == [("failing", "12 of 40 tool calls failed.")]
    assert found["lost"] == [("plain 3", "8 of 120 references are to what had left the window.")]
    assert found["listed"][0][0] == "dear"
    assert not any(find_sessions(warehouse, Selection(team="no one")).values())


def test_a_source_is_found_where_it_lies_or_copied_once(tmp_path: Path) -> None:
    file = tmp_path / "a log.jsonl"
    file.write_text("{}\n")
    assert fetch_source(str(file)) == file
    storage = open_fleet("memory://logs").storage
    storage.fs.pipe_file("/logs/it's.jsonl", b"one\n")
    shares: list[float] = []
    copy = fetch_source("memory://logs/it's.jsonl", shares.append, tmp_path / "copies")
    assert (copy.name, copy.read_bytes(), shares) == ("it's.jsonl", b"one\n", [1.0])
    assert os.name == "nt" or copy.stat().st_mode & 0o077 == 0
    assert fetch_source("memory://logs/it's.jsonl", shares.append, tmp_path / "copies") == copy
    assert len(shares) == 1
    storage.fs.pipe_file("/logs/it's.jsonl", b"another\n")
    assert fetch_source("memory://logs/it's.jsonl", folder=tmp_path / "copies").read_bytes() == b"another\n"
    storage.fs.pipe_file("/logs/it's/subagents/agent-1.jsonl", b"a part of it\n")
    storage.fs.pipe_file("/logs/other/subagents/agent-1.jsonl", b"of another\n")
    copy = fetch_source("memory://logs/it's.jsonl", folder=tmp_path / "copies")
    names = sorted(path.relative_to(copy.parent).as_posix() for path in copy.parent.rglob("*") if path.is_file())
    assert names == ["it's.jsonl", "it's/subagents/agent-1.jsonl"], "with what belongs to it"
    for url, why in {
        str(tmp_path / "gone.jsonl"): "is not on this machine",
        "memory://logs/gone.jsonl": "cannot be read",
        "3f29a1b2c4d5e6f7": "cannot be opened from here",
    }.items():
        with pytest.raises(TurnscopeError, match=why):
            fetch_source(url, folder=tmp_path / "copies")


def test_a_folder_that_is_a_session_is_copied_and_opens(tmp_path: Path, shared: Callable[[str], Path]) -> None:
    task = next(path.parent for path in shared("data/open/roo-cline").rglob("ui_messages.json"))
    storage = open_fleet("memory://agents").storage
    storage.fs.put(f"{task}/", "/agents/tasks/t1/", recursive=True)
    storage.fs.pipe_file("/agents/tasks/t2/ui_messages.json", b"[]")
    [url] = [unit.url for unit in list_sources("memory://agents") if unit.url.endswith("t1")]
    copy = fetch_source(url, folder=tmp_path / "copies")
    assert (copy.parent.name, copy.name) == ("tasks", "t1")
    assert sorted(path.name for path in copy.iterdir()) == sorted(path.name for path in task.iterdir())
    assert {path.name for path in copy.parent.iterdir()} == {"t1"}
    assert turnscope.load(copy).requests
    assert os.name == "nt" or all(path.stat().st_mode & 0o077 == 0 for path in copy.iterdir())


def test_fleets_that_were_looked_at_are_known_by_an_id(tmp_path: Path) -> None:
    file, fleet = tmp_path / "fleets.json", open_fleet(str(tmp_path / "one"))
    other = replace(fleet, storage=open_fleet(str(tmp_path / "two")).storage)
    assert list_fleets(file) == {}
    ids = [remember_fleet(each, file) for each in (fleet, other, fleet)]
    assert ids[0] == ids[2] == make_id(str(tmp_path / "one"))
    assert [*list_fleets(file).values()] == [str(tmp_path / "one"), str(tmp_path / "two")]
    file.write_text("{")
    with pytest.raises(TurnscopeError, match=r"fleets\.json"):
        list_fleets(file)
