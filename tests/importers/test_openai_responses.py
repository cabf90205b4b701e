"""Logs of OpenAI's Responses API: whole inputs, calls that go on from another, streams."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import turnscope
import yaml
from formats import list_blocks, list_claims, open_value, output_tokens, pairs, prompt_tokens, survives
from turnscope.importers.openai_responses import IMPORTER
from turnscope.planning.render import build_body
from turnscope.session.model import Session

from tests.wire.leaves import leaves

USAGE = {"input_tokens": 30, "output_tokens": 7, "total_tokens": 37, "input_tokens_details": {"cached_tokens": 20}}
USE = {"type": "function_call", "call_id": "c", "name": "look", "arguments": '{"at": "a"}'}
REASON = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]}
BACK = {"type": "function_call_output", "call_id": "c", "output": "seen"}
DONE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}
GO = {"role": "user", "content": [{"type": "input_text", "text": "go"}]}
TOOLS = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]


def response(id: str, *output: Any) -> dict[str, Any]:
    about = {"object": "response", "model": "m-1", "status": "completed", "created_at": 1_767_225_600}
    return {**about, "id": id, "output": list(output), "usage": USAGE}


BODY = {"model": "m", "instructions": "Be brief.", "tools": TOOLS}
WHOLE: list[Any] = [
    {"request": {**BODY, "input": [GO]}, "response": response("r1", REASON, USE)},
    {"request": {**BODY, "input": [GO, REASON, USE, BACK]}, "response": response("r2", DONE)},
]
SEEN = [
    ("tools", "tool", '{"name":"look","input_schema":{"type":"object"}}'),
    ("system", "system", "Be brief."),
    ("user", "text", "go"),
    ("assistant", "thinking", "hm"),
    ("assistant", "tool_use", 'look {"at":"a"}'),
    ("user", "tool_result", "seen"),
    ("assistant", "text", "done"),
]


def test_calls_become_a_session() -> None:
    for lines in (False, True):
        session = open_value(WHOLE, lines=lines)
        assert list_blocks(session) == SEEN
        assert (len(session.requests), pairs(session), prompt_tokens(session), output_tokens(session)) == (2, 1, 60, 14)
        first = session.requests[0]
        assert first.usage
        assert (first.usage.input_tokens, first.model, first.id, first.sent_at) == (10, "m-1", "r1", 1_767_225_600)


def test_a_call_goes_on_from_a_response() -> None:
    linked = {"request": {**BODY, "input": [BACK], "previous_response_id": "r1"}, "response": response("r2", DONE)}
    assert list_blocks(open_value([WHOLE[0], linked])) == SEEN
    lost = {"request": {**BODY, "input": "more", "previous_response_id": "gone"}, "response": response("r3", DONE)}
    assert "its beginning is not known" in open_value([lost]).notes[-1].what


def test_streams_and_failures() -> None:
    events = f"event: x\ndata: {json.dumps({'type': 'response.completed', 'response': response('r1', DONE)})}\n\n"
    assert list_blocks(open_value([{"body": {"model": "m", "input": "go"}, "response": events}])) == [SEEN[2], SEEN[6]]
    failed = {"request": {"model": "m", "input": "go"}, "response": {**response("r1"), "error": {"message": "overloaded"}}}
    assert any("overloaded" in note.what for note in open_value([failed, *WHOLE]).notes)


def test_a_tool_at_a_server_answers_in_the_answer_and_unknown_items_are_named() -> None:
    listed = {"type": "mcp_list_tools", "server_label": "wiki", "tools": [{"name": "ask"}]}
    ran = {
        "type": "mcp_call",
        "id": "mcp1",
        "name": "ask",
        "arguments": '{"q": "a"}',
        "output": "it is b",
        "server_label": "wiki",
    }
    odd = {"type": "odd_item", "text": "x"}
    session = open_value([{"request": {**BODY, "input": [GO]}, "response": response("r1", listed, ran, odd, DONE)}])
    assert list_blocks(session)[-3:] == [
        ("assistant", "tool_use", 'ask {"q":"a"}'),
        ("assistant", "tool_result", "it is b"),
        ("assistant", "text", "done"),
    ]
    assert pairs(session) == 1
    assert [note.what for note in session.notes][:1] == ["1 record of kind 'odd_item' (30 bytes) was skipped"]


def test_a_response_in_the_background_is_one_call() -> None:
    waiting = {**response("r1"), "status": "queued", "usage": None}
    rows = [
        {"request": {**BODY, "input": [GO]}, "response": waiting},
        {"request": {"method": "GET"}, "response": {**waiting, "status": "in_progress"}},
        {"request": {"method": "GET"}, "response": response("r1", DONE)},
    ]
    session = open_value(rows)
    assert list_blocks(session)[1:] == [SEEN[1], SEEN[2], SEEN[6]]
    assert (len(session.requests), prompt_tokens(session), session.requests[0].stop_reason) == (1, 30, "completed")


def test_a_compaction_stands_for_the_history() -> None:
    item = {"type": "compaction", "encrypted_content": "enc"}
    compacted = {"object": "response.compaction", "id": "r2", "output": [GO, {**item, "id": "cmp"}], "usage": USAGE}
    more = {"role": "user", "content": "more"}
    rows = [
        {"request": {**BODY, "input": [GO]}, "response": response("r1", DONE)},
        {"request": {"model": "m", "instructions": "Be brief.", "input": [GO, DONE]}, "response": compacted},
        {"request": {**BODY, "input": [item, more]}, "response": response("r3", DONE)},
    ]
    session = open_value(rows)
    assert [kind for _, kind, _ in list_blocks(session)][2:] == ["text", "text", "compaction", "text", "text"]
    assert (len(session.requests), prompt_tokens(session), session.requests[1].stop_reason) == (3, 90, "compaction")
    assert list_sent(session, 2) == ["more"], "the compaction is encrypted"


def list_sent(session: Session, request: int) -> list[str]:
    plan = turnscope.replay(session).plans[request]
    return leaves(build_body(plan, session, as_recorded=True))["messages"]


@pytest.mark.parametrize(
    ("name", "tokens", "calls"),
    [
        ("background_mode_with_tool_vcr", (51 + 78, 15 + 17), 1),
        ("openai_responses_compact_messages", (29 + 51 + 156 + 298, 9 + 9 + 190 + 8), 0),
        ("model_mcp_server_tool_stream", (1401, 480), 1),
    ],
)
def test_real_cassettes(shared: Callable[..., Path], name: str, tokens: Any, calls: int) -> None:
    """Read beside it: each usage of a response that was completed, each text of an answer."""
    path = shared("data", "new", "responses", f"{name}.yaml")
    assert list_claims(path) == [IMPORTER.name]
    (session,) = turnscope.load_all(path)
    assert (prompt_tokens(session), output_tokens(session)) == tokens
    assert pairs(session) == calls
    written = {block.text for block in session.blocks if block.role == "assistant" and block.kind == "text"}
    raw = yaml.safe_load(path.read_text())["interactions"]
    bodies = [body for each in raw if (body := each["response"].get("parsed_body") or {}).get("object") == "response"]
    rows = [row for body in bodies for row in body["output"] if row["type"] == "message"]
    assert {part["text"] for row in rows for part in row["content"]} <= written
    assert written


def test_nothing_breaks() -> None:
    assert survives(WHOLE, count=40)
    assert survives(WHOLE, lines=True, count=40)
