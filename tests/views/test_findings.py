"""Findings: each kind says its sentence where the numbers bear it out, and nothing where they do not."""

from __future__ import annotations

import math
import time
from decimal import Decimal

import pytest
from conftest import ROOT, shared
from hand_made import OPUS, SONNET, Row, call, make_clearing, make_compaction, make_trace, result
from turnscope.library.opening import load, replay
from turnscope.planning.trace import Trace
from turnscope.session.model import Edit
from turnscope.views.cache_breaks import find_breaks
from turnscope.views.findings import Finding, format_headline, mark_breaks, rank_findings
from turnscope.views.overview import build_overview

WORDS = "the quick brown fox jumps over the lazy dog " * 200  # about 1,800 tokens


def find_by_kind(rows: list[Row], *edits: tuple[int, Edit], most: int = 20) -> dict[str, Finding]:
    """Findings of a session by kind, heaviest first."""
    trace = make_trace(rows, edits)
    return {finding.kind: finding for finding in rank_findings(trace, build_overview(trace), most=most)}


def talk(count: int, start: int = 2_000, step: int = 60, model: str = OPUS) -> list[Row]:
    """An uneventful conversation: everything is read from the cache, a little is written."""
    first = Row(0, written=start, model=model)
    return [first, *(Row(9.0 * n, read=start + step * (n - 1), written=step, model=model) for n in range(1, count))]


def make_reading(times: int, path: str = "src/auth/session.py", same: bool = True) -> list[Row]:
    """A session that reads one file again and again, and is billed for what it carries."""
    rows = [Row(0, plain=40, answer=[call("t0", file_path=path)])]
    for n in range(1, times + 1):
        more = {} if same else {"offset": n * 100}
        answer = [call(f"t{n}", file_path=path, **more)] if n < times else [{"type": "text", "text": "done"}]
        rows.append(Row(5.0 * n, plain=40 + n * 1_850, content=result(f"t{n - 1}", WORDS), answer=answer))
    return rows


def test_nothing_stands_out_in_an_even_talk() -> None:
    rows = [Row(9.0 * n, plain=400 + 60 * n, prompt="tell me more about the fox please " * 8) for n in range(12)]
    assert find_by_kind(rows) == {}


def test_an_empty_session_has_no_findings() -> None:
    trace = make_trace([])
    assert rank_findings(trace, build_overview(trace)) == ()


def test_tool_results_that_are_most_of_the_bill_say_their_share_and_their_price() -> None:
    bill = find_by_kind(make_reading(4))["bill"]
    assert bill.text.startswith("Tool results are 9")
    assert bill.text.endswith("% of the input bill: $0.09 of $0.09; request 5 paid the most of it, $0.04.")
    assert bill.request == 4, "no other request carries as many"
    assert bill.usd is not None
    assert float(bill.usd) == pytest.approx(bill.evidence["share"] * bill.evidence["whole"], rel=1e-4)
    trace = make_trace(make_reading(4))
    assert bill.evidence["whole"] == pytest.approx(sum(r.usage.input_tokens for r in trace.session.requests if r.usage) * 5e-6)


def test_a_prefix_that_is_most_of_the_bill_is_named_as_system_prompt_and_tools() -> None:
    assert find_by_kind(talk(12, 20_000))["bill"].text.startswith("System prompt and tools are 9")


def test_without_a_price_the_bill_speaks_of_tokens() -> None:
    rows = make_reading(4)
    for row in rows:
        row.model = "house-model"
    bill = find_by_kind(rows)["bill"]
    assert bill.usd is None
    assert bill.text.endswith("% of all input tokens; request 5 has 7,315.")
    assert bill.request == 4


def test_a_cold_cache_says_when_after_how_long_and_what_it_cost() -> None:
    rows = [*talk(6, 100_000), Row(45 + 4 + 420, written=100_700), Row(480, read=100_700, written=300)]
    cold = find_by_kind(rows)["cache"]
    assert (
        cold.text == "The cache expired at request 7 (12:07 UTC) after 7 idle minutes: $0.58 extra to send 100k tokens again."
    )
    assert (cold.request, cold.usd) == (6, Decimal("0.576725"))  # 100,300 x 5.75 / 1,000,000


def test_a_cache_that_went_cold_often_is_one_finding_that_points_at_the_worst() -> None:
    rows = [Row(0, written=50_000), Row(1_000, written=51_000), Row(2_000, written=90_000), Row(3_000, written=91_000)]
    cold = find_by_kind(rows)["cache"]
    assert cold.text.startswith("The cache expired three times, worst at request 4 (12:50 UTC) after 17 idle minutes:")
    assert cold.evidence["requests"] == [1, 2, 3]
    assert cold.tokens == 191_000


def test_a_session_of_several_days_says_the_date() -> None:
    rows = [Row(0, written=50_000), Row(200_000, written=51_000)]
    assert "at request 2 (19:33 UTC on 2025-11-23) after 56 idle hours" in find_by_kind(rows)["cache"].text


def test_switching_models_names_the_model() -> None:
    rows = [*talk(3, 60_000), Row(40, written=61_000, model=SONNET)]
    assert f"(to {SONNET})" in find_by_kind(rows)["cache"].text


def test_a_break_for_unknown_reasons_claims_none() -> None:
    text = find_by_kind([*talk(3, 60_000), Row(40, read=5_000, written=56_000)])["cache"].text
    assert text.startswith("Unexplained cache miss at request 4:")


def test_a_file_that_was_read_four_times_names_the_requests_that_carry_it() -> None:
    rows = [*make_reading(4), Row(60, plain=7_600)]
    repeated = find_by_kind(rows)["repeated"]
    assert repeated.text.startswith("Requests 3–6 carry up to 7,")
    assert repeated.text.endswith(" tokens of a file read four times, all of them at request 5 (auth/session.py).")
    assert (repeated.request, repeated.evidence["reads"]) == (4, 4)
    assert repeated.usd is not None
    # older copies: one in request 2, two in 3, three in 4 and 5, each at 5 USD per million
    assert float(repeated.usd) == pytest.approx(9 * repeated.evidence["tokens"] / 4 * 5e-6, rel=0.01)


def test_a_stretch_ends_where_the_older_copies_left_the_window() -> None:
    rows = [*make_reading(3), Row(60, plain=3_800), Row(70, plain=3_900)]
    repeated = find_by_kind(rows, (4, make_clearing(2)), (4, make_clearing(4)))["repeated"]
    assert (repeated.evidence["start"], repeated.evidence["stop"]) == (2, 3)


def test_a_file_read_again_after_its_first_copy_was_cleared_is_no_repeated_reading() -> None:
    rows = make_reading(2)
    rows.insert(2, Row(7, plain=300, answer=[call("t9", file_path="src/other.py")]))
    assert "repeated" in find_by_kind(rows)
    rows[1].answer = [{"type": "text", "text": "done"}]
    rows[2].answer = [call("t1", file_path="src/auth/session.py")]
    assert "repeated" in find_by_kind(rows)
    assert "repeated" not in find_by_kind(rows, (2, make_clearing(2)))


def test_different_parts_of_a_file_and_writes_to_it_are_no_repeated_reading() -> None:
    assert "repeated" not in find_by_kind(make_reading(4, same=False))
    rows = make_reading(4)
    for row in rows:
        for block in row.answer:
            if block["type"] == "tool_use":
                block["input"]["content"] = "new"
    assert "repeated" not in find_by_kind(rows)


def test_compactions_say_what_they_removed_and_what_is_left() -> None:
    rows = [
        Row(0, plain=90_000, prompt=WORDS * 4),
        Row(9, plain=90_100),
        Row(20, plain=12_000, kind="summary", prompt="so far"),
        Row(30, plain=60_000, prompt=WORDS * 4),
        Row(40, plain=11_900, kind="summary", prompt="so far again"),
    ]
    kinds = find_by_kind(rows, (2, make_compaction(0, 4)), (4, make_compaction(4, 8)))
    assert kinds["cut"].text == ("Two compactions took out 126k tokens; the largest, 78k at request 3, leaving 12k.")
    assert kinds["cut"].request == 2, "the one that took most"
    assert kinds["forgotten"].text == (
        "The first user message left the window at request 3, and the model has a summary of it since."
    )


def test_a_cut_that_takes_next_to_nothing_is_no_finding() -> None:
    rows = [*talk(5, 20_000)]
    assert "cut" not in find_by_kind(rows, (4, Edit("drop", "never sent", make_compaction(1, 2).span)))


def test_a_first_message_that_was_left_out_is_named_even_where_little_left_with_it() -> None:
    forgotten = find_by_kind(talk(5), (3, Edit("drop", "left out", make_compaction(0, 2).span)))["forgotten"]
    assert forgotten.text == "The first user message left the window at request 4."


def test_an_instruction_in_the_middle_half_of_a_long_prompt_is_named_beside_the_others() -> None:
    def rows(many: int, second: int) -> list[Row]:
        made = make_reading(many)
        made[second] = Row(5.0 * second, plain=40 + second * 1_850, prompt=WORDS, answer=[call(f"t{second}")])
        return made

    assert "middle" not in find_by_kind(rows(26, 13))  # its longest prompt has 48,140 tokens
    assert "middle" not in find_by_kind(rows(60, 2))  # that is the head
    middle = find_by_kind(rows(60, 30))["middle"]
    assert (middle.request, middle.evidence["what"]) == (60, "last instruction")
    assert middle.text.startswith("The last instruction sits 4")
    assert float(str(middle.evidence["share"])) == pytest.approx(29 / 60, abs=0.02)
    assert middle.evidence["requests"] == 61 - 41  # from request 41 on no more than three quarters stand before its end


def test_thinking_that_fills_the_prompt_says_its_share() -> None:
    thought = [{"type": "thinking", "thinking": WORDS * 3, "signature": "s"}, {"type": "text", "text": "done"}]
    rows = [Row(9.0 * n, plain=4_000 + 5_500 * n, answer=thought) for n in range(4)]
    thinking = find_by_kind(rows)["thinking"]
    assert thinking.request == 3
    assert thinking.text.startswith("Thinking grew to ")
    assert "% of the prompt at request 4 (1" in thinking.text
    assert 0.7 < thinking.evidence["share"] <= 1


def test_a_window_that_is_nearly_full_is_named() -> None:
    assert find_by_kind(talk(5, 195_000))["full"].text == "Request 5 filled 98 % of the window (195,243 of 200,000 tokens)."
    assert "full" not in find_by_kind(talk(5, 150_000))


def test_a_prompt_that_was_sent_five_times_says_how_long_that_took() -> None:
    rows = [*talk(4), Row(50, read=2_180, written=60, attempts=5, took=600)]
    text = find_by_kind(rows)["retry"].text
    assert text == "Request 5 was sent five times before the provider answered, 10 minutes after the first time."
    rows[-1].attempts = 2
    assert "retry" not in find_by_kind(rows)


def test_answers_with_impossible_records_are_doubted() -> None:
    """Where that moves dollars: cents are no finding, the price itself says how much of it was counted."""
    said = [{"type": "text", "text": WORDS * 10}]  # about 18,000 tokens
    rows = [Row(9.0 * n, plain=200 + 18_500 * n, answer=said, out=1) for n in range(3)]
    doubted = find_by_kind(rows)["stub"]
    assert doubted.text.startswith("3 of 3 answers, the first at request 1, record fewer output tokens than their text has:")
    assert doubted.usd is not None
    assert doubted.usd > 1
    assert doubted.text.endswith(f"which adds ${doubted.usd:,.2f} to a recorded $0.28.")
    few = [Row(9.0 * n, plain=200 + 1_850 * n, answer=[{"type": "text", "text": WORDS}], out=1) for n in range(3)]
    assert "stub" not in find_by_kind(few)


def test_input_that_the_log_does_not_explain_is_said_to_be_unexplained() -> None:
    rows = [Row(9.0 * n, plain=9_000 if n % 2 else 3_000) for n in range(12)]
    assert "The log does not account for" in find_by_kind(rows)["unattributed"].text


def test_at_most_three_findings_come_heaviest_first() -> None:
    trace = replay(load(ROOT / "sample_sessions" / "tool-results-eat-the-window.jsonl"))
    view = build_overview(trace)
    (*three, middle), every = rank_findings(trace, view), rank_findings(trace, view, most=20)
    assert three == [*every[:3]]
    assert every[-1] == middle
    assert middle.kind == "middle"
    prices = [f.usd for f in three]
    assert all(prices)
    assert prices == sorted(prices, reverse=True)  # type: ignore[type-var]
    assert {f.kind for f in three} == {"bill", "repeated", "cache"}


@pytest.mark.parametrize("name", ["cache-goes-cold", "chat-forgets-first-instruction", "thinking-grows"])
def test_every_sample_has_a_finding_of_its_own_story(name: str) -> None:
    story = {"cache-goes-cold": "cache", "chat-forgets-first-instruction": "forgotten", "thinking-grows": "thinking"}[name]
    trace = replay(load(ROOT / "sample_sessions" / f"{name}.jsonl"))
    assert story in {f.kind for f in rank_findings(trace, build_overview(trace))}


def test_findings_of_real_sessions_point_at_requests_that_exist() -> None:
    for path in sorted(shared("data", "open", "claude-code").glob("*.jsonl")):
        trace = replay(load(path))
        for finding in rank_findings(trace, build_overview(trace), most=20):
            assert 0 <= finding.request < len(trace.plans)
            assert finding.tokens >= 0
            assert finding.text.endswith(".")


def test_the_headline_speaks_of_one_request_and_nothing_else() -> None:
    trace = make_trace([Row(0, plain=1_000), Row(9, plain=1_500), Row(18, plain=2_500)])
    assert format_headline(build_overview(trace), 1) == "At request 2 the model saw 1,500 of 200,000 tokens."
    trace = make_trace([Row(0, plain=1_000, model="house-model")])
    assert format_headline(build_overview(trace), 0) == "At request 1 the model saw 1,000 tokens."


def test_the_headline_marks_an_estimate() -> None:
    trace = make_trace([Row(0, plain=0), Row(9, plain=0)])
    assert "the model saw about " in format_headline(build_overview(trace), 1)


def test_breaks_become_markers() -> None:
    (marker,) = mark_breaks(find_breaks(make_trace([Row(0, written=50_000), Row(600, written=50_100)])))
    assert (marker.request, marker.kind) == (1, "break")
    assert marker.what.startswith("cache miss (idle): 9.9 minutes passed")


@pytest.mark.bench
def make_busy_trace(count: int) -> Trace:
    """A trace of `count` requests: pauses, a file read again at every request, calls, and results that are cleared."""
    rows = [Row(0, written=5_000)]
    for n in range(1, count):
        cold = n % 50 == 0
        size = 5_000 + n * 10
        rows.append(
            Row(
                n * 400.0 if cold else n * 400.0 - 396.0 * (n % 50),
                0 if cold else size - 10,
                size if cold else 10,
                content=result(f"t{n - 1}", WORDS) if n > 1 else None,
                answer=[call(f"t{n}", file_path=f"src/file{n % 40}.py")],
            )
        )
    return make_trace(rows, [(n, make_clearing(2 * n - 100)) for n in range(200, count - 100, 25)])


@pytest.mark.thorough
def test_the_time_that_findings_take_grows_no_faster_than_the_session() -> None:
    spent = dict[int, float]()
    for count in (1_000, 4_000):
        trace = make_busy_trace(count)
        view = build_overview(trace)
        for _ in range(3):
            start = time.process_time()
            found_ = rank_findings(trace, view)
            spent[count] = min(spent.get(count, math.inf), time.process_time() - start)
        assert len(found_) == 3
    print({count: f"{seconds:.3f} s" for count, seconds in spent.items()})
    assert spent[4_000] < 6 * spent[1_000] + 0.02
