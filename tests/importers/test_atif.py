"""ATIF trajectories: steps of a system, a user and an agent."""

from __future__ import annotations

from typing import Any

from formats import list_blocks, open_value, pairs, survives

STEPS: list[Any] = [
    {"step_id": 1, "timestamp": "2026-01-01T00:00:00Z", "source": "system", "message": "Be brief."},
    {"step_id": 2, "timestamp": "2026-01-01T00:00:01Z", "source": "user", "message": [{"type": "text", "text": "go"}]},
    {
        "step_id": 3,
        "timestamp": "2026-01-01T00:00:05Z",
        "source": "agent",
        "model_name": "m-1",
        "message": "look",
        "reasoning_content": "hm",
        "tool_calls": [{"tool_call_id": "c", "function_name": "look", "arguments": {"at": "a"}}],
        "observation": {"results": [{"source_call_id": "c", "content": "seen"}]},
        "metrics": {"prompt_tokens": 30, "completion_tokens": 7, "cached_tokens": 20, "cost_usd": 0.5},
    },
    {"step_id": 4, "source": "agent", "message": "done", "observation": {"results": [{"content": "checked"}]}},
    {"step_id": 5, "source": "oracle", "message": "x"},
]
RUN = {
    "schema_version": "ATIF-v1.4",
    "session_id": "s",
    "agent": {
        "name": "a",
        "version": "1",
        "model_name": "m",
        "tool_definitions": [{"type": "function", "function": {"name": "look"}}],
    },
    "steps": STEPS,
    "final_metrics": {"total_cost_usd": 0.75},
}


def test_steps_become_messages() -> None:
    session = open_value(RUN)
    assert list_blocks(session) == [
        ("tools", "tool", '{"name":"look","input_schema":{}}'),
        ("system", "system", "Be brief."),
        ("user", "text", "go"),
        ("assistant", "thinking", "hm"),
        ("assistant", "text", "look"),
        ("assistant", "tool_use", 'look {"at":"a"}'),
        ("user", "tool_result", "seen"),
        ("assistant", "text", "done"),
        ("user", "text", "checked"),
    ]
    first, second = session.requests
    assert first.usage
    assert (first.usage.input_tokens, first.usage.prompt_tokens, first.usage.output_tokens) == (10, 30, 7)
    assert (first.logged_usd, first.model, second.model, pairs(session)) == (0.5, "m-1", "m", 1)
    assert (first.answered_at or 0) - (first.sent_at or 0) == 4
    assert [note.what.split(" (")[0] for note in session.notes] == [
        "the log reports the run's cost: 0.75 USD",
        "1 record of kind 'step of oracle'",
    ]


def test_nothing_breaks() -> None:
    assert survives(RUN, count=40)
