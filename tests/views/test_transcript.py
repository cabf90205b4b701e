"""Blocks as a request has them, what differs between two requests, search and ranges: each against a slower way to it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import turnscope
from claude_log import Log
from conftest import ROOT, shared
from turnscope.errors import QueryError
from turnscope.views import ranges, request_summary, text_search, transcript
from turnscope.views.detail import compare_requests
from turnscope.views.events import CUT_KINDS, EVENTS, describe_event
from turnscope.views.overview import Overview, build_overview
from turnscope.views.shades import STEPS, Ramp
from turnscope.views.text_search import Query

SAMPLES = sorted((ROOT / "sample_sessions").glob("*.jsonl"))


def read(path: Path) -> tuple[Any, Overview]:
    trace = turnscope.replay(turnscope.load(path))
    return trace, request_summary.annotate(trace, build_overview(trace))[0]


@pytest.fixture(scope="module")
def cleared() -> tuple[Any, Overview]:
    """A real session whose results were cleared where they stand."""
    return read(shared("data", "open", "claude-code", "entire-d599-microcompact.jsonl"))


@pytest.fixture(scope="module")
def compacted() -> tuple[Any, Overview]:
    """A real session with three compactions."""
    return read(shared("data", "open", "claude-code", "entire-cd95-3compactions.jsonl"))


def test_every_block_stands_in_a_request_as_the_trace_says(cleared: Any, compacted: Any) -> None:
    for trace, view in (cleared, compacted):
        for n in (0, request_summary.find_opening_request(view), request_summary.find_opening_request(view) + 1, len(view) - 1):
            stands = transcript.list_states(trace, n)
            assert stands == [trace.explain(block.at, n).state for block in trace.session.blocks]
            assert {"here", "later"} & set(stands)


def test_a_line_says_why_its_block_is_not_there(compacted: Any) -> None:
    trace, _ = compacted
    before, after = (transcript.build_lines(trace, n, [0])[0] for n in (49, 50))
    assert (before.state, before.because) == ("here", "")
    assert after.state == "absent"
    assert (
        after.because
        == "compacted into a summary (the tool did it by itself, at 156,699 tokens by its own count), at request 51."
    )
    assert before.tokens > 0


def test_five_thousand_blocks_are_looked_at_quickly() -> None:
    trace, view = read(SAMPLES[-1])
    start = time.process_time()
    for _ in range(5_000 // len(trace.session.blocks) + 1):
        transcript.list_states(trace, len(view) - 1)
    transcript.build_lines(trace, len(view) - 1, range(100))
    assert time.process_time() - start < 0.5


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_difference_agrees_with_the_envelope_in_both_directions(path: Path) -> None:
    trace, view = read(path)
    last = len(view) - 1
    cut = request_summary.find_largest_cut(view)
    for old, new in ((0, last), (last, 0), (last - 1, last), *([(cut.request - 1, cut.request)] if cut else [])):
        agree(trace, view, old, new)
    same = compare_requests(trace, view, last, last)
    assert (same.added, same.removed, same.changed) == ((), (), ())


def agree(trace: Any, view: Overview, old: int, new: int) -> None:
    """Both columns are the envelopes', and the blocks that moved come to what the buckets changed by."""
    found = compare_requests(trace, view, old, new)
    assert found.prompts == (int(view.prompts[old]), int(view.prompts[new]))
    assert [sum(cells) for cells in found.cells] == list(found.prompts)
    if trace.get_terms(old) == trace.get_terms(new):
        moved = sum(i.tokens for i in found.added) - sum(i.tokens for i in found.removed)
        moved += sum(after.tokens - before.tokens for before, after in found.changed)
        rounding = len(found.added) + len(found.removed) + 2 * len(found.changed) + 5
        assert abs(moved - (sum(found.cells[1][:5]) - sum(found.cells[0][:5]))) <= rounding
    back = compare_requests(trace, view, new, old)
    assert [i.at for i in back.added] == [i.at for i in found.removed]
    assert [(b.at, a.at) for a, b in back.changed] == [(a.at, b.at) for a, b in found.changed]


def test_what_was_cleared_where_it_stands_has_changed_and_neither_came_nor_went(cleared: Any) -> None:
    trace, view = cleared
    n = next(cut.request for cut in request_summary.find_cuts(view) if cut.kind == "clear")
    found = compare_requests(trace, view, n - 1, n)
    agree(trace, view, n - 1, n)
    assert found.changed
    assert not {after.at for _, after in found.changed} & {item.at for item in (*found.added, *found.removed)}
    assert all(before.state == "verbatim" and after.state == "placeholder" for before, after in found.changed)


@pytest.mark.parametrize(
    ("query", "fits"),
    [
        (Query("GIT", role="user"), lambda b, _: "git" in b.text.casefold() and b.role == "user" and b.kind != "tool_result"),
        (Query("git", role="tool"), lambda b, _: "git" in b.text.casefold() and b.kind == "tool_result"),
        (Query("git", tool="Read"), lambda b, _: "git" in b.text.casefold() and b.name == "Read"),
        (Query("git", request=60, which="in"), lambda b, s: "git" in b.text.casefold() and s[b.at] == "here"),
        (Query("git", request=60, which="out"), lambda b, s: "git" in b.text.casefold() and s[b.at] != "here"),
        (Query(r"\bfunc \w+\(", regex=True), lambda b, _: _func(b.text)),
        (Query(tool="Bash"), lambda b, _: b.name == "Bash"),
    ],
)
def test_a_query_finds_what_a_look_at_every_block_finds(compacted: Any, query: Query, fits: Any) -> None:
    trace, _ = compacted
    stands = transcript.list_states(trace, 60)
    wanted = tuple(block.at for block in trace.session.blocks if fits(block, stands))
    assert text_search.find_matches(trace, query) == wanted
    assert wanted


def _func(text: str) -> bool:
    import re

    return re.search(r"\bfunc \w+\(", text, re.IGNORECASE) is not None


def test_pages_of_a_search_hold_every_hit_once(compacted: Any) -> None:
    trace, _ = compacted
    first = text_search.search(trace, "git")
    assert first.match_count > 3 * text_search.PAGE_SIZE
    seen = [
        hit.at
        for start in range(0, first.match_count, text_search.PAGE_SIZE)
        for hit in text_search.search(trace, "git", start).hits
    ]
    assert tuple(seen) == first.matches
    assert (
        text_search.search(trace, "git", 10**9).start
        == (first.match_count - 1) // text_search.PAGE_SIZE * text_search.PAGE_SIZE
    )


@pytest.mark.parametrize("pattern", ["(", "[a-", "*", "a{2,1}"])
def test_a_bad_pattern_says_so(compacted: Any, pattern: str) -> None:
    with pytest.raises(QueryError, match="not a valid regular expression"):
        text_search.search(compacted[0], Query(pattern, regex=True))
    assert text_search.search(compacted[0], Query(pattern)).match_count >= 0, "as plain text it is one"


def test_a_pattern_that_would_never_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    log.user("a" * 60 + "!")
    log.answer("m0", "so it is", usage=(1, 2, 3, 4))
    trace, _ = read(log.save(tmp_path / "s.jsonl"))
    monkeypatch.setattr(text_search, "TIMEOUT", 0.2)
    start = time.monotonic()
    with pytest.raises(QueryError, match="takes more than"):
        text_search.search(trace, Query(r"(a|aa)+$", regex=True))
    assert time.monotonic() - start < 3


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_range_is_the_sum_of_its_requests(path: Path) -> None:
    _, view = read(path)
    for start, stop in ((0, len(view)), (3, 9), (5, 6), (-4, 2), (7, 7), (9, 3), (len(view), len(view) + 9)):
        found = ranges.summarize_range(view, start, stop)
        inside = range(max(0, start), max(0, min(stop, len(view))))
        sizes = [int(view.prompts[n]) for n in inside]
        assert (found.requests, found.tokens, found.peak) == (len(inside), sum(sizes), max(sizes, default=0))
        assert (found.usd or 0) == sum(view.totals[n] or 0 for n in inside)
        growth = {n: int(view.prompts[n] - (view.prompts[n - 1] if n else 0)) for n in inside}
        assert found.growth == max(0, max(growth.values(), default=0))
        assert found.growth_request == (next(n for n in growth if growth[n] == found.growth) if found.growth else -1)
        new = sum(max(0, size) for size in growth.values())
        assert found.repeated_share == pytest.approx(1 - new / sum(sizes) if sizes else 0)


def test_the_opening_request_is_the_fullest_before_the_largest_cut(compacted: Any) -> None:
    _, view = compacted
    assert request_summary.find_opening_request(view) == 219
    cut = request_summary.find_largest_cut(view)
    assert cut
    assert (cut.request, cut.kind) == (220, "compact")


def test_every_kind_of_event_has_one_word() -> None:
    for path in (*SAMPLES, shared("data", "open", "claude-code", "entire-d599-microcompact.jsonl")):
        trace, view = read(path)
        for marker in view.markers:
            assert marker.kind in EVENTS
        for n in {marker.request for marker in view.markers}:
            for kind, what in request_summary.summarize_request(view, trace, n).events:
                assert what.startswith(EVENTS[kind].word)
    assert set(CUT_KINDS) < set(EVENTS)
    assert describe_event("cut", "the window was full") == "cut: the window was full"
    assert describe_event("compact", "compacted into a summary") == "compacted into a summary"
    assert EVENTS["compact"].format_count(1) == "1 compaction"
    assert EVENTS["clear"].format_count(1_200) == "1,200 clearings"


@pytest.mark.parametrize("scale", ["rank", "log", "linear"])
def test_brightness_rises_with_the_value_and_the_legend_says_how(scale: Any) -> None:
    values = np.array([0.0, *np.random.default_rng(7).lognormal(0, 3, 500)])
    ramp = Ramp.from_values(values, scale)
    order = np.argsort(values)
    shades = ramp.to_bytes(values, np.zeros(len(values), dtype=bool))[order].astype(int)
    assert (np.diff(shades) >= 0).all()
    assert shades[0] == 0
    assert shades[-1] >= STEPS - 1
    assert ramp.to_bytes(values, np.ones(len(values), dtype=bool)).max() > STEPS, "cold cells have a ramp of their own"
    ticks = ramp.list_ticks()
    assert list(ticks) == sorted(ticks)
    middle = ramp.to_bytes(np.array([ticks[2]]), np.zeros(1, dtype=bool))[0]
    assert abs(int(middle) - STEPS / 2) <= 2
    assert Ramp.from_values(np.zeros(3), scale).to_bytes(np.zeros(3), np.zeros(3, dtype=bool)).tolist() == [0, 0, 0]


def test_by_rank_no_shade_is_crowded_where_values_are_spread() -> None:
    values = np.array([*np.full(20, 1e-4), *np.linspace(1e-3, 2e-3, 1_000), 50.0])
    shades = Ramp.from_values(values, "rank").to_bytes(values, np.zeros(len(values), dtype=bool))
    assert len(np.unique(shades)) > STEPS - 5
    assert len(np.unique(Ramp.from_values(values, "linear").to_bytes(values, np.zeros(len(values), dtype=bool)))) < 5
