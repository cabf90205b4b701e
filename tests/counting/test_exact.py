"""Exact counting in the background: the counts of ctok, the worker's protocol, and a worker that misbehaves.

Every test runs real processes. Those that need ctok are skipped without it; the others drive workers of a few lines that
speak the same protocol, so that reading, dying and closing are tested everywhere.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from turnscope.counting.exact import (
    CTOK_MISSING,
    CTOK_MISSING_CODE,
    CTOK_VERSIONS,
    FRAME_TOKENS,
    WORKER_COMMAND,
    ExactCounts,
    _make_segment_counter,
    count_exactly,
    is_available,
    run_worker,
)
from turnscope.counting.tokens import count_texts, make_exact_counter

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = sorted(CTOK_VERSIONS)
needs_ctok = pytest.mark.skipif(not is_available(), reason="ctok is not installed (it needs Python 3.12 or newer)")

# The worker gives way to every other process, so on a busy machine it gets next to no time: this ends one that hangs.
WORKER_SECONDS = 600

TEXTS = {
    "plain": "The quick brown fox, e.g. NASA's, doesn't jump.",
    "code": "def f(x):\n\treturn {'a': [x**2 for _ in range(10)]}  # ok\n" * 3,
    "CJK": "上下文窗口 ウィンドウ 맥락",
    "emoji": "👩‍👩‍👧‍👦 🧠🧠 ⚖️",
    "NUL": "a\0b",
    "surrogate": "x \ud800 y",
    "markers": "\ufdd1a\ufdd0 b\ufdd1 \ufdd4",
    "edges": "  leading, trailing \n\n\n",
    "spaces": " " * 300 + "\n" * 40,
    "newlines at the end": "x" + "\n" * 300,
    "repeated": "a" * 20_000,
    "digits": "3.14159 0x1F ２０２６",
}

# A worker that counts characters; "die" kills it, "bad" makes it answer with an error, "slow" makes it sleep.
CHARACTERS = """
import json, sys, time
for line in sys.stdin:
    item = json.loads(line)
    if item["text"] == "die": sys.exit("killed by a text")
    if item["text"] == "slow": time.sleep(60)
    answer = {"error": "bad"} if item["text"] == "bad" else {"tokens": len(item["text"])}
    print(json.dumps({"digest": item["digest"], **answer}), flush=True)
"""


def characters() -> ExactCounts:
    return ExactCounts((sys.executable, "-c", CHARACTERS))


# --- with ctok --------------------------------------------------------------------------------------------------------


@needs_ctok
@pytest.mark.parametrize("family", FAMILIES)
def test_remembered_segments_count_what_ctok_counts(family: str) -> None:
    import ctok

    count = _make_segment_counter(CTOK_VERSIONS[family], FRAME_TOKENS[family])
    sources = [
        path.read_text("utf-8")
        for path in (ROOT / "engine" / "turnscope" / "errors.py", ROOT / "engine" / "turnscope" / "session" / "model.py")
    ]
    for text in [*TEXTS.values(), *sources]:
        expected = ctok.token_count(text, CTOK_VERSIONS[family]) - FRAME_TOKENS[family]
        assert count(text) == count_exactly(text, family) == expected, text[:60]


@needs_ctok
def test_the_documented_example_of_the_provider_is_met() -> None:
    """System "You are a scientist" and user "Hello, Claude" are 14 tokens, as the token counting guide says."""
    system, user = (count_exactly(text, "claude-3") for text in ("You are a scientist", "Hello, Claude"))
    assert FRAME_TOKENS["claude-3"] + system + user == 14


@needs_ctok
def test_the_ctok_counter_counts_texts_and_the_empty_text_is_nothing() -> None:
    counter = make_exact_counter("claude-3")
    assert counter is not None
    assert count_texts(["", "Hello, Claude"], counter) == [0, count_exactly("Hello, Claude", "claude-3")]


@needs_ctok
@pytest.mark.parametrize("family", FAMILIES)
def test_a_real_worker_counts_in_the_background(family: str) -> None:
    got: dict[str, int] = {}
    with ExactCounts() as counts:
        assert counts.start(TEXTS.items(), family, got.update)
        assert counts.wait(WORKER_SECONDS)
        assert counts.progress == (len(TEXTS), len(TEXTS))
        assert counts.failed == ""
    assert got == {name: count_exactly(text, family) for name, text in TEXTS.items()}


@needs_ctok
def test_the_worker_answers_every_line() -> None:
    lines = [
        '{"digest": "d", "text": "Hello, Claude", "family": "claude-3"}',
        "no json",
        '{"digest": "e", "text": "", "family": ""}',
    ]
    process = subprocess.run(
        [sys.executable, "-m", "turnscope.counting.exact"],
        input="\n".join(lines),
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT,
        check=True,
        timeout=WORKER_SECONDS,
    )
    first, second, third = map(json.loads, process.stdout.splitlines())
    assert first == {"digest": "d", "tokens": count_exactly("Hello, Claude", "claude-3")}
    assert "tokens" not in second
    assert "error" in second
    assert third == {"digest": "e", "tokens": 0}


@needs_ctok
@pytest.mark.skipif(not hasattr(os, "nice"), reason="this system has no priorities of that kind")
def test_the_worker_gives_way_to_other_processes() -> None:
    code = (
        "import os, turnscope.counting.exact; before = os.nice(0); turnscope.counting.exact.main(); print(before, os.nice(0))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], input="", capture_output=True, text=True, cwd=ROOT, check=True, timeout=WORKER_SECONDS
    )
    before, after = map(int, run.stdout.split())
    assert after == min(before + 15, 19)


# --- without ctok -----------------------------------------------------------------------------------------------------


def test_without_ctok_the_worker_says_so_and_counting_fails_with_that_reason(tmp_path: Path) -> None:
    """-S hides the installed packages, so this runs a Python that has no ctok."""
    run = subprocess.run(
        [sys.executable, "-S", *WORKER_COMMAND[1:]],
        input="",
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
        timeout=60,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        check=False,
    )
    assert (run.returncode, run.stderr.strip(), run.stdout) == (CTOK_MISSING_CODE, CTOK_MISSING, "")
    code = f"import runpy, sys; sys.exit(runpy.run_path({WORKER_COMMAND[-1]!r})['is_available']())"
    assert subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False, cwd=tmp_path, timeout=60).returncode == 0

    died = f"import sys; sys.stderr.write({CTOK_MISSING!r}); sys.exit({CTOK_MISSING_CODE})"
    with ExactCounts((sys.executable, "-c", died)) as counts:
        assert counts.start([("a", "text")], "claude-3", lambda _: pytest.fail("nothing was counted"))
        assert counts.wait(30)
        assert counts.failed == CTOK_MISSING
        assert counts.progress == (0, 1)
        assert not counts.start([("b", "text")], "claude-3", lambda _: None), "a failed counter takes no more work"


def test_a_line_that_cannot_be_counted_is_answered_with_an_error() -> None:
    out = io.StringIO()
    run_worker(['{"digest": "d", "text": "x", "family": "no such family"}', "[]", "\n"], out)
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    assert answers[0]["digest"] == "d"
    assert len(answers) == 3
    assert all("error" in answer and "tokens" not in answer for answer in answers)


def test_duplicates_are_counted_once_and_known_counts_are_reported_again() -> None:
    first: dict[str, int] = {}
    second: dict[str, int] = {}
    with characters() as counts:
        counts.start([("a", "aa"), ("b", "bbb"), ("a", "aa")], "claude-3", first.update)
        counts.start([("b", "bbb"), ("c", "")], "claude-3", second.update)
        counts.start([("a", "aa")], "claude-4.8", lambda _: None)
        assert counts.wait(30)
        assert counts.progress == (4, 4), "a, b and c of one family, a of another"
        assert counts.start([("a", "aa")], "claude-3", second.update), "work after a pause starts again"
        assert counts.wait(30)
    assert first == {"a": 2, "b": 3}
    assert second == {"b": 3, "c": 0, "a": 2}


def test_a_known_digest_never_reaches_the_worker_again() -> None:
    numbering = "import sys\nfor n, line in enumerate(sys.stdin): print('{\"tokens\": %d}' % n, flush=True)"
    reports: list[dict[str, int]] = []
    with ExactCounts((sys.executable, "-c", numbering)) as counts:
        counts.start([("a", "aa"), ("b", "bbb")], "claude-3", reports.append)
        counts.start([("b", "bbb"), ("a", "aa"), ("c", "c")], "claude-3", reports.append)
        assert counts.wait(30)
    assert reports == [{"a": 0, "b": 1}, {"b": 1, "a": 0, "c": 2}]


def test_a_text_that_kills_the_worker_is_given_up_and_the_rest_is_counted() -> None:
    got: dict[str, int] = {}
    with characters() as counts:
        counts.start([("a", "aa"), ("x", "die"), ("e", "bad"), ("y", "die"), ("b", "bbb")], "claude-3", got.update)
        assert counts.wait(30)
        assert (got, counts.progress, counts.failed) == ({"a": 2, "b": 3}, (5, 5), "")


def test_a_worker_that_always_dies_ends_the_counting_with_its_last_words() -> None:
    with characters() as counts:
        counts.start([(str(n), "die") for n in range(9)], "claude-3", lambda _: None)
        assert counts.wait(30)
        assert counts.failed == "killed by a text"


def test_a_worker_that_cannot_be_started_is_a_reason_and_no_exception() -> None:
    with ExactCounts(("/no/such/program",)) as counts:
        assert counts.start([("a", "aa")], "claude-3", lambda _: None)
        assert counts.wait(30)
        assert "FileNotFoundError" in counts.failed


def test_a_callback_that_fails_is_a_reason_and_no_silent_end() -> None:
    def raise_error(_: dict[str, int]) -> None:
        raise RuntimeError("store is closed")

    with characters() as counts:
        counts.start([("a", "aa")], "claude-3", raise_error)
        assert counts.wait(30)
        assert counts.failed == "RuntimeError: store is closed"


def test_closing_kills_a_busy_worker_at_once_and_reports_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    # a worker that takes long to start, as on a busy machine, would have its first count reported before it is closed
    monkeypatch.setattr(sys.modules[ExactCounts.__module__], "_REPORT_EVERY", 60.0)
    reports: list[dict[str, int]] = []
    counts = characters()
    begun = time.monotonic()
    counts.start([("a", "aa"), ("s", "slow"), ("b", "bbb")], "claude-3", reports.append)
    while counts.progress[0] < 1 and time.monotonic() - begun < 20:
        time.sleep(0.01)
    closing = time.monotonic()
    counts.close()
    assert time.monotonic() - closing < 1
    assert counts.wait(10)
    assert (counts.progress, reports, counts.failed) == ((1, 3), [], "")
    assert not counts.start([("c", "c")], "claude-3", reports.append)
    counts.close()


def test_starting_returns_before_anything_is_counted() -> None:
    gate = threading.Event()
    with characters() as counts:
        begun = time.monotonic()
        counts.start(((str(n), "text " * n) for n in range(2_000)), "claude-3", lambda _: gate.set())
        assert time.monotonic() - begun < 1
        assert counts.progress[1] == 2_000
        assert gate.wait(30), "the first counts come while others are still missing"
        assert counts.wait(60)
        assert counts.progress == (2_000, 2_000)


def test_a_family_that_ctok_does_not_know_is_not_started() -> None:
    with characters() as counts:
        assert not counts.start([("a", "aa")], "o200k_base", lambda _: None)
        assert counts.progress == (0, 0)
