"""Logs of OpenAI's Responses API: whole inputs, calls that go on from another, streams."""

from __future__ import annotations

import json
from typing import Any

from formats import opened, output_tokens, pairs, prompt_tokens, survives, told

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
        session = opened(WHOLE, lines=lines)
        assert told(session) == SEEN
        assert (len(session.requests), pairs(session), prompt_tokens(session), output_tokens(session)) == (2, 1, 60, 14)
        first = session.requests[0]
        assert first.usage
        assert (first.usage.input_tokens, first.model, first.id, first.sent_at) == (10, "m-1", "r1", 1_767_225_600)


def test_a_call_goes_on_from_a_response() -> None:
    linked = {"request": {**BODY, "input": [BACK], "previous_response_id": "r1"}, "response": response("r2", DONE)}
    assert told(opened([WHOLE[0], linked])) == SEEN
    lost = {"request": {**BODY, "input": "more", "previous_response_id": "gone"}, "response": response("r3", DONE)}
    assert "its beginning is not known" in opened([lost]).notes[-1].what


def test_streams_and_failures() -> None:
    events = f"event: x\ndata: {json.dumps({'type': 'response.completed', 'response': response('r1', DONE)})}\n\n"
    assert told(opened([{"body": {"model": "m", "input": "go"}, "response": events}])) == [SEEN[2], SEEN[6]]
    failed = {"request": {"model": "m", "input": "go"}, "response": {**response("r1"), "error": {"message": "overloaded"}}}
    assert any("overloaded" in note.what for note in opened([failed, *WHOLE]).notes)


def test_nothing_breaks() -> None:
    assert survives(WHOLE, count=40)
    assert survives(WHOLE, lines=True, count=40)
