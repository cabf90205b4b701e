"""Continue sessions of the IDE and of the CLI: context items, calls and their states, summaries, rendered prompts."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import list_blocks, list_claims, open_value, pairs, survives, texts
from turnscope.importers.continue_dev import IMPORTER, find_places
from turnscope.settings import Machine


def item(role: str, content: Any, message: Any = None, **more: Any) -> dict[str, Any]:
    return {"message": {"role": role, "content": content, **(message or {})}, "contextItems": [], **more}


def session(*history: Any, **more: Any) -> dict[str, Any]:
    return {"sessionId": "s1", "title": "A title", "workspaceDirectory": "file:///w", "history": list(history), **more}


CALL = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a"}'}}
STATE = {"toolCallId": "c1", "toolCall": CALL, "status": "done", "output": [{"name": "a", "content": "x = 1"}]}
USED = {"usage": {"promptTokens": 50, "completionTokens": 4, "promptTokensDetails": {"cachedTokens": 30}}}
LOG = {
    "modelTitle": "M",
    "prompt": "<system>\nBe brief.\n\n<user>\nhi",
    "completion": "",
    "completionOptions": {"model": "m-1"},
}
MADE = session(
    item("user", [{"type": "text", "text": "what?"}], contextItems=[{"name": "a", "content": "file a", "id": {}}]),
    item("assistant", "", {"toolCalls": [CALL]}, toolCallStates=[STATE], reasoning={"text": "hm", "active": False}),
    item("tool", "x = 1 again", {"toolCallId": "c1"}),
    item("thinking", "let me see", {"signature": "sig"}),
    item("assistant", "It is 1.", USED, promptLogs=[LOG]),
)


def test_items_become_messages_calls_and_results() -> None:
    found = open_value(MADE)
    assert list_blocks(found) == [
        ("system", "system", "Be brief."),
        ("user", "files", "file a"),
        ("user", "text", "what?"),
        ("assistant", "thinking", "hm"),
        ("assistant", "tool_use", 'read_file {"path":"a"}'),
        ("user", "tool_result", "x = 1"),
        ("assistant", "thinking", "let me see"),
        ("assistant", "text", "It is 1."),
    ]
    assert len(found.messages) == 5
    assert (found.title, [request.model for request in found.requests]) == ("A title", ["", "m-1"])
    used = found.requests[1].usage
    assert used
    assert (used.input_tokens, used.cache_read_input_tokens, used.output_tokens) == (20, 30, 4)
    assert "rendered prompt" in found.notes[0].what


def test_a_summary_on_an_item_replaces_what_stands_up_to_it() -> None:
    rows = [
        *MADE["history"][:2],
        item("assistant", "Done.", conversationSummary="so far"),
        item("user", "on"),
        item("assistant", "ok"),
    ]
    found = open_value(session(*rows))
    (seen,) = found.observed
    assert (seen.request, seen.edit.span) == (2, (0, 6))
    assert [(part.role, part.text) for part in seen.edit.body or ()] == [("system", "so far")]


def test_the_summary_of_the_cli_is_a_message() -> None:
    found = open_value(
        session(item("assistant", "so far", conversationSummary="so far"), item("user", "on"), item("assistant", "ok"))
    )
    assert [m.origin for m in found.messages] == ["summary", "prompt", "answer"]
    assert (found.observed, len(found.requests)) == ((), 1)


def test_calls_that_failed_and_odd_items_are_told() -> None:
    canceled = {**STATE, "status": "canceled", "output": []}
    rows = [
        item("user", "go"),
        item("assistant", "", {"toolCalls": [CALL]}, toolCallStates=[canceled]),
        item("oracle", "hm"),
        item("tool", "", {"toolCallId": {"no": "id"}}),
        5,
    ]
    found = open_value(session(*rows))
    assert ("user", "tool_result", "canceled") in list_blocks(found)
    assert [note.severity for note in found.notes] == ["warning", "info", "warning"]
    assert [b.kind for b in open_value(session(item("user", "q"), item("assistant", "<think>a</think>b"))).blocks[1:]] == [
        "thinking",
        "text",
    ]
    assert texts(open_value(session(item("user", [{"type": "imageUrl", "imageUrl": {"url": "x"}}]), item("assistant", "y"))))
    assert survives(MADE)


def test_sessions_are_found_and_their_list_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "c" / "sessions"
    folder.mkdir(parents=True)
    for name in ("21f7-1.json", "sessions.json"):
        (folder / name).write_text("[]")
    here = Machine("linux", tmp_path, tmp_path, tmp_path, {"CONTINUE_GLOBAL_DIR": str(tmp_path / "c")})
    assert [path.name for place in find_places(here) for path in place.paths()] == ["21f7-1.json"]


def test_the_real_session_is_what_it_says(shared: Callable[..., Path]) -> None:
    path = shared("data", "open", "continue", "continue-21f74d9c.json")
    assert list_claims(path) == [IMPORTER.name]
    found = turnscope.load(path)
    assert (len(found.requests), [b.kind for b in found.blocks].count("files")) == (14, 10)
    assert [m.role for m in found.messages] == ["system", *["user", "assistant"] * 14]
    assert sum(bool(request.model) for request in found.requests) == 12
    assert pairs(found) == 0


def test_the_window_and_the_size_of_answers_that_the_tool_asked_for() -> None:
    options = {"contextLength": 32_000, "maxTokens": 2_048, "temperature": 0.7}
    session = open_value(
        {**MADE, "history": [*MADE["history"], item("assistant", "on", promptLogs=[{"completionOptions": options}])]}
    )
    assert (session.window, {key: session.about[key] for key in options}) == (32_000, options)


def make_home(tmp_path: Path, count: str = "sqlite") -> Path:
    """A folder of Continue's with one session, its interaction log, counted tokens and what it knows of workspaces."""
    for folder in ("sessions", "dev_data/0.2.0", "index"):
        (tmp_path / folder).mkdir(parents=True)
    rows = [item("user", "what?"), item("assistant", "It is 1."), item("user", "on"), item("assistant", "It is 2.")]
    (tmp_path / "sessions" / "s1.json").write_text(json.dumps(session(*rows)))
    log = [
        {
            **LOGGED,
            "sessionId": "s0",
            "prompt": "<user>\nother\n\n",
            "completion": "It is 1.",
            "timestamp": "2026-01-01T00:00:00Z",
        },
        LOGGED,
        {
            **LOGGED,
            "prompt": f"{LOGGED['prompt']}<assistant>\nIt is 1.\n\n<tool>\nx = 1\n\n<user>\non\n\n",
            "completion": "It is 2.",
        },
        {"eventName": "chatFeedback"},
    ]
    (tmp_path / "dev_data" / "0.2.0" / "chatInteraction.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in log))
    if count == "sqlite":
        with closing(sqlite3.connect(tmp_path / "dev_data" / "devdata.sqlite")) as db, db:
            db.execute(
                "create table tokens_generated (id integer, model text, tokens_generated integer, tokens_prompt integer)"
            )
            db.executemany("insert into tokens_generated values (?, 'm-1', ?, ?)", [(1, 5, 1_000), (2, 7, 2_000), (3, -1, "x")])
    else:
        row = {"model": "m-1", "promptTokens": 3_000, "generatedTokens": 12}
        (tmp_path / "dev_data" / "0.2.0" / "tokensGenerated.jsonl").write_text(json.dumps(row))
    known = {
        "lastSelectedProfileForWorkspace": {"file:///w": "local", "file:///v": "other"},
        "selectedModelsByProfileId": {"local": {"chat": "M", "edit": None}, "other": {"chat": "N"}},
        "mcpOauthStorage": {"https://a": {"tokens": "oauth-secret-token"}},
    }
    (tmp_path / "index" / "globalContext.json").write_text(json.dumps(known))
    return tmp_path


LOGGED = {
    "timestamp": "2026-01-02T00:00:00Z",
    "prompt": "<system>\nBe brief.\n\n<user>\nwhat?\n\n",
    "completion": "It is 1.",
    "modelTitle": "M",
    "modelProvider": "p",
    "sessionId": "s1",
    "tools": ["read_file"],
}


def test_the_interaction_log_gives_a_session_its_times(tmp_path: Path) -> None:
    found = turnscope.load(make_home(tmp_path) / "sessions" / "s1.json")
    assert [request.answered_at for request in found.requests] == [1_767_312_000.0, 1_767_312_000.0]


def test_the_profile_and_the_models_of_the_workspace_are_read_and_nothing_else(tmp_path: Path) -> None:
    found = turnscope.load(make_home(tmp_path) / "sessions" / "s1.json")
    assert (found.about["profile"], found.about["selectedModels"]) == ("local", {"chat": "M"})
    assert "oauth-secret-token" not in str(found.about)


@pytest.mark.parametrize("count", ["sqlite", "json"])
def test_an_interaction_log_is_what_was_sent_at_each_request_with_what_continue_counted(tmp_path: Path, count: str) -> None:
    path = make_home(tmp_path, count) / "dev_data" / "0.2.0" / "chatInteraction.jsonl"
    assert list_claims(path) == ["continue-logs"]
    found = turnscope.load(path)
    assert found.id == "s1", "the newest session"
    assert list_blocks(found)[1:] == [
        ("system", "system", "Be brief."),
        ("user", "text", "what?"),
        ("assistant", "text", "It is 1."),
        ("user", "text", "x = 1"),
        ("user", "text", "on"),
        ("assistant", "text", "It is 2."),
    ]
    assert [(request.cut, request.model, request.answered_at) for request in found.requests] == [
        (3, "M", 1_767_312_000.0),
        (6, "M", 1_767_312_000.0),
    ]
    name, number = ("devdata.sqlite", 2) if count == "sqlite" else ("tokensGenerated.jsonl", 1)
    what = f"Continue counted 3,000 prompt tokens and 12 generated tokens in {number} requests"
    assert f"{what} of all sessions and completions ({name}); these are not billed tokens" in [
        note.what for note in found.notes
    ]


def test_hostile_files_beside_a_session_leave_it_as_it_is(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    (home / "index" / "globalContext.json").write_bytes(b"[" * 100_000)
    (home / "dev_data" / "devdata.sqlite").write_bytes(b"SQLite format 3\x00" + b"\xff" * 200)
    (home / "dev_data" / "0.2.0" / "chatInteraction.jsonl").write_text('{"sessionId": "s1", "completion": {}}\n[]\n{"a"')
    assert len(turnscope.load(home / "sessions" / "s1.json").requests) == 2
