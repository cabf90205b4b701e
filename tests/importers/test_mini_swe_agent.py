"""mini-swe-agent trajectories: commands in texts, calls with ids, the Responses API."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import turnscope
from formats import list_blocks, list_claims, open_value, output_tokens, pairs, prompt_tokens, survives, texts
from turnscope.importers.mini_swe_agent import IMPORTER

USAGE = {"prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37, "prompt_tokens_details": {"cached_tokens": 20}}
RESPONSE = {"id": "r", "created": 1_767_225_600, "model": "m-1", "choices": [{"finish_reason": "stop"}], "usage": USAGE}
SYSTEM = {"role": "system", "content": "Be brief.", "timestamp": 1_767_225_599.5}
LIST = "THOUGHT: look\n\n```bash\nls\n```"
V1: list[Any] = [
    SYSTEM,
    {"role": "user", "content": "go", "timestamp": 1_767_225_599.5},
    {"role": "assistant", "content": LIST, "timestamp": 1_767_225_604.5, "extra": {"response": RESPONSE, "cost": 0.5}},
    {"role": "user", "content": "<returncode>0</returncode>"},
    {"role": "assistant", "content": LIST + LIST, "extra": {"response": {**RESPONSE, "id": "s"}}},
    {"role": "user", "content": "Please always provide EXACTLY ONE action"},
]
CALL = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
V2: list[Any] = [
    SYSTEM,
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": "look", "tool_calls": [CALL], "extra": {"response": RESPONSE, "cost": 0.5}},
    {"role": "tool", "tool_call_id": "c", "content": "<returncode>0</returncode>", "extra": {"returncode": 0}},
    {
        "object": "response",
        "id": "s",
        "model": "m-1",
        "status": "completed",
        "usage": {"input_tokens": 30, "output_tokens": 7, "total_tokens": 37, "input_tokens_details": {"cached_tokens": 20}},
        "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "so"}]},
            {"type": "function_call", "call_id": "d", "name": "bash", "arguments": '{"command": "pwd"}'},
        ],
        "extra": {"cost": 0.25},
    },
    {"type": "function_call_output", "call_id": "d", "output": "/w"},
    {"role": "exit", "content": "Submitted", "extra": {}},
]


def run(messages: Any, **more: Any) -> dict[str, Any]:
    info = {"exit_status": "Submitted", "mini_version": "1", "model_stats": {"instance_cost": 0.75, "api_calls": 2}}
    info["config"] = {"model": {"model_name": "openai/m"}}
    return {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1", **more}


def test_a_bare_list_of_older_versions() -> None:
    plain = [{"role": message["role"], "content": message["content"]} for message in V1[:4]] * 2
    session = open_value(plain)
    assert session.source == "mini-swe-agent"
    assert list_blocks(session)[3:5] == [
        ("assistant", "tool_use", 'bash {"command":"ls"}'),
        ("user", "tool_result", "<returncode>0</returncode>"),
    ]


def test_commands_in_texts_become_calls() -> None:
    session = open_value(run(V1))
    assert list_blocks(session)[2:6] == [
        ("assistant", "text", "THOUGHT: look"),
        ("assistant", "tool_use", 'bash {"command":"ls"}'),
        ("user", "tool_result", "<returncode>0</returncode>"),
        ("assistant", "text", LIST + LIST),
    ]
    assert [message.origin for message in session.messages] == ["system", "prompt", "answer", "tool", "answer", "meta"]
    request = session.requests[0]
    assert request.usage
    assert (request.usage.input_tokens, request.usage.prompt_tokens, request.usage.output_tokens) == (10, 30, 7)
    assert (request.model, request.stop_reason, request.logged_usd) == ("m-1", "stop", 0.5)
    assert (request.sent_at, request.answered_at) == (1_767_225_600, 1_767_225_604.5)


def test_calls_with_ids_and_the_responses_api() -> None:
    session = open_value(run(V2, trajectory_format="mini-swe-agent-1.1"))
    assert texts(session)[2:] == [
        "look",
        'bash {"command":"ls"}',
        "<returncode>0</returncode>",
        "so",
        'bash {"command":"pwd"}',
        "/w",
    ]
    assert (pairs(session), prompt_tokens(session), output_tokens(session)) == (2, 60, 14)
    assert [request.logged_usd for request in session.requests] == [0.5, 0.25]
    assert "the run ended: Submitted" in [note.what for note in session.notes]


def test_nothing_breaks() -> None:
    assert survives(run(V1), count=40)
    assert survives(run(V2), count=40)


def test_the_real_trajectory_is_what_it_says(shared: Callable[..., Path]) -> None:
    path = shared("data", "open", "mini-swe-agent", "mini-swe-agent.traj.json")
    assert list_claims(path) == [IMPORTER.name]
    (session,) = turnscope.load_all(path)
    assert (len(session.requests), len(session.messages), pairs(session)) == (38, 78, 38)
    assert (prompt_tokens(session), output_tokens(session)) == (1_266_900, 45_117)
    assert session.notes[0].what == "the log reports the run's cost: 0.612375 USD for 38 calls"
    assert turnscope.overview(session).bill.run_usd == Decimal("0.612375")


def test_an_answer_that_the_tool_could_not_use_was_a_request_and_is_in_no_later_one() -> None:
    refused = {
        "role": "user",
        "content": "No calls were found.",
        "extra": {"interrupt_type": "FormatError", "response": RESPONSE},
    }
    messages = [*V2[:4], refused, {"role": "assistant", "content": "so", "extra": {"response": {**RESPONSE, "id": "s"}}}]
    session = open_value({"trajectory_format": "mini-swe-agent-1.1", "messages": messages})
    assert [(request.id, request.stop - request.cut) for request in session.requests] == [("r", 2), ("r", 0), ("s", 1)]
    assert [prompt for request in session.requests if (prompt := request.usage and request.usage.prompt_tokens)] == [30, 30, 30]
    assert [block.text for block in session.blocks[-2:]] == ["No calls were found.", "so"]
    assert session.messages[-2].origin == "meta"
