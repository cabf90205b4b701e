"""Where a request's prompt was read from the cache and written to it, and where its breakpoints stand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import turnscope
from conftest import ROOT
from turnscope.planning.trace import Trace
from turnscope.views import cache_layout, detail
from turnscope.views.cache_layout import CacheLayout, Shares
from turnscope.views.overview import Overview, build_overview

WORDS = "one two three four five six seven eight nine ten "
MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def lay_out(path: Path, n: int) -> tuple[Trace, Overview, CacheLayout]:
    trace = turnscope.replay(turnscope.load(path))
    view = build_overview(trace)
    return trace, view, cache_layout.lay_out_cache(trace, view, n)


def write(path: Path, *, read: int, written: int, fresh: int, marked: bool = True) -> Path:
    """A log of one request: a tool, a system prompt of two blocks, a message of two."""
    (mark, hour) = (MARK, HOUR) if marked else ({}, {})
    body = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 100,
        "tools": [{"name": "search", "description": WORDS * 20, "input_schema": {"type": "object"}}],
        "system": [text(WORDS * 20, **hour), text(WORDS * 20)],
        "messages": [{"role": "user", "content": [text(WORDS * 20, **mark), text(WORDS * 20)]}],
    }
    usage = {"input_tokens": fresh, "output_tokens": 5, "cache_creation_input_tokens": written, "cache_read_input_tokens": read}
    answer = {"role": "assistant", "content": [text("Done.")], "usage": usage, "model": "claude-sonnet-4-5"}
    path.write_text(json.dumps({"request": body, "response": answer}) + "\n", encoding="utf-8")
    return path


def list_states(found: tuple[Trace, Overview, CacheLayout]) -> list[str]:
    trace, view, layout = found
    items = sorted(detail.build_detail(trace, view, 0).items, key=lambda item: item.at)
    return [layout.add_shares([item]).state for item in items]


def test_breakpoints_are_in_the_order_sent_with_their_place_and_their_time_to_live(tmp_path: Path) -> None:
    _, view, layout = lay_out(write(tmp_path / "log.jsonl", read=600, written=400, fresh=300), 0)
    assert [each.ttl for each in layout.breakpoints] == ["1h", "5m"]
    first, second = (each.tokens / view.get_prompt(0) for each in layout.breakpoints)
    assert 0.3 < first < 0.5
    assert 0.7 < second < 0.9


def test_with_breakpoints_a_block_was_read_or_written_as_a_whole(tmp_path: Path) -> None:
    found = lay_out(write(tmp_path / "log.jsonl", read=500, written=500, fresh=250), 0)
    states = list_states(found)
    assert sorted(states) == ["read", "read", "uncached", "written", "written"]
    assert found[2].breakpoints[-1].tokens != 1_000  # else the edges would need no correction


def test_without_breakpoints_a_block_at_the_edge_is_mostly_read(tmp_path: Path) -> None:
    states = list_states(lay_out(write(tmp_path / "log.jsonl", read=700, written=0, fresh=550, marked=False), 0))
    assert states.count("read") == 2
    assert "uncached" in states
    assert any(state.startswith("mostly") for state in states)


@pytest.mark.parametrize("name", ["cache-goes-cold", "tool-results-eat-the-window"])
def test_the_parts_that_the_log_holds_sum_to_what_was_billed(name: str) -> None:
    for n in (0, 20, 60):
        trace, view, layout = lay_out(ROOT / "sample_sessions" / f"{name}.jsonl", n)
        summed = layout.add_shares(detail.build_detail(trace, view, n).items)
        billed = view.billed[n].sum(axis=0)
        hidden = view.get_prompt(n) - sum(summed)
        assert hidden == pytest.approx(trace.get_terms(n).hidden_tokens, abs=0.02 * view.get_prompt(n))
        assert summed.read == pytest.approx(max(0.0, billed[0] - hidden), abs=1)
        assert summed.uncached == pytest.approx(billed[2], abs=1)
    assert layout.breakpoints == ()


def test_a_state_says_which_way_most_tokens_were_billed() -> None:
    assert Shares(100.0, 0.0, 0.0).state == Shares(99.0, 0.0, 1.0).state == "read"
    assert Shares(60.0, 40.0, 0.0).state == "mostly read"
    assert Shares(0.0, 1.0, 9.0).state == "mostly uncached"
    assert Shares().state == ""
