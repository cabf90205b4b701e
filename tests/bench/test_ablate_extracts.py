"""Each variant of `extracts` is the policy without one part, and the first one is the policy as it ships."""

from __future__ import annotations

import ablate_extracts as bench
import pytest
import turnscope
from conftest import ROOT
from turnscope.planning.policy import load


def test_each_variant_is_another_policy_and_the_first_is_the_one_that_ships(capsys: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "sample_sessions" / "cache-goes-cold.jsonl"
    assert bench.build_policy({}) == load("extracts")
    (figures,) = bench.measure_file(path)
    (row,) = turnscope.compare(turnscope.load(path), ["extracts"]).rows
    usd, record, hits, uses = figures[0]
    assert (usd / record, hits, uses) == (pytest.approx(row.factor), len(row.losses.hits), sum(row.losses.uses))
    assert figures[3] != figures[0], "the sample's cache goes cold"
    assert bench.measure_file(path) == [figures], "what was replaced in the code is put back"
    assert bench.main([str(ROOT / "tests" / "bench")]) == 1
    assert "no session with a price" in capsys.readouterr().err
