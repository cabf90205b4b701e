"""goose sessions: database, export and old JSON lines. Written from the schema: no real file was at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import turnscope
from formats import data_of, database, list_claims, open_value, pairs, survives, texts, threads
from turnscope.importers.goose import find_places
from turnscope.settings import Machine

HEAD: dict[str, Any] = {"id": "20260101_1", "name": "A title", "working_dir": "/w", "updated_at": "2026-01-01 00:00:09"}
USED = {
    "input_tokens": 120,
    "output_tokens": 7,
    "accumulated_input_tokens": 500,
    "model_config_json": {"model_name": "m", "context_limit": 9000},
}
CALL = {"type": "toolRequest", "id": "c", "toolCall": {"status": "success", "value": {"name": "shell", "arguments": {"x": 1}}}}
GAVE = {"type": "toolResponse", "id": "c", "toolResult": {"status": "success", "value": [{"type": "text", "text": "out"}]}}


def row(role: str, *content: Any, n: int = 0, user: bool = True, agent: bool = True) -> dict[str, Any]:
    seen = {"userVisible": user, "agentVisible": agent}
    return {"role": role, "created": 1_767_225_600 + n, "content": list(content), "metadata": seen}


def make_text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


MADE = [
    row("user", make_text("go")),
    row("assistant", {"type": "thinking", "thinking": "hm", "signature": "s"}, make_text("Looking."), n=1),
    row("assistant", CALL, n=1),
    row("user", GAVE, n=2),
    row("assistant", make_text("Done."), n=3),
]
COMPACTED = [
    *({**made, "metadata": {"userVisible": True, "agentVisible": False}} for made in MADE),
    row("user", make_text("so far"), n=4, user=False),
    row("assistant", make_text("I go on."), n=5, user=False),
    row("user", make_text("and?"), n=6),
    row("assistant", make_text("Yes."), {"type": "systemNotification", "msg": "x"}, n=7),
]


def write_database(path: Path, rows: list[dict[str, Any]]) -> Path:
    messages = [
        {
            "id": n,
            "session_id": HEAD["id"],
            "role": r["role"],
            "created_timestamp": r["created"],
            "content_json": r["content"],
            "metadata_json": r["metadata"],
        }
        for n, r in enumerate(rows)
    ]
    other = {**HEAD, "id": "20260102_1", "name": "Another", "updated_at": "2026-01-02 00:00:00"}
    messages.append({**messages[0], "id": 99, "session_id": other["id"]})
    return database(path, {"sessions": [{**HEAD, **USED}, other], "messages": messages})


def test_a_database_lists_its_sessions_newest_first(tmp_path: Path) -> None:
    path = write_database(tmp_path / "sessions.db", MADE)
    assert list_claims(path) == ["goose"]
    assert [(entry.id, entry.title) for entry in turnscope.entries(path)] == [
        ("20260102_1", "Another"),
        ("20260101_1", "A title"),
    ]
    session = turnscope.load(path, "20260101_1")
    assert [b.kind for b in session.blocks] == ["text", "thinking", "text", "tool_use", "tool_result", "text"]
    assert (pairs(session), len(session.requests), session.window) == (1, 2, 9000)
    assert [request.usage and request.usage.prompt_tokens for request in session.requests] == [None, 120]
    assert session.requests[1].model == "m"


def test_a_compaction_leaves_the_summary_that_only_the_agent_sees(tmp_path: Path) -> None:
    session = turnscope.load(write_database(tmp_path / "sessions.db", COMPACTED), "20260101_1")
    assert [m.origin for m in session.messages][4:] == ["summary", "meta", "prompt", "answer"]
    (seen,) = session.observed
    assert (seen.request, seen.edit.span, seen.edit.facts["summary"]) == (2, (0, 6), 6)
    assert "systemNotification" in session.notes[0].what


def test_exports_and_old_lines_hold_the_same(tmp_path: Path) -> None:
    session = turnscope.load(write_database(tmp_path / "sessions.db", MADE), "20260101_1")
    assert open_value({**HEAD, "conversation": MADE}).blocks == session.blocks
    assert open_value([{"working_dir": "/w", "description": "Old"}, *MADE], lines=True).blocks == session.blocks
    assert open_value([{"working_dir": "/w", "description": "Old"}, *MADE], lines=True).title == "Old"
    assert open_value([{"description": "Older"}, *MADE], lines=True).blocks == session.blocks
    assert open_value(MADE, lines=True).blocks == session.blocks
    twice = threads(data_of([{**HEAD, "conversation": MADE}, {**HEAD, "id": "2", "conversation": COMPACTED}], lines=True))
    assert len(twice) == 2, "a whole session on each line"
    assert twice[0].session.blocks == session.blocks


def test_what_only_the_person_sees_is_told_and_nothing_breaks() -> None:
    session = open_value({**HEAD, "conversation": [*MADE, row("assistant", make_text("update!"), agent=False)]})
    assert "update!" not in texts(session)
    assert "only the person sees" in session.notes[0].what
    assert survives({**HEAD, "conversation": COMPACTED})
    assert survives([{"working_dir": "/w"}, *COMPACTED], lines=True)


def test_the_database_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "goose" / "sessions"
    folder.mkdir(parents=True)
    path = write_database(folder / "sessions.db", MADE)
    here = Machine("linux", tmp_path, tmp_path, tmp_path / "data", {})
    assert [found for place in find_places(here) for found in place.paths()] == [path]
