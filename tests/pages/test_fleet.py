"""The page about the sessions of a team, in Streamlit's own test runner."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import ROOT
from turnscope.fleet import queries
from turnscope.fleet.dataset import Fleet, open_fleet
from turnscope.fleet.known_fleets import list_fleets, remember_fleet
from turnscope.fleet.notable_sessions import find_sessions
from turnscope.fleet.warehouse import Selection, Warehouse

from pages.parts.formats import format_usd
from tests.fleet.conftest import make_fleet

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

SAMPLE = ROOT / "sample_sessions" / "cache-goes-cold.jsonl"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return make_fleet(str(tmp_path_factory.mktemp("fleet") / "tables"), source=str(SAMPLE))


@pytest.fixture(scope="module")
def warehouse(fleet: Fleet) -> Warehouse:
    return Warehouse(fleet)


def read_html(app: AppTest) -> str:
    return "\n".join(each.proto.body for each in app.get("html"))


def open_page(app: AppTest, **query: str) -> AppTest:
    for name, value in query.items():
        app.query_params[name] = value
    app.switch_page("pages/fleet.py").run()
    assert not app.exception
    return app


def read_table(app: AppTest, number: int = 0) -> Any:
    return app.dataframe[number].value


def choose_row(app: AppTest, row: int) -> None:
    """Choose a row of the only table, as a click does."""
    key = app.dataframe[0].proto.id.split("-", 2)[-1]
    app.session_state[key] = {"selection": {"rows": [row], "columns": [], "cells": []}}
    app.run()


def test_without_tables_the_page_says_which_command_fills_them(app: AppTest) -> None:
    open_page(app)
    assert "No tables of a fleet are known here." in read_html(app)
    assert [each.value for each in app.code] == ["turnscope fleet ~/.claude/projects --out ~/fleet"]
    assert not app.dataframe


def test_a_folder_that_is_typed_is_shown_and_known_from_then_on(app: AppTest, fleet: Fleet, tmp_path: Path) -> None:
    open_page(app)
    app.text_input(key="fleet.url").set_value(str(tmp_path / "nothing")).run()
    assert f"There are no tables in {tmp_path / 'nothing'}." in read_html(app)
    app.text_input(key="fleet.url").set_value(fleet.storage.root).run()
    assert not app.exception
    [(id, url)] = list_fleets().items()
    assert url == fleet.storage.root
    assert app.query_params["fleet"] == id
    assert len(read_table(app)) == 8
    app.query_params["fleet"] = "0123456789ab"
    app.run()
    assert len(read_table(app)) == 8, "an id that nobody knows here is the one looked at last"


def test_costs_are_those_of_the_queries_in_cards_and_table(app: AppTest, fleet: Fleet, warehouse: Warehouse) -> None:
    remember_fleet(fleet)
    open_page(app)
    whole = queries.sum_costs(warehouse, Selection())
    shown = read_html(app)
    for value in (format_usd(whole.usd), f"{whole.requests:,}", f"{whole.sessions:,}", format_usd(whole.miss_usd)):
        assert f'<div class="value">{value}</div>' in shown
    for by in queries.OWNERS:
        app.segmented_control(key="fleet.by").set_value(by).run()
        rows = queries.list_costs(warehouse, Selection(), by)
        table = read_table(app)
        assert [*table.iloc[:, 0]] == [row.name or "not known" for row in rows]
        assert [*table["Cost"].fillna(-1)] == [-1 if row.usd is None else float(row.usd) for row in rows]
        assert app.query_params.get("by", "team") == by
        assert app.get("plotly_chart")


def test_the_address_says_what_is_looked_at(app: AppTest, fleet: Fleet, warehouse: Warehouse) -> None:
    remember_fleet(fleet)
    query = {"from": "2026-01-03", "to": "2026-01-20", "team": "payments", "person": "", "tool": "Claude Code", "by": "model"}
    open_page(app, **query)
    chosen = Selection(date(2026, 1, 3), date(2026, 1, 20), "payments", None, "", "Claude Code", None)
    assert format_usd(queries.sum_costs(warehouse, chosen).usd) in read_html(app)
    app.selectbox(key="fleet.person").set_value(None).run()
    assert "person" not in app.query_params
    app.date_input(key="fleet.to").set_value(date(2026, 1, 10)).run()
    assert app.query_params["to"] == "2026-01-10"
    chosen = Selection(date(2026, 1, 3), date(2026, 1, 10), "payments", tool="Claude Code")
    rows = queries.list_costs(warehouse, chosen, "model")
    assert [*read_table(app)["Model"]] == [row.name for row in rows]
    app.button(key="fleet.clear").click().run()
    assert not {"from", "to", "team", "tool"} & set(app.query_params)
    assert app.query_params["by"] == "model"
    for name, wrong in {"from": "no day", "by": "nothing", "view": "nowhere", "team": "<b>no team"}.items():
        app.query_params[name] = wrong
    app.run()
    assert not app.exception
    assert "No request and no session is left." in read_html(app)
    assert "<b>no team" not in read_html(app)


def test_a_row_leads_to_what_lies_below_it(app: AppTest, fleet: Fleet, warehouse: Warehouse) -> None:
    remember_fleet(fleet)
    open_page(app)
    first = queries.list_costs(warehouse, Selection(), "team")[0].name
    choose_row(app, 0)
    assert (app.query_params["team"], app.query_params["by"]) == (first, "project")
    below = queries.list_costs(warehouse, Selection(team=first), "project")
    assert [*read_table(app)["Project"]] == [row.name for row in below]
    app.switch_page("pages/help.py").run()
    app.query_params.clear()
    app.switch_page("pages/fleet.py").run()
    assert app.query_params["team"] == first, "it is still there after another page"


def test_distributions_policies_and_anomalies_are_drawn(app: AppTest, fleet: Fleet, warehouse: Warehouse) -> None:
    remember_fleet(fleet)
    open_page(app, view="distributions")
    assert len(app.get("plotly_chart")) == 3
    causes = queries.measure_distributions(warehouse, Selection()).causes
    for cause in causes:
        assert f"<tr><td>{cause.cause}</td><td>{cause.misses:,}</td>" in read_html(app)
    app.segmented_control(key="fleet.view").set_value("policies").run()
    for each in queries.list_policies(warehouse, Selection()):
        assert f"<td>×{each.row.cost:.3f}</td><td>{each.row.low:.3f} to {each.row.high:.3f}</td>" in read_html(app)
    app.segmented_control(key="fleet.view").set_value("anomalies").run()
    assert not app.exception
    assert "robust standard deviations" in read_html(app)


def test_a_session_opens_from_its_source(app: AppTest, fleet: Fleet, warehouse: Warehouse) -> None:
    remember_fleet(fleet)
    open_page(app, view="sessions")
    found = [one for kind in find_sessions(warehouse, Selection(), 8).values() for one in kind]
    assert [*read_table(app)["Reason"]] == [one.reason for one in found]
    choose_row(app, 0)
    assert not app.exception
    assert app.query_params["session"]
    app.run()
    assert "requests" in read_html(app)


def test_sql_that_is_typed_gives_rows_or_a_sentence(app: AppTest, fleet: Fleet) -> None:
    remember_fleet(fleet)
    open_page(app, view="sql")
    assert not app.dataframe
    app.button(key="fleet.sql.run").click().run()
    assert [*read_table(app).columns] == ["team", "model", "requests", "usd", "fill"]
    app.text_area(key="fleet.sql.text").set_value(
        "SELECT 1 AS a, 2 AS a, 9999999999999999999999 AS b, [1, 2] AS c, NULL AS d"
    ).run()
    app.button(key="fleet.sql.run").click().run()
    assert not app.exception
    assert read_table(app).iloc[0].tolist()[:4] == [1, 2, "9999999999999999999999", "[1, 2]"]
    app.text_area(key="fleet.sql.text").set_value("SELECT * FROM read_text('/etc/passwd')").run()
    app.button(key="fleet.sql.run").click().run()
    assert not app.dataframe
    assert "Cannot access file" in read_html(app)
    app.text_area(key="fleet.sql.text").set_value("DROP VIEW requests").run()
    app.button(key="fleet.sql.run").click().run()
    assert "only one SELECT can be run here" in read_html(app)


def test_a_missing_package_is_a_sentence_with_the_command(
    app: AppTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember_fleet(make_fleet(str(tmp_path / "tables"), 100, 5, 3))
    monkeypatch.setitem(sys.modules, "duckdb", None)
    open_page(app)
    assert "this needs the package duckdb, which is not installed" in read_html(app)
    assert "pip install" in read_html(app)
    assert "turnscope[fleet]" in read_html(app)


def test_tables_that_are_gone_are_a_sentence(app: AppTest, tmp_path: Path) -> None:
    remember_fleet(make_fleet(str(tmp_path / "tables"), 100, 5, 3))
    for path in (tmp_path / "tables").rglob("*.parquet"):
        path.unlink()
    open_page(app)
    assert "cannot be read" in read_html(app)
    assert open_fleet(str(tmp_path / "tables")).number == 1
