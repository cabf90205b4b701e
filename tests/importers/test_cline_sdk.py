"""Cline SDK sessions: messages with their system prompt, and the sidecar of a compaction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import turnscope
from formats import claimed, opened, output_tokens, pairs, prompt_tokens, survives, texts, told
from turnscope.importers.cline_sdk import IMPORTER, find_places
from turnscope.reading.registry import find_session_path
from turnscope.settings import Machine

INFO = {"modelInfo": {"id": "m-1", "provider": "p"}}
METRICS = {"inputTokens": 30, "outputTokens": 7, "cacheReadTokens": 20, "cacheWriteTokens": 0, "cost": 0.5}
SAID: list[Any] = [
    {"id": "0", "role": "user", "content": "go", "ts": 1_767_225_600_000},
    {
        "id": "1",
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "c", "name": "look", "input": {}},
        ],
        **INFO,
        "metrics": METRICS,
        "ts": 1_767_225_604_000,
    },
    {"id": "2", "role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "name": "look", "content": "seen"}]},
    {"id": "3", "role": "assistant", "content": "done", **INFO, "metrics": METRICS},
]
FILE = {"version": 1, "updated_at": "x", "agent": "lead", "sessionId": "s", "messages": SAID, "system_prompt": "Be brief."}


def test_messages_with_their_metrics() -> None:
    session = opened(FILE)
    assert told(session) == [
        ("system", "system", "Be brief."),
        ("user", "text", "go"),
        ("assistant", "thinking", "hm"),
        ("assistant", "tool_use", "look {}"),
        ("user", "tool_result", "seen"),
        ("assistant", "text", "done"),
    ]
    first = session.requests[0]
    assert first.usage
    assert (first.usage.input_tokens, first.usage.prompt_tokens, first.logged_usd, first.model) == (10, 30, 0.5, "m-1")
    assert ((first.answered_at or 0) - (first.sent_at or 0), pairs(session)) == (4, 1)
    assert (prompt_tokens(session), output_tokens(session), session.id) == (60, 14, "s")


def test_a_compaction_stands_for_the_first_messages(tmp_path: Path) -> None:
    folder = tmp_path / ".cline" / "data" / "sessions" / "s"
    folder.mkdir(parents=True)
    path = folder / "s.messages.json"
    path.write_text(json.dumps(FILE))
    summary = {"role": "user", "content": "so far", "metadata": {"kind": "compaction_summary", "tokensBefore": 900}}
    sidecar = {"version": 1, "source_message_count": 3, "messages": [summary]}
    (folder / "s.compaction.json").write_text(json.dumps(sidecar))
    (folder / "s.json").write_text(json.dumps({"version": 1, "session_id": "s", "model": "m", "cwd": "/w"}))
    assert claimed(path) == [IMPORTER.name]
    session = turnscope.load(path)
    (seen,) = session.observed
    assert (seen.request, seen.edit.span, seen.edit.facts) == (1, (1, 5), {"preTokens": 900})
    assert [part.text for part in seen.edit.body or ()] == ["so far"]
    assert session.about["cwd"] == "/w"
    assert find_session_path(folder / "s.compaction.json") == find_session_path(folder / "s.json") == path
    here = Machine("linux", tmp_path, tmp_path, tmp_path, {})
    assert [found for place in find_places(here) for found in place.paths()] == [path]
    assert len(turnscope.load_all(folder)) == 1
    (folder / "s.compaction.json").write_text(json.dumps({**sidecar, "source_message_count": 9}))
    assert turnscope.load(path).notes[0].what.startswith("a compaction stands for 9 messages")
    assert texts(turnscope.load(path))[0] == "Be brief."


def test_nothing_breaks() -> None:
    assert survives(FILE, count=40)
