"""`turnscope cache`: the misses are those that the pages show, with their sums."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest
import turnscope
from claude_log import Log
from conftest import ROOT, shared
from turnscope.cli import main
from turnscope.planning.trace import Trace
from turnscope.views.cache_breaks import find_breaks, find_cold_time
from turnscope.views.cache_misses import CAUSES
from turnscope.views.overview import build_overview

pytestmark = pytest.mark.usefixtures("data_folder", "indexing_here")
COLD = ROOT / "sample_sessions" / "cache-goes-cold.jsonl"


@pytest.fixture(scope="module")
def cold() -> Trace:
    return turnscope.replay(turnscope.load(COLD))


def read_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["cache", *arguments, "--json"]) == 0
    made: dict[str, Any] = json.loads(capsys.readouterr().out)
    return made


def test_misses_and_sums_are_those_of_the_session(cold: Trace, capsys: pytest.CaptureFixture[str]) -> None:
    found = find_breaks(cold)
    assert found
    rows = read_json(capsys, "misses", str(COLD))["rows"]
    assert [(row["request"], row["cause"], row["tokens"], row["evidence"]) for row in rows] == [
        (miss.request + 1, miss.cause, miss.rebilled_tokens, miss.evidence) for miss in found
    ]
    usd = sum(float(miss.usd or 0) for miss in found)
    spent = build_overview(cold).total or 0
    for by in ("causes", "days", "sessions", "misses"):
        made = read_json(capsys, by, str(COLD))
        assert made["total"]["usd"] == pytest.approx(usd, abs=1e-6)
        assert sum(row["usd"] for row in made["rows"]) == pytest.approx(usd, abs=1e-5)
        assert made["spent_usd"] == pytest.approx(float(spent), abs=1e-6)
    idle = sum(float(miss.usd or 0) for miss in found if miss.cause == "idle")
    assert sum(row["usd_of_pauses"] for row in read_json(capsys, "days", str(COLD))["rows"]) == pytest.approx(idle, abs=1e-5)


def test_a_person_reads_the_cause_and_what_would_have_avoided_it(
    cold: Trace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("turnscope.cli.output.is_terminal", lambda: True)
    assert main(["cache", "causes", str(COLD)]) == 0
    printed = capsys.readouterr().out
    worst = max(find_breaks(cold), key=lambda miss: miss.usd or 0)
    name, advice = CAUSES[worst.cause]
    assert f"Most expensive: {name}. {advice}" in printed
    assert "beyond reading" in printed


def test_days_projects_and_tools_are_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    whole = read_json(capsys, "days", str(COLD), "--timezone", "UTC")
    first = whole["rows"][0]["day"]
    assert read_json(capsys, "days", str(COLD), "--timezone", "UTC", "--since", first) == whole
    assert [row["day"] for row in read_json(capsys, "days", str(COLD), "--timezone", "UTC", "--until", first)["rows"]] == [
        first
    ]
    assert read_json(capsys, "days", str(COLD), "--since", "2099-01-01")["total"]["misses"] == 0
    assert read_json(capsys, "days", str(COLD), "--tool", "codex")["total"]["misses"] == 0
    assert read_json(capsys, "days", str(COLD), "--project", "no such project")["total"]["misses"] == 0


@pytest.mark.thorough(every=2)
@pytest.mark.parametrize(("long", "lives"), [(False, 300), (True, 3_600)])
def test_a_session_is_warm_until_its_cache_goes_cold(
    cold: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str], long: bool, lives: int
) -> None:
    log = Log()
    now = time.time()
    log.user("hello", timestamp=_format(now - 70))
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 5_000, "cache_read_input_tokens": 0, "output_tokens": 9}
    usage["cache_creation"] = {f"ephemeral_{'1h' if long else '5m'}_input_tokens": 5_000}
    log.line(
        "assistant",
        timestamp=_format(now - 60),
        message={
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5-20250929",
            "usage": usage,
            "content": [{"type": "text", "text": "hi"}],
        },
    )
    file = log.save(tmp_path / "s1.jsonl")
    (row,) = read_json(capsys, "warm", str(file))["rows"]
    assert row["tokens"] == 5_003
    assert lives - 75 < row["seconds_left"] <= lives - 58
    assert find_cold_time(cold), "known, and long past"
    assert read_json(capsys, "warm", str(COLD))["rows"] == []
    assert main(["cache", "warm", str(COLD)]) == 0
    assert capsys.readouterr().out.splitlines() == ["path,title,project,tool,tokens,warm_until,seconds_left"]


def test_every_cause_has_words_and_advice() -> None:
    from typing import get_args

    from turnscope.views.cache_breaks import Cause

    assert tuple(sorted(CAUSES)) == tuple(sorted(get_args(Cause)))


def test_csv_has_what_json_has_over_real_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(shared("data", "open", "claude-code"))
    made = read_json(capsys, "misses", folder)["rows"]
    assert main(["cache", "misses", folder, "--csv"]) == 0
    rows = [*csv.DictReader(io.StringIO(capsys.readouterr().out, newline=""))]
    assert [row["evidence"] for row in rows] == [row["evidence"] for row in made]
    assert len(rows) > 20


def _format(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at))
