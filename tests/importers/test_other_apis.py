"""Logs of Google's generateContent and of Bedrock's Converse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import data_of, list_blocks, list_claims, open_value, output_tokens, pairs, prompt_tokens, survives

SCHEMA = {"type": "object"}
ASK = {"role": "user", "parts": [{"text": "go"}]}
LOOK = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"at": "a"}}}]}
GAVE = {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"it": "seen"}}}]}
DONE = {"role": "model", "parts": [{"text": "done"}]}


def google(contents: Any, answer: Any, asked: int, said: int) -> dict[str, Any]:
    tools = [{"functionDeclarations": [{"name": "look", "parameters": SCHEMA}]}]
    body = {"contents": contents, "systemInstruction": {"parts": [{"text": "Be brief."}]}, "tools": tools}
    used = {"promptTokenCount": asked, "candidatesTokenCount": said, "totalTokenCount": asked + said}
    response = {"candidates": [{"content": answer, "finishReason": "STOP"}], "usageMetadata": used, "modelVersion": "m-x"}
    return {"request": body, "response": response}


def bedrock(messages: Any, answer: Any, asked: int, said: int) -> dict[str, Any]:
    tools = {"tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": SCHEMA}}}]}
    body = {"modelId": "m-x", "messages": messages, "system": [{"text": "Be brief."}], "toolConfig": tools}
    used = {"inputTokens": asked, "outputTokens": said, "totalTokens": asked + said}
    return {"request": body, "response": {"output": {"message": answer}, "stopReason": "end_turn", "usage": used}}


B_ASK = {"role": "user", "content": [{"text": "go"}]}
B_LOOK = {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c", "name": "look", "input": {"at": "a"}}}]}
B_GAVE = {"role": "user", "content": [{"toolResult": {"toolUseId": "c", "content": [{"json": {"it": "seen"}}]}}]}
B_DONE = {"role": "assistant", "content": [{"text": "done"}]}
GOOGLE = [google([ASK], LOOK, 30, 7), google([ASK, LOOK, GAVE], DONE, 40, 3)]
BEDROCK = [bedrock([B_ASK], B_LOOK, 30, 7), bedrock([B_ASK, B_LOOK, B_GAVE], B_DONE, 40, 3)]


@pytest.mark.parametrize("value", [GOOGLE, BEDROCK], ids=["google", "bedrock"])
def test_calls_are_one_session(value: Any, tmp_path: Path) -> None:
    for lines in (False, True):
        session = open_value(value, lines=lines)
        assert list_blocks(session) == [
            ("tools", "tool", '{"name":"look","input_schema":{"type":"object"}}'),
            ("system", "system", "Be brief."),
            ("user", "text", "go"),
            ("assistant", "tool_use", 'look {"at":"a"}'),
            ("user", "tool_result", '{"it":"seen"}'),
            ("assistant", "text", "done"),
        ]
        assert (prompt_tokens(session), output_tokens(session), pairs(session)) == (70, 10, 1)
        assert [request.model for request in session.requests] == ["m-x"] * 2
    (tmp_path / "made.json").write_bytes(data_of(value))
    assert list_claims(tmp_path / "made.json") == ["other-apis"]
    assert survives(value, count=40)


def log_invocation(record: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A record of Bedrock's log of invocations."""
    body = {key: value for key, value in record["request"].items() if key != "modelId"}
    about = {"schemaType": "ModelInvocationLog", "timestamp": "2026-01-01T00:00:00Z", "operation": "Converse", "modelId": "m-x"}
    return {**about, "input": {"inputBodyJson": body}, "output": {"outputBodyJson": record["response"]}, **more}


def test_bedrock_logs_what_was_invoked() -> None:
    whole = open_value(BEDROCK)
    for lines in (False, True):
        session = open_value([log_invocation(record) for record in BEDROCK], lines=lines)
        assert list_blocks(session) == list_blocks(whole)
        assert (prompt_tokens(session), output_tokens(session), session.requests[0].model) == (70, 10, "m-x")
        assert session.requests[0].sent_at == 1_767_225_600.0
    asked = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}]}
    used = {"input_tokens": 30, "output_tokens": 7}
    came = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "done"}], "usage": used}
    session = open_value(log_invocation({"request": asked, "response": came}, operation="InvokeModel"))
    assert (session.source, session.requests[0].model, prompt_tokens(session)) == ("anthropic-api", "m-x", 30)
    assert survives(log_invocation(BEDROCK[1]), count=40)


THOUGHT = {"role": "model", "parts": [{"text": "hm, yes", "thought": True}, {"text": "done"}]}
CHUNKS = [
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "hm, ", "thought": True}]}}], "modelVersion": "m-x"},
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "yes", "thought": True}, {"text": "do"}]}}]},
    {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "ne"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 40, "candidatesTokenCount": 3, "totalTokenCount": 43},
    },
]
EVENTS = [
    {"messageStart": {"role": "assistant"}},
    {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "h"}}}},
    {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "m"}}}},
    {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "s"}}}},
    {"contentBlockStart": {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "c", "name": "look"}}}},
    {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '{"at": '}}}},
    {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '"a"}'}}}},
    {"messageStop": {"stopReason": "tool_use"}},
    {"metadata": {"usage": {"inputTokens": 30, "outputTokens": 7, "totalTokens": 37}}},
]


def test_streams_come_to_the_same_as_responses() -> None:
    whole = open_value(google([ASK], THOUGHT, 40, 3))
    for response in (CHUNKS, "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in CHUNKS)):
        session = open_value({**google([ASK], THOUGHT, 40, 3), "response": response})
        assert (list_blocks(session), session.requests[0].usage) == (list_blocks(whole), whole.requests[0].usage)
        assert session.requests[0].stop_reason == "STOP"
    session = open_value({**BEDROCK[0], "response": EVENTS})
    assert list_blocks(session)[3:] == [("assistant", "thinking", "hm"), ("assistant", "tool_use", 'look {"at":"a"}')]
    assert (prompt_tokens(session), output_tokens(session), session.requests[0].stop_reason) == (30, 7, "tool_use")
    assert survives({**BEDROCK[0], "response": EVENTS}, count=40)
    assert survives({**GOOGLE[0], "response": CHUNKS}, count=40)


def test_a_cassette(tmp_path: Path) -> None:
    calls = [
        {
            "request": {
                "uri": "https://h/v1beta/models/m-x:generateContent",
                "method": "POST",
                "body": json.dumps(one["request"]),
            },
            "response": {"status": {"code": 200}, "body": {"string": json.dumps(one["response"])}},
        }
        for one in GOOGLE
    ]
    path = tmp_path / "calls.yaml"
    path.write_text("interactions:\n" + "".join(f"- {json.dumps(call)}\n" for call in calls) + "version: 1\n")
    assert list_claims(path) == ["other-apis"]
    assert list_blocks(turnscope.load(path)) == list_blocks(open_value(GOOGLE))


def test_what_googles_sdk_dumps() -> None:
    """Names with underscores, a text as contents, the rest of the body as `config`; data of tools keep their names."""
    tools = [{"function_declarations": [{"name": "look", "parameters": {"type": "object", "mime_type": {}}}]}]
    look = {"role": "model", "parts": [{"function_call": {"name": "look", "args": {"mime_type": "a"}}}]}
    gave = {"role": "user", "parts": [{"function_response": {"name": "look", "response": {"finish_reason": "b"}}}]}
    used = {"prompt_token_count": 30, "candidates_token_count": 4, "thoughts_token_count": 3, "total_token_count": 37}
    response = {"candidates": [{"content": DONE, "finish_reason": "STOP"}], "usage_metadata": used, "model_version": "m-x"}
    body = {"config": {"system_instruction": "Be brief.", "tools": tools}, "contents": [ASK, look, gave]}
    session = open_value([{"request": body, "response": response}])
    assert [text for _, _, text in list_blocks(session)] == [
        '{"name":"look","input_schema":{"type":"object","mime_type":{}}}',
        "Be brief.",
        "go",
        'look {"mime_type":"a"}',
        '{"finish_reason":"b"}',
        "done",
    ]
    request = session.requests[0]
    assert (prompt_tokens(session), output_tokens(session), request.model, request.stop_reason) == (30, 7, "m-x", "STOP")
    assert list_blocks(open_value([{"request": {"contents": "go"}, "response": response}]))[0] == ("user", "text", "go")


def test_tokens_that_googles_tools_put_into_the_prompt() -> None:
    value = google([ASK], DONE, 40, 3)
    value["response"]["usageMetadata"] |= {"toolUsePromptTokenCount": 20, "totalTokenCount": 63}
    assert prompt_tokens(open_value(value)) == 60


def test_pictures_and_documents() -> None:
    source = {"source": {"bytes": "aGk="}}
    parts = [{"image": {"format": "png", **source}}, {"document": {"format": "pdf", "name": "a", **source}}, {"text": "go"}]
    inline = [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}, {"text": "go"}]
    session = open_value(bedrock([{"role": "user", "content": parts}], B_DONE, 30, 7))
    assert [block.kind for block in session.blocks][2:5] == ["image", "document", "text"]
    session = open_value(google([{"role": "user", "parts": inline}], DONE, 30, 7))
    assert [block.kind for block in session.blocks][2:4] == ["image", "text"]
