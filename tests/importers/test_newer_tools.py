"""Formats of one file each: Crush's database, Hermes, AI Studio, Copilot on the web, droid and the Grok CLI."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import data_of, database, list_blocks, list_claims, open_value, pairs, survives, texts
from turnscope.session.model import Session


def part(type: str, **data: Any) -> dict[str, Any]:
    return {"type": type, "data": data}


def make_message(n: int, role: str, *parts: dict[str, Any], session: str = "s") -> dict[str, Any]:
    about = {"id": f"m{n}", "session_id": session, "role": role, "model": "m-x" if role == "assistant" else ""}
    return {**about, "parts": list(parts), "created_at": 1_757_360_000 + n, "finished_at": 1_757_360_001 + n}


def crush(path: Path, summary: str = "") -> Path:
    call = part("tool_call", id="c", name="view", input='{"at": "a"}', finished=True)
    messages = [
        make_message(1, "user", part("text", text="go")),
        make_message(2, "assistant", part("reasoning", thinking="hm"), call, part("finish", reason="tool_use", time=1)),
        make_message(3, "tool", part("tool_result", tool_call_id="c", content="seen", is_error=False)),
        make_message(4, "assistant", part("text", text="done"), part("finish", reason="end_turn", time=2)),
        make_message(5, "user", part("text", text="more")),
        make_message(6, "assistant", part("odd", a=1), part("text", text="yes")),
        make_message(7, "user", part("text", text="sub"), session="below"),
    ]
    sessions = [
        {"id": "s", "parent_session_id": None, "title": "A task", "prompt_tokens": 9, "completion_tokens": 2, "cost": 0.5},
        {"id": "below", "parent_session_id": "s", "title": "", "prompt_tokens": 0, "completion_tokens": 0, "cost": 0},
    ]
    rows = [{**row, "updated_at": 1_757_360_000, "summary_message_id": summary or None} for row in sessions]
    return database(path, {"sessions": rows, "messages": messages})


HERMES = {
    "session_id": "h",
    "session_start": "2026-01-01T00:00:00Z",
    "platform": "cli",
    "model": "m-x",
    "system_prompt": "Be brief.",
    "tools": [{"name": "look", "description": "Looks.", "function": {"name": "look"}, "input_schema": {"type": "object"}}],
    "messages": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "",
            "reasoning": "hm",
            "tool_calls": [{"id": "c", "function": {"name": "look", "arguments": '{"at": "a"}'}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "seen"},
        {"role": "assistant", "content": "done", "finish_reason": "stop"},
        {"role": "session_meta"},
    ],
}
STUDIO = {
    "runSettings": {"model": "models/gemini-x", "temperature": 1.0},
    "systemInstruction": {"text": "Be brief."},
    "chunkedPrompt": {
        "chunks": [
            {"role": "user", "text": "go", "tokenCount": 2},
            {"role": "user", "driveDocument": {"id": "d"}, "tokenCount": 40},
            {"role": "model", "text": "hm", "isThought": True},
            {"role": "model", "text": "done", "finishReason": "STOP"},
        ]
    },
}
WEB = {
    "threadUrl": "https://github.com/copilot/c/x",
    "threadName": "A thread",
    "messages": [
        {"id": "root", "role": "user", "createdAt": ""},
        {"id": "a", "parentMessageID": "root", "role": "user", "content": "go", "createdAt": "2026-01-01T00:00:00Z"},
        {"id": "b", "parentMessageID": "a", "role": "assistant", "content": "one", "createdAt": "2026-01-01T00:00:01Z"},
        {"id": "c", "parentMessageID": "a", "role": "assistant", "content": "two", "createdAt": "2026-01-01T00:00:02Z"},
        {
            "id": "d",
            "parentMessageID": "c",
            "role": "user",
            "content": "on",
            "createdAt": "2026-01-01T00:00:03Z",
            "references": [1],
        },
    ],
}


def line(n: int, role: str, *content: dict[str, Any], up: int = -1) -> dict[str, Any]:
    about = {
        "type": "message",
        "id": f"m{n}",
        "parentId": f"m{n - 1 if up < 0 else up}",
        "timestamp": f"2026-01-01T00:00:{n:02}Z",
    }
    return {**about, "message": {"role": role, "content": list(content)}}


TEXT = {"type": "text", "text": "go"}
USE = {"type": "tool_use", "id": "c", "name": "look", "input": {"at": "a"}}
BACK = {"type": "tool_result", "tool_use_id": "c", "content": "seen"}
DROID = [
    {"type": "session_start", "id": "m0", "title": "A task", "cwd": "/w"},
    line(1, "user", TEXT),
    line(2, "assistant", {"type": "text", "text": "Looking."}),
    line(3, "assistant", USE),
    line(4, "user", BACK),
    line(5, "assistant", {"type": "text", "text": "done"}),
    {"type": "todo_state", "id": "t"},
]
GROK = [
    {"type": "system", "content": "Be brief."},
    {"type": "user", "content": [TEXT], "prompt_index": 0},
    {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]},
    {"type": "backend_tool_call", "kind": {"tool_type": "web_search", "action": {"query": "a"}, "id": "ws"}},
    {
        "type": "assistant",
        "content": "",
        "tool_calls": [{"id": "c", "name": "look", "arguments": '{"at": "a"}'}],
        "model_id": "m-x",
    },
    {"type": "tool_result", "tool_call_id": "c", "content": "seen"},
    {"type": "assistant", "content": "done", "model_id": "m-x"},
]
ROUND = [
    ("user", "text", "go"),
    ("assistant", "thinking", "hm"),
    ("assistant", "tool_use", 'look {"at":"a"}'),
    ("user", "tool_result", "seen"),
    ("assistant", "text", "done"),
]


def test_crush_and_opencode_of_2025(tmp_path: Path) -> None:
    session = turnscope.load(crush(tmp_path / "a.db"))
    assert list_blocks(session)[:5] == [*ROUND[:2], ("assistant", "tool_use", 'view {"at":"a"}'), *ROUND[3:]]
    assert (session.title, pairs(session), len(session.requests), session.requests[0].model) == ("A task", 1, 3, "m-x")
    assert [texts(below) for below in session.subagents] == [["sub"]]
    assert any(note.what.startswith("1 record of kind 'part odd'") for note in session.notes)
    assert session.about["run_usd"] == 0.5
    summed = turnscope.load(crush(tmp_path / "b.db", "m4"))
    (seen,) = summed.observed
    assert (seen.request, summed.blocks[seen.edit.facts["summary"]].text) == (2, "done")


def test_hermes() -> None:
    session = open_value(HERMES)
    assert list_blocks(session)[1:] == [("system", "system", "Be brief."), *ROUND]
    assert (pairs(session), len(session.requests), session.requests[1].stop_reason) == (1, 2, "stop")
    assert '"description":"Looks."' in texts(session)[0]


def test_ai_studio() -> None:
    session = open_value(STUDIO)
    assert [row for row in list_blocks(session) if row[2]][:2] == [("system", "system", "Be brief."), ("user", "text", "go")]
    assert [block.text for block in session.blocks if block.role == "assistant"] == ["hm", "done"]
    assert (len(session.requests), session.requests[0].model, session.requests[0].stop_reason) == (1, "models/gemini-x", "STOP")
    assert "2 chunks report their tokens: 42 in all" in [note.what for note in session.notes]


def test_copilot_on_the_web() -> None:
    session = open_value(WEB)
    assert (session.title, texts(session)) == ("A thread", ["go", "two", "on"])
    assert [texts(branch) for branch in session.branches] == [["go", "one"]]
    assert [note.what for note in session.notes] == ["1 record of kind 'references' (3 bytes) was skipped"]


def test_droid() -> None:
    session = open_value(DROID, lines=True)
    assert (session.title, len(session.requests), pairs(session)) == ("A task", 2, 1)
    assert texts(session) == ["go", "Looking.", 'look {"at":"a"}', "seen", "done"]
    assert "todo_state" in session.notes[-1].what


def test_the_grok_cli() -> None:
    session = open_value(GROK, lines=True)
    assert [row for row in list_blocks(session) if "web_search" not in row[2]] == [("system", "system", "Be brief."), *ROUND]
    assert (len(session.requests), pairs(session), session.requests[0].model) == (2, 1, "m-x")


@pytest.mark.parametrize(
    ("name", "value"),
    [("hermes", HERMES), ("aistudio", STUDIO), ("copilot-web", WEB), ("droid", DROID), ("grok-cli", GROK)],
)
def test_each_is_claimed_by_its_importer_alone_and_nothing_breaks(name: str, value: Any, tmp_path: Path) -> None:
    lines = isinstance(value, list)
    path = tmp_path / "made.json"
    path.write_bytes(data_of(value, lines))
    assert list_claims(path) == [name]
    assert survives(value, lines=lines, count=40)


# The real files, read beside the importers -----------------------------------------------------------------------------------


def load(path: Path) -> Session:
    return turnscope.load(path)


@pytest.mark.parametrize("name", ["crush/chex-mix.crush.db", "opencode-db/podgpt.db"])
def test_real_databases(shared: Callable[..., Path], name: str, tmp_path: Path) -> None:
    path = tmp_path / "copy.db"
    path.write_bytes(shared("data", "new", *name.split("/")).read_bytes())
    assert list_claims(path) == ["crush"]
    with sqlite3.connect(path) as db:
        rows = [
            (session, role, json.loads(parts))
            for session, role, parts in db.execute("select session_id, role, parts from messages")
        ]
    db.close()
    sessions = {session.id: session for session in turnscope.load_all(path)}
    assert sessions.keys() == {session for session, _, _ in rows}
    for id, session in sessions.items():
        parts = [(role, one["type"], one["data"]) for of, role, held in rows if of == id for one in held]
        assert sum(role == "assistant" for of, role, _ in rows if of == id) == len(session.requests)
        said = [data["text"] for _, type, data in parts if type == "text" and data["text"]]
        assert said == [block.text for block in session.blocks if block.kind == "text"]
        results = [data["content"] for _, type, data in parts if type == "tool_result"]
        assert results == [block.text for block in session.blocks if block.kind == "tool_result"]
        assert pairs(session) == len({data["id"] for _, type, data in parts if type == "tool_call"})


def test_the_real_copilot_export(shared: Callable[..., Path]) -> None:
    path = shared("data", "new", "copilot", "fri_apr_24_2026.json")
    session, rows = load(path), json.loads(path.read_text())["messages"]
    said = {row["content"] for row in rows if row.get("content")}
    assert said == {block.text for path in (session, *session.branches) for block in path.blocks if block.text}
    assert list_claims(path) == ["copilot-web"]


@pytest.mark.parametrize(
    ("name", "importer", "counts"),
    [
        ("hermes/hermes-large.json", "hermes", (2, 1)),
        ("aistudio/before.json", "aistudio", (1, 0)),
        ("factory-droid/droid-session_store_large.jsonl", "droid", (3, 1)),
        ("grok-cli/grok-chat_history.jsonl", "grok-cli", (3, 2)),
    ],
)
def test_real_logs(shared: Callable[..., Path], name: str, importer: str, counts: tuple[int, int]) -> None:
    """Every text of a message is in the session; requests and calls with results are those counted by hand."""
    path = shared("data", "new", *name.split("/"))
    session = load(path)
    assert list_claims(path) == [importer]
    assert (len(session.requests), pairs(session)) == counts
    raw = (
        [json.loads(row) for row in path.read_text().splitlines() if row.strip()]
        if path.suffix == ".jsonl"
        else json.loads(path.read_text())
    )
    held = {text.strip() for text in texts(session)}
    assert {text.strip() for text in _texts(raw)} <= held


def _texts(value: Any) -> list[str]:
    """Texts under `text` and, where it is a text, `content`."""
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    if not isinstance(value, dict) or "codex_reasoning_items" in value:
        return []
    own = [value[key] for key in ("text", "content") if isinstance(value.get(key), str) and value[key]]
    return own + [text for key, one in value.items() if key not in ("pendingInputs", "tools") for text in _texts(one)]
