"""What a prompt holds that its log does not: earlier conversation, what a tool puts back, and what it cuts without a word."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import turnscope
from claude_log import Log
from hand_made import SONNET, Row, make_compaction, make_trace
from hypothesis import example, given
from hypothesis import strategies as st
from turnscope import figures
from turnscope.counting.calibration import SMALLEST_SCALE, Calibration
from turnscope.counting.hidden import HiddenTokens
from turnscope.counting.reconciliation import CELLS, add_remainders, distribute, fit_requests, reconcile
from turnscope.planning.session_fit import changes_static
from turnscope.planning.trace import Cursor, Trace
from turnscope.session.model import BEGINS_MID_CONVERSATION
from turnscope.views import closeup, request_summary, tables
from turnscope.views.exact_body import format_exact_body
from turnscope.views.findings import rank_findings
from turnscope.views.overview import LABELS, Overview, build_overview

WORDS = "the quick brown fox jumps over the lazy dog " * 100  # about 900 tokens


def sizes(text: str, count: int) -> str:
    """A prompt of its own, so that no two are alike."""
    return f"{count} {text}"


def count_requests(rows: list[Row], edits: object = ()) -> list[int]:
    """Counted tokens of each request, whatever was billed."""
    return [plan.seen.tokens for plan in make_trace(rows, edits).plans]  # type: ignore[arg-type]


def bill_rows(rows: list[Row], hidden: list[int], edits: object = ()) -> Trace:
    """The trace of rows that were billed for what is counted and `hidden` tokens more (fewer where negative)."""
    for row, size, more in zip(rows, count_requests(rows, edits), hidden, strict=True):
        row.plain, row.read, row.written = size + more, 0, 0
    return make_trace(rows, edits)  # type: ignore[arg-type]


def talk(count: int) -> list[Row]:
    return [Row(9.0 * n, prompt=sizes(WORDS, n)) for n in range(count)]


def check_whole(trace: Trace) -> Overview:
    """The overview, after it was seen that its rows sum to what was recorded and no cell is negative."""
    view = build_overview(trace)
    has = view.recorded > 0
    assert (view.cells >= 0).all()
    assert (view.billed >= 0).all()
    assert (view.usd >= -1e-9).all()
    assert (view.cells[has].sum(axis=1) == view.recorded[has]).all()
    assert (view.billed[has][:, :, :3].sum(axis=(1, 2)) == view.recorded[has]).all()
    return view


def log(parent: str = "", requests: int = 12, hidden: int = 90_000, compact: int = -1, after: int = 20_000) -> Log:
    """A Claude Code log of some requests; `compact`: the request before which it is compacted."""
    made = Log()
    text = 2_000
    for n in range(requests):
        if n == compact:
            made.compact()
            hidden, text = after, 1_000
        made.user(sizes(WORDS, n), parent=parent if not n else None)
        text += 940
        made.answer(f"m{n}", f"said {n}", usage=(text + hidden, 0, 0, 5))
    return made


def open_rows(made: Log, folder: Path) -> Trace:
    path = folder / f"{made.session}.jsonl"
    path.write_text(made.text(), encoding="utf-8")
    return turnscope.replay(turnscope.load(path))


def test_a_log_whose_first_parent_is_elsewhere_begins_mid_conversation(tmp_path: Path) -> None:
    trace = open_rows(log(parent="elsewhere"), tmp_path)
    view = check_whole(trace)
    assert trace.session.about[BEGINS_MID_CONVERSATION] is True
    assert view.cells[:, CELLS.index("earlier")].min() > 85_000
    assert not view.cells[:, CELLS.index("prefix")].any(), "nothing tells system prompt and tools apart from it"
    told = [finding.text for finding in rank_findings(trace, view)]
    assert any(text.startswith("The conversation before this file begins is 9") for text in told)
    assert not any("System prompt and tools" in text for text in told)
    assert "the conversation before this file begins is about" in format_exact_body(trace, 3)
    assert LABELS["earlier"] in {area.name for area in figures.draw_sawtooth(view).data}
    assert LABELS["earlier"] in {row.name for row in figures.draw_heatmap(view).data if row.type == "heatmap"}


def test_a_log_that_begins_anywhere_else_says_nothing_of_earlier_conversation(tmp_path: Path) -> None:
    whole_log, summary = log(), Log("s2")
    summary.compact()
    summary.lines[0]["logicalParentUuid"] = "elsewhere"
    summary.user("go on")
    summary.answer("m1", "yes", usage=(20_000, 0, 0, 5))
    for made in (whole_log, summary):
        trace = open_rows(made, tmp_path)
        assert BEGINS_MID_CONVERSATION not in trace.session.about
        assert not check_whole(trace).cells[:, CELLS.index("earlier")].any()
        names = {area.name for area in figures.draw_heatmap(build_overview(trace)).data}
        assert names.isdisjoint({LABELS["earlier"], LABELS["reinjected"]}), "what never occurs is not drawn"


def test_a_compaction_tells_system_prompt_and_tools_from_earlier_conversation(tmp_path: Path) -> None:
    trace = open_rows(log(parent="elsewhere", compact=6), tmp_path)
    before, after = trace.get_terms(2), trace.get_terms(8)
    assert before.prefix == pytest.approx(20_000, abs=1_500)
    assert before.earlier == pytest.approx(72_000, abs=3_000)
    assert (after.earlier, after.reinjected) == (0, 0)
    assert after.prefix == before.prefix
    check_whole(trace)


def make_two_compactions() -> Trace:
    """18,000 hidden from the start; 12,000 more after the first compaction, 9,000 after the second."""
    rows = talk(18)
    return bill_rows(
        rows, [18_000] * 6 + [30_000] * 6 + [27_000] * 6, [(6, make_compaction(0, 12)), (12, make_compaction(12, 24))]
    )


def test_what_is_injected_again_after_a_compaction_has_a_kind_of_its_own() -> None:
    trace = make_two_compactions()
    view = check_whole(trace)
    assert [(fit.start, fit.stop) for fit in trace.fits] == [(0, 6), (6, 12), (12, 18)], "fewer than eight requests each"
    parts = view.cells[:, [CELLS.index("prefix"), CELLS.index("reinjected")]]
    assert parts[0].tolist() == pytest.approx([18_000, 0], abs=200)
    assert parts[8].tolist() == pytest.approx([18_000, 12_000], abs=200)
    assert parts[15].tolist() == pytest.approx([18_000, 9_000], abs=200)
    assert not view.cells[:, CELLS.index("earlier")].any()
    assert "what the tool injected, as after a compaction, is about 12," in format_exact_body(trace, 8)
    assert LABELS["reinjected"] in {row.name for row in figures.draw_heatmap(view).data if row.type == "heatmap"}


def test_another_policy_carries_nothing_that_the_tool_injected_again() -> None:
    trace = make_two_compactions()
    other = turnscope.replay(trace.session, "keep-everything", trace.ledger)
    for n in (8, 15):
        assert (other.get_terms(n).reinjected, other.get_terms(n).prefix) == (0, trace.get_terms(n).prefix)
        assert other.count_tokens(n) == trace.get_terms(n).prefix + round(other.get_terms(n).scale * other.plans[n].seen.tokens)
        assert other.plans[n].calibration.prefix == pytest.approx(18_000, abs=300)
    assert "injected beside it" not in format_exact_body(other, 8)


def test_planning_learns_what_a_tool_puts_back() -> None:
    plans = make_two_compactions().plans
    missed = {n: abs(plans[n].expected_tokens / plans[n].request.usage.prompt_tokens - 1) for n in (6, 12)}
    assert missed[12] < missed[6]
    assert missed[12] < 0.15
    assert plans[6].calibration.error >= missed[6], "nothing of the kind was known"
    assert plans[12].calibration.error >= missed[12]
    assert plans[10].calibration.error < 0.02


def make_unrecorded(back: int = 0) -> Trace:
    """20,000 hidden; at request 10 the prompt falls by 6,000, and at 14 it comes back by `back`."""
    rows = talk(20)
    return bill_rows(rows, [20_000] * 10 + [14_000] * 4 + [14_000 + back] * 6)


def test_a_shrink_that_the_log_does_not_record_is_told_and_spoils_nothing() -> None:
    trace = make_unrecorded()
    view = check_whole(trace)
    assert {fit.prefix for fit in trace.fits} == {trace.fits[0].prefix}
    assert trace.fits[0].prefix == pytest.approx(20_000, abs=100)
    [mark] = [marker for marker in view.markers if marker.kind == "unlogged"]
    assert mark.request == 10
    amount = int(re.search(r"about ([\d,]+) tokens", mark.what)[1].replace(",", ""))  # type: ignore[index]
    assert amount == pytest.approx(6_000, abs=100)
    [told] = [finding for finding in rank_findings(trace, view, most=20) if finding.kind == "unlogged"]
    assert told.text.startswith("The tool cut something at request 11 that its log does not hold: about 6,0")
    assert [trace.count_tokens(n) for n in range(20)] == view.recorded.tolist()
    assert max(trace.count_tokens(n) for n in range(20)) <= view.recorded.max()


def test_which_blocks_went_is_not_known_so_all_are_smaller_and_that_is_said() -> None:
    trace = make_unrecorded()
    now = request_summary.summarize_request(build_overview(trace), trace, 12)
    assert any("were cut by the tool" in note for note in now.notes)
    assert now.notes != request_summary.summarize_request(build_overview(trace), trace, 5).notes == ()
    close = closeup.build_closeup(trace, Cursor(12, len(trace.plans[12].decisions)), 2)
    before = closeup.build_closeup(trace, Cursor(8, len(trace.plans[8].decisions)), 2)
    assert close is not None
    assert before is not None
    assert close.tokens < before.tokens
    assert "does not say which" in close.note
    assert before.note == ""


def test_another_policy_cuts_nothing_that_only_the_tool_cut() -> None:
    trace = make_unrecorded()
    other = turnscope.replay(trace.session, "keep-everything", trace.ledger)
    assert other.count_tokens(12) == pytest.approx(trace.count_tokens(12) + 6_000, abs=100)
    assert request_summary.list_notes(other, 12)[0].startswith("estimated ±")
    assert other.get_terms(12).error is not None


def test_a_cut_ends_where_the_size_comes_back() -> None:
    trace = make_unrecorded(back=6_000)
    assert trace.get_terms(12).cut == pytest.approx(6_000, abs=100)
    assert trace.get_terms(16).cut == 0
    assert trace.get_terms(16).prefix == pytest.approx(20_000, abs=100)


def test_a_cut_ends_with_a_compaction_that_the_log_records() -> None:
    rows = talk(20)
    trace = bill_rows(rows, [20_000] * 10 + [14_000] * 4 + [20_000] * 6, [(14, make_compaction(0, 28))])
    assert trace.get_terms(12).cut
    assert (trace.get_terms(15).cut, trace.get_terms(15).reinjected) == (0, 0)
    assert trace.plans[14].expected_tokens > 15_000, "planning knew of the prefix behind the cut"


def test_where_more_was_counted_than_billed_the_scale_gives_way() -> None:
    rows = talk(12)
    trace = bill_rows(rows, [10_000] * 7 + [9_000] + [10_000] * 4)
    view = check_whole(trace)
    assert view.over[7] == pytest.approx(1_000, abs=150)
    assert view.cells[7, CELLS.index("prefix")] == trace.fits[0].prefix
    assert trace.get_terms(7).scale < trace.fits[0].scale
    [note] = request_summary.summarize_request(view, trace, 7).notes
    assert re.match(r"counted \d\.\d% more than was billed", note)
    table = tables.overview_to_csv(view).splitlines()
    assert "-" not in table[8].replace("claude-opus-4-5-20251101", "")


def prefixes(trace: Trace) -> list[int]:
    check_whole(trace)
    return sorted({fit.prefix for fit in trace.fits})


def test_an_error_of_counting_goes_to_the_scale_and_not_to_system_prompt_and_tools() -> None:
    trace = bill_rows(talk(40), [20_000] * 20 + [21_500] * 20)
    assert prefixes(trace) == [pytest.approx(20_000, rel=0.03)], "one, but for what the growth at request 20 does to the scale"
    assert trace.get_terms(30).scale > trace.get_terms(10).scale
    assert trace.get_terms(30).reinjected == 0


def test_what_a_tool_injects_beside_the_conversation_is_no_system_prompt_and_every_policy_has_it() -> None:
    trace = bill_rows(talk(20), [20_000] * 10 + [27_000] * 10)
    assert prefixes(trace) == [pytest.approx(20_000, abs=100)]
    assert trace.get_terms(15).reinjected == pytest.approx(7_000, abs=200)
    other = turnscope.replay(trace.session, "keep-everything", trace.ledger)
    assert other.count_tokens(15) == pytest.approx(trace.count_tokens(15), abs=200)


def test_tools_that_a_search_loads_are_tools() -> None:
    rows = talk(20)
    found = [{"type": "tool_reference", "tool_name": "WebFetch"}]
    rows[9].answer = [{"type": "tool_use", "id": "t", "name": "ToolSearch", "input": {"query": "web"}}]
    rows[10].content = [{"type": "tool_result", "tool_use_id": "t", "content": found}]
    trace = bill_rows(rows, [20_000] * 10 + [27_000] * 10)
    assert prefixes(trace) == pytest.approx([20_000, 27_000], abs=200)
    assert trace.get_terms(15).reinjected == 0


def test_a_cache_that_lost_most_of_what_it_held_shows_that_system_prompt_or_tools_changed() -> None:
    rows = talk(20)
    trace = bill_rows(rows, [20_000] * 10 + [27_000] * 10)
    sizes_ = [request.usage.prompt_tokens for request in trace.session.requests if request.usage]
    for n, row in enumerate(rows):
        row.plain, row.read = 0, sizes_[n - 1] if n not in (0, 10) else 0
        row.written = sizes_[n] - row.read
    assert prefixes(make_trace(rows)) == pytest.approx([20_000, 27_000], abs=200)


def test_a_model_that_comes_back_has_the_prefix_that_it_had() -> None:
    rows = talk(36)
    for row in rows[12:24]:
        row.model = SONNET
    trace = bill_rows(rows, [20_000] * 12 + [17_000] * 12 + [20_900] * 12)
    assert [trace.get_terms(n).prefix for n in (5, 18, 30)] == pytest.approx([20_000, 17_000, 20_000], abs=300)


def test_system_prompt_and_tools_of_real_sessions_change_with_a_reason_only(shared: Any) -> None:
    checked = 0
    for path in sorted(shared("data", "open", "claude-code").rglob("*.jsonl")):
        main = turnscope.load(path)
        for session in (main, *main.subagents):
            trace = turnscope.replay(session)
            for one, other in pairwise(trace.fits):
                same = session.requests[other.start - 1].model == session.requests[other.start].model
                if same and abs(other.prefix - one.prefix) > 0.05 * max(one.prefix, other.prefix):
                    assert changes_static(session, session.requests, other.start), (path.name, other.start)
                checked += same
    assert checked > 10


def test_the_prefix_gives_way_last() -> None:
    rows = talk(12)
    sizes_ = count_requests(rows)
    trace = bill_rows(rows, [10_000] * 7 + [4_000 - sizes_[7]] + [10_000] * 4)
    view = check_whole(trace)
    assert view.cells[7].tolist() == [0, 0, 0, 0, 0, 4_000, 0, 0, 0]


def test_a_request_of_another_model_aside_spoils_no_prefix() -> None:
    rows = talk(12)
    rows[6].model = "claude-haiku-4-5-20251001"
    trace = bill_rows(rows, [10_000] * 6 + [300 - count_requests(rows)[6]] + [10_000] * 5)
    check_whole(trace)
    assert [trace.get_terms(n).prefix for n in (3, 9)] == pytest.approx([10_000, 10_000], abs=100)
    assert trace.count_tokens(6) == 300


steps = st.lists(st.tuples(st.integers(-60_000, 60_000), st.integers(0, 80_000), st.sampled_from("cfr ")), max_size=30)


@given(st.integers(0, 90_000), st.booleans(), steps)
def test_the_parts_of_what_is_hidden_are_never_negative(first: int, begun: bool, moves: list[tuple[int, int, str]]) -> None:
    hidden = HiddenTokens.from_level(first, begun, first // 2)
    for level, prompt, what in moves:
        if what == "c":
            hidden = hidden.apply_compaction(level, prompt)
        else:
            hidden = hidden.apply_level(level, prompt, {"f": -1, "r": 1, " ": 0}[what])
        assert min(hidden.prefix, hidden.earlier, hidden.reinjected, hidden.cut) >= 0
        assert hidden.level == max(level, hidden.level), "what is lower than zero is the scale's, not a part's"


@given(st.lists(st.integers(0, 90_000), min_size=5, max_size=5), st.integers(0, 200_000))
def test_shares_sum_to_the_token(counts: list[int], total: int) -> None:
    parts = distribute(np.array([counts], dtype=np.int64), np.array([total]))[0]
    assert parts.sum() == (total if sum(counts) else 0)
    assert (parts >= 0).all()


rows_ = st.lists(
    st.tuples(st.integers(0, 90_000), st.integers(-1, 200_000), st.sampled_from("ab"), st.booleans()), min_size=1, max_size=50
)


@given(rows_, st.booleans())
def test_whatever_was_billed_rows_sum_to_it_and_stretches_follow_each_other(
    made: list[tuple[int, int, str, bool]], begun: bool
) -> None:
    counts = np.array([[0, 0, size, size // 2, 0] for size, *_ in made], dtype=np.int64)
    recorded = np.array([prompt for _, prompt, *_ in made], dtype=np.int64)
    compactions = {n for n, (*_, compaction) in enumerate(made) if compaction}
    sizes, models = counts.sum(axis=1), [model for _, _, model, _ in made]
    fits = fit_requests(sizes, recorded, models, False, compactions, begun)
    fits = add_remainders(fits, sizes, recorded, models)
    assert (fits[0].start, fits[-1].stop) == (0, len(made))
    assert all(one.stop == other.start for one, other in pairwise(fits))
    done = reconcile(counts, recorded, fits)
    assert (done.cells >= 0).all()
    has = recorded >= 0
    assert (done.cells[has].sum(axis=1) == recorded[has]).all()


@given(rows_)
@example([(20_402, 101, "a", False), (101, 102, "a", False)])  # far more counted than billed: the scale has a bound
@example([(101, 101, "a", False), (20_402, 101, "a", False), (101, 102, "a", False)])  # nearly all of it was cut, unrecorded
def test_planning_never_expects_nothing_after_something_was_recorded(made: list[tuple[int, int, str, bool]]) -> None:
    calibration = Calibration.start()
    for size, prompt, model, compaction in made:
        calibration = calibration.expect_compaction() if compaction else calibration
        if calibration.seen and size > 100:
            assert calibration.predict(size) > 0
        if prompt > 100 and size > 100:
            calibration = calibration.learn(size, prompt, model)


def test_a_bill_far_below_the_count_moves_the_scale_no_further_than_its_bound() -> None:
    calibration = Calibration.start().learn(20_402, 101, "a")
    assert calibration.scale == SMALLEST_SCALE
    assert calibration.predict(20_402) == round(SMALLEST_SCALE * 20_402)


def compact(billed: int) -> Calibration:
    """What is known after a compaction whose first prompt was counted as 10,000 tokens."""
    grown = Calibration.start().learn(100, 19_100, "a").learn(60_000, 79_000, "a")
    return grown.expect_compaction().learn(10_000, billed, "a")


def test_a_bill_after_a_compaction_that_a_scale_explains_leaves_the_prefix_as_it_was() -> None:
    assert compact(26_000).prefix == 19_000
    assert compact(26_000).expect_compaction().predict(1_000) == pytest.approx(20_000, abs=400)
    assert compact(21_000).prefix < 12_000, "no scale explains it: the prefix itself is smaller"


def test_what_was_hidden_does_not_vanish_where_more_is_counted_than_was_billed() -> None:
    known = HiddenTokens(2_000, 0, 0, 0, 2_000, 2_000)
    assert known.apply_level(-500, 100_000, 0).prefix == 2_000
    assert known.apply_level(1_500, 100_000, 0).prefix == 1_500
