"""Lists of messages as LangChain, tau-bench, Letta, ChainReview and a chat over OpenRouter keep them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import data_of, list_blocks, open_value, output_tokens, pairs, prompt_tokens, survives, texts, threads

USED = {"input_tokens": 30, "output_tokens": 7, "total_tokens": 37, "input_token_details": {"cache_read": 20}}
META = {"model_name": "m-1", "finish_reason": "tool_calls"}
AI = {
    "content": "look",
    "tool_calls": [{"name": "look", "args": {"at": "a"}, "id": "c"}],
    "usage_metadata": USED,
    "response_metadata": META,
}
DICTS: list[Any] = [
    {"type": "system", "data": {"content": "Be brief.", "type": "system"}},
    {"type": "human", "data": {"content": "go", "type": "human", "additional_kwargs": {}}},
    {"type": "ai", "data": {**AI, "type": "ai"}},
    {"type": "tool", "data": {"content": "seen", "tool_call_id": "c", "status": "error", "type": "tool"}},
    {"type": "ai", "data": {"content": [{"type": "text", "text": "done"}], "type": "ai"}},
]
NAMES = {"system": "SystemMessage", "human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}
DUMPED = [{"lc": 1, "type": "constructor", "id": ["langchain", NAMES[row["type"]]], "kwargs": row["data"]} for row in DICTS]
MODELS = [{"additional_kwargs": {}, "response_metadata": {}, **row["data"]} for row in DICTS]
SEEN = [
    ("system", "system", "Be brief."),
    ("user", "text", "go"),
    ("assistant", "text", "look"),
    ("assistant", "tool_use", 'look {"at":"a"}'),
    ("user", "tool_result", "seen"),
    ("assistant", "text", "done"),
]


@pytest.mark.parametrize("value", [DICTS, DUMPED, MODELS, {"messages": DUMPED}, {"values": {"messages": MODELS}}])
def test_langchain(value: Any) -> None:
    session = open_value(value)
    assert (session.source, list_blocks(session)) == ("langchain", SEEN)
    assert (prompt_tokens(session), output_tokens(session), pairs(session)) == (30, 7, 1)
    first = session.requests[0]
    assert first.usage
    assert (first.usage.input_tokens, first.model, first.stop_reason) == (10, "m-1", "tool_calls")


def test_langchain_without_what_is_empty() -> None:
    bare = [{"type": "system", "content": "Be brief."}, {"type": "human", "content": "go"}, {"type": "ai", "content": "done"}]
    for lines in (False, True):
        assert list_blocks(open_value(bare, lines=lines)) == [SEEN[0], SEEN[1], SEEN[5]]


def test_langchain_lines() -> None:
    assert list_blocks(open_value(DICTS, lines=True)) == SEEN
    assert survives(DICTS, lines=True, count=40)
    assert survives(DUMPED, count=40)


USE = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": "a"}'}}
CHAT: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": "look", "tool_calls": [USE], "function_call": None},
    {"role": "tool", "tool_call_id": "c", "name": "look", "content": "seen"},
    {"role": "assistant", "content": "done"},
]


RUNS = [{"task_id": n, "reward": 1.0, "info": {}, "traj": CHAT, "trial": 0} for n in range(2)]


def test_tau_bench() -> None:
    one, two = (thread.session for thread in threads(data_of(RUNS)))
    assert list_blocks(one) == list_blocks(two) == SEEN
    assert (one.title, one.id, two.id, one.source) == ("task 0.0: reward 1.0", "made/0.0", "made/1.0", "tau-bench")
    assert open_value([{**RUNS[0], "reward": 0.0}]).about == {"task_id": 0, "trial": 0, "reward": 0.0}
    cost = [{**message, "cost": 0.5, "usage": {"prompt_tokens": 30, "completion_tokens": 7}} for message in CHAT]
    run = {
        "task_id": "a",
        "messages": cost,
        "reward_info": {"reward": 0.0},
        "termination_reason": "user_stop",
        "agent_cost": 1.0,
    }
    session = open_value({"info": {"agent_info": {"llm": "m"}}, "simulations": [run]})
    assert [(request.model, request.logged_usd) for request in session.requests] == [("m", 0.5)] * 2
    assert prompt_tokens(session) == 60
    assert survives(RUNS, count=40)


def letta() -> dict[str, Any]:
    returned = [{"tool_call_id": "c", "status": "success", "func_response": "seen"}]
    said: list[Any] = [{**message, "id": f"m{n}", "created_at": f"2026-01-01T00:00:0{n}Z"} for n, message in enumerate(CHAT)]
    said[3] = {**said[3], "tool_call_id": None, "content": [], "tool_returns": returned}
    agent = {"id": "agent-0", "name": "A", "messages": said, "in_context_message_ids": [f"m{n}" for n in range(5)]}
    agent |= {"system": "Be brief.", "llm_config": {"model": "m", "context_window": 32_000}, "tool_ids": ["t"]}
    tools = [{"id": "t", "json_schema": {"name": "look", "parameters": {"type": "object"}}}]
    return {"agents": [agent], "blocks": [], "tools": tools}


def test_letta_memory_that_the_stored_prompt_lacks_and_a_file_that_is_a_string() -> None:
    made = letta()
    made["blocks"] = [
        {"id": f"b{n}", "label": f"l{n}", "value": value} for n, value in enumerate(("brief", "A fact.", "", "else"))
    ]
    made["agents"][0]["block_ids"] = ["b0", "b1", "b2"]
    seen = {"file_name": "a.md", "is_open": True, "visible_content": "1: a line"}
    made["agents"][0]["files_agents"] = [seen, {**seen, "file_name": "b.md", "is_open": False}]
    session = open_value(made, name="made.af")
    stored, *memory = (block.text for block in session.blocks if block.role == "system")
    assert ("A fact." not in stored, "<l1>\nA fact.\n</l1>" in memory) == (True, True), "memory stands behind what is stored"
    assert [block.text for block in session.blocks if ".md>" in block.text] == ["<a.md>\n1: a line\n</a.md>"]
    assert [note.what for note in session.notes if "memory" in note.what] == [
        "1 memory blocks are not in the stored system message: they stand behind it"
    ]
    assert list_blocks(open_value(json.dumps(made), name="made.af")) == list_blocks(session)


@pytest.mark.parametrize("name", ["co-3", "ezra", "void"])
def test_real_agent_files_hold_each_memory_block(shared: Callable[..., Path], name: str) -> None:
    path = shared("data", "new", "letta", f"{name}.af")
    raw = json.loads(path.read_text())
    session = turnscope.load(path)
    system = "\n".join(block.text for block in session.blocks if block.role == "system")
    values = [one["value"].strip() for one in raw["blocks"] if one["id"] in raw["agents"][0]["block_ids"]]
    assert values
    assert [value[:60] for value in values if value not in system] == []


def test_a_list_whose_messages_tell_tokens_and_one_under_a_key() -> None:
    rows = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}] * 2
    counted = [{**row, "total_tokens": 5} for row in rows]
    for value in (counted, {"messages": rows}):
        session = open_value(value)
        assert ([block.text for block in session.blocks], len(session.requests)) == (["a", "b", "a", "b"], 2)
    named = open_value({"model": "gpt-4o", "messages": rows})
    assert [request.model for request in named.requests] == ["gpt-4o", "gpt-4o"]
    assert len(open_value({"model": "gpt-4o", "messages": rows, "temperature": 1}).requests) == 1, "a request as it was sent"
    assert len(open_value({"messages": rows[:3]}).requests) == 1, "a request that waits for its answer"


def test_lines_of_saved_conversations_have_a_request_for_each_answer() -> None:
    rows = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}] * 2
    other = [{"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]
    saved = [{"messages": rows[:2]}, {"messages": rows}, {"messages": other}]
    one, two = (thread.session for thread in threads(data_of(saved, lines=True), "made.jsonl"))
    assert [([block.text for block in session.blocks], len(session.requests)) for session in (one, two)] == [
        (["a", "b", "a", "b"], 2),
        (["c", "d"], 1),
    ]
    assert (one.id, two.id, two.title) == ("made", "made~1", "c")
    sent = open_value([{"messages": rows[:1]}, {"messages": rows[:3]}], lines=True, name="made.jsonl")
    assert [len(sent.requests), [block.text for block in sent.blocks]] == [2, ["a", "b", "a"]], "requests that wait for answers"


def test_letta() -> None:
    session = open_value(letta(), name="made.af")
    assert list_blocks(session)[1:] == SEEN
    assert (session.window, session.requests[0].model, pairs(session), session.observed) == (32_000, "m", 1, ())
    gone = letta()
    gone["agents"][0]["in_context_message_ids"] = ["m0", "m2", "m3", "m4"]
    (seen,) = open_value(gone).observed
    assert (seen.request, seen.edit.span) == (1, (2, 3))
    assert survives(letta(), count=40)


REVIEW: dict[str, Any] = {
    "id": "s",
    "createdAt": "2026-01-01T00:00:00Z",
    "updatedAt": "2026-01-01T01:00:00Z",
    "repoPath": "/w",
    "tokenCount": 9,
    "apiHistory": [{"role": "user", "content": "go"}, {"role": "assistant", "content": [{"type": "text", "text": "done"}]}],
}


def test_chainreview() -> None:
    session = open_value({**REVIEW, "condensedSummary": "so far"})
    assert list_blocks(session) == [("user", "summary", "so far"), ("user", "text", "go"), ("assistant", "text", "done")]
    assert (session.id, session.about["tokenCount"], len(session.requests)) == ("s", 9, 1)
    assert survives(REVIEW, count=40)


STORED: list[Any] = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": "done", "total_tokens": 128, "model": "a/m", "cost": 0.5},
    {"role": "assistant", "content": "more", "prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37},
]
STATE = {
    "conversations": [{"id": "x", "title": "X", "messages": STORED[:2]}, {"id": "y", "title": "Y", "messages": STORED}],
    "currentConversationId": "y",
    "models": [{"id": "a/m", "context_length": 8000}],
}
STORE = {"state": STATE, "version": 0}


def test_a_store_over_openrouter() -> None:
    one, two = (thread.session for thread in threads(data_of(STORE)))
    assert (one.id, two.id, one.window, texts(one)) == ("y", "x", 8000, ["go", "done", "more"])
    first, second = one.requests
    assert first.usage
    assert second.usage
    assert (first.usage.output_tokens, first.usage.prompt_tokens, first.model, first.logged_usd) == (128, 0, "a/m", 0.5)
    assert (second.usage.prompt_tokens, second.usage.output_tokens) == (30, 7)
    assert open_value({"messages": STORED, "model": "a/m", "context_length": 4000}).window == 4000
    assert survives(STORE, count=40)


def test_the_runs_of_tau2_lie_beside_its_results(tmp_path: Path) -> None:
    info = {"agent_info": {"llm": "m"}, "environment_info": {"policy": "Help."}}
    (tmp_path / "results.json").write_bytes(data_of({"info": info, "tasks": []}))
    alone = turnscope.load(tmp_path / "results.json")
    assert (list_blocks(alone), len(alone.notes)) == ([("system", "system", "Help.")], 1)
    own = {"role": "user", "content": None, "tool_calls": [{"id": "u", "name": "look", "arguments": {}, "requestor": "user"}]}
    gave = {"role": "tool", "id": "u", "content": "mine", "requestor": "user"}
    run = {"task_id": "a", "trial": 0, "termination_reason": "user_stop", "messages": [*CHAT[1:], own, gave]}
    (tmp_path / "simulations").mkdir()
    (tmp_path / "simulations" / "x.json").write_bytes(data_of(run))
    (session,) = turnscope.load_all(tmp_path / "results.json")
    assert list_blocks(session) == [("system", "system", "Help."), *SEEN[1:]]
    assert "2 records of kind 'what the simulated user did with its tools'" in session.notes[0].what
    assert list_blocks(turnscope.load(tmp_path / "simulations" / "x.json")) == list_blocks(session)
    assert len(turnscope.load_all(tmp_path)) == 1


def test_a_real_file_of_results(shared: Callable[..., Path]) -> None:
    path = shared("data", "new", "tau2", "results.json")
    (session,) = turnscope.load_all(path)
    assert texts(session) == [json.loads(path.read_text())["info"]["environment_info"]["policy"]]
