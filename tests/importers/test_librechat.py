"""LibreChat exports in all four shapes, content parts, summaries, and the tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import list_blocks, list_claims, open_value, pairs, survives, texts
from turnscope.importers.librechat import IMPORTER, NO_PARENT


def user(id: str, parent: str, text: str, **more: Any) -> dict[str, Any]:
    return {
        "messageId": id,
        "parentMessageId": parent,
        "sender": "User",
        "isCreatedByUser": True,
        "text": text,
        "tokenCount": 6,
        **more,
    }


def bot(id: str, parent: str, text: str = "", *content: Any, **more: Any) -> dict[str, Any]:
    about = {
        "messageId": id,
        "parentMessageId": parent,
        "sender": "Bot",
        "isCreatedByUser": False,
        "text": text,
        "model": "gpt-x",
    }
    return {**about, **({"content": list(content)} if content else {}), **more}


def tool(id: str, output: Any = "4") -> dict[str, Any]:
    return {
        "type": "tool_call",
        "tool_call": {"id": id, "name": "calc", "args": '{"e":"2+2"}', "output": output, "progress": 1},
    }


PARTS = [
    {"type": "think", "think": "easy"},
    {"type": "text", "text": {"value": "Let me."}, "tool_call_ids": ["t1"]},
    tool("t1"),
    tool("t2"),
    {"type": "text", "text": "It is 4."},
]
FLAT = [
    user("u1", NO_PARENT, "2+2?", createdAt="2025-06-15T10:00:00Z"),
    bot("a0", "u1", "five"),
    bot("a1", "u1", "", *PARTS, createdAt="2025-06-15T10:00:04Z", promptTokens=90, tokenCount=7, finish_reason="stop"),
    user("u2", "a1", "thanks"),
    bot("a2", "u2", "<think>nice</think>Welcome."),
]


def nest(messages: list[Any], parent: str = NO_PARENT) -> list[Any]:
    return [{**m, "children": nest(messages, m["messageId"])} for m in messages if m["parentMessageId"] == parent]


def export(messages: list[Any], branches: bool, recursive: bool, key: str = "messages") -> dict[str, Any]:
    about = {"conversationId": "c1", "endpoint": "agents", "title": "A title", "exportAt": "10:00:00 GMT+0000"}
    about |= {"branches": branches, "recursive": recursive} | (
        {"options": {"model": "gpt-o", "promptPrefix": "Be brief."}} if branches else {}
    )
    return {**about, key: nest(messages) if recursive else messages}


PATH = [m for m in FLAT if m["messageId"] != "a0"]
SHAPES = [(FLAT, True, True), (PATH, False, True), (FLAT, True, False), (PATH, False, False)]


@pytest.mark.parametrize(("messages", "branches", "recursive"), SHAPES)
def test_each_shape_gives_the_same_path(messages: list[Any], branches: bool, recursive: bool) -> None:
    session = open_value(export(messages, branches, recursive))
    lead = [("system", "system", "Be brief.")] if branches else []
    assert list_blocks(session) == [
        *lead,
        ("user", "text", "2+2?"),
        ("assistant", "thinking", "easy"),
        ("assistant", "text", "Let me."),
        ("assistant", "tool_use", 'calc {"e":"2+2"}'),
        ("assistant", "tool_use", 'calc {"e":"2+2"}'),
        ("user", "tool_result", "4"),
        ("user", "tool_result", "4"),
        ("assistant", "text", "It is 4."),
        ("user", "text", "thanks"),
        ("assistant", "thinking", "nice"),
        ("assistant", "text", "Welcome."),
    ]
    assert (pairs(session), len(session.requests), len(session.branches)) == (2, 3, int(branches))
    used = session.requests[1].usage
    assert used
    assert (used.prompt_tokens, used.output_tokens, session.requests[1].stop_reason) == (90, 7, "stop")
    if branches:
        assert texts(session.branches[0])[-1] == "five"


def test_messages_that_name_no_parent_follow_each_other() -> None:
    bare = [{key: value for key, value in m.items() if key != "parentMessageId"} for m in PATH]
    assert open_value(export(bare, False, False)).blocks == open_value(export(PATH, False, False)).blocks


def test_the_older_container_and_one_root_are_read() -> None:
    tree = {**export([], True, True), "messagesTree": nest(FLAT)[0]}
    del tree["messages"]
    assert open_value(tree).blocks == open_value(export(FLAT, True, True)).blocks


def test_a_summary_replaces_what_stands_up_to_its_message() -> None:
    part = {"type": "summary", "content": [{"type": "text", "text": "so far"}], "tokenCount": 3}
    rows = [FLAT[0], bot("a1", "u1", "", part, {"type": "text", "text": "4"}), user("u2", "a1", "on"), bot("a2", "u2", "ok")]
    (seen,) = open_value(export(rows, False, False)).observed
    assert (seen.request, seen.edit.span) == (1, (0, 2))
    assert [(p.role, p.text) for p in seen.edit.body or ()] == [("system", "so far")]
    kept = {**part, "coverage": {"retainedFromMessageId": "a1"}}
    rows[1] = bot("a1", "u1", "", kept, {"type": "text", "text": "4"})
    assert [seen.edit.span for seen in open_value(export(rows, False, False)).observed] == [(0, 1)]
    legacy = [FLAT[0], bot("a1", "u1", "4", summary="so far", summaryTokenCount=2), *rows[2:]]
    assert [seen.edit.facts for seen in open_value(export(legacy, False, False)).observed] == [{"tokens": 2}]


def test_failures_and_odd_parts_are_told_and_nothing_breaks() -> None:
    odd = bot(
        "a1",
        "u1",
        "",
        {"type": "agent_update"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
        {"type": "error", "error": "x"},
        files=[{"file_id": "f"}],
    )
    session = open_value(export([FLAT[0], odd, user("u2", "a1", "on"), bot("a2", "u2", "", error=True)], False, False))
    assert [b.kind for b in session.blocks] == ["text", "image", "text"]
    assert (len(session.requests), session.requests[1].stop_reason) == (2, "error")
    *notes, share = session.notes
    assert "of what the log holds" in share.what
    assert {note.what.split("'")[1] for note in notes} == {
        "part agent_update",
        "part error",
        "file without its content",
    }
    assert survives(export(FLAT, True, True))
    assert survives(export(FLAT, True, False))


@pytest.mark.parametrize(("name", "messages", "branches"), [("librechat-tree", 9, 2), ("librechat-export", 6, 0)])
def test_the_real_exports_are_what_they_say(name: str, messages: int, branches: int, shared: Callable[..., Path]) -> None:
    path = shared("data", "open", "librechat", f"{name}.json")
    assert list_claims(path) == [IMPORTER.name]
    thread = turnscope.thread(path)
    spoken = [message for message, _ in thread.iter_messages() if message.role != "system"]
    assert (len(spoken), len(thread.session.branches)) == (messages, branches)
    models = {request.model for request in thread.session.requests}
    assert models == ({"gpt-4-turbo"} if branches else {"gpt-3.5-turbo"})
