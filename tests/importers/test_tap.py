"""Logs of the tap: sessions of four APIs, joined by name or by what they share, with what else passed beside them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import turnscope
from conftest import shared
from formats import threads
from turnscope.cli import main
from turnscope.planning.render import build_body
from turnscope.reading.followers import follow
from turnscope.reading.registry import find_places
from turnscope.reading.source import Source
from turnscope.reading.tap_log import read_tap_log
from turnscope.session.model import Session
from turnscope.settings import Machine
from turnscope.tap.recorder import Recorder
from turnscope.views.exactness import describe_exactness

from tests.wire import folders, open_run

ROOT = "http://localhost"
PATHS = {
    "anthropic-messages": "/v1/messages",
    "anthropic-count": "/v1/messages/count_tokens",
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "gemini": "/v1beta/models/g-1:streamGenerateContent",
}
SESSION = {"metadata": {"user_id": json.dumps({"device_id": "d", "session_id": "s-1"})}}
TOOLS = [{"name": "Task", "input_schema": {"type": "object"}}]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def said(*content: Mapping[str, Any], model: str = "m-1") -> dict[str, Any]:
    usage = {"input_tokens": 30, "output_tokens": 7}
    return {"type": "message", "id": "msg", "role": "assistant", "model": model, "content": [*content], "usage": usage}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


CALL = {"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "look for a file, and say where it is"}}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "it is here"}]}
FIRST = {"model": "m-1", "max_tokens": 9, "tools": TOOLS, "messages": [user("do what is to be done")]} | SESSION
SECOND = FIRST | {"messages": [*FIRST["messages"], {"role": "assistant", "content": [CALL]}, RESULT]}
AGENT = {"model": "m-1", "max_tokens": 9, "tools": TOOLS, "messages": [user(CALL["input"]["prompt"])]} | SESSION
TITLE = {
    "model": "m-2",
    "max_tokens": 9,
    "messages": [user("a title for: do what is to be done")],
} | SESSION
MADE = [
    ("anthropic-messages", TITLE, said(text("A title"), model="m-2")),
    ("anthropic-messages", FIRST, said(CALL)),
    ("anthropic-messages", AGENT, said(text("it is here"))),
    ("anthropic-count", SECOND, {"input_tokens": 44}),
    ("anthropic-messages", SECOND, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    ("anthropic-messages", SECOND, said(text("done"))),
]


def write(path: Path, calls: Iterable[tuple[str, Any, Any]] = MADE, command: str = "") -> Path:
    """A log of calls: API, body and response. A text is a stream; None is no answer, and a number how an answer fails."""
    recorder = Recorder(path, [command] if command else [])
    for api, body, response in calls:
        number = recorder.begin(api, ROOT + PATHS[api], [], [json.dumps(body).encode()], [], 1_767_225_600.0 + recorder.calls)
        failed = isinstance(response, dict) and response.get("type") == "error"
        kind = b"text/event-stream" if isinstance(response, str) else b"application/json"
        if response is not None:
            recorder.answer(number, 529 if failed else 200, [(b"Content-Type", kind)])
            recorder.add(number, response.encode() if isinstance(response, str) else json.dumps(response).encode())
            recorder.end(number, "complete")
    recorder.close()
    return path


def list_sessions(path: Path) -> list[Session]:
    return [thread.session for thread in threads(path.read_bytes(), path.name)]


def test_what_names_one_session_is_one_with_subagents_side_requests_and_retries(tmp_path: Path) -> None:
    (session,) = list_sessions(write(tmp_path / "tap.jsonl"))
    assert (session.id, session.title, len(session.requests)) == ("s-1", "do what is to be done", 2)
    assert session.requests[1].attempts == 2
    assert sorted((one.title[:12], one.at >= 0, one.parent) for one in session.subagents) == [
        ("a title for:", False, "s-1"),
        ("look for a f", True, "s-1"),
    ]
    assert [note.what for note in session.notes] == [
        "1 request was for a count of tokens: no model read them, and they are no requests here"
    ]
    plans = turnscope.replay(session).plans
    assert [build_body(plan, session, as_recorded=True) for plan in plans] == [FIRST, SECOND]
    assert describe_exactness(session).as_sent
    assert describe_exactness(session).sentence == "the log holds the body of each of its 2 requests"


GO = {"role": "user", "parts": [{"text": "go"}]}
GEMINI = [
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "hm", "thought": True}]}}]},
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "go"}]}}]},
    {"candidates": [{"content": {"parts": [{"text": "od"}]}, "finishReason": "STOP"}], "modelVersion": "g-1"},
    {"usageMetadata": {"promptTokenCount": 30, "candidatesTokenCount": 7}},
]
CHAT = [
    {"id": "c", "model": "m-1", "choices": [{"delta": {"content": "go"}}]},
    {"choices": [{"delta": {"content": "od"}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 7}},
]
ITEM = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "good"}]}
MADE_RESPONSE = {"object": "response", "id": "r", "model": "m-1", "output": []}
USED = {"input_tokens": 30, "output_tokens": 7, "total_tokens": 37}
RESPONSES = [
    {"type": "response.created", "response": MADE_RESPONSE},
    {"type": "response.output_item.done", "item": ITEM},
    {"type": "response.completed", "response": MADE_RESPONSE | {"status": "completed", "output": [ITEM], "usage": USED}},
]


def events(values: Iterable[Any]) -> str:
    return "".join(f"data: {json.dumps(value)}\n\n" for value in values)


@pytest.mark.parametrize(
    ("api", "body", "response"),
    [
        ("openai-chat", {"model": "m-1", "messages": [{"role": "user", "content": "go"}]}, events(CHAT) + "data: [DONE]\n\n"),
        ("openai-responses", {"model": "m-1", "input": "go"}, events(RESPONSES)),
        ("gemini", {"contents": [GO]}, events(GEMINI)),
        ("gemini", {"contents": [GO]}, json.dumps(GEMINI)),
        ("gemini", {"model": "g-1", "request": {"contents": [GO]}}, events({"response": one} for one in GEMINI)),
    ],
)
def test_streams_of_the_other_apis_are_joined(tmp_path: Path, api: str, body: Any, response: str) -> None:
    (session,) = list_sessions(write(tmp_path / "tap.jsonl", [(api, body, response)]))
    (request,) = session.requests
    assert (session.blocks[0].text, session.blocks[-1].text) == ("go", "good")
    assert (request.usage.prompt_tokens, request.usage.output_tokens) == (30, 7)
    assert request.model in ("m-1", "g-1")


CHAT_BODY = {"model": "m-1", "messages": [{"role": "user", "content": "go"}]}


@pytest.mark.parametrize(
    ("made", "source"),
    [
        (MADE[1:2] + MADE[3:], "anthropic-api"),
        ([("openai-chat", CHAT_BODY, events(CHAT))], "openai-chat"),
        ([("openai-responses", {"model": "m-1", "input": "go"}, events(RESPONSES))], "openai-responses"),
        ([("gemini", {"contents": [GO]}, events(GEMINI))], "other-apis"),
    ],
)
def test_a_log_exported_as_plain_calls_opens_as_the_same_session(made: Any, source: str, tmp_path: Path) -> None:
    path = write(tmp_path / "tap.jsonl", made)
    assert main(["export", str(path), "--as", "calls", "--output", str(tmp_path / "calls.jsonl")]) == 0
    (first,), (again,) = list_sessions(path), list_sessions(tmp_path / "calls.jsonl")
    assert (again.source, again.blocks) == (source, first.blocks)
    facts = [[(r.usage, r.cut, r.stop, r.attempts, r.sent_at, r.model) for r in each.requests] for each in (first, again)]
    assert facts[0] == facts[1]
    assert main(["export", str(tmp_path / "calls.jsonl"), "--as", "calls"]) == 2, "that is no log of a tap"


def test_a_stream_of_responses_that_breaks_off_has_the_items_that_were_done(tmp_path: Path) -> None:
    body = {"model": "m-1", "input": "go"}
    (session,) = list_sessions(write(tmp_path / "tap.jsonl", [("openai-responses", body, events(RESPONSES[:2]))]))
    assert (session.blocks[-1].text, session.requests[0].stop_reason) == ("good", "interrupted")


def test_requests_that_name_no_session_are_apart_unless_the_tap_started_their_tool(tmp_path: Path) -> None:
    bare = [(api, {key: value for key, value in body.items() if key != "metadata"}, answer) for api, body, answer in MADE]
    apart = list_sessions(write(tmp_path / "tap.jsonl", bare))
    assert [(len(one.requests), len(one.subagents)) for one in apart] == [(2, 0), (1, 0), (1, 0)]
    (joined,) = list_sessions(write(tmp_path / "agent.jsonl", bare, "/usr/bin/agent"))
    assert (joined.id, len(joined.requests), len(joined.subagents)) == ("agent", 2, 2)


def test_the_larger_window_that_a_header_asks_for_is_known(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "tap.jsonl")
    headers = [(b"Anthropic-Beta", b"some-2026-01-01, context-1m-2025-08-07")]
    number = recorder.begin("anthropic-messages", ROOT, headers, [json.dumps(FIRST).encode()], [], 1_767_225_600.0)
    recorder.end(number, "complete")
    recorder.close()
    assert turnscope.load(tmp_path / "tap.jsonl").requests[0].settings["betas"] == ["context-1m-2025-08-07"]


def test_a_body_that_is_none_of_its_api_is_noted(tmp_path: Path) -> None:
    odd = [("openai-chat", {"model": "m-1"}, None), ("openai-chat", {"model": "m-1", "messages": 5}, None)]
    (session,) = list_sessions(write(tmp_path / "tap.jsonl", [*odd, *MADE]))
    assert sum("none of its API" in note.what for note in session.notes) == 0, "notes stand where their session is"
    assert len(session.requests) == 2


def test_a_log_grows_while_it_is_open(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "tap.jsonl"
    begun = next(number for number, line in enumerate(whole) if b'"sent_at"' in line and b'"call":2' in line)
    path.write_bytes(b"".join(whole[: begun + 1]))
    following = follow(path)
    assert following.thread().session.requests[0].stop_reason == "error"  # not answered yet
    path.write_bytes(b"".join(whole))
    assert [request.stop_reason for request in following.thread().session.requests] == [None, None]


def test_the_tap_s_own_folder_is_among_the_places(tmp_path: Path) -> None:
    machine = Machine("linux", tmp_path, tmp_path, tmp_path, {"TURNSCOPE_DATA": str(tmp_path / "data")})
    (tmp_path / "data" / "tap").mkdir(parents=True)
    path = write(tmp_path / "data" / "tap" / "claude.jsonl")
    assert [[*place.paths()] for importer, place in find_places(machine) if importer.name == "tap"] == [[path]]


def _answer(row: Mapping[str, Any]) -> Any:
    """A response as its API has it, from what the recorded server noted of it."""
    back, path = row.get("response") or {}, row["path"].partition("?")[0]
    if back.get("status", 200) != 200:
        return {"type": "error", "error": {"message": "refused"}}
    if path.endswith("/messages"):
        return said() | {key: back[key] for key in ("id", "content", "usage") if back.get(key)}
    if path.endswith("/responses"):
        return {"object": "response", "status": "completed", "model": "m"} | {k: back.get(k) for k in ("id", "output", "usage")}
    if path.endswith("Content"):
        parts = {"candidates": [{"content": {"parts": back.get("parts") or []}}]}
        return parts | {"usageMetadata": back.get("usage") or {}}
    message = {"role": "assistant", "content": back.get("text"), "tool_calls": back.get("tool_calls") or None}
    return {"id": back.get("id"), "choices": [{"message": message}], "usage": back.get("usage") or {}}


def _api(path: str) -> str:
    from turnscope.tap.apis import detect_api

    return detect_api(path.partition("?")[0])


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("tool", ["claude", "codex", "gemini", "qwen", "pi", "opencode", "cline"])
def test_recorded_runs_of_agents_are_one_session_each_whose_bodies_are_as_sent(tool: str, tmp_path: Path) -> None:
    for number, folder in enumerate(folders(shared("data", "wire", tool))):
        with open_run(folder) as run:
            rows = [row for row in run.rows if _api(row["path"]) and row["body"]]
        path = write(tmp_path / f"{number}.jsonl", [(_api(r["path"]), r["body"], _answer(r)) for r in rows], tool)
        assert [json.loads(call.body) for call in read_tap_log(Source(path)).calls] == [row["body"] for row in rows]
        sessions = list_sessions(path)
        counted = [row for row in rows if not row["path"].partition("?")[0].endswith("count_tokens")]
        sent = sum(request.attempts for one in sessions for each in (one, *one.subagents) for request in each.requests)
        assert sent == len(counted), run.name
        kinds = Counter(row["kind"] for row in rows)
        assert sum(request.attempts for one in sessions for request in one.requests) >= kinds["main"], run.name
        assert path.stat().st_size * 2 < sum(len(json.dumps(row["body"])) for row in rows)
