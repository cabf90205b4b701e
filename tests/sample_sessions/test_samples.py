"""The sample sessions are what their README says: sound files, honest numbers, and written by `make.py` alone.

Reads the files as plain JSON, without any importer, so that a fault here is a fault of the samples; but for their cost.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import turnscope
from turnscope.views.replay_cost import price_record

SAMPLES = Path(__file__).resolve().parents[2] / "sample_sessions"
FILES = sorted(path.relative_to(SAMPLES).as_posix() for path in SAMPLES.rglob("*.jsonl"))
CODE = ("tool-results-eat-the-window.jsonl", "cache-goes-cold.jsonl")
LIMITS = {"tool-results-eat-the-window.jsonl": 6_000_000}
WINDOW = 200_000


def lines(name: str) -> list[dict[str, Any]]:
    """Read one sample, a value per line."""
    return [json.loads(line) for line in (SAMPLES / name).read_text("utf-8").splitlines()]


def prompt(usage: dict[str, Any]) -> int:
    """Add up the whole prompt of an Anthropic usage, in tokens."""
    return int(usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"])


def requests(name: str) -> list[dict[str, Any]]:
    """Give the last line of each answer of a Claude Code session, in order."""
    last: dict[str, dict[str, Any]] = {}
    for line in lines(name):
        if line["type"] == "assistant":
            last[line["message"]["id"]] = line
    return list(last.values())


def blocks(name: str) -> Iterator[dict[str, Any]]:
    """Walk over all content blocks of a Claude Code session."""
    for line in lines(name):
        content = line.get("message", {}).get("content", [])
        yield from content if isinstance(content, list) else [{"type": "text", "text": content}]


@pytest.mark.thorough
def test_make_writes_the_committed_files_again_byte_for_byte(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(SAMPLES / "make.py"), str(tmp_path)], check=True, capture_output=True, timeout=120)
    made = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.jsonl"))
    assert made == FILES
    for name in made:
        same = (tmp_path / name).read_bytes() == (SAMPLES / name).read_bytes()
        assert same, f"{name} differs: run `python -m tests.regenerate samples`"


@pytest.mark.parametrize("name", FILES)
def test_every_line_is_one_object_and_the_file_is_small(name: str) -> None:
    assert all(isinstance(line, dict) for line in lines(name))
    assert (SAMPLES / name).stat().st_size < LIMITS.get(name, 3_000_000)


@pytest.mark.parametrize("name", [name for name in FILES if name in CODE or "subagents" in name])
def test_lines_of_one_answer_share_their_input_and_only_the_last_has_the_output(name: str) -> None:
    parts: dict[str, list[dict[str, Any]]] = {}
    for line in lines(name):
        if line["type"] == "assistant":
            parts.setdefault(line["message"]["id"], []).append(line)
    assert len({part[0]["requestId"] for part in parts.values()}) == len(parts)
    for part in parts.values():
        usages = [line["message"]["usage"] for line in part]
        assert len({prompt(u) for u in usages}) == 1
        assert usages[-1]["output_tokens"] == max(u["output_tokens"] for u in usages)
        assert usages[-1]["cache_creation_input_tokens"] == sum(usages[-1]["cache_creation"].values())
        assert 0 < prompt(usages[-1]) + usages[-1]["output_tokens"] < WINDOW


@pytest.mark.parametrize("name", [name for name in FILES if name in CODE or "subagents" in name])
def test_parents_stand_before_their_children_and_uuids_are_distinct(name: str) -> None:
    seen: set[str] = set()
    for line in lines(name):
        if "uuid" in line:
            assert line["uuid"] not in seen
            assert line["parentUuid"] is None or line["parentUuid"] in seen
            seen.add(line["uuid"])
    roots = [line for line in lines(name) if "uuid" in line and line["parentUuid"] is None]
    assert all(line.get("subtype") == "compact_boundary" for line in roots[1:])


@pytest.mark.parametrize("name", [name for name in FILES if name in CODE or "subagents" in name])
def test_every_call_has_exactly_one_result_after_it(name: str) -> None:
    calls = [b["id"] for b in blocks(name) if b["type"] == "tool_use"]
    results = [b["tool_use_id"] for b in blocks(name) if b["type"] == "tool_result"]
    assert sorted(calls) == sorted(results)
    assert len(set(calls)) == len(calls)


@pytest.mark.parametrize("name", CODE)
def test_a_compaction_makes_the_prompt_smaller(name: str) -> None:
    before, cut, met = 0, False, 0
    for line in lines(name):
        if line.get("subtype") == "compact_boundary":
            assert 0 <= line["compactMetadata"]["preTokens"] - before < 30_000
            cut = True
        elif line["type"] == "assistant":
            now = prompt(line["message"]["usage"])
            if cut:
                assert now < before / 4
                met, cut = met + 1, False
            before = now
    assert met == (2 if name.startswith("tool-results") else 1)


@pytest.mark.parametrize("name", [name for name in FILES if "subagents" not in name])
def test_the_simulated_cost_of_a_sample_is_within_two_percent_of_its_bill(name: str) -> None:
    record = turnscope.replay(turnscope.load(SAMPLES / name))
    cost = price_record(record)
    assert cost.billed == turnscope.overview(record.session).path_total
    assert cost.scale == pytest.approx(1, abs=0.02)


def test_tool_results_fill_the_first_sample() -> None:
    sizes: dict[str, int] = {}
    for block in blocks(CODE[0]):
        sizes[block["type"]] = sizes.get(block["type"], 0) + len(json.dumps(block))
    assert sizes["tool_result"] > 0.75 * sum(sizes.values())
    assert len(requests(CODE[0])) >= 320


def test_the_hard_rule_is_lost_with_the_first_compaction_and_kept_by_the_second() -> None:
    rule = "public API"
    before, after = [line["message"]["content"] for line in lines(CODE[0]) if line.get("isCompactSummary")]
    assert rule in lines(CODE[0])[1]["message"]["content"]
    assert rule not in before
    assert rule in after
    cut = next(n for n, line in enumerate(lines(CODE[0])) if line.get("isCompactSummary"))
    complaint = next(n for n, line in enumerate(lines(CODE[0])) if "Did you forget?" in str(line.get("message", "")))
    assert rule not in json.dumps(lines(CODE[0])[cut:complaint])


def test_the_subagent_belongs_to_the_first_sample() -> None:
    [path] = (SAMPLES / CODE[0].removesuffix(".jsonl") / "subagents").glob("agent-*.jsonl")
    inner = lines(path.relative_to(SAMPLES).as_posix())
    assert all(line["isSidechain"] and f"agent-{line['agentId']}" == path.stem for line in inner)
    outer = next(line for line in lines(CODE[0]) if "agentId" in str(line.get("toolUseResult")))
    assert outer["sessionId"] == inner[0]["sessionId"]
    assert outer["toolUseResult"]["agentId"] == inner[0]["agentId"]


def test_the_cache_is_cold_exactly_after_long_breaks_and_changes_of_model() -> None:
    found = requests("cache-goes-cold.jsonl")
    cold = [n for n, line in enumerate(found) if line["message"]["usage"]["cache_read_input_tokens"] == 0]
    assert cold == [0, 24, 36, 55, 60, 85]
    assert len(found) == 88
    for n in cold[1:]:
        assert found[n]["message"]["usage"]["cache_creation_input_tokens"] > 40_000


def test_the_chat_app_sends_twenty_messages_and_the_first_one_falls_out_at_request_ten() -> None:
    sent = [line["request"]["messages"] for line in lines("chat-forgets-first-instruction.jsonl")]
    first = sent[0][1]
    assert len(sent) == 40
    assert "wheelchair" in first["content"]
    assert all(messages[0]["role"] == "system" and len(messages) <= 21 for messages in sent)
    assert [n for n, messages in enumerate(sent) if first in messages] == list(range(10))


def test_the_chat_prompts_carry_the_answers_that_were_given() -> None:
    log = lines("chat-forgets-first-instruction.jsonl")
    for one, two in pairwise(log):
        answer = one["response"]["choices"][0]["message"]["content"]
        assert two["request"]["messages"][-2] == {"role": "assistant", "content": answer}
    for line in log:
        usage = line["response"]["usage"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        assert usage["prompt_tokens_details"]["cached_tokens"] <= usage["prompt_tokens"]


def test_each_body_of_the_thinking_sample_continues_the_one_before() -> None:
    log = lines("thinking-grows.jsonl")
    for one, two in pairwise(log):
        old, new = strip_markers(one["request"]["messages"]), strip_markers(two["request"]["messages"])
        answer = {"role": "assistant", "content": one["response"]["content"]}
        assert new[: len(old) + 1] == [*old, answer]
    for line in log:
        marks = [block for message in line["request"]["messages"] for block in message["content"] if "cache_control" in block]
        assert marks == [line["request"]["messages"][-1]["content"][-1]]
        assert line["response"]["usage"]["output_tokens"] < line["request"]["max_tokens"]


def strip_markers(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Copy messages without their cache markers."""
    drop = "cache_control"
    return [m | {"content": [{k: v for k, v in block.items() if k != drop} for block in m["content"]]} for m in messages]


def test_thoughts_grow_and_end_up_as_most_of_the_prompt() -> None:
    log = lines("thinking-grows.jsonl")
    sizes = [len(line["response"]["content"][0]["thinking"]) for line in log]
    assert sizes[-1] > 10 * sizes[0]
    assert sum(sizes[-10:]) > sum(sizes[:-10])
    final = [block for message in log[-1]["request"]["messages"] for block in message["content"]]
    words = sum(len(block.get("thinking", "")) for block in final)
    assert words > sum(len(str(block.get("content", ""))) for block in final)
    assert [n for n, line in enumerate(log) if line["response"]["usage"]["input_tokens"] > 9] == list(range(5))
