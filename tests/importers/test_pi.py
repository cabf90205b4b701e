"""pi sessions: a list with line numbers (version 1) and a tree of ids (version 3)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import list_blocks, list_claims, open_value, output_tokens, pairs, prompt_tokens, survives, texts
from turnscope.importers.pi import IMPORTER, find_places
from turnscope.settings import Machine

HEAD = {
    "type": "session",
    "id": "s",
    "timestamp": "2026-01-01T00:00:00Z",
    "cwd": "/w",
    "provider": "anthropic",
    "modelId": "m-0",
}
TEXT = [{"type": "text", "text": "done"}]


def entry(role: str, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": content, "timestamp": 1_767_225_600_000, **more}
    return {"type": "message", "timestamp": "2026-01-01T00:00:04Z", "message": message}


def answer(*content: Any, prompt: int = 10, **more: Any) -> dict[str, Any]:
    usage = {"input": prompt, "output": 5, "cacheRead": 3, "cacheWrite": 2, "totalTokens": 0, "cost": {"total": 0.25}}
    return entry("assistant", list(content), model="m-1", usage=usage, stopReason="stop", **more)


CALL = {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "a"}}
RESULT = entry("toolResult", TEXT, toolCallId="c", toolName="read", isError=False)
V1 = [
    HEAD,
    entry("user", [{"type": "text", "text": "go"}]),
    answer({"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"}, CALL),
    RESULT,
    {"type": "thinking_level_change", "timestamp": "2026-01-01T00:00:05Z", "thinkingLevel": "high"},
    answer(*TEXT),
    {"type": "compaction", "summary": "so far", "firstKeptEntryIndex": 5, "tokensBefore": 900},
    entry("bashExecution", None, command="ls", output="a"),
    answer(*TEXT),
]


def link_rows(rows: list[Any], start: int = 1) -> list[Any]:
    """The rows as version 3 keeps them."""
    ids = [f"e{n}" for n in range(len(rows))]
    return [{**row, "id": ids[n], "parentId": ids[n - 1] if n else None} for n, row in enumerate(rows[start - 1 :])]


def test_a_list_is_read_with_its_compaction() -> None:
    session = open_value(V1, lines=True)
    assert [kind for _, kind, _ in list_blocks(session)] == [
        "text",
        "thinking",
        "tool_use",
        "tool_result",
        "text",
        "text",
        "text",
    ]
    assert texts(session)[5] == "Ran `ls`\na"
    assert (pairs(session), len(session.requests), session.about["cwd"]) == (1, 3, "/w")
    first = session.requests[0]
    assert first.usage
    assert (first.usage.input_tokens, first.usage.prompt_tokens, first.logged_usd, first.model) == (10, 15, 0.25, "m-1")
    assert first.sent_at
    assert first.answered_at == first.sent_at + 4
    (seen,) = session.observed
    assert (seen.request, seen.edit.span, seen.edit.facts) == (2, (0, 4), {"preTokens": 900})
    assert [part.text for part in seen.edit.body or ()] == ["so far"]


def test_a_tree_ends_in_its_newest_entry_and_keeps_what_was_left() -> None:
    rows = link_rows(V1[1:])
    rows[5] = {"type": "compaction", "id": "e5", "parentId": "e4", "summary": "so far", "firstKeptEntryId": "e4"}
    more = [
        {**entry("user", "other"), "id": "x", "parentId": "e4"},
        {"type": "branch_summary", "id": "y", "parentId": "x", "fromId": "e7", "summary": "what was left"},
        {"type": "session_info", "id": "i", "parentId": "y", "name": "Named"},
        {**answer(*TEXT), "id": "z", "parentId": "i"},
    ]
    session = open_value([{**HEAD, "version": 3}, *rows, *more], lines=True)
    assert texts(session)[-3:] == ["other", "what was left", "done"]
    assert session.title == "Named"
    assert session.observed == ()
    (branch,) = session.branches
    assert len(branch.requests) == 3
    assert [(seen.request, seen.edit.span) for seen in branch.observed] == [(2, (0, 4))]


def test_answers_without_words_are_requests_and_unknown_entries_are_told() -> None:
    failed = entry("assistant", [], model="m-1", usage={"input": 0, "output": 0}, stopReason="error", errorMessage="400")
    custom = {"type": "custom_message", "customType": "x", "content": "put in", "display": True}
    session = open_value([HEAD, entry("user", "go"), failed, custom, answer(*TEXT), {"type": "novel"}, 7], lines=True)
    assert [(request.stop_reason, request.usage is None) for request in session.requests] == [("error", True), ("stop", False)]
    assert [m.origin for m in session.messages] == ["prompt", "meta", "answer"]
    assert [note.what.split(" (")[0] for note in session.notes] == ["1 record of kind 'int'", "1 record of kind 'novel'"]


@pytest.mark.parametrize("rows", [V1, [HEAD, *link_rows(V1[1:])]], ids=["v1", "v3"])
def test_nothing_breaks(rows: list[Any]) -> None:
    assert survives(rows, lines=True)


def test_sessions_are_found(tmp_path: Path) -> None:
    here = Machine("linux", tmp_path, tmp_path, tmp_path, {})
    file = tmp_path / ".pi" / "agent" / "sessions" / "--w--" / "x.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    assert [path for place in find_places(here) for path in place.paths()] == [file]


def test_the_real_session_is_what_it_says(shared: Callable[..., Path]) -> None:
    path = shared("data", "open", "pi", "pi-before-compaction.jsonl")
    assert list_claims(path) == [IMPORTER.name]
    session = turnscope.load(path)
    assert (len(session.requests), pairs(session)) == (484, 448)
    assert [b.kind for b in session.blocks].count("tool_use") == 454
    assert len(session.messages) == 990 - 13, "13 answers were aborted before a word: they are requests alone"
    assert (prompt_tokens(session), output_tokens(session)) == (56_382_684, 187_895)
    assert round(sum(request.logged_usd or 0 for request in session.requests), 2) == 42.6
    compactions = [(seen.request, seen.edit.span) for seen in session.observed if seen.edit.action == "condense"]
    assert compactions == [(173, (0, 360)), (303, (0, 703))]
    assert [seen.edit.action for seen in session.observed].count("drop") == 5, "calls that were cut off were not sent again"
