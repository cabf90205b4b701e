"""Logs of Inspect: one JSON document, an archive of samples, inputs among attachments and in pools."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import turnscope
from formats import (
    iter_broken,
    list_blocks,
    list_claims,
    open_value,
    output_tokens,
    pairs,
    prompt_tokens,
    sound,
    survives,
    texts,
)
from turnscope.errors import TurnscopeError
from turnscope.importers.inspect_logs import IMPORTER
from turnscope.reading.containers import open_source, zipfile  # type: ignore[attr-defined]
from turnscope.reading.contents import list_entries

SYSTEM: dict[str, Any] = {"role": "system", "content": "Be brief."}
USER: dict[str, Any] = {"role": "user", "content": "go", "source": "input"}
CALLED: dict[str, Any] = {
    "role": "assistant",
    "content": [{"type": "reasoning", "reasoning": "hm", "signature": "s"}],
    "tool_calls": [{"id": "c", "function": "look", "arguments": {"at": "a"}}],
}
BACK: dict[str, Any] = {
    "role": "tool",
    "tool_call_id": "c",
    "function": "look",
    "content": "",
    "error": {"type": "x", "message": "no"},
}
DONE: dict[str, Any] = {
    "role": "assistant",
    "content": "done",
    "tool_calls": [{"id": "d", "function": "submit", "arguments": {"answer": "1"}}],
}
LAST: dict[str, Any] = {"role": "tool", "tool_call_id": "d", "function": "submit", "content": "ok"}


def model(asked: list[Any], said: Any, second: int = 1, **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 7, "total_tokens": 37, "input_tokens_cache_read": 20, "total_cost": 0.5}
    choices = [{"message": said, "stop_reason": "tool_calls"}] if said else []
    return {
        "event": "model",
        "timestamp": f"2026-01-01T00:00:0{second}+00:00",
        "model": "openai/m",
        "input": asked,
        "tools": [{"name": "look", "description": "Looks.", "parameters": {"type": "object"}}],
        "output": {"model": "m-1", "choices": choices, "usage": usage, "time": 0.5},
        **more,
    }


def sample(*events: Any, **more: Any) -> dict[str, Any]:
    held = events or (
        model([{**SYSTEM, "content": "attachment://k"}, USER], CALLED),
        model([SYSTEM, USER, CALLED, BACK], DONE, 3, completed="2026-01-01T00:00:09+00:00", retries=2),
    )
    base = {"id": "one", "epoch": 1, "input": "go", "messages": [SYSTEM, USER, CALLED, BACK, DONE, LAST]}
    return {**base, "attachments": {"k": "Be brief."}, "events": list(held), "scores": {"x": {"value": "C"}}, **more}


def log(*samples: Any) -> dict[str, Any]:
    return {"version": 2, "status": "success", "eval": {"task": "t", "model": "openai/m"}, "plan": {}, "samples": list(samples)}


SEEN = [
    ("tools", "tool", '{"name":"look","description":"Looks.","input_schema":{"type":"object"}}'),
    ("system", "system", "Be brief."),
    ("user", "text", "go"),
    ("assistant", "thinking", "hm"),
    ("assistant", "tool_use", 'look {"at":"a"}'),
    ("user", "tool_result", "no"),
    ("assistant", "text", "done"),
    ("assistant", "tool_use", 'submit {"answer":"1"}'),
    ("user", "tool_result", "ok"),
]


def test_a_sample_is_its_calls_and_what_came_after() -> None:
    session = open_value(log(sample()))
    assert list_blocks(session) == SEEN
    assert (pairs(session), session.about["task"], session.title) == (2, "t", "one (epoch 1): go")
    first, second = session.requests
    assert first.usage
    assert (first.usage.input_tokens, first.usage.prompt_tokens, first.logged_usd) == (10, 30, 0.5)
    assert (first.model, first.stop_reason, first.answered_at, second.attempts) == (
        "m-1",
        "tool_calls",
        (first.sent_at or 0) + 0.5,
        3,
    )
    assert second.answered_at == (second.sent_at or 0) + 6


def test_inputs_may_stand_in_a_pool() -> None:
    pool = {"messages": [SYSTEM, USER, CALLED, BACK], "calls": []}
    first, second = model([], CALLED, input_refs=[[0, 2]]), model([], DONE, 3, input_refs=[[0, 1], [1, 4]])
    assert list_blocks(open_value(log(sample(first, second, events_data=pool)))) == SEEN


def test_older_usage_holds_the_cache() -> None:
    old = model([USER], DONE)
    old["output"]["usage"] = {"input_tokens": 30, "output_tokens": 7, "total_tokens": 37, "input_tokens_cache_read": 20}
    (request,) = open_value(log(sample(old))).requests
    assert request.usage
    assert (request.usage.input_tokens, request.usage.prompt_tokens) == (10, 30)


def test_graders_hang_from_the_sample_and_limits_are_told() -> None:
    grader = model([{"role": "user", "content": "Is it right?"}], {"role": "assistant", "content": "C"}, 5)
    more = [
        {"event": "compaction", "type": "trim", "tokens_before": 90, "tokens_after": 40},
        {"event": "sample_limit", "message": "50"},
    ]
    session = open_value(log(sample(*sample()["events"], grader, *more)))
    (agent,) = session.subagents
    assert (texts(agent)[1:], agent.parent, agent.at) == (["Is it right?", "C"], session.id, session.requests[-1].stop - 1)
    assert [note.what for note in session.notes] == [
        "a compaction (trim): 90 tokens before, 40 after",
        "a limit ended the sample: 50",
    ]


def test_answers_that_failed_or_came_from_a_cache_were_not_billed() -> None:
    failed = model([USER], None, error="overloaded")
    again = model([USER, {"role": "assistant", "content": "so"}, USER], DONE, 3, cache="read")
    session = open_value(log(sample(failed, again)))
    assert [request.usage is None for request in session.requests][-1]
    assert any("overloaded" in note.what for note in session.notes)


def test_a_sample_without_events_is_its_messages() -> None:
    session = open_value(log(sample(events=[])))
    assert list_blocks(session) == SEEN[1:]
    assert [request.model for request in session.requests] == ["openai/m", "openai/m"]
    assert session.notes[0].what.startswith("the log holds no event")


def archive(path: Path, *samples: bytes, packed: int = zipfile.ZIP_DEFLATED) -> Path:
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w", packed) as file:
        file.writestr("_journal/start.json", json.dumps({"version": 2, "eval": log()["eval"]}))
        file.writestr(
            "summaries.json", json.dumps([{"id": "0", "epoch": 1, "input": "go", "started_at": "2026-01-01T00:00:00Z"}])
        )
        for number, data in enumerate(samples):
            file.writestr(f"samples/{number}_epoch_1.json", data)
    return path


def test_messages_behind_an_answer_that_no_event_has_are_noted() -> None:
    other = {**DONE, "content": "something else"}
    session = open_value(log(sample(messages=[SYSTEM, USER, CALLED, BACK, other, LAST])))
    assert list_blocks(session) == SEEN[:-1]
    (what,) = (note.what for note in session.notes if note.severity == "warning")
    assert what.endswith("1 messages behind it are not shown")


def test_an_archive_packed_with_zstd_is_read(tmp_path: Path) -> None:
    """As the tool writes it today."""
    data = json.dumps(sample()).encode()
    plain, packed = archive(tmp_path / "x.eval", data), archive(tmp_path / "z" / "x.eval", data, packed=zipfile.ZIP_ZSTANDARD)
    assert list_claims(packed) == [IMPORTER.name]
    assert turnscope.load(packed).blocks == turnscope.load(plain).blocks


def test_an_archive_lists_its_samples(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.eval", json.dumps(sample()).encode(), json.dumps(sample(id="two")).encode())
    assert list_claims(path) == [IMPORTER.name]
    one, two = turnscope.load_all(path)
    assert list_blocks(one) == list_blocks(two) == SEEN
    assert (one.id, two.id, one.about["task"]) == ("x/one.1", "x/two.1", "t")
    source = open_source(path)
    assert [(entry.title, entry.at is None) for entry in list_entries(source)] == [
        ("0 (epoch 1): go", False),
        ("1 (epoch 1)", True),
    ]
    assert [session.id for session in turnscope.load_all(tmp_path)] == ["x/one.1", "x/two.1"], "in a folder as well"


def test_samples_are_read_where_what_lies_beside_them_is_damaged(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.eval", json.dumps(sample()).encode())
    with zipfile.ZipFile(path) as whole:
        at = whole.getinfo("summaries.json").header_offset + 30 + len("summaries.json")
    data = bytearray(path.read_bytes())
    data[at : at + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    session = turnscope.load(path)
    assert list_blocks(session) == SEEN
    assert "summaries.json cannot be read" in session.notes[-1].what


def test_nothing_breaks(tmp_path: Path) -> None:
    assert survives(log(sample(), sample()))
    for data in iter_broken(sample(), 30):
        with suppress(TurnscopeError):
            sound(turnscope.load(archive(tmp_path / "y.eval", data)))


def test_the_real_archive_is_what_it_says(shared: Callable[..., Path]) -> None:
    path = shared("data", "open", "inspect", "docent-log.eval")
    assert list_claims(path) == [IMPORTER.name]
    sessions = turnscope.load_all(path)
    assert len(sessions) == 15
    assert sum(len(session.requests) for session in sessions) == 147
    assert sum(block.kind == "tool_use" for session in sessions for block in session.blocks) == 121
    assert sum(map(pairs, sessions)) == 120, "the one message of a tool that is missing in the log"
    assert sum(map(prompt_tokens, sessions)) == 395_844
    assert sum(map(output_tokens, sessions)) == 30_038
    limits = [note.what for session in sessions for note in session.notes]
    assert limits == ["a limit ended the sample: Sample completed: Exceeded message limit: 50"] * 3


def test_the_real_document_is_what_it_says(shared: Callable[..., Path]) -> None:
    path = shared("data", "open", "inspect", "inspect-browser.json")
    assert list_claims(path) == [IMPORTER.name]
    (session,) = turnscope.load_all(path)
    assert (len(session.requests), pairs(session)) == (5, 4)
    assert (prompt_tokens(session), output_tokens(session)) == (15_235, 281)
    assert [message.role for message in session.messages] == ["tools", *["user", "assistant"] * 5]
