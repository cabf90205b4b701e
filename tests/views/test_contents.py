"""One request as the pages show it, and the search over a session: every number against a slower way to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import turnscope
from conftest import ROOT, shared
from turnscope.views import request_summary
from turnscope.views.detail import build_detail
from turnscope.views.exact_body import format_exact_body
from turnscope.views.overview import Overview, build_overview
from turnscope.views.text_search import search

SAMPLES = sorted((ROOT / "sample_sessions").glob("*.jsonl"))


def read(path: Path) -> tuple[Any, Overview]:
    trace = turnscope.replay(turnscope.load(path))
    return trace, build_overview(trace)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_the_parts_of_every_request_sum_to_its_prompt(path: Path) -> None:
    trace, view = read(path)
    for n in range(len(view)):
        now = request_summary.summarize_request(view, trace, n)
        assert sum(segment.tokens for segment in now.segments) == now.prompt
        assert all(segment.tokens >= 0 for segment in now.segments)
        prompt = sum(segment.usd for segment in now.segments)
        assert prompt + now.answer_usd == pytest.approx(float(now.total or 0), rel=1e-9, abs=1e-12)
        assert now.read + now.written + now.uncached == now.prompt


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_groups_hold_every_item_once(path: Path) -> None:
    trace, view = read(path)
    n = request_summary.find_opening_request(view)
    items = build_detail(trace, view, n).items
    grouped = request_summary.group_items(items, int(view.prompts[n]), most=10_000)
    assert sum(group.count for group in grouped) == len(items)
    assert sum(group.tokens for group in grouped) == sum(item.tokens for item in items)
    assert [group.tokens for group in grouped] == sorted((group.tokens for group in grouped), reverse=True)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_kinds_of_a_bucket_sum_to_the_bucket(path: Path) -> None:
    trace, view = read(path)
    for n in (0, request_summary.find_opening_request(view), len(view) - 1):
        for i, text in enumerate(request_summary.describe_buckets(trace, [n], most=1_000)[0]):
            sizes = [int(part.rpartition(" ")[2].replace(",", "")) for part in text.split(" · ") if part]
            assert sum(sizes) == pytest.approx(int(view.cells[n, i]), abs=len(sizes) + 1)


def test_the_sample_opens_right_before_the_largest_cut() -> None:
    trace, view = read(ROOT / "sample_sessions" / "tool-results-eat-the-window.jsonl")
    first = request_summary.find_opening_request(view)
    assert (first, int(view.prompts[first])) == (262, 164_845)
    assert request_summary.find_largest_cut(view).request == 263  # type: ignore[union-attr]
    now = request_summary.summarize_request(view, trace, 112)
    assert (now.n, now.prompt, now.window) == (112, 18_938, 200_000)
    assert sum(segment.tokens for segment in now.previous_segments) == 157_485
    assert [(cut.request, cut.before, cut.after) for cut in request_summary.find_cuts(view)] == [
        (112, 157_485, 18_938),
        (263, 164_845, 19_308),
    ]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_the_exact_request_is_json_that_marks_what_is_unknown(path: Path) -> None:
    trace, view = read(path)
    now = request_summary.summarize_request(view, trace, len(view) - 1)
    body = json.loads(format_exact_body(trace, now.n))
    assert body["messages"]
    hidden = next(segment.tokens for segment in now.segments if segment.name == "prefix")
    logged = any(block.bucket in ("system", "tools") for block in trace.session.blocks)  # then it is the provider's own
    assert ("not in the log" in str(body.get("system"))) == (bool(hidden) and not logged)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tool-results-eat-the-window", "public API"),
        ("chat-forgets-first-instruction", "wheelchair"),
        ("cache-goes-cold", "tide"),
        ("thinking-grows", "dock"),
    ],
)
def test_search_agrees_with_a_look_into_every_request(name: str, text: str) -> None:
    trace, view = read(ROOT / "sample_sessions" / f"{name}.jsonl")
    found = search(trace, text, most=40)
    assert found.hits
    for hit in found.hits:
        carried = [
            n for n, plan in enumerate(trace.plans) if plan.seen.stop > hit.at and plan.seen.find_piece(hit.at).body is None
        ]
        assert carried == [n for start, stop in hit.spans for n in range(start, stop)]
        assert hit.match.casefold() == text.casefold()
        assert bool(hit.reason) == bool(hit.spans and hit.spans[-1][1] < len(view))


def test_search_in_a_session_whose_results_were_cleared_says_why_they_left() -> None:
    trace, _ = read(shared("data", "open", "claude-code", "entire-d599-microcompact.jsonl"))
    why = {hit.reason for hit in search(trace, "commit").hits if hit.reason}
    assert any("left at request" in reason for reason in why)


def test_search_for_nothing_finds_nothing() -> None:
    trace, _ = read(SAMPLES[0])
    assert search(trace, "   ").match_count == 0
    assert search(trace, "no such text anywhere in it").hits == ()
