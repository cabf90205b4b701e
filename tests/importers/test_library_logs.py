"""Logs that libraries write: the command `llm` and Pydantic AI. The values are as these libraries wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import (
    data_of,
    database,
    list_blocks,
    list_claims,
    open_value,
    output_tokens,
    pairs,
    prompt_tokens,
    survives,
    texts,
)

DETAILS = '{"prompt_tokens_details": {"cached_tokens": 4}}'
SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}


def response(n: int, prompt: str, answer: str, **more: Any) -> dict[str, Any]:
    about = {"id": f"r{n}", "model": "m-x", "resolved_model": None, "options_json": {"temperature": 0.5}, "duration_ms": 500}
    times = {"datetime_utc": f"2026-11-24T04:00:0{n}+00:00", "input_tokens": 11, "output_tokens": 5, "token_details": DETAILS}
    chat = {"conversation_id": "c1", "conversation_name": "A chat", "system": "Be brief.", "prompt": prompt, "response": answer}
    lists = ("prompt_fragments", "system_fragments", "tools", "tool_calls", "tool_results", "attachments")
    return {**about, **times, **chat, **{name: [] for name in lists}, "response_json": {"id": f"p{n}"}, **more}


TOOL = {"id": 1, "name": "look", "description": "Looks.", "input_schema": SCHEMA}
CALL = {"name": "look", "arguments": {"at": "a"}, "tool_call_id": "c", "tool_id": 1}
PIECE = {"content": "a piece"}
LOGS = [
    response(1, "go", "Looking.", tools=[TOOL], tool_calls=[CALL]),
    response(2, "", "done", tools=[TOOL], tool_results=[{"name": "look", "output": "seen", "tool_call_id": "c"}]),
    response(3, "sum up", "yes", reasoning="hm", prompt_fragments=[PIECE]),
]
SAID = [
    ("system", "system", "Be brief."),
    ("user", "text", "go"),
    ("assistant", "text", "Looking."),
    ("assistant", "tool_use", 'look {"at":"a"}'),
    ("user", "tool_result", "seen"),
    ("assistant", "text", "done"),
    ("user", "text", "a piece\nsum up"),
    ("assistant", "thinking", "hm"),
    ("assistant", "text", "yes"),
]


def make_tables() -> dict[str, list[dict[str, Any]]]:
    """The same responses as rows of the older tables."""
    own = ("tools", "tool_calls", "tool_results", "prompt_fragments", "system_fragments", "attachments", "conversation_name")
    return {
        "_llm_migrations": [{"name": "x"}],
        "conversations": [{"id": "c1", "name": "A chat", "model": "m-x"}],
        "responses": [{key: value for key, value in row.items() if key not in own} for row in LOGS],
        "fragments": [{"id": 7, "content": "a piece"}],
        "prompt_fragments": [{"response_id": "r3", "fragment_id": 7}],
        "tools": [TOOL],
        "tool_responses": [{"tool_id": 1, "response_id": "r1"}],
        "tool_calls": [{**CALL, "id": 4, "response_id": "r1"}],
        "tool_results": [{"id": 5, "response_id": "r2", "tool_id": 1, "name": "look", "output": "seen", "tool_call_id": "c"}],
    }


def make_turns() -> dict[str, list[dict[str, Any]]]:
    """The same responses as the newer tables keep them: messages, each under the one before it."""
    parts: list[tuple[str, str | None, Any]] = [
        ("system", "Be brief.", None),
        ("user", "go", None),
        ("assistant", "Looking.", None),
        ("tool", None, {"name": "look", "output": "seen", "tool_call_id": "c"}),
        ("assistant", "done", None),
        ("user", None, {"text_ref": [{"fragment": 7}, {"literal": "\nsum up"}]}),
        ("assistant", "yes", None),
    ]
    kinds = {"tool": "tool_result"}
    messages = [
        {"hash": f"h{n}", "parent_hash": f"h{n - 1}" if n else None, "role": role} for n, (role, _, _) in enumerate(parts)
    ]
    rows: list[dict[str, Any]] = [
        {"id": n, "message_hash": f"h{n}", "position": 1, "type": kinds.get(role, "text"), "text": text, "payload": held}
        for n, (role, text, held) in enumerate(parts)
    ]
    rows.append({"id": 20, "message_hash": "h2", "position": 2, "type": "tool_call", "text": None, "payload": CALL})
    rows.append({"id": 21, "message_hash": "h6", "position": 0, "type": "reasoning", "text": "hm", "payload": None})
    keys = ("id", "model", "options_json", "input_tokens", "output_tokens", "token_details", "duration_ms", "datetime_utc")
    return {
        "_llm_migrations": [{"name": "x"}],
        "conversations": [],
        "responses": [],
        "fragments": [{"id": 7, "content": "a piece"}],
        "tools": [TOOL],
        "turn_tools": [{"turn_id": "r1", "tool_id": 1}],
        "messages": messages,
        "parts": rows,
        "threads": [{"id": "c1", "name": "A chat", "tip_message_hash": "h6"}],
        "turns": [
            {**{key: row[key] for key in keys}, "thread_id": "c1", "tip_message_hash": tip}
            for row, tip in zip(LOGS, ("h2", "h4", "h6"), strict=True)
        ],
    }


@pytest.mark.parametrize("form", ["json", "responses", "turns"])
def test_llm(form: str, tmp_path: Path) -> None:
    path = tmp_path / "logs.json"
    if form == "json":
        path.write_bytes(data_of(LOGS))
    else:
        tables = make_tables() if form == "responses" else make_turns()
        tables = {name: rows or [{"id": None}] for name, rows in tables.items()}
        path = database(tmp_path / "logs.db", tables)
    assert list_claims(path) == ["llm"]
    session = next(one for one in turnscope.load_all(path) if one.id == "c1")
    assert list_blocks(session)[1:] == SAID
    assert (session.title, pairs(session), prompt_tokens(session), output_tokens(session)) == ("A chat", 1, 33, 15)
    assert [(request.model, request.settings) for request in session.requests] == [("m-x", {"temperature": 0.5})] * 3
    first = session.requests[0]
    assert first.usage
    assert (first.usage.cache_read_input_tokens, first.sent_at, first.answered_at) == (4, 1795492801.0, 1795492801.5)
    assert '"description":"Looks."' in texts(session)[0]


def test_llm_keeps_conversations_apart_and_files(tmp_path: Path) -> None:
    image = {"type": "image/png", "path": None, "url": "https://example.org/a.png", "content": None}
    other = response(4, "one shot", "so", conversation_id="c2", attachments=[image])
    path = tmp_path / "logs.json"
    path.write_bytes(data_of([*LOGS, other]))
    newest, _ = turnscope.load_all(path)
    assert [block.kind for block in newest.blocks] == ["system", "text", "image", "text"]


def parts(kind: str, *held: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": kind, "parts": list(held), "timestamp": "2026-11-24T04:00:29Z", **more}


def part(kind: str, **held: Any) -> dict[str, Any]:
    return {"part_kind": kind, **held}


USAGE = {"input_tokens": 30, "cache_write_tokens": 0, "cache_read_tokens": 20, "output_tokens": 7, "details": {}, "cost": None}
IMAGE = {"url": "https://example.org/a.png", "kind": "image-url", "media_type": "image/png"}
MESSAGES = [
    parts("request", part("system-prompt", content="Be brief."), part("user-prompt", content=["go", IMAGE])),
    parts(
        "response",
        part("thinking", content="hm", signature="s"),
        part("tool-call", tool_name="look", args='{"at":"a"}', tool_call_id="c"),
        part("odd", content="x"),
        usage=USAGE,
        model_name="m-x",
        finish_reason="tool_call",
        provider_response_id="p1",
    ),
    parts("request", part("tool-return", tool_name="look", content={"it": "seen"}, tool_call_id="c")),
    parts("response", part("text", content="done"), usage={"request_tokens": 40, "response_tokens": 3}, model_name="m-x"),
    parts("request", part("retry-prompt", content="Try again.", tool_name=None, tool_call_id="x")),
]


def test_pydantic_ai() -> None:
    for lines in (False, True):
        session = open_value(MESSAGES, lines=lines)
        assert [row for row in list_blocks(session) if row[1] != "image"] == [
            ("system", "system", "Be brief."),
            ("user", "text", "go"),
            ("assistant", "thinking", "hm"),
            ("assistant", "tool_use", 'look {"at":"a"}'),
            ("user", "tool_result", '{"it":"seen"}'),
            ("assistant", "text", "done"),
            ("user", "text", "Try again."),
        ]
        assert (pairs(session), prompt_tokens(session), output_tokens(session)) == (1, 70, 10)
        first = session.requests[0]
        assert (first.model, first.id, first.stop_reason) == ("m-x", "p1", "tool_call")
        assert first.usage
        assert first.usage.cache_read_input_tokens == 20
        assert [note.what for note in session.notes] == ["1 record of kind 'part odd' (33 bytes) was skipped"]


@pytest.mark.parametrize(("name", "value"), [("llm", LOGS), ("pydantic-ai", MESSAGES)])
def test_each_is_claimed_by_its_importer_alone_and_nothing_breaks(name: str, value: Any, tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    path.write_bytes(data_of(value))
    assert list_claims(path) == [name]
    assert survives(value, count=40)


def test_pydantic_ai_of_older_versions_names_the_cache_as_the_provider_does() -> None:
    old = {"request_tokens": 30, "response_tokens": 7, "total_tokens": 37, "details": {"cached_tokens": 20}}
    messages = [parts("request", part("user-prompt", content="go")), parts("response", part("text", content="done"), usage=old)]
    usage = open_value(messages).requests[0].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (30, 20, 7)


def test_a_database_of_llm_before_its_tools(tmp_path: Path) -> None:
    row = {
        "id": "r",
        "model": "m-x",
        "prompt": "go",
        "response": "done",
        "conversation_id": "c",
        "datetime_utc": "2024-01-01T00:00:00",
    }
    path = database(tmp_path / "logs.db", {"conversations": [{"id": "c", "name": "A chat"}], "responses": [row]})
    assert list_claims(path) == ["llm"]
    (session,) = turnscope.load_all(path)
    assert (session.title, [block.text for block in session.blocks]) == ("A chat", ["go", "done"])
