"""The one change that would have saved most, another model or budget than was asked, and two sessions side by side."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
import turnscope
from conftest import ROOT
from turnscope.library.comparing import find_saving, replace_model, resize_budget
from turnscope.library.opening import load_policy
from turnscope.planning.assemble import AS_RECORDED
from turnscope.planning.policy import apply_model_table
from turnscope.pricing.prices import list_models
from turnscope.views import session_comparison
from turnscope.views.comparison import Row, SharedFacts
from turnscope.views.savings import CANDIDATES, find_best_saving

SAMPLES = ROOT / "sample_sessions"
COLD = turnscope.load(SAMPLES / "cache-goes-cold.jsonl")


@pytest.fixture(scope="module")
def rows() -> tuple[Row, ...]:
    """The record and every candidate."""
    return turnscope.compare(COLD, (AS_RECORDED, *CANDIDATES)).rows


def cheaper(row: Row, by: str) -> Row:
    """The same with its first request cheaper by so many USD."""
    first, *rest = row.cost.usd
    assert first is not None
    return replace(row, cost=replace(row.cost, usd=(first - Decimal(by), *rest)))


def test_the_change_that_saves_most_is_named_with_what_it_loses(rows: tuple[Row, ...]) -> None:
    found = find_best_saving(rows)
    assert found
    assert found == find_saving(COLD)
    (row,) = (row for row in rows if row.policy == found.policy)
    (record,) = (row for row in rows if row.policy == AS_RECORDED)
    assert row.usd is not None
    assert record.usd is not None
    assert (found.usd_before, found.usd_after) == (record.usd, row.usd)
    most = max(
        record.usd + record.refetch_usd - r.usd - r.refetch_usd
        for r in rows
        if r.usd is not None and not (r.over_window or r.refusals or r.rejected)
    )
    assert abs(found.usd - most) < Decimal("1e-20")  # added in another order
    assert (found.lost, found.refetch_usd) == (len(row.losses.hits), row.refetch_usd - record.refetch_usd)
    assert row.title in found.sentence
    assert f"{found.lost} lost reference" in found.sentence


def test_what_saves_little_could_not_be_sent_or_has_no_price_is_no_change_to_make(rows: tuple[Row, ...]) -> None:
    record = next(row for row in rows if row.policy == AS_RECORDED)
    same = replace(record, policy="other")
    assert find_best_saving([record, same]) is None
    assert find_best_saving([record, cheaper(same, "0.04")]) is None
    change = cheaper(same, "1")
    assert find_best_saving([change]) is None
    found = find_best_saving([record, change])
    assert found
    assert found.usd == 1
    assert find_best_saving([record, replace(change, unsent=(1,))]) is None
    assert find_best_saving([record, replace(change, overflows=1)]) == found  # beyond its own limit, and sent all the same
    assert find_best_saving([record, replace(change, refetch_usd=record.refetch_usd + 1)]) is None


def test_what_answers_needed_and_had_not_is_priced_as_written_again() -> None:
    kept, cut = turnscope.compare(COLD, ["keep-everything", "last-5-pairs"]).rows
    assert (kept.refetch_usd, len(kept.losses.hits)) == (0, 0)
    trace = turnscope.replay(COLD, "last-5-pairs")
    blocks = {(hit.request, hit.block) for hit in cut.losses.hits}
    tokens = sum(round(trace.ledger.count_tokens(at, at + 1) * trace.get_terms(n).scale) for n, at in blocks)
    scale = SharedFacts.from_trace(turnscope.replay(COLD)).record.scale  # to dollars of the bill
    assert cut.refetch_usd <= scale * Decimal("6.25") * tokens / 1_000_000  # as Opus; later ones asked Sonnet, which is cheaper
    assert cut.refetch_usd >= scale * Decimal("3.75") * tokens / 1_000_000 > 0


def test_another_model_has_its_own_window_prices_and_cache_and_what_was_billed_says_nothing_of_it() -> None:
    policies = (AS_RECORDED, "last-5-pairs")
    asked, other = turnscope.compare(COLD, policies), turnscope.compare(COLD, policies, model="gemini-2.5-flash")
    assert asked.rows[0].billed is not None
    assert other.rows[0].billed is None
    assert other.rows[0].calibration == ""
    assert other.rows[0].sizes == asked.rows[0].sizes
    assert {*other.rows[0].windows} == {1_048_576}
    assert all(mine.usd < was.usd for mine, was in zip(other.rows, asked.rows, strict=True) if mine.usd and was.usd)
    assert turnscope.compare(COLD, policies).rows == asked.rows
    assert replace_model(asked.traces[0], "") is asked.traces[0]
    assert all(row.usd is None for row in turnscope.compare(COLD, [AS_RECORDED, "keep-everything"], model="nobody").rows)


def test_a_limit_holds_for_every_policy_but_the_record() -> None:
    tight = turnscope.compare(COLD, [AS_RECORDED, "condense-oldest"], limit=30_000).rows
    assert {*tight[1].limits} == {30_000}
    assert tight[0] == turnscope.compare(COLD, [AS_RECORDED]).rows[0]
    assert resize_budget(load_policy("condense-oldest"), 64_000, 30_000).budget.window == 64_000
    assert resize_budget(load_policy("condense-oldest"), 0) == load_policy("condense-oldest")
    free, _ = apply_model_table(resize_budget(load_policy("context-aware-chat"), 64_000), "x:free")
    assert free.budget.window == 64_000, "what was asked for holds for models with a table too"


def test_models_to_choose_from_write_texts_and_have_a_price() -> None:
    assert {"claude-opus-4-5", "gpt-5", "gemini-2.5-pro"} <= {*list_models()}
    assert len({*list_models()}) == len(list_models())
    assert not any("audio" in name or "realtime" in name for name in list_models())


def test_two_sessions_stand_side_by_side_measure_by_measure(rows: tuple[Row, ...]) -> None:
    sessions = [COLD, turnscope.load(SAMPLES / "thinking-grows.jsonl")]
    traces = [turnscope.replay(session) for session in sessions]
    sides = [session_comparison.build_side(trace, SharedFacts.from_trace(trace)) for trace in traces]
    told = dict(session_comparison.list_measures(sides))
    assert told["Requests"] == tuple(f"{len(session.requests)}" for session in sessions)
    assert told["USD"] == tuple(f"{turnscope.overview(session).path_total:,.2f}" for session in sessions)
    assert sides[0].name == "High water an hour late since Sunday · claude-opus-4-5-20251101"
    assert sides[0].row.sizes == rows[0].sizes
    assert told["Models"][0].count("claude") == 2
    lines = session_comparison.sides_to_csv(sides).splitlines()
    assert len(lines) == 1 + len(told)
    assert lines[0].startswith(",High water")
    ends = [request.answered_at or 0 for request in COLD.requests]
    begin = COLD.requests[0].sent_at
    assert begin
    assert sides[0].minutes == pytest.approx((max(ends) - begin) / 60)
