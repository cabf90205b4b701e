"""Logs of gateways: LiteLLM, Helicone and Portkey keep whole requests beside their responses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from formats import data_of, list_blocks, list_claims, open_value, output_tokens, pairs, prompt_tokens, survives, texts, threads

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
USE = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": "a"}'}}
ASKED: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "go"}]
LOOKS = {"role": "assistant", "content": "Looking.", "tool_calls": [USE]}
SEEN = {"role": "tool", "tool_call_id": "c", "content": "seen"}
DONE = {"role": "assistant", "content": "done"}
CALLS = [(ASKED, LOOKS, (30, 7)), ([*ASKED, LOOKS, SEEN], DONE, (40, 3))]
TOLD = [
    ("tools", "tool", '{"name":"look","input_schema":{"type":"object"}}'),
    ("system", "system", "Be brief."),
    ("user", "text", "go"),
    ("assistant", "text", "Looking."),
    ("assistant", "tool_use", 'look {"at":"a"}'),
    ("user", "tool_result", "seen"),
    ("assistant", "text", "done"),
]
AT = 1_795_493_923.5


def make_answer(message: Any, counts: tuple[int, int]) -> dict[str, Any]:
    usage = dict(zip(("prompt_tokens", "completion_tokens"), counts, strict=True))
    return {"id": "x", "object": "chat.completion", "model": "m-x", "choices": [{"message": message}], "usage": usage}


def litellm(messages: Any, message: Any, counts: tuple[int, int], **more: Any) -> dict[str, Any]:
    apart = {"call_type": "acompletion", "status": "success", "response_cost": 0.5, "metadata": {"usage_object": {}}}
    told = {"id": "x", "model": "m-x", "model_parameters": {"tools": [TOOL]}, "startTime": AT, "endTime": AT + 1}
    return {**told, **apart, "messages": messages, "response": make_answer(message, counts), **more}


def spend(messages: Any, message: Any, counts: tuple[int, int]) -> dict[str, Any]:
    """A row of the proxy's database, which keeps JSON as text."""
    body = json.dumps({"model": "m-x", "messages": messages, "tools": [TOOL]})
    about = {"request_id": "x", "call_type": "acompletion", "spend": 0.5, "startTime": "2026-11-24T04:18:43.5Z"}
    held = {"messages": "{}", "proxy_server_request": body, "response": json.dumps(make_answer(message, counts))}
    return {**about, "endTime": "2026-11-24T04:18:44.5Z", **held}


def helicone(messages: Any, message: Any, counts: tuple[int, int]) -> dict[str, Any]:
    times = {"request_created_at": "2026-11-24T04:18:43.5Z", "response_created_at": "2026-11-24T04:18:44.5Z"}
    body = {"model": "m-x", "messages": messages, "tools": [TOOL]}
    about = {"request_id": "x", "response_id": "y", "response_status": 200, "costUSD": 0.5, "provider": "OPENAI"}
    return {**about, **times, "request_body": body, "response_body": make_answer(message, counts)}


def portkey(messages: Any, message: Any, counts: tuple[int, int]) -> dict[str, Any]:
    body = {"model": "m-x", "messages": messages, "tools": [TOOL]}
    about = {
        "id": "x",
        "trace_id": "t",
        "created_at": "2026-11-24T04:18:43.5Z",
        "response_status_code": 200,
        "ai_org": "openai",
    }
    return {**about, "request": json.dumps(body), "response": json.dumps(make_answer(message, counts))}


LITELLM = [litellm(*call) for call in CALLS]
SPEND = [spend(*call) for call in CALLS]
HELICONE = {"data": [helicone(*call) for call in CALLS], "error": None}
PORTKEY = [portkey(*call) for call in CALLS]


@pytest.mark.parametrize(
    ("value", "usd"),
    [(LITELLM, 0.5), (SPEND, 0.5), (HELICONE, 0.5), (HELICONE["data"], 0.5), (PORTKEY, None)],
    ids=["litellm", "spend", "helicone", "rows", "portkey"],
)
def test_requests_are_exact(value: Any, usd: float | None, tmp_path: Path) -> None:
    for lines in (False, True) if isinstance(value, list) else (False,):
        session = open_value(value, lines=lines)
        assert list_blocks(session) == TOLD
        assert (prompt_tokens(session), output_tokens(session), pairs(session)) == (70, 10, 1)
        assert [(request.model, request.logged_usd, request.sent_at) for request in session.requests] == [("m-x", usd, AT)] * 2
        assert not session.notes
    (tmp_path / "made.json").write_bytes(data_of(value))
    assert list_claims(tmp_path / "made.json") == ["openai-chat"]


def test_a_failed_call_says_why() -> None:
    failed = litellm(CALLS[1][0], {}, (0, 0), status="failure", error_str="no credit", response={})
    session = open_value([*LITELLM, failed])
    assert (len(session.requests), session.requests[2].usage) == (3, None)
    assert [note.what for note in session.notes] == ["the request was not answered: no credit"]


@pytest.mark.parametrize("value", [LITELLM, SPEND, HELICONE, PORTKEY], ids=["litellm", "spend", "helicone", "portkey"])
def test_nothing_breaks(value: Any) -> None:
    assert survives(value, count=40)


def test_calls_of_two_providers_in_one_log() -> None:
    usage = {"input_tokens": 50, "output_tokens": 9}
    answer = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "bonjour"}], "usage": usage}
    asked = {"model": "m-y", "max_tokens": 9, "messages": [{"role": "user", "content": "salut"}]}
    other = {**helicone(*CALLS[0]), "provider": "ANTHROPIC", "request_body": asked, "response_body": answer}
    for rows in ([other, helicone(*CALLS[0])], [helicone(*CALLS[0]), other]):
        sessions = [thread.session for thread in threads(data_of(rows, lines=True), "made.jsonl")]
        assert sum(map(prompt_tokens, sessions)) == 80
        assert sum(map(output_tokens, sessions)) == 16
        assert {"bonjour", "Looking."} <= {text for session in sessions for text in texts(session)}


def test_a_stream_kept_as_text() -> None:
    chunks = [
        {"choices": [{"delta": {"content": "do"}}]},
        {"choices": [{"delta": {"content": "ne"}}], "usage": {"prompt_tokens": 5}},
    ]
    stream = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n"
    session = open_value(
        [{**helicone(*CALLS[0]), "request_body": {"model": "m", "messages": ASKED[1:]}, "response_body": stream}]
    )
    assert (session.source, list_blocks(session)[-1], prompt_tokens(session)) == (
        "openai-chat",
        ("assistant", "text", "done"),
        5,
    )
