"""Jan threads: the folder, its files alone, an export; branches, calls, measured speed. Written from the schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import data_of, list_blocks, list_claims, open_value, output_tokens, pairs, survives, texts
from turnscope.importers.jan import find_places
from turnscope.reading.registry import find_session_path
from turnscope.settings import Machine
from turnscope.views import request_summary

from pages.parts import cards

T = 1_750_000_000_000
THREAD = {
    "id": "t1",
    "object": "thread",
    "title": "A title",
    "assistants": [{"assistant_id": "jan", "assistant_name": "Jan", "model": {"id": "m-x"}, "instructions": "Be brief."}],
    "metadata": {},
}


def part(kind: str, text: str) -> dict[str, Any]:
    return {"type": kind, "text": {"value": text, "annotations": []}}


def make_message(id: str, role: str, *content: Any, n: int = 0, **more: Any) -> dict[str, Any]:
    about = {
        "id": id,
        "object": "thread.message",
        "thread_id": "t1",
        "role": role,
        "status": "ready",
        "created_at": T + n * 1000,
    }
    return {**about, "content": list(content), "metadata": {}, **more}


CALL = {"type": "tool_call", "tool_call_id": "c", "tool_name": "calc", "input": {"e": 1}, "output": "4"}
SPEED = {"tokenSpeed": 12.5, "tokenCount": 8, "durationMs": 640}
USED = {"usage": {"inputTokens": 30, "outputTokens": 8, "totalTokens": 38}, "tokenSpeed": SPEED, "finishReason": "stop"}
LINEAR = [
    make_message(
        "u1", "user", part("text", "2+2?"), metadata={"inline_file_contents": [{"name": "a.txt", "content": "file a"}]}
    ),
    make_message(
        "a1", "assistant", part("reasoning", "easy"), CALL, part("text", "It is 4."), n=1, completed_at=T + 5_000, metadata=USED
    ),
]


def write_thread(folder: Path, messages: list[Any]) -> Path:
    folder.mkdir(parents=True)
    (folder / "thread.json").write_text(json.dumps(THREAD))
    (folder / "messages.jsonl").write_text("".join(json.dumps(m) + "\n" for m in messages))
    return folder


def test_settings_of_the_model_are_the_requests(tmp_path: Path) -> None:
    folder = write_thread(tmp_path / "t1", LINEAR)
    given = {"parameters": {"temperature": 0.3, "max_tokens": 55}, "settings": {"ctx_len": 2048, "ngl": 9}}
    thread = {**THREAD, "assistants": [{"assistant_name": "Jan", "model": {"id": "m-x", **given}}]}
    (folder / "thread.json").write_text(json.dumps(thread))
    session = turnscope.load(folder)
    assert [request.settings for request in session.requests] == [given["parameters"]] * 2
    assert (session.window, session.about["model settings"]) == (2048, given["settings"])


def test_a_thread_file_that_cannot_be_read_is_noted(tmp_path: Path) -> None:
    folder = write_thread(tmp_path / "t1", LINEAR)
    (folder / "thread.json").write_text('{"object": "thread", "title": "T')
    (note,) = turnscope.load(folder).notes
    assert note.what == "thread.json cannot be read: title, model and instructions are missing"


def test_a_folder_is_read_with_speed_and_times(tmp_path: Path) -> None:
    folder = write_thread(tmp_path / "t1", LINEAR)
    assert list_claims(folder) == ["jan"]
    session = turnscope.load(folder)
    assert list_blocks(session) == [
        ("system", "system", "Be brief."),
        ("user", "files", "file a"),
        ("user", "text", "2+2?"),
        ("assistant", "thinking", "easy"),
        ("assistant", "tool_use", 'calc {"e":1}'),
        ("user", "tool_result", "4"),
        ("assistant", "text", "It is 4."),
    ]
    first, last = session.requests
    assert last.usage
    assert (first.model, last.usage.prompt_tokens, last.usage.output_tokens, last.stop_reason) == ("m-x", 30, 8, "stop")
    assert (first.sent_at, last.answered_at) == (T / 1000 + 1, T / 1000 + 5)
    assert session.about["tokenSpeed"] == {"a1": SPEED}
    assert (pairs(session), session.title, session.id) == (1, "A title", "t1")


def test_a_request_with_a_duration_has_a_speed() -> None:
    answer = make_message("a1", "assistant", part("text", "4."), n=1, completed_at=T + 5_000, metadata=USED)
    session = open_value(
        [LINEAR[0], answer, make_message("u2", "user", part("text", "5?"), n=6), make_message("a2", "assistant", n=7)],
        lines=True,
    )
    view, trace = turnscope.overview(session), turnscope.replay(session)
    timed, untimed = (request_summary.summarize_request(view, trace, n) for n in range(2))
    assert (timed.seconds, timed.speed) == (4.0, 2.0)
    assert "· 2.0 tokens/s<em>measured" in cards.render_buckets(timed, "")
    assert (untimed.speed, "tokens/s" in cards.render_buckets(untimed, "")) == (0.0, False)


def test_its_files_open_as_the_folder_and_alone_without_it(tmp_path: Path) -> None:
    folder = write_thread(tmp_path / "t1", LINEAR)
    session = turnscope.load(folder)
    for name in ("thread.json", "messages.jsonl"):
        assert find_session_path(folder / name) == folder
        assert turnscope.load(folder / name).blocks == session.blocks
    (folder / "thread.json").unlink()
    assert turnscope.load(folder / "messages.jsonl").blocks == open_value(LINEAR, lines=True).blocks
    assert find_session_path(folder / "messages.jsonl") == folder / "messages.jsonl"
    one = open_value(LINEAR[:1], lines=True)
    assert texts(one) == ["file a", "2+2?"]


def test_an_export_holds_the_messages_alone() -> None:
    export = {"title": "A title", "exported_at": "2025-06-15T10:00:00Z", "messages": LINEAR}
    session = open_value(export)
    assert (session.title, len(session.requests), session.blocks) == ("A title", 2, open_value(LINEAR, lines=True).blocks)
    assert survives(export)


@pytest.mark.parametrize(("chosen", "last"), [({}, "new"), ({"activeChildId": "a1"}, "old")])
def test_the_active_child_is_the_main_path(chosen: dict[str, str], last: str) -> None:
    rows = [
        make_message("u1", "user", part("text", "q"), metadata={"parentId": None, **chosen}),
        make_message("a1", "assistant", part("text", "old"), n=1, metadata={"parentId": "u1"}),
        make_message(
            "a2", "assistant", part("text", "<think>hm</think>new"), n=2, metadata={"parentId": "u1"}, status="stopped"
        ),
    ]
    session = open_value(rows, lines=True)
    assert texts(session)[-1] == last
    assert len(session.branches) == 1


def test_an_answer_that_lost_its_parent_hangs_from_the_question_before_it() -> None:
    rows = [
        make_message("u1", "user", part("text", "q"), metadata={"parentId": None}),
        make_message("a1", "assistant", part("text", "lost"), n=1, metadata={"parentId": None}),
        make_message("u2", "user", part("text", "r"), n=2, metadata={"parentId": "u1"}),
        make_message("a2", "assistant", part("text", "s"), n=3, metadata={"parentId": "u2"}),
    ]
    session = open_value(rows, lines=True)
    assert texts(session) == ["q", "lost", "r", "s"]
    assert not session.branches


def test_without_a_root_all_messages_are_one_path() -> None:
    rows = [
        make_message("u1", "user", part("text", "q"), metadata={"parentId": "gone"}),
        make_message("a1", "assistant", part("text", "x"), n=1, metadata={"parentId": "u1"}),
        make_message("u2", "user", part("text", "r"), n=2, metadata={"parentId": "gone too"}),
        make_message("u1", "user", part("text", "again"), n=3, metadata={"parentId": "gone"}),
    ]
    session = open_value(rows, lines=True)
    assert texts(session) == ["q", "x", "r"]
    assert not session.branches
    assert survives(rows, lines=True)


def test_older_calls_and_failures_are_read_and_nothing_breaks() -> None:
    made = {
        "tool": {"id": "c", "function": {"name": "calc", "arguments": "{}"}},
        "response": {"content": [{"type": "text", "text": "4"}]},
    }
    rows = [
        make_message(
            "u1", "user", part("text", "q"), {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}
        ),
        make_message(
            "a1",
            "assistant",
            part("text", "Look."),
            n=1,
            metadata={"tool_calls": [made], "usage": {"totalTokens": 20}, "tokenSpeed": SPEED},
        ),
        make_message("a2", "assistant", n=2, status="error"),
        make_message("x", "oracle", {"type": "novel"}),
    ]
    session = open_value(rows, lines=True)
    assert [b.kind for b in session.blocks] == ["text", "image", "text", "tool_use", "tool_result"]
    assert [request.stop_reason for request in session.requests] == [None, "error"]
    used = session.requests[0].usage
    assert used
    assert (used.prompt_tokens, used.output_tokens) == (12, 8)
    assert [note.severity for note in session.notes] == ["info", "info", "warning"]
    assert "of what the log holds" in session.notes[-1].what
    assert survives(rows, lines=True)


def test_threads_are_found(tmp_path: Path) -> None:
    folder = write_thread(tmp_path / "data" / "Jan" / "data" / "threads" / "t1", LINEAR)
    here = Machine("linux", tmp_path, tmp_path / "config", tmp_path / "data", {})
    assert [found for place in find_places(here) for found in place.paths()] == [folder]


def test_messages_without_their_kind_are_read(tmp_path: Path) -> None:
    """As some versions write them: no `object`, and the speed as a count and a rate."""

    def make_stored(n: int, role: str, text: str, **more: Any) -> dict[str, Any]:
        content = [{"type": "text", "text": {"value": text, "annotations": []}}]
        about = {"id": f"m{n}", "thread_id": "t", "role": role, "type": "text", "status": "ready", "content": content}
        return {**about, "created_at": 1_700_000_000_000 + n * 1_000, **more}

    rows = [
        make_stored(1, "user", "hi"),
        make_stored(2, "assistant", "yo", metadata={"tokenSpeed": {"count": 150, "rate": 45.2}}),
    ]
    for name, kept in (("messages.jsonl", rows), ("other.jsonl", rows), ("one.jsonl", rows[:1])):
        path = tmp_path / name
        path.write_bytes(data_of(kept, lines=True))
        session = turnscope.load(path)
        assert (session.source, [block.text for block in session.blocks]) == ("jan", ["hi", "yo"][: len(kept)])
    both = turnscope.load(tmp_path / "other.jsonl")
    assert both.about["tokenSpeed"] == {"m2": {"count": 150, "rate": 45.2}}
    assert output_tokens(both) == 150
