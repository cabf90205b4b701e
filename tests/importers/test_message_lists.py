"""Lists of messages as LangChain, tau-bench, Letta, ChainReview and a chat over OpenRouter keep them."""

from __future__ import annotations

from typing import Any

import pytest
from formats import data_of, opened, output_tokens, pairs, prompt_tokens, survives, texts, threads, told

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
    session = opened(value)
    assert (session.source, told(session)) == ("langchain", SEEN)
    assert (prompt_tokens(session), output_tokens(session), pairs(session)) == (30, 7, 1)
    first = session.requests[0]
    assert first.usage
    assert (first.usage.input_tokens, first.model, first.stop_reason) == (10, "m-1", "tool_calls")


def test_langchain_without_what_is_empty() -> None:
    bare = [{"type": "system", "content": "Be brief."}, {"type": "human", "content": "go"}, {"type": "ai", "content": "done"}]
    for lines in (False, True):
        assert told(opened(bare, lines=lines)) == [SEEN[0], SEEN[1], SEEN[5]]


def test_langchain_lines() -> None:
    assert told(opened(DICTS, lines=True)) == SEEN
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
    assert told(one) == told(two) == SEEN
    assert (one.title, one.id, two.id, one.source) == ("task 0.0: reward 1.0", "made/0.0", "made/1.0", "tau-bench")
    assert opened([{**RUNS[0], "reward": 0.0}]).about == {"task_id": 0, "trial": 0, "reward": 0.0}
    cost = [{**message, "cost": 0.5, "usage": {"prompt_tokens": 30, "completion_tokens": 7}} for message in CHAT]
    run = {
        "task_id": "a",
        "messages": cost,
        "reward_info": {"reward": 0.0},
        "termination_reason": "user_stop",
        "agent_cost": 1.0,
    }
    session = opened({"info": {"agent_info": {"llm": "m"}}, "simulations": [run]})
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


def test_letta() -> None:
    session = opened(letta(), name="made.af")
    assert told(session)[1:] == SEEN
    assert (session.window, session.requests[0].model, pairs(session), session.observed) == (32_000, "m", 1, ())
    gone = letta()
    gone["agents"][0]["in_context_message_ids"] = ["m0", "m2", "m3", "m4"]
    (seen,) = opened(gone).observed
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
    session = opened({**REVIEW, "condensedSummary": "so far"})
    assert told(session) == [("user", "summary", "so far"), ("user", "text", "go"), ("assistant", "text", "done")]
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
    assert opened({"messages": STORED, "model": "a/m", "context_length": 4000}).window == 4000
    assert survives(STORE, count=40)
