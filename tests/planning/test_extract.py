"""The offline summary: what it keeps, what it may cost, and that it is the same every time."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnscope.counting.tokens import count_texts, make_estimator
from turnscope.planning.extract import HEAD, extract
from turnscope.session.transcript import Transcript

WORK = """user: Please fix the login bug in src/auth/login.py. Never touch the database schema!
assistant: I will look at the file first.
assistant: calls Read {"path":"src/auth/login.py"}
tool: def login(user):
    return None
assistant: Sure thing, one moment.
assistant: The root cause is a missing return in src/auth/login.py at line 42.
tool: Traceback (most recent call last):
ValueError: invalid token 17
assistant: We decided to expire tokens after 3600 seconds because the proxy caches them.
user: Why does it fail on Windows?
assistant: Fixed; 212 tests pass now.
user: ok thanks
"""
FAMILIES = ("claude-3", "claude-4.7", "claude-4.8", "o200k_base", "cl100k_base")


def tokens(text: str) -> int:
    return max(count_texts([text], make_estimator(family))[0] for family in FAMILIES)


def test_it_keeps_request_rule_cause_decision_question_error_numbers_and_file_names() -> None:
    summary = extract(WORK, 400)
    for kept in (
        "fix the login bug",
        "Never touch",
        "root cause",
        "line 42",
        "decided",
        "3600",
        "Why does it fail",
        "ValueError",
        "212",
    ):
        assert kept in summary, kept
    assert "Files named: src/auth/login.py (3)" in summary


def test_it_says_what_it_is_and_keeps_order_and_speakers() -> None:
    lines = extract(WORK, 400).splitlines()
    assert lines[0] == HEAD
    places = [WORK.index(line.split(": ", 1)[1].rstrip("…")) for line in lines[1:-1]]
    assert places == sorted(places)
    assert all(line.startswith(("- user: ", "- assistant: ", "- tool: ")) for line in lines[1:-1])


def test_with_little_room_what_matters_most_stays() -> None:
    small = extract(WORK, 130)
    assert "fix the login bug" in small
    assert "ok thanks" not in small
    assert "Sure thing" not in small


def test_a_summary_of_a_summary_keeps_its_speakers_and_does_not_nest() -> None:
    again = extract(f"summary: {extract(WORK, 300)}\nuser: Now write CHANGELOG.md.\nassistant: Done.", 300)
    assert again.count(HEAD) == 1
    assert "summary: " not in again.replace(HEAD, "")
    assert "- user: Please fix the login bug" in again
    assert "CHANGELOG.md" in again


@pytest.mark.thorough
@given(st.text(max_size=3_000), st.integers(8, 400))
def test_the_cap_holds_for_any_text_in_any_tokenizer(text: str, cap: int) -> None:
    assert tokens(extract(text, cap)) <= cap


@given(
    st.lists(
        st.sampled_from([*WORK.splitlines(), "user: 漢字です。どうして?", "tool: 9f8e7d6c5b4a 0x1f 1.2.3.4"]), max_size=60
    ),
    st.integers(30, 300),
)
def test_the_cap_holds_for_conversations(lines: list[str], cap: int) -> None:
    summary = extract("\n".join(lines), cap)
    assert tokens(summary) <= cap
    assert summary == extract("\n".join(lines), cap)


@given(
    st.lists(
        st.lists(
            st.sampled_from([*WORK.splitlines(), "summary: - user: Why?", "goes on.", "user: a\n  tool: error", ""]), max_size=9
        ),
        max_size=6,
    ),
    st.integers(30, 300),
)
def test_a_transcript_that_grew_is_summarised_as_if_it_were_read_at_once(steps: list[list[str]], cap: int) -> None:
    transcript = Transcript("", None)
    for lines in steps:
        transcript = transcript.extend(lines, None)
        assert extract(transcript, cap) == extract(transcript.text, cap)
        assert extract(transcript, 2 * cap) == extract(transcript.text, 2 * cap)


def test_an_earlier_version_of_a_transcript_is_summarised_without_what_came_behind() -> None:
    first = Transcript("", None).extend(["user: Please fix a.py."], None)
    second = first.extend(["assistant: It fails with an error in line 42."], None)
    assert "line 42" in extract(second)
    assert extract(first) == extract(first.text)


@pytest.mark.thorough
def test_ten_megabytes_of_anything_take_time_in_proportion() -> None:
    """CPU time of ten megabytes; the hard ones have no line, no space, or nothing but them."""
    draw = random.Random(7)
    lines = [f"tool: {draw.getrandbits(200):050x} {n}" for n in range(40_000)]
    texts = {
        "one word": "a" * 10_000_000,
        "paths": "/a." * 3_300_000,
        "file names": "tool: " + "x.py " * 2_000_000,
        "empty lines": "\n" * 10_000_000,
        "sentences": "user: " + "漢字です。" * 2_000_000,
        "repeated": WORK * 10_000,
        "different": "\n".join(lines * 4),
    }
    for name, text in texts.items():
        started = time.process_time()
        assert tokens(extract(text, 500)) <= 500
        assert time.process_time() - started < 5, name
