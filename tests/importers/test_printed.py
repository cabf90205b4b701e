"""What agents print: Claude Code's events and Gemini CLI's."""

from __future__ import annotations

from typing import Any

from formats import list_blocks, open_value, output_tokens, pairs, prompt_tokens, survives

USED = {"input_tokens": 3, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 7, "output_tokens": 5}


def answer(id: str, *content: Any) -> dict[str, Any]:
    held = {"id": id, "role": "assistant", "model": "claude-x", "content": list(content), "usage": USED}
    return {"type": "assistant", "message": held, "parent_tool_use_id": None, "session_id": "s"}


BACK = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "seen"}]}
CLAUDE: list[Any] = [
    {"type": "system", "subtype": "init", "session_id": "s", "cwd": "/w", "model": "claude-x", "tools": ["look"]},
    answer("m1", {"type": "text", "text": "Looking."}),
    answer("m1", {"type": "tool_use", "id": "c", "name": "look", "input": {}}),
    {"type": "user", "message": BACK, "parent_tool_use_id": None, "session_id": "s"},
    {**answer("m9", {"type": "text", "text": "within"}), "parent_tool_use_id": "c"},
    answer("m2", {"type": "text", "text": "done"}),
    {"type": "result", "subtype": "success", "is_error": False, "total_cost_usd": 0.5, "session_id": "s"},
]
GEMINI: list[Any] = [
    {"type": "init", "timestamp": "2026-01-01T00:00:00Z", "session_id": "s", "model": "gemini-x"},
    {"type": "message", "role": "user", "content": "go", "timestamp": "2026-01-01T00:00:01Z"},
    {"type": "message", "role": "assistant", "content": "Look", "delta": True, "timestamp": "2026-01-01T00:00:02Z"},
    {"type": "message", "role": "assistant", "content": "ing.", "delta": True, "timestamp": "2026-01-01T00:00:03Z"},
    {"type": "tool_use", "tool_name": "look", "tool_id": "c", "parameters": {}, "timestamp": "2026-01-01T00:00:03Z"},
    {"type": "tool_result", "tool_id": "c", "status": "success", "output": "seen", "timestamp": "2026-01-01T00:00:04Z"},
    {"type": "message", "role": "assistant", "content": "done", "delta": True, "timestamp": "2026-01-01T00:00:05Z"},
    {"type": "result", "status": "success", "stats": {"input_tokens": 50, "output_tokens": 9, "cached": 20}},
]
SEEN = [
    ("assistant", "text", "Looking."),
    ("assistant", "tool_use", "look {}"),
    ("user", "tool_result", "seen"),
    ("assistant", "text", "done"),
]


def test_claude_code_prints_an_answer_block_by_block() -> None:
    for lines in (False, True):
        session = open_value(CLAUDE, lines=lines)
        assert (session.source, session.id, list_blocks(session), pairs(session)) == ("printed", "s", SEEN, 1)
        assert (len(session.requests), prompt_tokens(session), output_tokens(session)) == (2, 60, 10)
        assert (session.about["run_usd"], session.requests[0].model) == (0.5, "claude-x")
        assert [note.what[:40] for note in session.notes][:1] == ["1 record of kind 'message of a subagent'"]


def test_gemini_cli_prints_texts_in_pieces() -> None:
    session = open_value(GEMINI, lines=True)
    assert (list_blocks(session), pairs(session)) == ([("user", "text", "go"), *SEEN], 1)
    first, second = session.requests
    assert (first.model, first.sent_at, second.sent_at) == ("gemini-x", 1_767_225_601, 1_767_225_604)
    assert (first.usage, session.notes[0].what) == (
        None,
        "the run took 50 tokens of prompts (20 of them cached) and 9 of answers",
    )
    alone = open_value([*GEMINI[:4], GEMINI[-1]], lines=True)
    assert (prompt_tokens(alone), output_tokens(alone), alone.notes) == (50, 9, ())


def test_failures_are_told_and_nothing_breaks() -> None:
    failed = open_value([*GEMINI[:-1], {"type": "result", "status": "error", "result": "overloaded"}], lines=True)
    assert any("overloaded" in note.what for note in failed.notes)
    assert survives(CLAUDE, lines=True, count=40)
    assert survives(GEMINI, lines=True, count=40)
