"""The simulated prompt cache: each provider's rules, what a policy's decisions cost it, and the record it is held against."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from statistics import median
from typing import Any

import pytest
from conftest import ROOT, examples, shared
from hand_made import NOON, OPUS, SONNET, Row, call, make_trace, result
from hypothesis import given, settings
from hypothesis import strategies as st
from law_sessions import sessions
from turnscope.library.comparing import compare, replace_model, resize_budget
from turnscope.library.opening import begin_replay, load, load_all, overview, replay
from turnscope.planning.policy import list_policies
from turnscope.planning.policy import load as policy
from turnscope.planning.prompt_cache import simulate_prompt_cache
from turnscope.pricing.caches import find_rules, load_rules
from turnscope.pricing.prices import PRICES
from turnscope.session.builder import Builder
from turnscope.session.model import Session, Usage
from turnscope.views.cache_breaks import TTL_BY_PROVIDER
from turnscope.views.cached_cost import count_answer_tokens, price_decisions, simulate_cost
from turnscope.views.decision_log import iter_rows
from turnscope.views.replay_cost import price_record
from turnscope.views.replay_range import summarize_replay_range
from turnscope.views.stepper import build_steps

WORDS = "the quick brown fox jumps over the lazy dog " * 200


def list_tokens(rows: list[Row]) -> list[tuple[int, int, int]]:
    return [(kept.read, kept.written, kept.plain) for kept in simulate_prompt_cache(make_trace(rows))]


def test_a_prompt_is_read_as_far_as_it_was_written_and_the_rest_is_written() -> None:
    rows = [Row(0, written=20_000, plain=0), Row(20, read=20_000, written=1_000, plain=0)]
    assert list_tokens(rows) == [(0, 20_000, 0), (20_000, 1_000, 0)]


def test_an_entry_lives_five_minutes_after_its_last_use_and_an_hour_where_that_was_bought() -> None:
    rows = [Row(0, written=20_000, plain=0), Row(304, read=20_000, written=1_000, plain=0), Row(620, written=21_100, plain=0)]
    assert [kept.read for kept in simulate_prompt_cache(make_trace(rows))] == [
        0,
        20_000,
        0,
    ]  # 300 s after the answer, then 312 s
    hours = [Row(0, written=20_000, hour=20_000, plain=0), Row(1_200, read=20_000, written=1_000, hour=1_000, plain=0)]
    kept = simulate_prompt_cache(make_trace(hours))
    assert ([k.read for k in kept], [k.hour for k in kept]) == ([0, 20_000], [20_000, 1_000])


def test_a_prefix_shorter_than_the_models_own_is_not_kept() -> None:
    short = PRICES.find_facts(OPUS).min_cache_prefix
    assert short == 4_096
    rows = [
        Row(0, plain=short - 1),
        Row(20, written=short + 1, plain=0),
        Row(40, read=short + 1, written=5_000 - short - 1, plain=0),
    ]
    assert list_tokens(rows) == [(0, 0, short - 1), (0, short + 1, 0), (short + 1, 5_000 - short - 1, 0)]


def test_another_model_has_a_cache_of_its_own() -> None:
    rows = [
        Row(0, written=20_000, plain=0),
        Row(20, written=20_500, plain=0, model=SONNET),
        Row(40, read=20_000, written=900, plain=0),
    ]
    assert [kept.read for kept in simulate_prompt_cache(make_trace(rows))] == [0, 0, 20_000]


def test_a_session_that_asked_for_no_caching_is_given_none() -> None:
    rows = [Row(0, plain=20_000), Row(20, plain=21_000)]
    assert list_tokens(rows) == [(0, 0, 20_000), (0, 0, 21_000)]


def test_the_longest_prefix_in_steps_of_128_is_found_by_itself_at_openai_and_a_day_long_where_asked_for() -> None:
    def rows(**settings: Any) -> list[Row]:
        sizes = ((0, 900), (20, 3_000), (40, 3_500), (900, 4_000))
        return [Row(at, plain=size, model="gpt-5.1", settings=settings) for at, size in sizes]

    assert list_tokens(rows()) == [(0, 0, 900), (0, 0, 3_000), (2_944, 0, 556), (0, 0, 4_000)]
    assert list_tokens(rows(prompt_cache_retention="24h"))[-1] == (3_456, 0, 544)


def test_rules_are_data_and_each_says_where_it_is_from() -> None:
    assert all(row.source and row.how in ("marked", "prefix", "none") for row in load_rules())
    made = {
        name: find_rules(PRICES.find_facts(name))
        for name in (OPUS, "gpt-5.1", "gemini-2.5-pro", "gemini-3.5-flash", "somebody")
    }
    assert [made[name].how for name in made] == ["marked", "prefix", "prefix", "prefix", "prefix"]
    assert [made[name].find_shortest_prefix(PRICES.find_facts(name)) for name in made] == [4_096, 1_024, 2_048, 4_096, 1_024]
    assert find_rules(PRICES.find_facts("gemini-1.5-pro")).how == "none"
    usual = {name: next(iter(made[model].lives.values())) for name, model in (("anthropic", OPUS), ("openai", "gpt-5.1"))}
    assert usual == TTL_BY_PROVIDER  # one number for how long an entry lives


def agent(turns: int = 12, *, billed: bool = True) -> Session:
    """Reads files one after the other, a request every ten seconds."""
    builder = Builder("agent", "test")
    builder.add_message("system", "Be careful. " * 2_000)
    builder.add_message("user", "Begin.", origin="prompt")
    size = 6_000
    for n in range(turns):
        answer = builder.add_message("assistant", [call(f"c{n}", path=f"f{n}.py")])
        usage = Usage(0, 2_000 if n else size, size if n else 0, 30) if billed else None
        size += 2_000 if n else 0
        builder.set_request(answer, model=OPUS, usage=usage, sent_at=NOON + 10 * n, answered_at=NOON + 10 * n + 2)
        builder.add_message("user", result(f"c{n}", f"{n} " + WORDS))
    return builder.build()


def test_a_decision_pays_with_what_stands_behind_it_and_saves_what_it_took_out_at_every_request() -> None:
    trace = replay(agent(40), "last-20-messages")
    kept = simulate_prompt_cache(trace)
    n = next(plan.request.n for plan in trace.plans if any(d.splice and d.after < d.before for d in plan.decisions))
    (price,) = (p for p in price_decisions(trace, kept, n).values() if p.saved > 0)
    scale = trace.get_terms(n).scale
    (decision,) = (d for d in trace.plans[n].decisions if d.seq == price.seq)
    assert price.saved == round((decision.before - decision.after) * scale)
    assert kept[n].read < kept[n].held
    assert 0 < price.rewritten <= kept[n].held - kept[n].read - price.saved + 50
    rate = trace.prices.find_rates(OPUS, kept[n].prompt, NOON)
    assert rate
    assert price.usd == (rate.cache_write_5m - rate.cache_read) * price.rewritten / 1_000_000
    assert price.usd_per_request == rate.cache_read * price.saved / 1_000_000
    assert price.break_even
    assert price.usd_per_request * price.break_even >= price.usd > price.usd_per_request * (price.break_even - 1)


def test_a_replay_that_changes_nothing_reads_all_of_the_prompt_before() -> None:
    kept = simulate_prompt_cache(replay(agent(), "keep-everything"))
    assert [k.unserved for k in kept] == [0] * len(kept)
    assert [k.read for k in kept[1:]] == [k.prompt for k in kept[:-1]]


def test_summaries_are_part_of_the_cost_and_are_asked_for_once() -> None:
    trace = replay(load(ROOT / "sample_sessions" / "cache-goes-cold.jsonl"), "multi-turn-summary")
    made = simulate_cost(trace, simulate_prompt_cache(trace))
    asked = {ask.key for plan in trace.plans for ask, _ in plan.asks if ask.kind == "summary"}
    assert asked
    assert 0 < sum(usd > 0 for usd in made.summary_usd) <= len(asked)
    assert made.total is not None
    assert made.total > sum(made.summary_usd)


def test_a_refused_request_costs_nothing_and_leaves_the_cache_as_it_was() -> None:
    trace = replay(load(ROOT / "sample_sessions" / "tool-results-eat-the-window.jsonl"), "openwebui")
    kept = simulate_prompt_cache(trace)
    refused = [n for n, plan in enumerate(trace.plans) if plan.verdict == "refuse"]
    assert all(kept[n].prompt == 0 and not kept[n].sent for n in refused)
    assert all(simulate_cost(trace, kept).usd[n] == 0 for n in refused)


@settings(max_examples=examples(40))
@given(sessions, st.sampled_from([name for name in list_policies() if "librechat" not in name]))
def test_no_cost_is_negative_and_no_more_is_read_than_sent(made: Session, name: str) -> None:
    trace = replay(made, policy(name))
    kept = simulate_prompt_cache(trace)
    assert [k.prompt for k in kept if k.sent] == [trace.count_tokens(n) for n, k in enumerate(kept) if k.sent]
    assert all(k.read >= 0 and k.written >= 0 and k.plain >= 0 and 0 <= k.unserved <= k.held for k in kept)
    cost = simulate_cost(trace, kept, count_answer_tokens(trace))
    assert all(usd is None or usd >= 0 for usd in cost.usd)
    assert 0 <= cost.cache_share <= 1
    for n in range(len(kept)):
        prices = price_decisions(trace, kept, n).values()
        assert sum(price.rewritten for price in prices) <= kept[n].unserved + len(prices)


@pytest.mark.parametrize("name", ["balanced", "cline-classic", "reactive-75"])
def test_costs_and_shares_stay_in_bounds_over_twenty_compactions(name: str) -> None:
    trace = replay(agent(160), resize_budget(policy(name), 16_000))
    cuts = sum(any(d.splice and d.after < d.before for d in plan.decisions) for plan in trace.plans)
    assert cuts >= 20
    kept = simulate_prompt_cache(trace)
    made = simulate_cost(trace, kept)
    assert all(usd is not None and usd >= call >= 0 for usd, call in zip(made.usd, made.summary_usd, strict=True))
    assert 0 < made.cache_share <= 1
    assert all(0 <= k.read <= k.prompt == k.read + k.written + k.plain and k.unserved <= k.held for k in kept)


def test_a_replay_for_another_model_has_one_price_too() -> None:
    session, model = load(ROOT / "sample_sessions" / "cache-goes-cold.jsonl"), "claude-opus-4-5"
    recorded = replay(session)
    changed, plans = begin_replay(replace_model(recorded, model), policy("last-5-pairs"))
    assert all(plans)
    made = build_steps(changed, price_record(recorded), sent=False)
    (row,) = compare(session, ["last-5-pairs"], model=model).rows
    assert (made.costs, made.cache) == (row.cost, row.cache)
    assert json.loads(made.data)["requests"]["usd"]


def test_a_replay_has_one_price_wherever_it_is_shown() -> None:
    session = load(ROOT / "sample_sessions" / "cache-goes-cold.jsonl")
    trace = replay(session, "last-5-pairs")
    record = price_record(replay(session))
    made, (row,) = build_steps(trace, record), compare(session, ["last-5-pairs"]).rows
    assert made.costs == row.cost
    assert summarize_replay_range(trace, made, 0, len(trace.plans)).usd == row.usd
    columns = json.loads(made.data)
    assert sum(Decimal(str(usd)) for usd in columns["requests"]["usd"]) == pytest.approx(row.usd, abs=Decimal("0.001"))
    prices = [price for n in range(len(trace.plans)) for price in price_decisions(trace, row.cache, n).values()]
    assert sum(columns["decisions"]["again"]) == sum(price.rewritten for price in prices) > 0
    logged = [each for each in iter_rows(trace) if each["cache_again"]]
    assert [each["cache_pays_off"] for each in logged] == [price.break_even for price in prices if price.rewritten]
    assert [columns["decisions"]["pays"][each["decision"]] for each in logged] == [
        p.break_even or 0 for p in prices if p.rewritten
    ]


@pytest.mark.parametrize("name", ["entire-cd95-3compactions", "entire-d599-microcompact", "obra-long-conversation"])
def test_recorded_cache_reads_are_met_within_two_percent_of_the_prompt_at_the_median_request(name: str) -> None:
    trace = replay(load_all(shared("data", "open", "claude-code", f"{name}.jsonl"))[0])
    off = [
        abs(kept.read - plan.request.usage.cache_read_input_tokens) / plan.request.usage.prompt_tokens
        for plan, kept in zip(trace.plans, simulate_prompt_cache(trace), strict=True)
        if plan.request.usage and plan.request.usage.prompt_tokens
    ]
    assert median(off) <= 0.02
    assert sum(error <= 0.02 for error in off) / len(off) > 0.9
    usd = simulate_cost(trace, simulate_prompt_cache(trace)).total
    billed = overview(trace.session).path_total
    assert usd is not None
    assert billed is not None
    assert abs(usd - billed) / billed < Decimal("0.06")


def test_a_summary_is_priced_as_the_model_s_that_the_policy_names() -> None:
    """What was made offline stands for a text of that model, and not of the model that answers."""
    builder = Builder("s", "test")
    for n in range(12):
        builder.add_message("user", f"{n}: {WORDS * 4}", id=f"q{n}", origin="prompt")
        builder.set_request(builder.add_message("assistant", f"a{n}", id=f"a{n}"), model=OPUS, sent_at=NOON + n)
    said = builder.build()
    totals = {}
    for name, rule, size in (
        ("multi-turn-summary", "condense", {}),
        ("continue-cli", "compact_whole_history", {"output": 120_000}),
    ):
        for model in ("", OPUS, "claude-haiku-4-5"):
            found = policy(name)
            changed = [
                replace(part, params=replace(part.params, model=model, **size)) if part.rule.name == rule else part
                for part in found.rules
            ]
            trace = replay(said, replace(found, rules=tuple(changed)))
            totals[name, model] = sum(simulate_cost(trace, simulate_prompt_cache(trace)).summary_usd)
        assert 0 < totals[name, "claude-haiku-4-5"] < totals[name, OPUS] == totals[name, ""], name
