"""SWE-agent trajectories: calls with ids, commands in texts, steps alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import list_blocks, list_claims, open_value, pairs, survives, texts
from turnscope.importers.swe_agent import IMPORTER
from turnscope.planning.render import render

STEP = {"action": "ls", "observation": "a", "response": "look\n```\nls\n```", "thought": "look", "state": {}}
INFO = {"exit_status": "submitted (exit_cost)", "model_stats": {"instance_cost": 0.5, "tokens_sent": 9, "api_calls": 2}}
CONFIG = json.dumps({"agent": {"name": "x", "model": {"name": "m"}}})
SYSTEM = {"role": "system", "content": "Be brief.", "agent": "main", "message_type": "system_prompt"}
TASK = {"role": "user", "content": [{"type": "text", "text": "go"}], "message_type": "observation"}
USE = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
NEW = [
    SYSTEM,
    TASK,
    {
        "role": "assistant",
        "content": "look",
        "thought": "look",
        "action": "ls",
        "tool_calls": [USE],
        "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}],
    },
    {"role": "tool", "content": [{"type": "text", "text": "a"}], "tool_call_ids": ["c"]},
    {"role": "assistant", "content": "done", "thought": "done", "action": ""},
]
OLD = [
    SYSTEM,
    {"role": "user", "content": "an example", "is_demo": True},
    {"role": "assistant", "content": "like this", "is_demo": True},
    {**TASK, "content": "go"},
    {"role": "assistant", "content": "look\n```\nls\n```", "thought": "look\n", "action": "ls\n"},
    {"role": "user", "content": "a"},
    {"role": "assistant", "content": "no command", "action": ""},
    {"role": "user", "content": "Your output was not formatted correctly"},
    {"role": "assistant", "content": "so\n<command>\nsubmit\n</command>", "action": "submit"},
]


def run(history: Any, **more: Any) -> dict[str, Any]:
    return {"trajectory": [STEP], "history": history, "info": INFO, "replay_config": CONFIG, "environment": "e", **more}


def test_calls_with_ids() -> None:
    session = open_value(run(NEW), name="made.traj")
    assert list_blocks(session) == [
        ("system", "system", "Be brief."),
        ("user", "text", "go"),
        ("assistant", "thinking", "hm"),
        ("assistant", "text", "look"),
        ("assistant", "tool_use", 'bash {"command":"ls"}'),
        ("user", "tool_result", "a"),
        ("assistant", "text", "done"),
    ]
    assert (pairs(session), [request.model for request in session.requests]) == (1, ["m", "m"])
    assert (session.id, session.about["exit_status"]) == ("made", "submitted (exit_cost)")
    assert session.notes[0].what == "the log reports the run's totals alone: 2 calls, 9 tokens sent, 0 received, 0.5 USD"
    assert session.about["run_usd"] == 0.5


def test_commands_in_texts_become_calls_and_examples_are_no_requests() -> None:
    session = open_value(run(OLD))
    assert [kind for _, kind, _ in list_blocks(session)][4:] == [
        "text",
        "tool_use",
        "tool_result",
        "text",
        "text",
        "text",
        "tool_use",
    ]
    assert texts(session)[4:7] == ["look", 'command {"command":"ls"}', "a"]
    assert (len(session.requests), pairs(session)) == (3, 1)
    origins = ["system", "meta", "answer", "prompt", "answer", "tool", "answer", "meta", "answer"]
    assert [message.origin for message in session.messages] == origins, "what the tool says of a wrong answer is no prompt"


def write_part(path: Path, value: Any, before: str) -> Path:
    """A trajectory that ends in the middle of a file's text."""
    text = json.dumps(value, indent=1)
    path.write_text(text[: text.rindex(before)])
    return path


def test_of_a_trajectory_that_ends_too_early_the_whole_steps_open(tmp_path: Path) -> None:
    after = [{**STEP, "messages": NEW[:4]}, {**STEP, "messages": [*NEW, {"role": "user", "content": "z"}]}]
    query = [{**STEP, "query": NEW[:2]}, {**STEP, "query": NEW[:4], "response": "done", "observation": "z", "action": ""}]
    for steps in (after, query):
        value = run([*NEW[:4], {"x": "half"}], trajectory=steps)
        for path in (
            write_part(tmp_path / "steps.traj", {"trajectory": [*steps, {**STEP, "thought": "half"}]}, "half"),
            write_part(tmp_path / "history.traj", value, "half"),
        ):
            session = turnscope.load(path)
            assert texts(session) == ["Be brief.", "go", "hm", "look", 'bash {"command":"ls"}', "a", "done", "z"]
            assert (pairs(session), len(session.requests)) == (1, 2)
            assert "the file ends too early" in session.notes[0].what


def test_what_stands_behind_the_history_may_be_lost(tmp_path: Path) -> None:
    session = turnscope.load(write_part(tmp_path / "made.traj", run(NEW), '"environment"'))
    assert (texts(session)[-1], [note.severity for note in session.notes]) == ("done", ["warning", "info"])


def test_a_real_trajectory_opens_wherever_it_ends(shared: Callable[..., Path], tmp_path: Path) -> None:
    data = shared("data", "open", "swe-agent", "pydantic-8316.traj").read_bytes()
    counts = []
    for share in (0.01, 0.3, 0.6, 0.9, 0.97, 0.999, 1):
        (tmp_path / "a.traj").write_bytes(data[: int(len(data) * share)])
        session = turnscope.load(tmp_path / "a.traj")
        counts.append(len(session.requests))
        assert share == 1 or "the file ends too early" in session.notes[0].what
    assert counts == sorted(counts)
    assert counts[-1] == 22


def test_steps_replace_a_history() -> None:
    steps = [{**STEP, "query": [SYSTEM, TASK]}, {**STEP, "response": "done", "observation": ""}]
    session = open_value({"trajectory": steps, "info": {}, "environment": "main"})
    assert texts(session) == ["Be brief.", "go", "look", 'command {"command":"ls"}', "a", "done"]


def test_what_a_query_elides_is_no_longer_in_the_request() -> None:
    elided = {**NEW[3], "content": "Old environment output: (1 lines omitted)"}
    last = {"role": "assistant", "content": "over", "action": ""}
    history = [*NEW, {"role": "user", "content": "go on", "message_type": "observation"}, last]
    queries = [NEW[:2], NEW[:4], [*NEW[:3], elided, NEW[4], history[5]]]
    session = open_value({**run(history), "trajectory": [{**STEP, "query": query} for query in queries]})
    assert [(seen.request, seen.edit.action) for seen in session.observed] == [(2, "clear")]
    plan = turnscope.replay(session).plans[2]
    sent = json.dumps(render(plan.after, session, {}))
    assert "(1 lines omitted)" in sent
    at = next(block.at for block in session.blocks if block.kind == "tool_result")
    assert session.blocks[at].text == "a", "the timeline keeps it"
    assert not turnscope.replay(session).plans[1].is_changed


@pytest.mark.parametrize("history", [NEW, OLD], ids=["new", "old"])
def test_nothing_breaks(history: Any) -> None:
    assert survives(run(history), count=40)


def test_the_real_trajectory_is_what_it_says(shared: Callable[..., Path]) -> None:
    path = shared("data", "open", "swe-agent", "pydantic-8316.traj")
    assert list_claims(path) == [IMPORTER.name]
    (session,) = turnscope.load_all(path)
    assert (len(session.requests), len(session.messages), pairs(session)) == (22, 46, 22)
    assert "161683 tokens sent, 968 received, 0.3017616 USD" in session.notes[0].what
    assert {request.model for request in session.requests} == {"claude-3-7-sonnet-20250219"}
