"""OpenHands: events of both vocabularies, condensations, runs of benchmarks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import turnscope
from formats import data_of, list_blocks, list_claims, open_value, output_tokens, pairs, prompt_tokens, survives, texts, threads
from turnscope import library
from turnscope.importers.openhands import IMPORTER

USAGE = {"prompt_tokens": 30, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 20}}


def use(id: str, at: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "bash", "arguments": f'{{"at": "{at}"}}'}}


def response(id: str, *calls: Any) -> dict[str, Any]:
    choices = [{"finish_reason": "tool_calls", "message": {"role": "assistant", "content": "look", "tool_calls": list(calls)}}]
    return {"id": id, "model": "m-1", "choices": choices, "usage": USAGE}


def act(id: int, call: str, answer: dict[str, Any], cost: float = 0.5) -> dict[str, Any]:
    about = {"function_name": "bash", "tool_call_id": call, "model_response": answer}
    at = f"2026-01-01T00:00:{id:02}"
    metrics = {"accumulated_cost": cost}
    return {
        "id": id,
        "timestamp": at,
        "source": "agent",
        "action": "run",
        "args": {},
        "tool_call_metadata": about,
        "llm_metrics": metrics,
    }


def back(id: int, call: str, content: str) -> dict[str, Any]:
    about = {"tool_call_id": call}
    at = f"2026-01-01T00:00:{id:02}"
    return {
        "id": id,
        "timestamp": at,
        "source": "agent",
        "observation": "run",
        "content": content,
        "tool_call_metadata": about,
        "extras": {},
    }


TWO = response("r1", use("c", "a"), use("d", "b"))
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]
OLD: list[Any] = [
    {"id": 0, "source": "agent", "action": "system", "args": {"content": "Be brief.", "tools": TOOLS}},
    {"id": 1, "source": "user", "action": "message", "args": {"content": "go", "image_urls": ["data:image/png;base64,AAAA"]}},
    {"id": 2, "source": "user", "action": "recall", "args": {"query": "go"}},
    {
        "id": 3,
        "source": "environment",
        "observation": "recall",
        "cause": 2,
        "content": "x",
        "extras": {"repo_instructions": "Mind."},
    },
    act(4, "c", TWO),
    back(5, "c", "A"),
    act(6, "d", TWO),
    back(7, "d", "B"),
    {"id": 8, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "so", "blocking": False}},
    {"id": 9, "source": "environment", "observation": "run", "cause": 8, "content": "C", "extras": {}},
    {"id": 10, "source": "agent", "action": "message", "args": {"content": "done"}},
    {"id": 11, "source": "environment", "observation": "agent_state_changed", "content": "", "extras": {}},
    {"id": 12, "source": "agent", "action": "novel", "oddly": 1},
]


def test_events_of_one_answer_are_one_message() -> None:
    session = open_value(OLD[:-1])
    assert list_blocks(session) == [
        ("tools", "tool", '{"name":"bash","input_schema":{"type":"object"}}'),
        ("system", "system", "Be brief."),
        ("user", "text", "go"),
        ("user", "image", ""),
        ("user", "text", "Mind."),
        ("assistant", "text", "look"),
        ("assistant", "tool_use", 'bash {"at":"a"}'),
        ("assistant", "tool_use", 'bash {"at":"b"}'),
        ("user", "tool_result", "A"),
        ("user", "tool_result", "B"),
        ("assistant", "text", "so"),
        ("assistant", "tool_use", 'run {"command":"ls"}'),
        ("user", "tool_result", "C"),
        ("assistant", "text", "done"),
    ]
    first = session.requests[0]
    assert first.usage
    assert (first.usage.input_tokens, first.usage.prompt_tokens, first.logged_usd, first.id) == (10, 30, 0.5, "r1")
    assert (len(session.requests), pairs(session), session.notes) == (3, 3, ())


def test_a_condensation_leaves_the_view_and_puts_its_summary() -> None:
    forget = {"forgotten_events_start_id": 3, "forgotten_events_end_id": 7, "summary": "so far", "summary_offset": 2}
    condensed = {"id": 8, "source": "agent", "action": "condensation", "args": forget}
    more = [condensed, act(9, "e", response("r2", use("e", "z"))), back(10, "e", "Z")]
    session = open_value([*OLD[:8], *more])
    (seen,) = session.observed
    assert (seen.request, seen.edit.action) == (1, "condense")
    start, stop = seen.edit.span or (0, 0)
    assert texts(session)[start:stop] == ["Mind.", "look", 'bash {"at":"a"}', 'bash {"at":"b"}', "A", "B"]
    assert [part.text for part in seen.edit.body or ()] == ["so far"]


SDK: list[Any] = [
    {
        "kind": "SystemPromptEvent",
        "id": "0",
        "source": "agent",
        "system_prompt": {"type": "text", "text": "Be brief."},
        "tools": TOOLS,
    },
    {
        "kind": "MessageEvent",
        "id": "1",
        "timestamp": "2026-01-01T00:00:00",
        "source": "user",
        "llm_message": {"role": "user", "content": [{"type": "text", "text": "go"}]},
        "extended_content": [{"type": "text", "text": "Mind."}],
    },
    {
        "kind": "ActionEvent",
        "id": "2",
        "timestamp": "2026-01-01T00:00:01",
        "source": "agent",
        "llm_response_id": "r1",
        "thought": [{"type": "text", "text": "look"}],
        "reasoning_content": "hm",
        "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}],
        "tool_call": {"id": "c", "name": "bash", "arguments": '{"at": "a"}'},
    },
    {"kind": "ActionEvent", "id": "3", "source": "agent", "llm_response_id": "r1", "thought": [], "tool_call": use("d", "b")},
    {"kind": "ObservationEvent", "id": "4", "tool_call_id": "c", "observation": {"content": [{"type": "text", "text": "A"}]}},
    {"kind": "AgentErrorEvent", "id": "5", "tool_call_id": "d", "error": "no"},
    {"kind": "Condensation", "id": "6", "forgotten_event_ids": ["2", "3", "4", "5"], "summary": "so far", "summary_offset": 2},
    {
        "kind": "MessageEvent",
        "id": "7",
        "source": "agent",
        "llm_message": {"role": "assistant", "content": "done"},
        "llm_response_id": "r2",
    },
    {"kind": "Novel", "id": "8"},
]


def test_events_of_the_sdk() -> None:
    metrics = {
        "token_usages": [{"response_id": id, "prompt_tokens": 30, "completion_tokens": 7} for id in ("r1", "r2")],
        "costs": [{"cost": 0.25}, {"cost": 0.5}],
        "accumulated_cost": 0.75,
    }
    run = {"instance_id": "i", "history": SDK, "metrics": metrics, "metadata": {"llm": {"model": "m"}}, "error": "stopped"}
    session = open_value([run], lines=True)
    assert list_blocks(session)[2:] == [
        ("user", "text", "go"),
        ("user", "text", "Mind."),
        ("assistant", "thinking", "hm"),
        ("assistant", "text", "look"),
        ("assistant", "tool_use", 'bash {"at":"a"}'),
        ("assistant", "tool_use", 'bash {"at":"b"}'),
        ("user", "tool_result", "A"),
        ("user", "tool_result", "no"),
        ("assistant", "text", "done"),
    ]
    assert [(request.logged_usd, request.model) for request in session.requests] == [(0.25, "m"), (0.5, "m")]
    assert (prompt_tokens(session), output_tokens(session), pairs(session)) == (60, 14, 2)
    assert [(seen.request, seen.edit.span) for seen in session.observed] == [(1, (4, 10))]
    assert len(session.notes) == 3


def test_runs_are_listed_and_pairs_of_events_are_read() -> None:
    paired = [[OLD[1], OLD[3]], [OLD[8], OLD[9]]]
    runs = [{"instance_id": id, "history": history, "test_result": {}} for id, history in (("a", paired), ("b", OLD))]
    one, two = (thread.session for thread in threads(data_of(runs, lines=True), "output.jsonl"))
    assert (one.id, two.id, texts(one)[-1]) == ("output/a", "output/b", "C")
    assert texts(open_value({"trajectory": OLD})) == texts(two)
    resolved = [{"issue": {"number": 7, "title": "A bug"}, "git_patch": "x", "history": OLD}]
    assert texts(threads(data_of(resolved, lines=True), "output.jsonl")[0].session) == texts(two), "of the resolver of issues"


def test_nothing_breaks() -> None:
    runs = [{"instance_id": id, "history": history} for id, history in (("a", OLD), ("b", SDK))]
    assert survives(runs, lines=True, count=40)
    assert survives(SDK, count=40)


def test_the_real_runs_are_what_they_say(shared: Callable[..., Path]) -> None:
    path = shared("data", "open", "openhands", "multi_swe_bench-output.jsonl")
    assert list_claims(path) == [IMPORTER.name]
    sessions = turnscope.load_all(path)
    assert [(len(session.requests), pairs(session)) for session in sessions] == [(23, 22), (33, 32), (49, 49)]
    assert [prompt_tokens(session) for session in sessions] == [565_158, 410_169, 938_015]
    assert [output_tokens(session) for session in sessions] == [2558, 5156, 5627]
    assert "reached maximum iteration" in sessions[2].notes[0].what


def test_a_folder_of_events_is_one_session(tmp_path: Path) -> None:
    folder = tmp_path / "conversations" / "0f0e" / "events"
    folder.mkdir(parents=True)
    for number, event in enumerate(SDK):
        name = f"event-{number:05}-0000000{number}-aaaa-bbbb-cccc-dddddddddddd.json"
        (folder / name).write_text(json.dumps(event), encoding="utf-8")
    used = [{"response_id": "r1", "prompt_tokens": 100, "completion_tokens": 7}]
    state = {"id": "0f0e", "agent": {"llm": {"model": "m-2"}}, "stats": {"usage_to_metrics": {"agent": {"token_usages": used}}}}
    (folder.parent / "base_state.json").write_text(json.dumps(state), encoding="utf-8")
    alone, whole = open_value(SDK), turnscope.load_all(tmp_path)
    assert len(whole) == 1
    assert list_blocks(whole[0]) == list_blocks(alone)
    assert whole[0].id == "0f0e"
    assert len(whole[0].observed) == len(alone.observed)
    assert {request.model for request in whole[0].requests} == {"m-2"}
    assert prompt_tokens(whole[0]) == 100
    assert [*library.find_sources(tmp_path)][-1] == folder
