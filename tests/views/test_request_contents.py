"""What a request consists of: the parts sum to it, and each part's price over the session is its price at every request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import turnscope
from conftest import ROOT
from turnscope.planning.trace import Trace
from turnscope.views import detail, request_contents
from turnscope.views.overview import Overview, build_overview
from turnscope.views.request_contents import ContentGroup, SessionContents

SAMPLES = ("tool-results-eat-the-window", "cache-goes-cold", "thinking-grows", "chat-forgets-first-instruction")


def make_contents(name: str) -> tuple[Trace, Overview, SessionContents]:
    trace = turnscope.replay(turnscope.load(ROOT / "sample_sessions" / f"{name}.jsonl"))
    view = build_overview(trace)
    return trace, view, request_contents.build_contents(trace, view)


def list_groups(trace: Trace, view: Overview, known: SessionContents, n: int, most: int = 12) -> tuple[ContentGroup, ...]:
    return request_contents.list_contents(known, n, detail.build_detail(trace, view, n).items, most)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_parts_sum_to_the_prompt(name: str) -> None:
    trace, view, known = make_contents(name)
    for n in {0, len(view) // 2, len(view) - 1}:
        groups = list_groups(trace, view, known, n)
        parts = sum(len(group.parts) for group in groups)
        rest = int(view.cells[n, -1]) if view.cells[n, -1] > 0 else 0
        items = len(detail.build_detail(trace, view, n).items)
        assert abs(sum(group.tokens for group in groups) - view.get_prompt(n)) <= max(items, 0.03 * view.get_prompt(n)) + rest
        assert parts


def test_folding_keeps_the_sums() -> None:
    trace, view, known = make_contents(SAMPLES[0])
    whole, folded = list_groups(trace, view, known, 200, 10**6), list_groups(trace, view, known, 200, 3)
    assert [group.tokens for group in whole] == [group.tokens for group in folded]
    for one, other in zip(whole, folded, strict=True):
        assert one.session_usd == pytest.approx(other.session_usd)
    assert any("smaller ones" in part.label for group in folded for part in group.parts)


def test_a_part_costs_over_the_session_what_it_costs_at_each_request() -> None:
    trace, view, known = make_contents(SAMPLES[1])
    path = next(key for key in known.parts if key[0] == "tool_results" and key[1].startswith("Read "))
    summed = 0.0
    for n in range(len(view)):
        parts = [part for group in list_groups(trace, view, known, n, 10**6) for part in group.parts if part.label == path[1]]
        summed += sum(part.usd or 0.0 for part in parts)
    assert summed == pytest.approx(known.parts[path].usd, rel=0.02)


def test_all_parts_of_a_bucket_cost_what_the_bucket_cost() -> None:
    _, view, known = make_contents(SAMPLES[1])
    parts = sum(part.usd for key, part in known.parts.items() if key[0] == "tool_results")
    assert parts == pytest.approx(float(view.usd[:, 3].sum()), rel=0.02)


def test_a_group_costs_over_the_session_what_its_bucket_cost_whichever_request_is_shown() -> None:
    trace, view, known = make_contents(SAMPLES[0])
    for n in (3, 100, 200, 324):
        group = next(group for group in list_groups(trace, view, known, n) if group.name == "tool_results")
        assert group.session_usd == pytest.approx(float(view.usd[:, 3].sum()), rel=0.02)
        absent = group.parts[-1]
        assert absent.label.endswith("not in this request")
        assert absent.tokens == 0


def test_tools_are_listed_one_by_one_with_their_calls_and_servers_as_one(tmp_path: Path) -> None:
    tools = [
        {"name": name, "description": "Does something useful. " * 20, "input_schema": {"type": "object"}}
        for name in ("Read", "Write", "mcp__github__issues", "mcp__github__pulls")
    ]
    call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/a/b.py"}}
    body = {
        "model": "claude-sonnet-4-5",
        "system": "You are a careful assistant. " * 30,
        "tools": tools,
        "messages": [
            {"role": "user", "content": "Look at b.py"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x = 1\n" * 50}]},
        ],
    }
    answer = {
        "role": "assistant",
        "content": [{"type": "text", "text": "Done."}],
        "usage": {"input_tokens": 900, "output_tokens": 5},
    }
    path = tmp_path / "log.jsonl"
    path.write_text(
        json.dumps({"request": body, "response": answer | {"model": "claude-sonnet-4-5", "type": "message"}}) + "\n"
    )
    trace = turnscope.replay(turnscope.load(path))
    view = build_overview(trace)
    groups = {
        group.name: group for group in list_groups(trace, view, request_contents.build_contents(trace, view), len(view) - 1)
    }
    found = {part.label: part.note for part in groups["tools"].parts}
    assert found == {"Read": "1 call", "Write": "never called", "MCP server github": "2 tools, never called"}
    assert groups["system"].parts[0].label.startswith("You are a careful assistant.")
    assert groups["tool_results"].parts[0].label == "Read /a/b.py"
