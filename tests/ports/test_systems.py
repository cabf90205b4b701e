"""What is published of systems without golden cases: thresholds, tables and ranges, against the functions that rules call."""

from __future__ import annotations

import json

import pytest
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.budget import compute_budget
from turnscope.planning.assemble import replay
from turnscope.planning.policy import load
from turnscope.ports.claude_code import limits as claude
from turnscope.ports.codex import compaction as codex
from turnscope.ports.letta import summarizer as letta
from turnscope.session.builder import Builder
from turnscope.session.model import Usage


@pytest.mark.parametrize(
    ("window", "output", "effective", "trigger", "blocking"),
    [
        (200_000, 64_000, 180_000, 167_000, 177_000),
        (200_000, 8_192, 191_808, 178_808, 188_808),
        (1_000_000, 64_000, 980_000, 967_000, 977_000),
    ],
)
def test_claude_code_compacts_13_000_below_the_window_without_the_answer(
    window: int, output: int, effective: int, trigger: int, blocking: int
) -> None:
    left = claude.compute_effective_window(window, output)
    assert (left, claude.compute_trigger(left), left - claude.BLOCKING) == (effective, trigger, blocking)


@pytest.mark.parametrize(
    ("name", "trigger"), [("claude-code", 167_000), ("claude-code-32k", 155_000), ("claude-code-microcompact", 155_000)]
)
def test_the_policies_of_claude_code_have_its_triggers(name: str, trigger: int) -> None:
    assert claude.compute_trigger(compute_budget(load(name).budget, 200_000).limit) == trigger


@pytest.mark.parametrize(
    ("percent", "trigger"), [(0, 167_000), (1, 1_800), (50, 90_000), (92, 165_600), (93, 167_000), (100, 167_000)]
)
def test_claude_codes_override_can_only_lower_the_trigger(percent: int, trigger: int) -> None:
    assert claude.compute_trigger(180_000, percent=percent) == trigger


@pytest.mark.parametrize(
    ("sizes", "cleared"),
    [
        ([10_000] * 3, 0),  # the newest three stay
        ([10_000] * 6, 2),  # 60,000, and 40,000 may stay
        ([19_999, 10_000, 10_000, 10_000], 0),  # 19,999 would go, which is less than 20,000
        ([20_000, 10_000, 10_000, 10_000], 1),
        ([10_000] * 4, 0),  # 40,000 may stay
        ([1_000] * 20 + [20_000] * 3, 20),  # more than may stay is left, but nothing else can go
    ],
)
def test_claude_codes_microcompaction_clears_the_oldest_down_to_40_000(sizes: list[int], cleared: int) -> None:
    assert claude.count_oldest_over(sizes) == cleared


@pytest.mark.parametrize(
    ("window", "configured", "limit"),
    [(272_000, 0, 244_800), (272_000, 200_000, 200_000), (272_000, 260_000, 244_800), (128_000, 0, 115_200)],
)
def test_codex_compacts_at_nine_tenths_or_at_what_is_configured_below(window: int, configured: int, limit: int) -> None:
    assert codex.compute_limit(window, configured) == limit


def test_codex_calls_95_per_cent_of_the_window_the_window() -> None:
    assert codex.compute_whole_window(258_400) == 272_000


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ([5_000, 6_000, 7_000], {0: 5_000, 1: 6_000, 2: 7_000}),
        ([9_000, 8_000, 7_000], {0: 5_000, 1: 8_000, 2: 7_000}),
        ([1, 25_000], {1: 20_000}),  # the first that does not fit ends it
        ([1, 10_000, 10_000], {1: 10_000, 2: 10_000}),
    ],
)
def test_codex_keeps_20_000_tokens_of_prompts_the_newest_first(sizes: list[int], kept: dict[int, int]) -> None:
    assert dict(codex.select_kept(sizes)) == kept
    assert dict(codex.select_kept(sizes, -1)) == dict(enumerate(sizes))


def test_codex_counts_bytes_and_cuts_the_middle() -> None:
    assert [codex.estimate_tokens(n) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert [codex.estimate_encrypted_tokens(n) for n in (0, 866, 1_000, 4_000)] == [0, 0, 25, 588]
    assert len(codex.PREFIX) == 400
    text = "a" * 400 + "b" * 400
    cut = codex.shorten(text, 100)
    assert (cut[:200], cut[-200:]) == ("a" * 200, "b" * 200)
    assert "100 tokens truncated" in cut
    assert codex.shorten(text, 200) == text


@pytest.mark.parametrize(("window", "mark"), [(32_000, 28_800), (200_000, 180_000), (8_193, 7_373)])
def test_letta_compacts_above_nine_tenths_of_any_models_window(window: int, mark: int) -> None:
    assert letta.compute_threshold(window) == mark == compute_budget(load("letta").budget, window).limit


def _tries(goal_met_from: float, count: int = 100) -> list[int]:
    """The messages that are tried as cuts while what stays is too large up to a share of them."""
    tried: list[int] = []

    def tokens(at: int) -> int:
        tried.append(at)
        return 0 if at >= goal_met_from * count else 1_000_000

    letta.find_sliding_cut([False, *[True] * (count - 1)], tokens, 100_000)
    return tried


def test_lettas_first_cut_is_at_40_per_cent_and_a_cut_at_100_is_still_tried() -> None:
    assert _tries(0.4) == [40]
    assert _tries(0.7) == [40, 50, 60, 70]
    assert _tries(2) == [40, 50, 60, 70, 80, 90, 99, 99]  # floats: 0.4 ... 0.7999, 0.8999, 0.9999, 1.0999


@pytest.mark.parametrize(
    ("roles", "sizes", "window", "place"),
    [
        ("suauauauaua", [10] * 11, 120, 4),  # 40 % of 11 is 4.4, and 80 tokens are less than 84
        ("suauuauuauu", [10] * 11, 120, 5),  # message 2 at 40 % leaves 100; half of 11 is 6 in Python
        ("suuuuuuuuuu", [10] * 11, 120, None),  # no answer: everything is summed up
        ("suauauauaua", [10, *[100] * 10], 450, 8),  # 315 or more is left up to 60 %
        ("suauauauaua", [10, *[100] * 10], 350, None),  # only the newest message would stay
        ("suauauauaua", [100] * 11, 120, None),  # never below the goal
    ],
)
def test_lettas_window_slides_to_an_answer(roles: str, sizes: list[int], window: int, place: int | None) -> None:
    assert letta.find_sliding_cut([role == "a" for role in roles], lambda at: sizes[0] + sum(sizes[at:]), window) == place


def test_lettas_older_summarizers_cut_at_an_answer_and_at_a_prompt() -> None:
    roles = "suauauauaua"
    assert letta.find_partial_cut([role == "a" for role in roles]) == 8
    assert letta.find_partial_cut([False] * 11) is None
    prompts = [n % 2 == 1 for n in range(61)]
    assert letta.find_buffer_start(prompts[:60]) is None
    assert letta.find_buffer_start(prompts) == 47
    assert letta.find_buffer_start([False] * 61) is None


def test_letta_counts_a_quarter_of_the_bytes_and_30_per_cent_more() -> None:
    message = {"role": "user", "content": "x" * 73}
    assert len(json.dumps(message)) == 104
    assert letta.estimate_tokens(message) == 33  # 104 / 4 = 26, 30 % more
    assert letta.clip("x" * 50_000) == "x" * 50_000
    assert letta.clip("x" * 50_001) == "x" * 50_000 + letta.CUT


@pytest.mark.parametrize(
    ("name", "window", "limit"),
    [
        ("goose", 128_000, 102_400),  # GOOSE_AUTO_COMPACT_THRESHOLD 0.8
        ("openai-compact", 200_000, 180_000),
        ("gemini-cli", 1_048_576, 524_288),  # compressionThreshold 0.5
        ("gemini-cli", 0, 524_288),  # the window of everything but Gemma
        ("librechat-agents", 200_000, 190_000),  # 95 %
        ("librechat-agents", 0, 17_100),  # 18,000 where a model is unknown
        ("inspect-edit", 0, 115_200),  # 128,000 where it is unknown
        ("cline-sdk", 200_000, 162_000),  # 0.9 of 0.9
        ("cline-sdk", 0, 115_200),  # 0.9 of the 128,000 that are usable
        ("roo", 200_000, 171_808),  # 90 % less 8,192
    ],
)
def test_the_published_marks_of_windows_are_the_policies_limits(name: str, window: int, limit: int) -> None:
    assert round(compute_budget(load(name).budget, window or None).limit) == limit


@pytest.mark.parametrize(("tokens", "compacted"), [(102_400, False), (102_401, True)])
def test_goose_compacts_strictly_above_four_fifths_of_the_window(tokens: int, compacted: bool) -> None:
    builder = Builder("goose", "test")
    builder.window = 128_000
    builder.add_message("user", "q" * 40_000, origin="prompt")
    usage = Usage(input_tokens=tokens - 400, output_tokens=400)
    builder.set_request(builder.add_message("assistant", "a" * 40_000), model="gpt-4o", usage=usage)
    builder.add_message("user", "go on", origin="prompt")
    builder.add_unanswered(model="gpt-4o")
    session = builder.build()
    last = [*replay(session, load("goose"), build_ledger(session, CHARS))][-1]
    assert any(decision.action == "condense" for decision in last.decisions) is compacted
