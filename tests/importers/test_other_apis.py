"""Logs of Google's generateContent and of Bedrock's Converse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
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
