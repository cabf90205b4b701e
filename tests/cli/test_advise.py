"""`turnscope advise` where Optuna is not installed."""

from __future__ import annotations

import sys

import pytest
from conftest import ROOT
from turnscope.cli import main

COLD = str(ROOT / "sample_sessions" / "cache-goes-cold.jsonl")


def test_without_optuna_a_large_search_says_what_to_install_and_a_small_one_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data_folder: object
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)  # importing it fails
    assert main(["advise", COLD, "--policy", "balanced"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("turnscope: this search needs Optuna, which is not installed. Install it with `pip install ")
    assert "'turnscope[advise]'" in told
    assert main(["advise", COLD, "--policy", "clear-tool-results", "--turn", "1.keep", "--trials", "4"]) == 0


def test_a_policy_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "."]) == 2
    assert "Missing option '--policy'" in capsys.readouterr().err
