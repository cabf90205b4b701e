"""The table of policies holds the figures that a comparison has of each session."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import plot_policies
import pytest
import turnscope
import which_policy
from conftest import ROOT
from turnscope.library.policy_table import build_table, find_best, table_to_csv

NAMES = ("as-recorded", "keep-everything", "last-20-messages")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one session."""
    made = tmp_path_factory.mktemp("sessions")
    (made / "one.jsonl").write_bytes((ROOT / "sample_sessions" / "cache-goes-cold.jsonl").read_bytes())
    return made


def test_the_figures_of_one_session_are_those_of_its_comparison(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert which_policy.main([str(folder), *NAMES, "--csv"]) == 0
    table = {row["policy"]: row for row in csv.DictReader(io.StringIO(capsys.readouterr().out, newline=""))}
    for row in turnscope.compare(turnscope.load(folder / "one.jsonl"), NAMES).rows:
        assert float(table[row.policy]["cost"]) == pytest.approx(row.factor)
        assert float(table[row.policy]["lost"]) == pytest.approx(row.losses.rate)
        assert float(table[row.policy]["peak"]) == pytest.approx(row.peak[0])
        assert float(table[row.policy]["low"]) == pytest.approx(row.factor), "of one session all draws are the same"
    assert float(table["as-recorded"]["uncached"]) == 1.0
    cut, whole = table["last-20-messages"], table["keep-everything"]
    assert float(cut["uncached"]) < float(cut["cost"]), "it breaks the cache at every request"
    assert float(cut["uncached"]) < float(whole["uncached"])


def test_a_chart_is_made_of_the_numbers_of_the_table(folder: Path) -> None:
    table = build_table(which_policy.measure_file(folder / "one.jsonl", NAMES))
    again = plot_policies.read_table(table_to_csv(table).splitlines())
    assert table_to_csv(again) == table_to_csv(table)
    assert find_best(again) == find_best(table)


def test_what_no_other_beats_is_marked_and_a_folder_without_sessions_says_so(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert which_policy.main([str(folder), *NAMES]) == 0
    assert "* keep-everything" in capsys.readouterr().out, "nothing is lost: no other policy can beat it"
    assert which_policy.main([str(tmp_path)]) == 1
    assert "holds no session" in capsys.readouterr().err
