"""ChatGPT exports: lists, shards, zips and single conversations; the mapping tree, calls without ids, thoughts."""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import data_of, list_blocks, list_claims, open_value, pairs, survives, texts, threads
from turnscope.importers.chatgpt import IMPORTER
from turnscope.reading.contents import list_entries, read_entry
from turnscope.reading.source import LazyList, Source


def node(id: str, parent: str | None, message: Any, children: Any = ()) -> dict[str, Any]:
    return {"id": id, "parent": parent, "children": list(children), "message": message}


def message(role: str, content: Any, at: float | None = None, to: str = "all", **metadata: Any) -> dict[str, Any]:
    held = {"content_type": "text", "parts": [content]} if isinstance(content, str) else content
    author = {"role": role, "name": None, "metadata": {}}
    return {"author": author, "create_time": at, "content": held, "recipient": to, "metadata": metadata, "weight": 1.0}


def make_conversation(*nodes: Any, current: str | None = None, id: str = "c1", title: str = "A title") -> dict[str, Any]:
    mapping = {n["id"]: n for n in nodes}
    for n in nodes:
        if n["parent"] in mapping and n["id"] not in mapping[n["parent"]]["children"]:
            mapping[n["parent"]]["children"].append(n["id"])
    about = {"title": title, "create_time": 1_750_000_000.5, "update_time": None, "conversation_id": id}
    return {**about, "mapping": mapping, "current_node": current, "default_model_slug": "gpt-d"}


THOUGHTS = {"content_type": "thoughts", "thoughts": [{"summary": "Plan", "content": "Search."}]}
CHAT = [
    node("r", None, None),
    node("s", "r", message("system", "")),
    node(
        "p",
        "s",
        message("user", {"content_type": "user_editable_context", "user_profile": "A cook.", "user_instructions": "Be brief."}),
    ),
    node("u", "p", message("user", "what?", 1_750_000_001.0)),
    node("t", "u", message("assistant", THOUGHTS)),
    node("q", "t", message("assistant", {"content_type": "reasoning_recap", "content": "Thought for 2 s"})),
    node(
        "c",
        "q",
        message(
            "assistant",
            {"content_type": "code", "language": "unknown", "text": 'search("x")'},
            None,
            "browser",
            model_slug="gpt-x",
        ),
    ),
    node("d", "c", message("tool", {"content_type": "tether_browsing_display", "result": "found"})),
    node("e", "d", message("tool", {"content_type": "tether_quote", "title": "T", "url": "http://x", "text": "quote"})),
    node("a", "e", message("assistant", "It is 4.", 1_750_000_009.0, model_slug="gpt-x", finish_details={"type": "stop"})),
]
EDIT = [
    node("u2", "p", message("user", "other?", 1_750_000_020.0)),
    node("a2", "u2", message("assistant", "5", 1_750_000_021.0)),
]


def test_the_current_path_is_the_main_one_and_edits_are_branches() -> None:
    session = open_value([make_conversation(*CHAT, *EDIT, current="a")])
    assert list_blocks(session) == [
        ("system", "system", "A cook.\n\nBe brief."),
        ("user", "text", "what?"),
        ("assistant", "thinking", "Plan\nSearch."),
        ("assistant", "tool_use", 'browser {"input":"search(\\"x\\")"}'),
        ("user", "tool_result", "found"),
        ("user", "tool_result", "T\nhttp://x\nquote"),
        ("assistant", "text", "It is 4."),
    ]
    assert [(r.model, r.stop_reason) for r in session.requests] == [("gpt-x", None), ("gpt-x", "stop")]
    assert pairs(session) == 1
    (branch,) = session.branches
    assert texts(branch)[1:] == ["other?", "5"]
    assert (branch.requests[0].model, branch.parent) == ("gpt-d", session.id)
    newest = open_value([make_conversation(*CHAT, *EDIT)])
    assert texts(newest)[-1] == "5", "without a current node the newest leaf is taken"


def test_lists_objects_shards_and_zips_list_the_same(tmp_path: Path) -> None:
    two = [make_conversation(*CHAT, current="a"), make_conversation(*CHAT[:4], current="u", id="c2", title="Second")]
    for value in (two, {"conversations": two}):
        assert [thread.session.title for thread in threads(data_of(value))] == ["A title", "Second"]
    assert open_value(two[0]).blocks == open_value(two).blocks
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations-000.json", json.dumps(two[:1]))
        archive.writestr("conversations-001.json", json.dumps(two[1:]))
        archive.writestr("user.json", "{}")
        archive.writestr("chat.html", "<html>")
    assert [entry.title for entry in turnscope.entries(path)] == ["A title", "Second"]
    assert turnscope.load(path, "conversations-001.json").title == "Second"


def test_thousands_are_listed_without_being_kept() -> None:
    many = [make_conversation(*CHAT, *EDIT, current="a", id=f"c{n}", title=f"T{n}") for n in range(1_500)]
    source = Source(Path("/nowhere/conversations.json"), data_of(many))
    begun = time.process_time()
    found = list(list_entries(source))
    assert (len(found), found[7].title) == (1_500, "T7")
    assert isinstance(source.document, LazyList)
    assert time.process_time() - begun < 5
    assert read_entry(source, "c7").session.title == "T7"


def test_odd_nodes_are_told_and_nothing_breaks() -> None:
    parts = {
        "content_type": "multimodal_text",
        "parts": [
            "see",
            {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"},
            {"content_type": "audio_asset_pointer"},
            {"content_type": "audio_transcription", "text": "hello"},
        ],
    }
    rows = [
        node("u", None, message("user", parts)),
        node("a", "u", message("assistant", "x")),
        node("o", "a", message("oracle", "x")),
        node("t", "o", message("assistant", THOUGHTS)),
        node("w", "nowhere", message("user", "lost")),
        node("z", "z", message("user", "its own parent")),
    ]
    session = open_value([make_conversation(*rows, current="t")])
    assert [b.kind for b in session.blocks] == ["text", "image", "text", "text", "thinking"]
    assert len(session.branches) == 2
    said = " ".join(note.what for note in session.notes)
    assert all(word in said for word in ("audio_asset_pointer", "oracle", "missing parent", "cycle was cut"))
    assert survives([make_conversation(*CHAT, *EDIT, current="a"), make_conversation(*rows, current="t", id="c2")], count=50)


def test_an_empty_mapping_is_refused() -> None:
    with pytest.raises(turnscope.errors.BrokenFile, match="holds no message"):
        open_value([make_conversation(node("r", None, None))])


def test_the_real_export_is_what_it_says(shared: Callable[..., Path]) -> None:
    path = shared("data", "open", "chatgpt", "chatgpt-export.json")
    assert list_claims(path) == [IMPORTER.name]
    sessions = turnscope.load_all(path)
    assert [session.title for session in sessions] == ["Conversation 1. Web Search", "Conversation 2"]
    assert [len(session.requests) for session in sessions] == [7, 2]
    messages = [message for session in sessions for message in session.messages]
    assert [sum(m.origin == origin for m in messages) for origin in ("prompt", "answer", "tool")] == [5, 9, 5]
    assert (sum(map(pairs, sessions)), [len(session.branches) for session in sessions]) == (4, [0, 0])
    for session in sessions:
        view = turnscope.overview(session)
        assert not view.windows.any(), "the app's own windows are not those of the same models elsewhere"
        assert not [marker for marker in view.markers if marker.kind == "overflow"]
