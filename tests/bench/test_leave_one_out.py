"""A setting is chosen without the session that it is held against, and measured as a comparison does."""

from __future__ import annotations

from pathlib import Path

import leave_one_out as bench
import pytest
import turnscope
from conftest import ROOT
from turnscope.planning.policy import load

CHEAP, DEAR = (8_000, 8_000, 1.0), bench.SHIPPED


def test_the_cheapest_setting_that_loses_little_is_chosen_else_the_one_that_loses_least() -> None:
    good = {CHEAP: (1.0, 2.0, 1, 100), DEAR: (1.5, 2.0, 0, 100)}
    assert bench.choose_cheapest([good]) == bench.choose([good]) == CHEAP
    assert bench.choose_cheapest([good, {CHEAP: (1.0, 2.0, 9, 100), DEAR: (1.5, 2.0, 2, 100)}]) == DEAR
    assert bench.choose_cheapest([{CHEAP: (1.0, 2.0, 9, 100), DEAR: (1.5, 2.0, 8, 100)}]) == DEAR
    assert bench.sum_up([good[CHEAP], (3.0, 2.0, 3, 100)]) == (1.0, 0.02)


def test_of_settings_that_cost_about_the_same_the_one_that_loses_least_is_chosen() -> None:
    """Costs of 0.5 and 0.7 have a standard error of 0.1, so 0.65 is not known to be dearer than their 0.6; 0.75 is."""
    sessions = [{CHEAP: (usd, 2.0, 1, 100), DEAR: (dear, 2.0, 0, 100)} for usd, dear in ((1.0, 1.1), (1.4, 1.5))]
    assert bench.compute_error([each[CHEAP] for each in sessions]) == pytest.approx(0.1)
    assert bench.choose_cheapest(sessions) == CHEAP
    assert bench.choose(sessions) == DEAR
    dearer = [{**each, DEAR: (1.5, 2.0, 0, 100)} for each in sessions]
    assert bench.choose(dearer) == CHEAP


def test_the_shipped_setting_is_the_policy_as_it_ships(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "sample_sessions" / "cache-goes-cold.jsonl"
    assert bench.build_policy(DEAR) == load("extracts")
    ((name, requests, figures),) = bench.measure_file(path, [CHEAP, DEAR])
    (row,) = turnscope.compare(turnscope.load(path), ["extracts"]).rows
    assert (name, requests) == ("cache-goes-cold", len(row.sizes))
    usd, record, hits, uses = figures[DEAR]
    assert usd / record == pytest.approx(row.factor)
    assert (hits, uses) == (len(row.losses.hits), sum(row.losses.uses))
    (tmp_path / "one.jsonl").write_bytes(path.read_bytes())
    assert bench.main([str(tmp_path)]) == 1
    assert "fewer than two sessions" in capsys.readouterr().err
