"""Continue sessions of the IDE and of the CLI: context items, calls and their states, summaries, rendered prompts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
