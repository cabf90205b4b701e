"""What a record shows of its prompt cache holds under every policy, and the simulated record costs what was billed."""

from __future__ import annotations

import pytest
from bench.bench_cache import MEDIAN, P90, find_paths, measure_path
from conftest import shared
from hand_made import Row, compacted, session, traced
from turnscope.library.comparing import compare
from turnscope.library.opening import replay
from turnscope.planning.prompt_cache import simulate_prompt_cache
from turnscope.planning.recorded_cache import NOTHING, STATIC, read_recorded_cache
from turnscope.pricing.caches import find_rules
from turnscope.pricing.prices import PRICES

PARAGRAPH = "the quick brown fox jumps over the lazy dog " * 100


def reads(rows: list[Row], policy: str = "as-recorded") -> list[int]:
    return [use.read for use in simulate_prompt_cache(replay(session(rows), policy))]


def grow(*rows: tuple[float, int, int]) -> list[Row]:
    """Requests at a time, with tokens read and written."""
    return [Row(at, read=read, written=written, plain=0, prompt=PARAGRAPH) for at, read, written in rows]


def test_the_first_request_finds_under_every_policy_what_another_session_wrote() -> None:
    rows = grow((0, 15_000, 5_000), (20, 20_000, 1_000), (40, 21_000, 1_000))
    assert reads(rows) == [15_000, 20_000, 21_000]
    assert [reads(rows, name)[0] for name in ("keep-everything", "last-5-pairs")] == [15_000, 15_000]


def test_a_resumed_session_finds_its_conversation_where_the_policy_sends_it_too() -> None:
    rows = [Row(0, read=40_000, written=200, plain=0, prompt=PARAGRAPH * 40), Row(20, read=40_200, written=900, plain=0)]
    first, second = reads(rows)
    assert first == 40_000
    assert second == 40_200


def test_a_system_prompt_that_others_kept_alive_is_read_after_a_long_pause() -> None:
    rows = grow((0, 15_000, 5_000), (20, 20_000, 1_000), (4_000, 15_000, 7_000), (4_020, 22_000, 1_000))
    assert reads(rows) == [15_000, 20_000, 15_000, 22_000]
    assert reads(rows, "keep-everything")[2] == 15_000


def test_a_loss_without_a_cause_is_kept_in_every_policy_and_its_entries_may_be_found_again() -> None:
    rows = grow((0, 15_000, 5_000), (20, 20_000, 6_000), (40, 15_000, 14_000), (60, 26_000, 4_000), (80, 30_000, 4_000))
    assert reads(rows) == [15_000, 20_000, 15_000, 26_000, 30_000]
    estimated = reads(rows, "keep-everything")
    assert estimated == pytest.approx([15_000, 20_000, 15_000, 26_000, 30_000], rel=0.06)


def test_a_loss_where_the_record_was_compacted_is_no_loss_of_a_policy_that_keeps_everything() -> None:
    rows = [*grow((0, 0, 20_000), (20, 20_000, 20_000)), Row(40, written=24_000, plain=0, prompt="so far")]
    made = traced(rows, [(2, compacted(0, 4))])
    models = {plan.model: (find_rules(PRICES.find_facts(plan.model)), 4_096) for plan in made.plans}
    assert read_recorded_cache(made.session, models).facts[2][1:3] == (NOTHING, 0)
    assert [use.read for use in simulate_prompt_cache(made)] == [0, 20_000, 0]
    assert simulate_prompt_cache(replay(made.session, "keep-everything"))[2].read > 20_000


def test_the_record_says_which_entry_was_found_again() -> None:
    made = traced(grow((0, 15_000, 5_000), (20, 20_000, 6_000), (40, 15_000, 14_000), (60, 20_000, 10_000)))
    models = {plan.model: (find_rules(PRICES.find_facts(plan.model)), 4_096) for plan in made.plans}
    found = read_recorded_cache(made.session, models)
    assert [fact.kept for fact in found.facts] == [None, None, STATIC, made.session.requests[0].cut]
    assert [*found.static.values()] == [15_000]


def test_a_request_that_asked_for_no_caching_is_given_none_and_leaves_the_cache_as_it_was() -> None:
    rows = [*grow((0, 0, 20_000)), Row(20, plain=21_000, prompt=PARAGRAPH), *grow((40, 20_000, 2_000))]
    assert [use[:3] for use in simulate_prompt_cache(traced(rows))] == [(0, 20_000, 0), (0, 0, 21_000), (20_000, 2_000, 0)]


def test_tokens_written_for_an_hour_are_priced_so_in_the_share_that_was_bought() -> None:
    rows = [Row(0, written=20_000, hour=15_000, plain=0, prompt=PARAGRAPH), *grow((20, 20_000, 1_000))]
    assert [use.hour for use in simulate_prompt_cache(traced(rows))] == [15_000, 0]


def test_a_log_without_cached_tokens_says_nothing_of_an_automatic_cache() -> None:
    rows = [Row(20 * n, plain=5_000 + 500 * n, model="gpt-5.1", prompt=PARAGRAPH) for n in range(3)]
    assert all(reads(rows)[1:])


def test_each_policy_is_a_factor_of_the_simulated_record_whose_error_is_shown() -> None:
    rows = grow((0, 15_000, 5_000), (20, 20_000, 1_000), (40, 21_000, 1_000))
    record, other = compare(session(rows), ["as-recorded", "keep-everything"]).rows
    assert (record.factor, other.factor) == (1.0, pytest.approx(1.0, abs=0.01))
    assert record.simulation_error == pytest.approx(0, abs=0.001)
    assert "+0.0%" in record.calibration or "-0.0%" in record.calibration
    assert other.simulation_error is None


def test_every_claude_code_session_costs_in_the_simulation_what_was_billed() -> None:
    """The goal for all of them: 2 % at the median, 8 % at the 90th percentile."""
    made = [cost for path in find_paths([shared("data", "open", "claude-code")]) for cost in measure_path(path)]
    errors = sorted(abs(cost.error) for cost in made)
    assert len(errors) > 10
    assert errors[len(errors) // 2] <= MEDIAN
    assert errors[int(0.9 * len(errors))] <= P90
