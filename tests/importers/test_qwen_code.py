"""Qwen Code sessions: Claude Code's frame, Google's contents; compressions, and requests beside the conversation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import data_of, list_claims, open_value, output_tokens, pairs, prompt_tokens, survives, texts
from turnscope.importers.qwen_code import IMPORTER, find_places
from turnscope.planning.render import build_body
from turnscope.session.model import Session
from turnscope.settings import Machine

from tests.wire.leaves import leaves

Parts = list[dict[str, Any]]


def text(value: str) -> dict[str, Any]:
    return {"text": value}


def call(id: str, path: str) -> dict[str, Any]:
    return {"functionCall": {"id": id, "name": "read_file", "args": {"path": path}}}


def result(id: str, output: str) -> dict[str, Any]:
    return {"functionResponse": {"id": id, "name": "read_file", "response": {"output": output}}}


def record(number: int, type: str, parts: Parts | None = None, parent: int = -1, **more: Any) -> dict[str, Any]:
    """A line with the frame that all lines have; it follows the one before it."""
    above = parent if parent >= 0 else number - 1
    frame = {"uuid": f"r{number}", "parentUuid": f"r{above}" if above else None, "sessionId": "s", "version": "0.15.10"}
    held = {"message": {"role": "model" if type == "assistant" else "user", "parts": parts}} if parts is not None else {}
    return {**frame, "timestamp": f"2026-01-01T00:00:{number:02}Z", "type": type, "cwd": "/p", **held, **more}


def answer(number: int, parts: Parts, prompt: int, parent: int = -1) -> dict[str, Any]:
    used = {"promptTokenCount": prompt, "candidatesTokenCount": 5, "thoughtsTokenCount": 2, "cachedContentTokenCount": 4}
    used["totalTokenCount"] = prompt + 5
    return record(number, "assistant", parts, parent, model="qwen-x", usageMetadata=used, contextWindowSize=100_000)


def response(number: int, prompt: int, output: int = 5) -> dict[str, Any]:
    event = {"event.name": "qwen-code.api_response", "input_token_count": prompt, "output_token_count": output}
    event |= {"prompt_id": "p", "response_text": "So far."}
    return record(number, "system", subtype="ui_telemetry", systemPayload={"uiEvent": event})


def compression(number: int, history: list[dict[str, Any]]) -> dict[str, Any]:
    payload = {"info": {"originalTokenCount": 900, "newTokenCount": 300}, "compressedHistory": history}
    return record(number, "system", subtype="chat_compression", systemPayload=payload)


ROUND = [{"text": "The first one.", "thought": True}, text("Looking."), call("c1", "a"), call("c2", "b")]
LINES = [
    record(1, "user", [text("hi")]),
    response(2, 100),
    answer(3, ROUND, 100),
    record(4, "tool_result", [result("c1", "a = 1")], toolCallResult={"callId": "c1", "status": "success"}),
    record(5, "tool_result", [result("c2", "no")], toolCallResult={"callId": "c2", "status": "error"}),
    response(6, 200),
    answer(7, [call("c3", "d")], 200),
    record(8, "tool_result", [result("c3", "d = 2")]),
]
SUMMARY = [
    {"role": "user", "parts": [text("so far")]},
    {"role": "model", "parts": [text("Got it.")]},
    {"role": "user", "parts": [result("c1", "a = 1"), result("c2", "no")]},
    {"role": "model", "parts": [call("c3", "d")]},
]
COMPRESSED = [*LINES, response(9, 150, 7), compression(10, SUMMARY), response(11, 90), answer(12, [text("It is 2.")], 90)]


def list_sent(session: Session) -> list[list[str]]:
    plans = turnscope.replay(session).plans
    return [leaves(build_body(plan, session, as_recorded=True))["messages"] for plan in plans]


def test_records_are_read_with_thoughts_calls_and_usage() -> None:
    session = open_value(LINES, lines=True)
    kinds = ["text", "thinking", "text", "tool_use", "tool_use", "tool_result", "tool_result", "tool_use", "tool_result"]
    assert [block.kind for block in session.blocks] == kinds
    assert (session.source, session.title, session.window, pairs(session)) == ("qwen-code", "hi", 100_000, 3)
    first = session.requests[0]
    assert first.usage
    assert (first.usage.prompt_tokens, first.usage.cache_read_input_tokens, first.usage.output_tokens) == (100, 4, 5)
    assert first.sent_at
    assert first.answered_at == first.sent_at + 2
    assert [block.raw.get("is_error", False) for block in session.blocks if block.kind == "tool_result"] == [False, True, False]


def test_thoughts_beside_the_answer_are_counted_by_the_total() -> None:
    lines = [record(1, "user", [text("hi")]), answer(2, [text("yes")], 100)]
    lines[1]["usageMetadata"]["totalTokenCount"] = 107
    assert output_tokens(open_value(lines, lines=True)) == 7


def test_a_compression_leaves_its_history_and_what_was_being_sent() -> None:
    session = open_value(COMPRESSED, lines=True)
    assert list_sent(session)[2] == ["so far", "Got it.", "a = 1", "no", 'read_file {"path":"d"}', "d = 2"]
    assert {seen.request for seen in session.observed} == {2}
    assert session.observed[0].edit.facts == {"preTokens": 900}


def test_what_was_asked_beside_the_chat_is_billed_with_it() -> None:
    """By agents of the tool, and for summaries: told of with their usage, but not with their prompts."""
    session = open_value(COMPRESSED, lines=True)
    (aside,) = session.subagents
    assert (aside.title, texts(aside), prompt_tokens(aside), output_tokens(aside)) == ("summary", ["So far."], 150, 7)
    assert session.blocks[aside.at].text == "d = 2"
    agent = {"event.name": "qwen-code.api_response", "input_token_count": 60, "output_token_count": 3}
    rounds = [{"uiEvent": {**agent, "subagent_name": "scout", "prompt_id": f"s#scout-1#{n}"}} for n in range(2)]
    told = [record(9 + n, "system", subtype="ui_telemetry", systemPayload=payload) for n, payload in enumerate(rounds)]
    (scout,) = open_value([*LINES, *told], lines=True).subagents
    assert (scout.title, len(scout.requests), prompt_tokens(scout)) == ("scout", 2, 120)


def test_what_a_compression_that_was_written_late_holds_of_later_answers_is_left_out() -> None:
    late = [*SUMMARY, {"role": "user", "parts": [result("c3", "d = 2")]}, {"role": "model", "parts": [text("It is 2.")]}]
    lines = [*LINES, compression(9, late), answer(10, [text("It is 2.")], 90)]
    assert list_sent(open_value(lines, lines=True))[2] == list_sent(open_value(COMPRESSED, lines=True))[2]


def test_a_rewind_is_a_branch_and_a_notification_is_no_prompt() -> None:
    lines = [*LINES, record(9, "user", [text("again")], parent=3), answer(10, [text("ok")], 120)]
    session = open_value(lines, lines=True)
    assert texts(session)[-2:] == ["again", "ok"]
    assert [texts(branch)[-1] for branch in session.branches] == ["d = 2"]
    told = record(9, "user", [text("a task ended")], subtype="notification")
    assert open_value([*LINES, told], lines=True).messages[-1].origin == "meta"


def test_a_fork_of_a_known_tool_is_claimed_by_what_its_records_hold(tmp_path: Path) -> None:
    for name, lines in {"whole": LINES, "system": LINES[1:2]}.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(data_of(lines, lines=True))
        assert list_claims(path) == [IMPORTER.name]
    own = record(1, "user") | {"message": {"role": "user", "content": "hi"}}
    path.write_bytes(data_of([own], lines=True))
    assert list_claims(path) == ["claude-code"]


def test_nothing_breaks() -> None:
    assert survives(COMPRESSED, lines=True, count=60)


@pytest.mark.parametrize("variables", [{}, {"QWEN_HOME": "H"}, {"QWEN_HOME": "H", "QWEN_RUNTIME_DIR": "R"}])
def test_sessions_are_found(tmp_path: Path, variables: dict[str, str]) -> None:
    given = {name: str(tmp_path / folder) for name, folder in variables.items()}
    root = tmp_path / (variables.get("QWEN_RUNTIME_DIR") or variables.get("QWEN_HOME") or ".qwen")
    file = root / "projects" / "-p" / "chats" / "s.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    for system in ("linux", "darwin", "win32"):
        machine = Machine(system, tmp_path, tmp_path, tmp_path, given)
        assert [path for place in find_places(machine) for path in place.paths()] == [file]


def test_the_real_sessions_are_what_they_say(shared: Callable[..., Path]) -> None:
    path = shared("data", "new", "qwen-code", "qwen-019f0000-0000-7000-8000-000000000001.jsonl")
    assert list_claims(path) == [IMPORTER.name]
    session = turnscope.load(path)
    assert (len(session.requests), pairs(session), prompt_tokens(session)) == (2, 1, 0)
    assert [message.origin for message in session.messages] == ["prompt", "answer", "tool", "answer", "meta"]
