"""Sessions of Kimi Code and of the Kimi CLI before it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import data_of, list_blocks, list_claims, open_value, output_tokens, pairs, prompt_tokens, survives, texts

ROUND = [
    ("user", "text", "go"),
    ("assistant", "thinking", "hm"),
    ("assistant", "tool_use", 'look {"at":"a"}'),
    ("user", "tool_result", "seen"),
    ("assistant", "text", "done"),
]


def make_message(role: str, text: str, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": [{"type": "text", "text": text}], "toolCalls": [], "origin": {"kind": "user"}, **more}
    return {"type": "context.append_message", "message": message, "time": 1_784_950_605_000}


def event(type: str, **held: Any) -> dict[str, Any]:
    return {"type": "context.append_loop_event", "event": {"type": type, **held}, "time": 1_784_950_606_000}


def step(id: str, *events: dict[str, Any]) -> list[dict[str, Any]]:
    usage = {"inputOther": 10, "output": 5, "inputCacheRead": 20, "inputCacheCreation": 1}
    sent = {"type": "llm.request", "model": "k2", "time": 1_784_950_605_500}
    return [event("step.begin", uuid=id), sent, *events, event("step.end", uuid=id, usage=usage, finishReason="end_turn")]


def answer(id: str, text: str) -> list[dict[str, Any]]:
    return step(id, event("content.part", stepUuid=id, part={"type": "text", "text": text}))


CODE = [
    {"type": "metadata", "protocol_version": "1.4", "created_at": 1_784_950_605_000},
    {"type": "config.update", "systemPrompt": "Be brief.", "modelAlias": "m/k2"},
    {"type": "llm.tools_snapshot", "tools": [{"name": "look", "description": "Looks.", "parameters": {"type": "object"}}]},
    make_message("user", "go"),
    *step(
        "s1",
        event("content.part", stepUuid="s1", part={"type": "think", "think": "hm"}),
        event("tool.call", stepUuid="s1", toolCallId="c", name="look", args={"at": "a"}),
    ),
    event("tool.result", toolCallId="c", result={"output": "seen"}),
    *answer("s2", "done"),
    {"type": "goal.create", "goal": "odd"},
]
"""A round of calls, its result, and the answer."""

WIRE = [
    {"type": "metadata", "protocol_version": "1.10"},
    *(
        {"timestamp": 1_767_225_600.0 + n, "message": {"type": type, "payload": payload}}
        for n, (type, payload) in enumerate(
            [
                ("TurnBegin", {"user_input": [{"type": "text", "text": "go"}]}),
                ("StepBegin", {"n": 1}),
                ("ContentPart", {"type": "think", "think": "hm"}),
                ("ToolCall", {"type": "function", "id": "c", "function": {"name": "look", "arguments": '{"at": "a"}'}}),
                ("StatusUpdate", {"token_usage": {"input_other": 10, "output": 5, "input_cache_read": 20}, "message_id": "m"}),
                ("ToolResult", {"tool_call_id": "c", "return_value": {"is_error": False, "output": "seen"}}),
                ("StepBegin", {"n": 2}),
                ("ContentPart", {"type": "text", "text": "done"}),
                ("PlanDisplay", {"content": "odd"}),
                ("TurnEnd", {}),
            ]
        )
    ),
]
CONTEXT = [
    {"role": "_system_prompt", "content": "Be brief."},
    {"role": "_checkpoint", "id": 0},
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": [{"type": "think", "think": "hm"}],
        "tool_calls": [{"type": "function", "id": "c", "function": {"name": "look", "arguments": '{"at": "a"}'}}],
    },
    {"role": "_usage", "token_count": 35},
    {"role": "tool", "content": [{"type": "text", "text": "seen"}], "tool_call_id": "c"},
    {"role": "assistant", "content": "done"},
]


def test_kimi_code() -> None:
    session = open_value(CODE, lines=True)
    assert list_blocks(session)[1:] == [("system", "system", "Be brief."), *ROUND]
    assert '"description":"Looks."' in texts(session)[0]
    assert (len(session.requests), pairs(session), prompt_tokens(session), output_tokens(session)) == (2, 1, 62, 10)
    assert {(r.model, r.stop_reason, r.attempts) for r in session.requests} == {("k2", "end_turn", 1)}
    assert [note.what for note in session.notes] == ["1 record of kind 'goal.create' (35 bytes) was skipped"]


def test_a_step_without_answer_is_a_request_with_its_attempts() -> None:
    sent = {"type": "llm.request", "model": "k2"}
    lost = open_value([*CODE, make_message("user", "more"), event("step.begin", uuid="s3"), sent, sent, sent], lines=True)
    assert [(request.attempts, request.cut == request.stop) for request in lost.requests] == [(1, False), (1, False), (3, True)]


def test_a_compaction_and_what_is_cleared() -> None:
    compacted = {"type": "context.apply_compaction", "summary": "The gist.", "compactedCount": 2, "tokensBefore": 9}
    session = open_value([*CODE, compacted, make_message("user", "more"), *answer("s3", "yes")], lines=True)
    assert texts(session)[-3:] == ["The gist.", "more", "yes"]
    (seen,) = {edit.request for edit in session.observed}
    gone = {at for edit in session.observed for at in range(edit.edit.span.start, edit.edit.span.stop)}
    assert (seen, [session.blocks[at].text for at in sorted(gone)]) == (2, ["go", "hm", 'look {"at":"a"}'])
    cleared = open_value([*CODE, {"type": "context.clear"}, make_message("user", "more"), *answer("s3", "yes")], lines=True)
    assert [(edit.request, edit.edit.action) for edit in cleared.observed] == [(2, "drop")]


def test_an_undone_turn_is_a_branch() -> None:
    session = open_value(
        [
            *CODE,
            make_message("user", "no"),
            *answer("s3", "sorry"),
            {"type": "context.undo", "count": 1},
            make_message("user", "yes"),
        ],
        lines=True,
    )
    assert texts(session)[-2:] == ["done", "yes"]
    assert [texts(branch)[-2:] for branch in session.branches] == [["no", "sorry"]]


def test_agents_are_subagents(tmp_path: Path) -> None:
    for name, rows in (("main", CODE), ("agent-1", [CODE[0], make_message("user", "sub"), *answer("a", "found")])):
        folder = tmp_path / "session_x" / "agents" / name
        folder.mkdir(parents=True)
        (folder / "wire.jsonl").write_bytes(data_of(rows, lines=True))
    session = turnscope.load(tmp_path / "session_x" / "agents" / "main" / "wire.jsonl")
    assert (session.id, [(one.id, texts(one)) for one in session.subagents]) == ("session_x", [("agent-1", ["sub", "found"])])
    assert [entry.id for entry in turnscope.entries(tmp_path)] == ["session_x/agents/main/wire.jsonl"]


def test_the_kimi_cli(tmp_path: Path) -> None:
    session = open_value(WIRE, lines=True)
    assert list_blocks(session) == ROUND
    assert (len(session.requests), pairs(session), prompt_tokens(session), output_tokens(session)) == (2, 1, 30, 5)
    assert any("PlanDisplay" in note.what for note in session.notes)
    kept = open_value(CONTEXT, lines=True)
    assert list_blocks(kept) == [("system", "system", "Be brief."), *ROUND]
    assert "35 tokens" in kept.notes[0].what
    for name, rows in (("wire.jsonl", WIRE), ("context.jsonl", CONTEXT)):
        (tmp_path / name).write_bytes(data_of(rows, lines=True))
    assert texts(turnscope.load(tmp_path / "wire.jsonl"))[0] == "Be brief."


@pytest.mark.parametrize(("name", "value"), [("kimi-code", CODE), ("kimi-cli", WIRE), ("kimi-cli", CONTEXT)])
def test_each_is_claimed_by_its_importer_alone_and_nothing_breaks(name: str, value: Any, tmp_path: Path) -> None:
    path = tmp_path / "made.jsonl"
    path.write_bytes(data_of(value, lines=True))
    assert list_claims(path) == [name]
    assert survives(value, lines=True, count=40)


def test_a_real_log(shared: Callable[..., Path]) -> None:
    path = shared("data", "new", "kimi-cli", "kimi-small.jsonl")
    session, rows = turnscope.load(path), [json.loads(row) for row in path.read_text().splitlines()]
    assert list_claims(path) == ["kimi-code"]
    messages = [row["message"]["content"][0]["text"] for row in rows if row["type"] == "context.append_message"]
    assert [block.text for block in session.blocks if block.kind == "text"] == messages
    begun = [n for n, row in enumerate(rows) if row.get("event", {}).get("type") == "step.begin"]
    sent = [n for n, row in enumerate(rows) if row["type"] == "llm.request"]
    tries = [sum(start < n < stop for n in sent) for start, stop in zip(begun, [*begun[1:], len(rows)], strict=True)]
    assert [request.attempts for request in session.requests] == tries
    tools = next(row["tools"] for row in rows if row["type"] == "llm.tools_snapshot")
    assert [json.loads(block.text)["name"] for block in session.blocks if block.kind == "tool"] == [
        tool["name"] for tool in tools
    ]
