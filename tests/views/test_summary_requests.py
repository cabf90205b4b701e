"""Requests for summaries, which no log of Claude Code holds: inferred from the compactions, and marked so."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import turnscope
from claude_log import Log
from conftest import shared
from turnscope.views.overview import build_overview
from turnscope.views.request_summary import summarize_request
from turnscope.views.summary_requests import infer_summary_requests


def test_each_compaction_is_a_request_that_is_marked_as_inferred(tmp_path: Path) -> None:
    log = Log()
    log.user("Read all of it.")
    log.answer("m1", "Reading.", usage=(0, 4_000, 50_000, 5))
    log.compact("What happened so far. " * 400)
    log.user("Go on.")
    log.answer("m2", "Done.", usage=(0, 1_000, 18_000, 5))
    trace = turnscope.replay(turnscope.load(log.save(tmp_path / "s1.jsonl")))
    view = build_overview(trace)
    (found,) = infer_summary_requests(trace)
    assert (found.request, found.usage.cache_read_input_tokens, found.usage.input_tokens) == (1, 50_000, 5_600)
    assert found.usage.output_tokens > 1_000
    assert (view.bill.summaries, view.bill.summary_usd) == (1, found.usd)
    assert view.bill.whole.requests == 2, "it is no part of what was billed"
    assert any("inferred" in note and "55,600 tokens" in note for note in summarize_request(view, trace, 1).notes)
    assert not any("inferred" in note for note in summarize_request(view, trace, 0).notes)


def test_no_compaction_and_no_other_tool_asks_for_a_summary(tmp_path: Path) -> None:
    log = Log()
    log.user("Go.")
    log.answer("m1", "Done.", usage=(10, 20, 30, 5))
    path = log.save(tmp_path / "s1.jsonl")
    assert infer_summary_requests(turnscope.replay(turnscope.load(path))) == ()


def test_the_inferred_cost_is_what_the_tools_own_sum_has_beyond_ours() -> None:
    from tests.wire import open_run

    with open_run(shared("data", "wire", "claude", "B2-acwindow100k")) as run:
        (path,) = run.transcripts.glob(".claude/projects/*/*.jsonl")
        trace = turnscope.replay(turnscope.load(path))
        sent = [row["response"]["usage"] for row in run.rows if row["kind"] == "summary"]
    found = infer_summary_requests(trace)
    prompts = sum(sum(usage[key] for key in usage if key.endswith("input_tokens")) for usage in sent)
    assert len(found) == len(sent)
    assert abs(sum(one.usage.prompt_tokens for one in found) / prompts - 1) < 0.001
    bill = build_overview(trace).bill
    assert bill.run_difference is not None
    assert bill.summary_usd is not None
    assert abs(bill.summary_usd / bill.run_difference - 1) < Decimal("0.01")
