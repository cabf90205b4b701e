"""Cursor: composers and chats of a workspace's database, and composers whose bubbles are rows of their own."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import database, list_blocks, list_claims, output_tokens, pairs, prompt_tokens, texts
from turnscope.importers.cursor import IMPORTER, find_places
from turnscope.settings import Machine

AT = 1_757_360_000_000
TOOL = {
    "toolCallId": "c",
    "name": "read_file",
    "rawArgs": '{"at": "a"}',
    "result": '{"contents": "seen"}',
    "status": "completed",
}
BUBBLES = {
    "b1": {"type": 1, "text": "go", "createdAt": "2026-01-01T00:00:00Z"},
    "b2": {"type": 2, "text": "", "thinking": {"text": "hm"}, "tokenCount": {"inputTokens": 90, "outputTokens": 7}},
    "b3": {"type": 2, "text": "Looking.", "tokenCount": {"inputTokens": 0, "outputTokens": 0}},
    "b4": {"type": 2, "text": "", "toolFormerData": TOOL},
    "b5": {"type": 2, "text": "done", "codeBlocks": [{"a": 1}], "tokenCount": {"inputTokens": 120, "outputTokens": 3}},
    "b6": {"type": 1, "text": ""},
}
HEADS = [{"bubbleId": key, "type": value["type"]} for key, value in BUBBLES.items()]
COMPOSER = {
    "composerId": "k",
    "name": "A task",
    "createdAt": AT,
    "modelConfig": {"modelName": "m-x"},
    "contextTokenLimit": 200_000,
    "fullConversationHeadersOnly": [*HEADS, {"bubbleId": "gone", "type": 2}],
}
OLD = {
    "allComposers": [
        {"composerId": "o", "createdAt": AT - 5, "conversation": [BUBBLES["b1"], BUBBLES["b5"]]},
        {"composerId": "e"},
    ]
}
TAB = {
    "tabId": "t",
    "chatTitle": "A chat",
    "bubbles": [{"type": "user", "text": "hi"}, {"type": "ai", "text": "yo", "modelType": "m-y"}],
}


def write_database(path: Path) -> Path:
    rows = [{"key": "composerData:k", "value": COMPOSER}, {"key": "composerData:empty", "value": {"composerId": "empty"}}]
    rows += [{"key": f"bubbleId:k:{key}", "value": value} for key, value in BUBBLES.items()]
    items = [
        {"key": "composer.composerData", "value": OLD},
        {"key": "workbench.panel.aichat.view.aichat.chatdata", "value": {"tabs": [TAB]}},
    ]
    return database(path, {"cursorDiskKV": rows, "ItemTable": items})


def test_a_value_that_is_no_json_is_told(tmp_path: Path) -> None:
    rows = [
        {"key": "composerData:k", "value": json.dumps(OLD["allComposers"][0])},
        {"key": "composerData:x", "value": '{"a": '},
    ]
    (session,) = turnscope.load_all(database(tmp_path / "state.vscdb", {"cursorDiskKV": rows}))
    assert "the value of composerData:x is no JSON (6 characters): what it holds is not shown" in [
        n.what for n in session.notes
    ]


def test_stored_summaries_are_counted_in_notes(tmp_path: Path) -> None:
    composer = {**COMPOSER, "latestConversationSummary": {"summary": {"summary": "long ago"}, "lastBubbleId": "b2"}}
    rows = [{"key": "composerData:k", "value": composer}]
    rows += [
        {"key": f"bubbleId:k:{key}", "value": {**value, "cachedConversationSummary": {}}} for key, value in BUBBLES.items()
    ]
    rows[1]["value"]["cachedConversationSummary"] = {"text": "short"}
    (session,) = turnscope.load_all(database(tmp_path / "state.vscdb", {"cursorDiskKV": rows}))
    told = [note.what for note in session.notes]
    assert any("1 record of kind 'latestConversationSummary'" in what for what in told)
    assert any("1 record of kind 'cachedConversationSummary'" in what for what in told)
    assert not any("long ago" in block.text for block in session.blocks), "which requests carried it is in no record"


def test_each_place_is_read(tmp_path: Path) -> None:
    path = write_database(tmp_path / "state.vscdb")
    assert list_claims(path) == [IMPORTER.name]
    entries = list(turnscope.entries(path))
    assert [(entry.id, entry.title) for entry in entries] == [("k", "A task"), ("o", ""), ("t", "A chat")]
    rows, inline, chat = (turnscope.load(path, entry) for entry in entries)
    assert list_blocks(rows) == [
        ("user", "text", "go"),
        ("assistant", "thinking", "hm"),
        ("assistant", "text", "Looking."),
        ("assistant", "tool_use", 'read_file {"at":"a"}'),
        ("user", "tool_result", '{"contents": "seen"}'),
        ("assistant", "text", "done"),
    ]
    assert (len(rows.requests), pairs(rows), rows.window, rows.requests[0].model) == (2, 1, 200_000, "m-x")
    assert (prompt_tokens(rows), output_tokens(rows)) == (210, 10)
    assert {"bubble that the database does not hold", "codeBlocks"} == {
        note.what.split("'")[1] for note in rows.notes if note.skipped
    }
    assert (texts(inline), texts(chat), chat.requests[0].model) == (["go", "done"], ["hi", "yo"], "m-y")


@pytest.mark.parametrize("system", ["linux", "macos", "windows"])
def test_where_it_lies(system: Any, tmp_path: Path) -> None:
    machine = Machine(system, tmp_path, tmp_path / "config", tmp_path, {})
    folder = tmp_path / "config" / "Cursor" / "User" / "workspaceStorage" / "w"
    folder.mkdir(parents=True)
    path = write_database(folder / "state.vscdb")
    assert [found for place in find_places(machine) for found in place.paths()] == [path]


def test_a_real_workspace(shared: Callable[..., Path], tmp_path: Path) -> None:
    """Every text of every bubble, chat by chat, as the two values hold them."""
    path = tmp_path / "state.vscdb"
    path.write_bytes(shared("data", "new", "cursor", "state.vscdb").read_bytes())
    with sqlite3.connect(path) as db:
        values = {
            key: json.loads(value)
            for key, value in db.execute("select key, value from ItemTable")
            if key.endswith(("erData", "chatdata"))
        }
    db.close()
    wanted = {c["composerId"]: c.get("conversation") or [] for c in values["composer.composerData"]["allComposers"]}
    wanted |= {tab["tabId"]: tab["bubbles"] for tab in values["workbench.panel.aichat.view.aichat.chatdata"]["tabs"]}
    sessions = {session.id: session for session in turnscope.load_all(path)}
    assert sessions.keys() == {id for id, bubbles in wanted.items() if any(bubble["text"] for bubble in bubbles)}
    for id, session in sessions.items():
        said = [bubble["text"] for bubble in wanted[id] if bubble["text"]]
        assert "".join(texts(session)) == "".join(said)
        assert session.requests
