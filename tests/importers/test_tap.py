"""Logs of the tap: sessions of four APIs, joined by name or by what they share, with what else passed beside them."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import turnscope
from conftest import shared
from formats import threads
from turnscope.cli import main
from turnscope.importers.tap import TURN
from turnscope.planning.render import build_body
from turnscope.reading.followers import follow
from turnscope.reading.registry import find_places
from turnscope.reading.source import Source
from turnscope.reading.tap_log import read_tap_log
from turnscope.session.model import COUNT_REQUESTS, SIDE, Session
from turnscope.settings import Machine
from turnscope.tap.recorder import Recorder
from turnscope.views.exactness import describe_exactness
from turnscope.views.side_requests import describe_side_requests

from tests.wire import folders, open_run, side

ROOT = "http://localhost"
PATHS = {
    "anthropic-messages": "/v1/messages",
    "anthropic-count": "/v1/messages/count_tokens",
    "gemini-count": "/v1beta/models/g-1:countTokens",
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
    id = f"msg-{crc32(json.dumps([model, *content]).encode())}"
    return {"type": "message", "id": id, "role": "assistant", "model": model, "content": [*content], "usage": usage}


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
        ("look for a f", True, "s-1"),
        ("title: a tit", False, "s-1"),
    ]
    assert [one.about.get(SIDE) for one in session.subagents] == [None, "title"]
    view = turnscope.overview(session)
    assert [(name, share.requests) for name, share in view.bill.parts] == [("path", 2), ("subagents", 1), ("side requests", 1)]
    assert describe_side_requests(view.bill, session) == "1 title no price, 1 failed attempt, 1 count of tokens, free"
    assert [marker.kind for marker in view.markers if marker.kind in ("subagent", "side")] == ["subagent", "side"]
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
    assert [(len(one.requests), len(one.subagents)) for one in apart] == [(2, 2)], "what they say of each other joins them"
    (joined,) = list_sessions(write(tmp_path / "agent.jsonl", bare, "/usr/bin/agent"))
    assert (joined.id, len(joined.requests), len(joined.subagents)) == ("agent", 2, 2)


def test_conversations_that_say_nothing_of_each_other_stay_apart(tmp_path: Path) -> None:
    others = [
        ("openai-chat", {"model": "m", "messages": [{"role": "user", "content": f"a question about {what}"}]}, events(CHAT))
        for what in ("the weather in the north", "the price of tea")
    ]
    assert [one.title for one in list_sessions(write(tmp_path / "tap.jsonl", others))] == [
        "a question about the weather in the north",
        "a question about the price of tea",
    ]


def send(path: Path, calls: Iterable[tuple[dict[str, str], dict[str, Any], Any]], command: str = "agent") -> list[Session]:
    """The sessions of a log of Anthropic's calls: headers, body and answer. An answer of None is one that broke off."""
    recorder = Recorder(path, [command] if command else [])
    for headers, body, answer in calls:
        names = [(name.encode(), value.encode()) for name, value in headers.items()]
        data = [json.dumps(body).encode()]
        number = recorder.begin("anthropic-messages", ROOT + "/v1/messages", names, data, [], time.time())
        recorder.answer(number, 200, [(b"Content-Type", b"application/json" if answer else b"text/event-stream")])
        recorder.add(number, json.dumps(answer).encode() if answer else BROKEN.encode())
        recorder.end(number, "complete" if answer else "provider failed")
    recorder.close()
    return list_sessions(path)


BROKEN = events(
    [
        {"type": "message_start", "message": said(model="claude-sonnet-4-5") | {"content": []}},
        {"type": "content_block_start", "index": 0, "content_block": text("")},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half of"}},
    ]
)
LONG = "The user wants a report of all rivers, sorted by their length, and two of them are missing still."
ASK = user("CRITICAL: write words only. Your task is to write a detailed summary of what was said. " + "And what else. " * 30)
DONE = {"role": "assistant", "content": [text("The rivers are in the list.")]}
ASKED = FIRST | {"messages": [*FIRST["messages"], DONE, ASK]}
AFTER = FIRST | {"messages": [user(f"This goes on from before. Summary: {LONG} What follows was kept."), DONE, user("go on")]}


def find_kinds(session: Session) -> list[tuple[str, int]]:
    return [(one.about.get(SIDE, "subagent"), len(one.requests)) for one in session.subagents]


def test_a_summary_that_shares_the_prefix_stands_beside_the_conversation(tmp_path: Path) -> None:
    made = [(FIRST, said(DONE["content"][0])), (ASKED, said(text(f"<summary>{LONG}</summary>"))), (AFTER, said(text("on")))]
    (session,) = send(tmp_path / "tap.jsonl", (({}, *call) for call in made))
    assert (len(session.requests), find_kinds(session)) == (2, [("summary", 1)])
    (session,) = send(tmp_path / "last.jsonl", (({}, *call) for call in made[:2]))
    assert find_kinds(session) == [("summary", 1)], "also while nothing follows it yet"
    asked = FIRST | {"messages": [*FIRST["messages"], DONE, user("write a summary of it")]}
    (session,) = send(tmp_path / "own.jsonl", [({}, FIRST, said(DONE["content"][0])), ({}, asked, said(text(LONG)))])
    assert (len(session.requests), find_kinds(session)) == (2, []), "a person may ask for a summary, too"


def test_a_try_of_the_quota_and_an_answer_that_broke_off_stand_beside_it(tmp_path: Path) -> None:
    quota = {"model": "m-1", "max_tokens": 1, "messages": [user("quota")]} | SESSION
    made = [(quota, said(text("q"))), (FIRST, None), (FIRST, said(DONE["content"][0]))]
    (session,) = send(tmp_path / "tap.jsonl", (({}, *call) for call in made))
    assert (len(session.requests), sorted(find_kinds(session))) == (1, [("quota", 1), ("retry", 1)])
    view = turnscope.overview(session)
    broken = next(share for kind, share in view.bill.side if kind == "retry")
    assert (broken.usd, broken.prompt) == (Decimal("0.000195"), 30), "it was billed as far as it came"


BARE = {key: value for key, value in AGENT.items() if key != "metadata"}
OWN = {key: value for key, value in FIRST.items() if key != "metadata"}
OWN_NEXT = {key: value for key, value in SECOND.items() if key != "metadata"}


@pytest.mark.parametrize(
    ("main", "sub"),
    [
        ({"X-Claude-Code-Session-Id": "s"}, {"X-Claude-Code-Session-Id": "s", "X-Claude-Code-Agent-Id": "a"}),
        ({"X-Session-Id": "s"}, {"X-Session-Id": "a", "X-Parent-Session-Id": "s"}),
        ({TURN: json.dumps({"session_id": "s", "thread_id": "s"})}, {TURN: json.dumps({"session_id": "s", "thread_id": "a"})}),
    ],
)
def test_subagents_that_are_named_hang_below_their_session(tmp_path: Path, main: Any, sub: Any) -> None:
    fork = BARE | {"messages": [*OWN["messages"], user("a side of it that is worked on by another one")]}
    made = [(main, OWN, said(CALL)), (sub, BARE, said(text("it is here"))), (main, OWN_NEXT, said(text("done")))]
    (session,) = send(tmp_path / "tap.jsonl", [*made, (sub, fork, said(text("so is that")))], "")
    assert (session.id, len(session.requests)) == ("s", 2)
    assert sorted(len(one.requests) for one in session.subagents) == [1, 1], "one that begins as the session does is none of it"
    assert {one.about["agent"] for one in session.subagents} == {"a"}


def test_a_subagent_that_begins_as_its_session_does_is_known_by_its_system_prompt(tmp_path: Path) -> None:
    context, hello = user("what all conversations of this tool begin with"), {"role": "assistant", "content": [text("Got it.")]}
    own = OWN | {"system": "You are an agent that works on code.", "messages": [context, hello, *OWN["messages"]]}
    after = own | {"messages": [context, hello, *OWN_NEXT["messages"]]}
    agent = BARE | {"system": "You look for files, and say where they are.", "messages": [context, hello, *BARE["messages"]]}
    plan = after | {"system": "You make plans, and change nothing.", "messages": [*after["messages"], DONE, user("plan it")]}
    made = [(own, said(CALL)), (agent, said(text("it is here"))), (after, said(DONE["content"][0])), (plan, said(text("so")))]
    for name in ("agent", ""):
        (session,) = send(tmp_path / f"{name}.jsonl", (({}, *call) for call in made), name)
        assert len(session.requests) == 3, "another system prompt in mid-conversation is no other conversation"
        assert [(len(one.requests), one.at >= 0) for one in session.subagents] == [(1, True)]


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
    with path.open("rb") as lines:  # a tap that nothing has passed yet
        (path.parent / "empty.jsonl").write_bytes(lines.readline())
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


NAMES = {"json": "check", "count_tokens": "count"}  # kinds of the recorded server -> those of the tap's log


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
        counted = [row for row in rows if row["kind"] != "count_tokens"]
        sent = sum(request.attempts for one in sessions for each in (one, *one.subagents) for request in each.requests)
        assert sent == len(counted), run.name
        kinds = Counter(NAMES.get(row["kind"], row["kind"]) for row in rows)
        below = [one for session in sessions for one in session.subagents]
        found = Counter({"main": sum(request.attempts for one in sessions for request in one.requests)})
        for one in below:
            found[one.about.get(SIDE, "sub")] += sum(request.attempts for request in one.requests)
        counted_tokens = sum(one.about.get(COUNT_REQUESTS, 0) for one in sessions)
        assert found + Counter({"count": counted_tokens}) == kinds, run.name
        for kind, share in turnscope.overview(sessions[0]).bill.side if sessions[0].subagents else ():
            those = [row for row in rows if NAMES.get(row["kind"], row["kind"]) == kind]
            whole = side.measure_kind(kind, those, set())
            assert (share.requests, share.prompt, share.output) == (whole.requests, whole.prompt, whole.output), (
                run.name,
                kind,
            )
        assert path.stat().st_size * 2 < sum(len(json.dumps(row["body"])) for row in rows)
