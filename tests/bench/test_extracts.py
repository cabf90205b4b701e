"""The policy `extracts` on real sessions: what it costs and loses, and that every request of it can be sent."""

from __future__ import annotations

from pathlib import Path

import pytest
import which_policy
from conftest import shared
from turnscope.library.discovery import find_sources
from turnscope.library.policy_table import MeasuredSession, sum_up


@pytest.fixture(scope="module")
def measured() -> list[MeasuredSession]:
    folder: Path = shared("data/open/claude-code")
    return [
        row for path in sorted(find_sources(folder)) for row in which_policy.measure_file(path, ["as-recorded", "extracts"])
    ]


@pytest.mark.thorough
def test_it_costs_a_fifth_less_than_the_record_and_loses_less(measured: list[MeasuredSession]) -> None:
    rows = [row for row in measured if row.policy == "extracts"]
    record = [row for row in measured if row.policy == "as-recorded"]
    assert sum_up(rows).cost <= 0.8
    assert sum_up(rows).lost <= min(0.012, sum_up(record).lost)


@pytest.mark.thorough
def test_every_request_can_be_sent_and_no_model_is_called(measured: list[MeasuredSession]) -> None:
    assert {(row.unsent, row.calls) for row in measured if row.policy == "extracts"} == {(0, 0)}
    assert max(row.peak for row in measured if row.policy == "extracts") < 0.9
