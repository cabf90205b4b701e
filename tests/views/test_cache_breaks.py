"""Cache breaks: every cause is named with its evidence and its price, and what is no break raises no alarm."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from claude_log import Log
from conftest import ROOT, shared
from hand_made import OPUS, SONNET, Row, call, make_clearing, make_compaction, make_trace, result, session
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from turnscope.counting.ledger import Ledger
from turnscope.envelope.envelope import Chunk, Envelope
from turnscope.envelope.pieces import Piece
from turnscope.library.opening import count_session, load, replay
from turnscope.session.model import ZERO, CacheMiss, Edit, Part, Span
from turnscope.views.cache_breaks import CacheBreak, find_breaks, find_prefix_break

WORDS = "the quick brown fox jumps over the lazy dog " * 200  # about 1,800 tokens


def find_only_break(rows: list[Row], *edits: tuple[int, Edit]) -> CacheBreak:
    """The one break of a session."""
    (broken,) = find_breaks(make_trace(rows, edits))
    return broken


def test_waiting_longer_than_an_entry_lives_is_named_with_its_minutes_and_its_exact_price() -> None:
    broken = find_only_break([Row(0, written=100_000), Row(4 + 420, written=100_500)])
    assert (broken.request, broken.cause, broken.rebilled_tokens, broken.idle) == (1, "idle", 100_000, 420.0)
    assert broken.usd == Decimal("0.575")  # 100,000 x (6.25 - 0.50) / 1,000,000
    assert "7 minutes passed" in broken.evidence
    assert "0 of 100,000 cached tokens were read" in broken.evidence


def test_an_answer_that_ended_less_than_five_minutes_ago_keeps_the_cache_warm() -> None:
    """The entry was used when the answer before was made, so its end counts, not its beginning."""
    rows = [Row(0, written=100_000, took=60), Row(350, read=100_000, written=400)]
    assert find_breaks(make_trace(rows)) == ()


def test_entries_written_for_an_hour_outlive_five_minutes_and_cost_more_to_write_again() -> None:
    early = find_only_break([Row(0, written=50_000, hour=50_000), Row(1_200, written=50_100, hour=50_100)])
    assert early.cause == "unknown"
    late = find_only_break([Row(0, written=50_000, hour=50_000), Row(4_000, written=50_100, hour=50_100)])
    assert late.cause == "idle"
    assert late.usd == Decimal("0.475")  # 50,000 x (10 - 0.50) / 1,000,000
    assert "60 minutes" in late.evidence


def test_the_part_written_for_five_minutes_may_go_cold_alone() -> None:
    rows = [Row(0, written=60_000, hour=40_000), Row(600, read=40_000, written=20_500)]
    assert (find_only_break(rows).cause, find_only_break(rows).rebilled_tokens) == ("idle", 20_000)


def test_repeated_attempts_say_between_which_times_the_cache_went_cold() -> None:
    broken = find_only_break([Row(0, written=60_000), Row(30, written=60_500, attempts=6, took=1_800)])
    assert broken.cause == "idle"
    assert "between 26 s and 30 minutes passed, 6 attempts" in broken.evidence


def test_another_model_has_a_cache_of_its_own() -> None:
    broken = find_only_break([Row(0, written=80_000), Row(10, written=79_000, model=SONNET)])
    assert (broken.cause, broken.request) == ("model", 1)
    assert OPUS in broken.evidence
    assert SONNET in broken.evidence
    assert broken.rebilled_tokens <= 79_000
    assert broken.usd == broken.rebilled_tokens * Decimal("3.45") / 1_000_000


def test_a_compaction_whose_summary_alone_is_written_is_no_break() -> None:
    rows = [
        Row(0, written=30_000, prompt=WORDS * 8, kind="prompt"),
        Row(9, read=30_000, written=300),
        Row(20, read=14_000, written=2_000, kind="summary", prompt="so far"),
    ]
    assert find_breaks(make_trace(rows, ((2, make_compaction(0, 4)),))) == (), "what was cached is not sent any more"


def test_clearing_a_tool_result_breaks_the_cache_from_its_place_on() -> None:
    rows = [
        Row(0, written=12_000, answer=[call("t", file_path="a.py")]),
        Row(5, read=12_000, written=2_000, content=result("t", WORDS)),
        Row(10, read=14_000, written=2_000, prompt=WORDS),
        Row(15, read=12_000, written=2_100),
    ]
    broken = find_only_break(rows, (3, make_clearing(2)))
    assert (broken.request, broken.cause, broken.at) == (3, "edit", 2)
    assert 1_800 < broken.rebilled_tokens < 2_600, "the prompt after the cleared result was sent again, the result was not"


def test_what_the_log_does_not_hold_is_not_taken_for_something_sent_again() -> None:
    """After a compaction tools attach files anew; after a cleared result a reminder may come in. Neither need be in the log."""
    rows = [Row(0, written=60_000, prompt=WORDS), Row(9, read=60_000, written=300), Row(20, read=14_000, written=9_000)]
    rows[2].kind = "summary"
    assert find_breaks(make_trace(rows, ((2, make_compaction(0, 4)),))) == ()
    rows = [
        Row(0, written=12_000, answer=[call("t", file_path="a.py")]),
        Row(5, read=12_000, written=4_000, content=result("t", WORDS * 2)),
        Row(15, read=10_000, written=8_100),
    ]
    assert find_only_break(rows, (2, make_clearing(2))).rebilled_tokens < 2_500


def test_a_model_that_drops_old_thinking_breaks_the_cache_at_a_new_turn() -> None:
    thought = [{"type": "thinking", "thinking": WORDS, "signature": "s"}, call("t", file_path="a.py")]
    rows = [
        Row(0, written=12_000, model=SONNET, answer=thought),
        Row(5, read=12_000, written=6_000, model=SONNET, content=result("t", WORDS * 2)),
        Row(10, read=12_000, written=4_300, model=SONNET),
    ]
    broken = find_only_break(rows)
    assert (broken.request, broken.cause, broken.at) == (2, "thinking", 1)
    assert "thinking of past turns" in broken.evidence
    rows[2].model, rows[0].model, rows[1].model = OPUS, OPUS, OPUS
    assert find_only_break(rows).cause != "thinking", "this model keeps it"


def test_a_new_system_prompt_stands_before_everything() -> None:
    rows = [
        Row(0, written=50_000, kind="system", prompt="You write code."),
        Row(5, read=50_000, written=400),
        Row(10, written=51_000, kind="system", prompt="You review code."),
    ]
    broken = find_only_break(rows)
    assert (broken.cause, broken.rebilled_tokens) == ("static", 50_400)
    assert "the system prompt changed" in broken.evidence


def test_tools_that_a_search_added_change_the_tool_list() -> None:
    found = [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "tool_reference", "tool_name": "TaskCreate"}]}]
    rows = [Row(0, written=30_000, answer=[call("t", "ToolSearch", query="tasks")]), Row(5, written=35_000, content=found)]
    assert find_only_break(rows).cause == "static"


def test_a_changed_thinking_setting_is_named() -> None:
    on = {"thinking": {"type": "enabled", "budget_tokens": 9_000}}
    broken = find_only_break([Row(0, written=50_000), Row(9, read=15_000, written=36_000, settings=on)])
    assert broken.cause == "settings"
    assert "thinking changed" in broken.evidence


def test_a_request_without_caching_is_no_riddle() -> None:
    broken = find_only_break([Row(0, written=50_000), Row(9, plain=50_500)])
    assert (broken.cause, broken.rebilled_tokens) == ("off", 50_000)
    assert broken.usd == Decimal("0.225")  # 50,000 x (5 - 0.50) / 1,000,000


def test_a_prompt_that_shrank_without_a_word_in_the_log_was_edited() -> None:
    broken = find_only_break([Row(0, written=90_000), Row(9, read=15_000, written=40_000)])
    assert broken.cause == "edit"
    assert "shorter than the log accounts for" in broken.evidence
    assert broken.rebilled_tokens <= 40_000


@pytest.mark.parametrize(("timed", "words"), [(True, "only 36 s since"), (False, "no times in the log")])
def test_where_the_log_cannot_tell_it_says_unknown_and_what_it_ruled_out(timed: bool, words: str) -> None:
    broken = find_only_break([Row(0, written=76_000, timed=timed), Row(40, read=15_448, written=61_000, timed=timed)])
    assert (broken.cause, broken.rebilled_tokens) == ("unknown", 60_552)
    assert words in broken.evidence
    assert "no edit of what was sent before" in broken.evidence


def test_unknown_names_what_stands_out_without_calling_it_the_cause() -> None:
    broken = find_only_break([Row(0, written=76_000), Row(40, read=15_000, written=62_000, attempts=2)])
    assert broken.cause == "unknown"
    assert "answering with errors" in broken.evidence
    many = [{"type": "text", "text": f"note {i}"} for i in range(25)]
    broken = find_only_break([Row(0, written=76_000), Row(40, read=15_000, written=62_000, content=many)])
    assert "25 blocks came in at once" in broken.evidence


def test_a_model_without_a_price_has_breaks_but_no_cost() -> None:
    broken = find_only_break(
        [Row(0, written=76_000, model="house-model"), Row(40, read=5_000, written=72_000, model="house-model")]
    )
    assert broken.rebilled_tokens == 71_000
    assert broken.usd is None


QUIET: dict[str, list[Row]] = {
    "a new tail is merely written": [Row(0, written=50_000), Row(9, read=50_000, written=30_000)],
    "a session begins": [Row(0, written=90_000)],
    "a session begins on what others had cached": [Row(0, read=15_000, written=9_000), Row(9, read=24_000, written=300)],
    "the prompt is shorter than what is cached at all": [Row(0, written=3_900), Row(900, plain=3_950)],
    "the provider has no cache": [Row(0, plain=50_000, model="m"), Row(900, plain=51_000, model="m")],
    "the last block was rounded off": [Row(0, written=50_000), Row(9, read=49_100, written=1_800)],
    "a provider that names no writes reads more and more": [
        Row(0, plain=9_000, model="gpt-5"),
        Row(9, read=8_960, plain=900, model="gpt-5"),
        Row(18, read=9_728, plain=400, model="gpt-5"),
    ],
    "a short request of another kind stands between": [
        Row(0, written=90_000),
        Row(3, plain=1_500, model="claude-haiku-4-5"),
        Row(9, read=90_000, written=500),
    ],
    "the last request is a short one of another kind": [Row(0, written=90_000), Row(3, plain=900)],
    "a request without usage stands between": [Row(0, written=9_000), Row(3, plain=0), Row(9, read=9_000, written=500)],
}


@pytest.mark.parametrize("case", QUIET)
def test_no_alarm_when(case: str) -> None:
    assert find_breaks(make_trace(QUIET[case])) == ()


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("model_changed", "model"),
        ("tools_changed", "static"),
        ("system_changed", "static"),
        ("messages_changed", "edit"),
        ("previous_message_not_found", "idle"),
        ("a_new_word", "unknown"),
    ],
)
def test_the_providers_own_diagnosis_comes_first(reason: str, cause: str) -> None:
    rows = [Row(0, written=60_000), Row(9, read=60_000, written=300), Row(20, written=60_500)]
    assert find_only_break(rows).cause == "unknown"
    trace = make_trace(rows)
    miss = CacheMiss(reason, 60_000)
    requests = (*trace.session.requests[:2], structs.replace(trace.session.requests[2], cache_miss=miss))
    (broken,) = find_breaks(replay(structs.replace(trace.session, requests=requests)))
    assert broken.cause == cause
    assert ("the provider's own diagnosis" in broken.evidence) is (reason != "a_new_word")


def diagnose(rows: list[Row], reason: str, *edits: tuple[int, Edit]) -> CacheBreak:
    """The one break of a session whose last request has the provider's diagnosis."""
    trace = make_trace(rows, edits)
    *before, last = trace.session.requests
    requests = (*before, structs.replace(last, cache_miss=CacheMiss(reason, 60_000)))
    (broken,) = find_breaks(replay(structs.replace(trace.session, requests=requests)))
    return broken


def test_messages_that_changed_by_the_providers_account_are_neither_idleness_nor_another_model() -> None:
    rows = [Row(0, written=60_000), Row(9, read=60_000, written=300), Row(9_000, written=60_500, model=SONNET)]
    assert find_only_break(rows).cause == "model"
    broken = diagnose(rows, "messages_changed")
    assert broken.cause == "edit"
    assert broken.evidence == (
        "messages that were cached before changed (the provider's own diagnosis); 0 of 60,300 cached tokens were read"
    )


def test_the_log_says_which_messages_changed_where_the_provider_says_that_they_did() -> None:
    rows = [
        Row(0, written=12_000, answer=[call("t", file_path="a.py")]),
        Row(5, read=12_000, written=4_000, content=result("t", WORDS * 2)),
        Row(9_000, read=0, written=18_100),
    ]
    broken = diagnose(rows, "messages_changed", (2, make_clearing(2)))
    assert broken.cause == "edit"
    assert "(the provider's own diagnosis): an old tool result was cleared, and the prompt differs from block 2 on" in (
        broken.evidence
    )
    rows = [
        Row(0, written=60_000, prompt=WORDS),
        Row(9, read=60_000, written=300),
        Row(9_000, written=70_000, content=WORDS * 20),
    ]
    rows[2].kind = "summary"
    assert find_only_break(rows, (2, make_compaction(2, 4))).cause in ("compaction", "idle")
    assert diagnose(rows, "messages_changed", (2, make_compaction(2, 4))).cause == "compaction"
    assert diagnose(rows, "system_changed", (2, make_compaction(2, 4))).cause == "static"


def test_a_diagnosis_in_a_claude_code_log_comes_before_what_the_times_say(tmp_path: Path) -> None:
    log = Log()
    for n, usage in enumerate([(10, 60_000, 0, 20), (10, 300, 60_000, 20), (10, 60_500, 0, 20)]):
        log.user(f"go on {n}", timestamp=f"2026-11-20T1{n}:00:00.000Z")
        log.answer(f"m{n}", "Done.", usage=usage, timestamp=f"2026-11-20T1{n}:00:05.000Z")
    path = log.save(tmp_path / "s1.jsonl")
    assert [broken.cause for broken in find_breaks(replay(load(path)))] == ["idle"]
    for reason, cause in (("messages_changed", "edit"), ("tools_changed", "static"), ("unavailable", "idle")):
        log.lines[-1]["message"]["diagnostics"] = {"cache_miss_reason": {"type": reason, "cache_missed_input_tokens": 60_000}}
        assert [broken.cause for broken in find_breaks(replay(load(log.save(path))))] == [cause]


def test_half_an_hour_with_five_minute_writes_alone_is_idle() -> None:
    rows = [Row(0, read=50_000, written=2_000), Row(9, read=52_000, written=300), Row(1_900, read=14_000, written=38_500)]
    assert find_only_break(rows).cause == "idle"


def test_the_sample_shows_where_its_cache_went_cold() -> None:
    found = find_breaks(replay(load(ROOT / "sample_sessions" / "cache-goes-cold.jsonl")))
    assert [b.cause for b in found] == ["idle", "model", "model", "idle", "idle"]
    assert all(b.idle and b.idle > 300 for b in found if b.cause == "idle")


@pytest.mark.parametrize(
    ("name", "causes"),
    [
        ("entire-cd95-3compactions", {"idle": 11}),
        ("entire-d599-microcompact", {"edit": 1, "idle": 1}),
        ("obra-long-conversation", {"idle": 10, "unknown": 1}),
    ],
)
def test_real_sessions_break_where_their_usage_and_their_times_say(name: str, causes: dict[str, int]) -> None:
    """Checked by eye against usage and times around each break."""
    trace = replay(load(shared("data", "open", "claude-code", f"{name}.jsonl")))
    found = find_breaks(trace)
    assert Counter(b.cause for b in found) == causes
    for broken in found:
        usage = trace.session.requests[broken.request].usage
        assert usage
        assert broken.rebilled_tokens <= usage.input_tokens + usage.cache_creation_input_tokens


# By hand, from the usage and the times in the files: what was held, what of it was read, and why no more of it; behind each the
# time of its answer and of the one before.
BROKEN = {
    "obra-long-conversation": [
        (46_492, 0, "idle"),  # 02:51:03, the answer before ended 02:45:07
        (54_864, 15_448, "idle"),  # 03:28:32, 03:07:48: what other sessions have in common was still there
        (57_244, 0, "idle"),  # 04:20:51, 03:31:46, with attempts at 04:05 and 04:20 that failed
        (76_015, 15_448, "unknown"),  # 04:37:28, 04:33:23: four minutes, and nothing in the log has changed
        (77_706, 0, "idle"),  # 04:57:07, 04:37:47
        (101_185, 0, "idle"),  # 15:19:26, 05:12:29
        (106_423, 0, "idle"),  # 15:25:44, 15:20:03
        (120_336, 0, "idle"),  # 15:36:23, 15:28:52
        (135_748, 0, "idle"),  # 15:55:11, 15:39:28
        (136_645, 15_448, "idle"),  # 16:12:22, 15:55:32
        (138_507, 15_448, "idle"),  # 17:01:11, 16:12:32
    ],
    "entire-cd95-3compactions": [
        (48_388, 0, "idle"),  # 14:30:03, 14:24:18
        (118_262, 0, "idle"),  # 14:47:16, 14:34:58
        (125_063, 0, "idle"),  # 15:06:45, 14:47:41
        (126_967, 0, "idle"),  # 15:12:52, 15:06:45
        (127_697, 0, "idle"),  # 15:25:25, 15:12:52
        (78_236, 0, "idle"),  # 15:50:45, 15:44:34
        (72_355, 0, "idle"),  # 16:47:50, 16:39:35
        (72_839, 0, "idle"),  # 16:53:34, 16:47:50
        (137_487, 0, "idle"),  # 17:26:13, 17:03:27
        (148_153, 0, "idle"),  # 17:38:39, 17:29:38
        (151_468, 0, "idle"),  # 17:49:39, 17:42:18
    ],
}
# By hand as well: requests that read all, or nearly all, of what was held; each by the tokens that it read, which occur once.
WHOLE = {
    "entire-d599-microcompact": [
        36_057,  # all of the first request
        84_989,  # a tail of 12,050 tokens is new, and written
        129_216,  # 395 more than was held: another session's
        134_856,  # two minutes later
        109_119,  # the request behind the one that a microcompaction broke
        110_156,  # behind the one that went cold
    ],
    "entire-3799-glued-line": [51_108, 75_055, 76_217, 84_410, 84_946],  # the second 3 min 34 s later, the last 3 min 46 s
    "dkimuson-inline-sidechains": [16_744, 18_569, 20_121],  # the second 4 min 36 s later
    "worktrees/ef958aa1-0e93-49f0-bb71-150f63befcd1": [39_316, 53_436, 55_423],  # the first 13 min later: kept for an hour
    "entire-b029-2compactions-apierrors": [75_970, 84_593, 114_775],  # 2,250 of 78,220 were not read: 3 %, where a mark stood
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_breaks_of_a_real_session_are_those_that_were_found_by_hand(name: str) -> None:
    found = find_breaks(replay(load(shared("data", "open", "claude-code", f"{name}.jsonl"))))
    assert [(broken.expected, broken.read, broken.cause) for broken in found] == BROKEN[name]


def test_twenty_requests_that_were_looked_at_by_hand_raise_no_alarm() -> None:
    assert sum(map(len, WHOLE.values())) == 20
    for name, reads in WHOLE.items():
        trace = replay(load(shared("data", "open", "claude-code", *f"{name}.jsonl".split("/"))))
        reading = [r.usage.cache_read_input_tokens for r in trace.session.requests if r.usage]
        assert [reading.count(read) for read in reads] == [1] * len(reads), name
        assert not {broken.read for broken in find_breaks(trace)} & set(reads), name


# --- first difference ---------------------------------------------------------------------------------------------------

SIZE = 24


def ledger() -> Ledger:
    rows = [Row(i, prompt=f"message {i}") for i in range(SIZE // 2)]
    return count_session(session(rows))


LEDGER = ledger()
EDITS = st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(1, 6), st.sampled_from(["drop", "placeholder", "restore"])))


def apply_edits(envelope: Envelope, edits: list[tuple[int, int, str]]) -> Envelope:
    """Apply what can be applied: a placeholder is not cut in two."""
    for number, (start, length, what) in enumerate(edits):
        stop = min(envelope.stop, start + length)
        if start >= stop or any(envelope.find_piece(at).body for at in (start, stop - 1)):
            continue
        body = (Part(text=f"placeholder {start}:{stop}"),) if what == "placeholder" else ()
        edit = Edit("condense", "because", Span(start, stop), body, restore=what == "restore")
        envelope = envelope.replace(edit, number, LEDGER)[0]
    return envelope


def states(envelope: Envelope, stop: int) -> list[Any]:
    """What stands for each block, by address."""
    pieces = [envelope.find_piece(at) for at in range(min(stop, envelope.stop))]
    return [(p.body, (p.start, p.stop) if p.body else None) for p in pieces]


@given(EDITS, EDITS, st.integers(1, SIZE), st.integers(0, SIZE))
def test_the_first_difference_is_the_first_block_with_another_state(
    first: list[tuple[int, int, str]], then: list[tuple[int, int, str]], size: int, more: int
) -> None:
    before = apply_edits(Envelope().grow(size, LEDGER), first)
    after = apply_edits(before.grow(min(SIZE, size + more), LEDGER), then)
    pairs = zip(states(before, size), states(after, size), strict=True)
    changed = [at for at, (a, b) in enumerate(pairs) if a != b]
    found = find_prefix_break(before, after)
    if not changed:
        assert found is None
    else:
        piece = before.find_piece(changed[0])
        assert found is not None
        assert min(piece.start, after.find_piece(changed[0]).start) <= found <= changed[0]


def test_an_insert_that_moved_is_a_difference_and_a_grown_tail_is_none() -> None:
    before = Envelope().grow(10, LEDGER)
    assert find_prefix_break(before, before.grow(14, LEDGER)) is None
    assert find_prefix_break(Envelope(), before) is None
    noted = before.replace(Edit("insert", "memory", Span(4, 4), (Part(text="remember"),), slot="memory"), 0, LEDGER)[0]
    assert find_prefix_break(before, noted) == 4
    assert find_prefix_break(noted, noted.grow(14, LEDGER)) is None


def test_chunks_that_both_envelopes_share_are_not_looked_into() -> None:
    class Closed(tuple[Piece, ...]):
        __slots__ = ()

        def __iter__(self) -> Any:
            raise AssertionError("looked into a shared chunk")

    shared_chunk = Chunk(Closed((Piece(0, 5, ZERO),)), 5, ZERO)
    before = Envelope((shared_chunk, Chunk((Piece(5, 9, ZERO),), 9, ZERO)))
    after = Envelope((shared_chunk, Chunk((Piece(5, 7, ZERO), Piece(7, 9, ZERO, ())), 9, ZERO)))
    assert find_prefix_break(before, after) == 7
