"""The most expensive requests, each with its cause."""

from __future__ import annotations

from decimal import Decimal

import pytest
import turnscope
from conftest import ROOT
from turnscope.views.expensive_requests import ExpensiveRequest, find_expensive_requests, sum_share
from turnscope.views.overview import Overview, build_overview


def find(name: str) -> tuple[Overview, tuple[ExpensiveRequest, ...]]:
    trace = turnscope.replay(turnscope.load(ROOT / "sample_sessions" / f"{name}.jsonl"))
    view = build_overview(trace)
    return view, find_expensive_requests(trace, view)


@pytest.mark.parametrize("name", ["cache-goes-cold", "tool-results-eat-the-window", "thinking-grows"])
def test_they_are_the_five_with_the_highest_price(name: str) -> None:
    view, found = find(name)
    prices = sorted((usd or Decimal(0) for usd in view.totals), reverse=True)
    assert [each.usd for each in found] == prices[:5]
    assert all(view.totals[each.request] == each.usd for each in found)
    assert sum_share(view, found) == pytest.approx(float(sum(prices[:5]) / sum(prices)))


def test_a_cache_that_expired_is_named_with_its_idle_time() -> None:
    _, found = find("cache-goes-cold")
    assert (found[0].request, found[0].kind) == (60, "break")
    assert found[0].cause == "cache expired after 71 minutes idle"
    assert found[1].cause == "cache miss: another model"


def test_an_answer_that_is_most_of_the_price_is_the_cause() -> None:
    view, found = find("thinking-grows")
    assert {each.kind for each in found} == {"answer"}
    assert found[0].detail == f"{int(view.answers[found[0].request]):,} output tokens"


def test_the_first_request_writes_everything() -> None:
    session = turnscope.load(ROOT / "sample_sessions" / "cache-goes-cold.jsonl")
    trace = turnscope.replay(session)
    view = build_overview(trace)
    first = {each.request: each for each in find_expensive_requests(trace, view, most=len(view))}[0]
    assert first.kind in ("first", "answer")
    assert len({each.kind for each in find_expensive_requests(trace, view, most=len(view))}) > 2


def test_new_content_is_the_cause_where_what_was_not_cached_is_most_of_the_price() -> None:
    session = turnscope.load(ROOT / "sample_sessions" / "tool-results-eat-the-window.jsonl")
    trace = turnscope.replay(session)
    view = build_overview(trace)
    for each in find_expensive_requests(trace, view, most=len(view)):
        usage = trace.plans[each.request].request.usage
        rates = trace.prices.find_rates(view.models[each.request], view.get_prompt(each.request), view.sent_at[each.request])
        assert usage is not None
        assert rates is not None
        cached = usage.cache_read_input_tokens * rates.cache_read / 1_000_000
        fresh = Decimal(str(float(view.usd[each.request].sum()))) - cached
        if each.kind in ("new", "large"):
            assert (each.kind == "new") == (fresh >= each.usd / 2)
