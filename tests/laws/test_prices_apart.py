"""Prices are handed in: replays of one session with different prices do not know of each other, in any order."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
import turnscope
from conftest import ROOT
from turnscope.library.opening import count_session
from turnscope.live import branches
from turnscope.planning.assemble import replay
from turnscope.planning.policy import load
from turnscope.planning.trace import Trace, trace
from turnscope.pricing.overlay import read_overlay
from turnscope.pricing.prices import PRICES, Prices
from turnscope.views.cache_breaks import find_breaks
from turnscope.views.findings import rank_findings
from turnscope.views.overview import build_overview

SESSION = turnscope.load(ROOT / "sample_sessions" / "cache-goes-cold.jsonl")
LEDGER = count_session(SESSION)
RATES = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")


@pytest.fixture
def house(tmp_path: Path) -> Prices:
    """Every model of the session for a dollar a token, with a window that the session outgrows."""
    row = {"window": 60_000, "prices": dict.fromkeys(RATES, "1000000")}
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"models": {request.model: row for request in SESSION.requests}}), encoding="utf-8")
    return Prices(read_overlay(path))


def list_priced(found: Trace) -> tuple[object, ...]:
    """Everything that prices have a say in."""
    view = build_overview(found)
    told = (view.windows.tolist(), view.totals, view.usd.tolist(), rank_findings(found, view), find_breaks(found))
    return [(plan.budget, plan.verdict, plan.after.counts) for plan in found.plans], *told


@pytest.mark.parametrize("policy", ["as-recorded", "balanced"])
def test_two_replays_with_two_prices_do_not_affect_each_other(house: Prices, policy: str) -> None:
    alone = {prices: list_priced(trace(SESSION, policy, LEDGER, prices)) for prices in (PRICES, house)}
    again = {prices: list_priced(trace(SESSION, policy, LEDGER, prices)) for prices in (house, PRICES)}
    assert alone == again
    assert alone[PRICES] != alone[house]


def test_replays_that_go_on_by_turns_keep_their_own_windows_and_limits(house: Prices) -> None:
    balanced = load("balanced")
    turns = zip(*(replay(SESSION, balanced, LEDGER, prices=prices) for prices in (PRICES, house)), strict=True)
    for plain, dear in turns:
        assert (plain.budget.window, dear.budget.window) == (200_000, 60_000)
        assert dear.budget.limit < plain.budget.limit
    assert any(decision.splice for decision in dear.decisions) or dear.after.tokens < plain.after.tokens


def test_a_token_costs_what_the_prices_say(house: Prices) -> None:
    found = trace(SESSION, "as-recorded", LEDGER, house)
    view = build_overview(found)
    usages = [request.usage for request in SESSION.requests if request.usage]
    tokens = sum(usage.prompt_tokens for usage in usages) + int(view.answers.sum())
    assert view.total == branches.sum_cost(SESSION, house) == Decimal(tokens)
    assert view.usd.sum() + view.answer_usd.sum() == pytest.approx(tokens)
