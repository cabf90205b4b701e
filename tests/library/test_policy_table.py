"""Policies over many sessions: the job measures what a comparison measures, and says what it leaves out."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import turnscope
from claude_log import Log
from conftest import ROOT
from turnscope.library.policy_table import (
    KINDS,
    MeasuredSession,
    build_table,
    draw_interval,
    find_best,
    measure_session,
    sum_up,
    table_to_csv,
)
from turnscope.library.policy_table_job import PolicyTableJob, TableTask

SAMPLES = [ROOT / "sample_sessions" / f"{name}.jsonl" for name in ("cache-goes-cold", "thinking-grows")]
NAMES = ("as-recorded", "keep-everything", "last-20-messages")


def make_row(policy: str = "p", usd: float = 1.0, hits: int = 0, **more: object) -> MeasuredSession:
    """A session of ten requests whose record cost 1 USD."""
    values = {
        "session": "s",
        "requests": 10,
        "kinds": frozenset({"short"}),
        "uncached": 2.0,
        "record_uncached": 4.0,
        "uses": 100,
    }
    values |= {"peak": 0.5, "unsent": 0, "calls": 0, "record_usd": 1.0}
    return MeasuredSession(policy=policy, usd=usd, hits=hits, **values | more)  # type: ignore[arg-type]


def test_the_job_measures_each_session_under_each_policy_as_a_comparison_does(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    log = Log()
    log.user("only a question")
    log.save(empty)
    files = [SAMPLES[0], empty, tmp_path / "gone.jsonl", SAMPLES[1]]
    job = PolicyTableJob(TableTask(tuple((str(file), "") for file in files), NAMES))
    job.wait(120)
    assert job.state == "done", job.error
    assert job.done == job.count == 4
    assert {Path(path).name for path in job.problems} == {"empty.jsonl", "gone.jsonl"}
    direct = [row for file in SAMPLES for row in measure_session(turnscope.load(file), NAMES)]
    assert list(job.rows) == direct
    table = {row.policy: row for row in build_table(job.rows)}
    assert table["as-recorded"].cost == table["as-recorded"].low == table["as-recorded"].high == 1.0
    for file in SAMPLES[:1]:
        for row in turnscope.compare(turnscope.load(file), NAMES).rows:
            one = sum_up([each for each in job.rows if each.policy == row.policy][:1])
            assert (one.cost, one.lost, one.peak) == pytest.approx((row.factor, row.losses.rate, row.peak[0]))


def test_a_job_that_is_stopped_goes_on_without_measuring_again() -> None:
    job = PolicyTableJob(TableTask(tuple((str(file), "") for file in SAMPLES), NAMES[:2]))
    while not job.done and job.state == "running":
        job.wait(0.05)
    job.cancel()
    job.wait(30)
    assert job.state in ("cancelled", "done")
    before = job.rows
    assert {row.policy for row in before} == {*NAMES[:2]}
    job.resume()
    job.wait(120)
    assert job.state == "done"
    assert job.rows[: len(before)] == before
    assert len(job.rows) == 2 * len(NAMES[:2])


def test_factors_are_of_sums_and_losses_of_all_references() -> None:
    row = sum_up(
        [make_row(usd=0.5, hits=2), make_row(usd=3.0, record_usd=2.0, requests=30, kinds=frozenset({"chat"}), calls=4)]
    )
    assert (row.cost, row.uncached, row.lost, row.calls) == (3.5 / 3, 0.5, 0.01, 10.0)
    assert 0.5 <= row.low <= row.cost <= row.high <= 1.5
    assert row.growth == 1.5 / 0.5
    by_kind = dict(zip(KINDS, row.by_kind, strict=True))
    assert (by_kind["short"], by_kind["chat"]) == (0.5, 1.5)
    assert math.isnan(by_kind["idle"])


def test_the_best_are_beaten_by_none_and_what_is_refused_is_not_among_them() -> None:
    base = sum_up([make_row()])
    table = [
        replace(base, policy="cheap", cost=0.5, lost=0.1),
        replace(base, policy="sure", cost=1.0, lost=0.0),
        replace(base, policy="worse", cost=1.0, lost=0.1),
        replace(base, policy="refused", cost=0.1, lost=0.0, unsent=0.2),
        replace(base, policy="same", cost=1.0, lost=0.0),
    ]
    assert find_best(table) == {"cheap", "sure", "same"}


def test_the_table_as_csv_has_every_number() -> None:
    (row,) = csv.DictReader(io.StringIO(table_to_csv(build_table([make_row(usd=0.25)])), newline=""))
    assert (row["policy"], row["cost"], row["short"], row["idle"]) == ("p", "0.25", "0.25", "")


def test_draws_of_parts_of_many_sessions_give_the_interval_of_draws_of_all() -> None:
    rng = np.random.default_rng(1)
    record = rng.lognormal(0, 1.5, 20_000)
    usd = np.column_stack([record * 0.6 * rng.lognormal(0, 0.4, len(record)), record])
    sums = [usd[rng.integers(0, len(usd), len(usd))].sum(axis=0) for _ in range(400)]
    low, high = np.quantile([policy / whole for policy, whole in sums], (0.025, 0.975))
    drawn = draw_interval(usd)
    assert drawn == pytest.approx((low, high), abs=0.15 * (high - low))
    assert draw_interval(usd) == drawn
