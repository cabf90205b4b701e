"""Budgets over a fleet, and the report of a week: their numbers are those of the tables."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from xml.etree import ElementTree as ET

import pyarrow.compute as pc
import pytest
from turnscope.cli import main
from turnscope.errors import TurnscopeError
from turnscope.fleet.budgets import parse_budget
from turnscope.fleet.dataset import open_fleet
from turnscope.fleet.weekly import parse_week

from tests.bench import make_fleet_tables


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("fleet"))
    make_fleet_tables.write(folder, requests=3_000, sessions=60, days=20)
    return folder


def sum_usd(tables: str, team: str = "") -> float:
    rows = open_fleet(tables).read("requests", ["team", "usd"])
    return float(pc.sum(rows.filter(pc.field("team") == team)["usd"] if team else rows["usd"]).as_py())


def test_a_budget_is_held_against_the_sum_of_the_tables(
    tables: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spent, junit = sum_usd(tables, "search"), tmp_path / "out.xml"
    assert main(["fleet", "check", tables, "--budget", f"team:search={spent + 0.01}", "--budget", "total=1e9", "--json"]) == 0
    first, total = json.loads(capsys.readouterr().out)["budgets"]
    assert first["usd"] == pytest.approx(spent, abs=1e-6)
    assert total["usd"] == pytest.approx(sum_usd(tables), abs=1e-6)
    assert main(["fleet", "check", tables, "--budget", f"team:search={spent - 0.01}", "--junit", str(junit)]) == 1
    suites = ET.fromstring(junit.read_text())
    assert suites.attrib["failures"] == "1"
    assert [case.attrib["name"] for case in suites.iter("testcase")] == ["team search"]


def test_every_team_has_a_budget_by_one_word(tables: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "check", tables, "--budget", "team:*=0", "--json"]) == 1
    listed = json.loads(capsys.readouterr().out)["budgets"]
    teams = {*open_fleet(tables).read("requests", ["team"])["team"].to_pylist()}
    assert {each["name"] for each in listed} == teams


def test_days_that_do_not_count_cost_nothing(tables: str) -> None:
    assert main(["fleet", "check", tables, "--budget", "team:search=0", "--since", "2030-01-01"]) == 0


def test_what_is_no_budget_or_no_team_is_a_sentence(tables: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("team:search", "team=3", "search=3", "total=-1", "total=nan", "total=much"):
        with pytest.raises(TurnscopeError, match="is no budget"):
            parse_budget(text)
    assert parse_budget("project:/a=b=3").usd == Decimal(3)
    assert main(["fleet", "check", tables, "--budget", "team:serch=3"]) == 2
    assert "no session is of the team 'serch'" in capsys.readouterr().err
    assert main(["fleet", "check", str(tmp_path), "--budget", "total=3"]) == 2
    assert "holds no tables" in capsys.readouterr().err


def test_a_week_is_reported_as_markdown_and_html(tables: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "report", tables, "--week", "2026-W02"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("# Week 2026-W02\n\n2026-01-05 to 2026-01-11")
    for title in (
        "Teams",
        "Projects",
        "People",
        "Tools",
        "Models",
        "Days",
        "Cache misses",
        "How full windows were",
        "Policies",
    ):
        assert f"\n## {title}\n" in text
    assert main(["fleet", "report", tables, "--week", "2026-W02", "--out", str(tmp_path / "week.html")]) == 0
    page = (tmp_path / "week.html").read_text()
    assert page.count("<table>") == text.count("| --- |")
    assert "Claude Code" in page
    assert main(["fleet", "report", tables, "--week", "2020-W02"]) == 0


def test_names_are_text_in_a_report(tmp_path: Path) -> None:
    from turnscope.fleet.weekly import _format_table, to_html

    lines = _format_table("Teams", ("", "USD"), [("<script>alert(1)</script> | [x](javascript:1) **b**", "1")])
    page = to_html("\n".join(lines))
    assert "<script" not in page
    assert "<a " not in page
    assert "<strong>" not in page
    assert "alert(1)" in page


def test_a_week_that_is_none_is_a_sentence() -> None:
    assert parse_week("2026-W48").isoformat() == "2026-11-23"
    for text in ("2026-48", "2026-W60", "", "x"):
        with pytest.raises(TurnscopeError, match="is no week"):
            parse_week(text)
