"""opencode sessions: export, storage tree and database hold the same; compactions, cleared outputs, undone tails, subagents."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import database, list_claims, open_value, output_tokens, pairs, prompt_tokens, survives, texts
from turnscope.errors import BrokenFile
from turnscope.importers.opencode import CLEARED, IMPORTER, INTERRUPTED, find_places
from turnscope.reading.registry import find_session_path
from turnscope.settings import Machine

T = 1_767_225_600_000
INFO = {
    "id": "ses_1",
    "projectID": "p",
    "directory": "/w",
    "title": "A title",
    "version": "1.18.5",
    "time": {"created": T, "updated": T + 9},
}


def user(n: int, *parts: Any, **more: Any) -> dict[str, Any]:
    model = {"providerID": "x", "modelID": "m"}
    info = {
        "id": f"msg_{n:02}",
        "sessionID": "ses_1",
        "role": "user",
        "time": {"created": T + n * 1000},
        "model": model,
        **more,
    }
    return {"info": info, "parts": [{"id": f"prt_{n:02}{i}", **part} for i, part in enumerate(parts)]}


def answer(n: int, *parts: Any, prompt: int = 10, **more: Any) -> dict[str, Any]:
    tokens = {"total": prompt + 17, "input": prompt, "output": 5, "reasoning": 2, "cache": {"read": 7, "write": 3}}
    time = {"created": T + n * 1000, "completed": T + n * 1000 + 500}
    about = {"modelID": "m-1", "providerID": "x", "cost": 0.5, "tokens": tokens, "finish": "stop", "time": time}
    info = {"id": f"msg_{n:02}", "sessionID": "ses_1", "role": "assistant", "parentID": "msg_00", **about, **more}
    return {"info": info, "parts": [{"id": f"prt_{n:02}{i}", **part} for i, part in enumerate(parts)]}


def make_text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def tool(id: str, status: str = "completed", **state: Any) -> dict[str, Any]:
    held = {"status": status, "input": {"path": "a"}, "output": f"out {id}", "time": {"start": T, "end": T}, **state}
    return {"type": "tool", "callID": id, "tool": "read", "state": held}


BEGIN: dict[str, Any] = {"type": "step-start"}
MADE = [
    user(
        0,
        make_text("go"),
        {**make_text("file a"), "synthetic": True},
        {"type": "file", "mime": "text/plain", "url": "file:///a"},
    ),
    answer(1, BEGIN, {"type": "reasoning", "text": "hm"}, make_text("Looking."), tool("c1"), tool("c2", "error", error="no")),
    answer(2, BEGIN, make_text("Done."), {"type": "patch", "hash": "x"}),
]


def export(*messages: Any, **info: Any) -> dict[str, Any]:
    return {"info": {**INFO, **info}, "messages": list(messages)}


def tree(folder: Path, *messages: Any) -> Path:
    """The files of the storage tree."""
    files = {folder / "session" / "p" / "ses_1.json": INFO}
    for message in messages:
        files[folder / "message" / "ses_1" / f"{message['info']['id']}.json"] = message["info"]
        files |= {folder / "part" / message["info"]["id"] / f"{part['id']}.json": part for part in message["parts"]}
    for path, value in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    return folder


def base(path: Path, *messages: Any, child: bool = False) -> Path:
    sessions = [{"id": "ses_1", "project_id": "p", "parent_id": None, "directory": "/w", "title": "A title", "time_updated": T}]
    if child:
        sessions.append({**sessions[0], "id": "ses_2", "parent_id": "ses_1", "title": "a task"})
    parts = []
    rows = []
    for message in messages:
        info = dict(message["info"])
        id, session = info.pop("id"), info.pop("sessionID")
        rows.append({"id": id, "session_id": session, "time_created": info["time"]["created"], "data": info})
        for part in message["parts"]:
            data = {key: value for key, value in part.items() if key != "id"}
            parts.append({"id": part["id"], "message_id": id, "session_id": session, "data": data})
    return database(path, {"session": sessions, "message": rows, "part": parts})


def test_an_export_is_read_with_calls_usage_and_cost() -> None:
    session = open_value(export(*MADE))
    kinds = ["text", "text", "thinking", "text", "tool_use", "tool_use", "tool_result", "tool_result", "text"]
    assert [b.kind for b in session.blocks] == kinds
    assert (texts(session)[6:8], pairs(session), session.title) == (["out c1", "no"], 2, "A title")
    used = session.requests[0].usage
    assert used
    assert (used.input_tokens, used.prompt_tokens, used.output_tokens) == (10, 20, 7)
    assert [request.logged_usd for request in session.requests] == [0.5, 0.5]
    assert session.requests[0].answered_at == session.requests[0].sent_at + 0.5  # type: ignore[operator]


def test_tree_and_database_hold_what_the_export_holds(tmp_path: Path) -> None:
    session = open_value(export(*MADE))
    folder = tree(tmp_path / "storage", *MADE)
    stored = base(tmp_path / "opencode.db", *MADE)
    packed = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "storage"))
    for path in (folder, tmp_path, folder / "session" / "p" / "ses_1.json", stored, packed):
        found = turnscope.load(path)
        assert (found.blocks, found.messages, found.requests) == (session.blocks, session.messages, session.requests), path
    assert find_session_path(folder / "message" / "ses_1" / "msg_00.json") == folder / "session" / "p" / "ses_1.json"
    assert [entry.title for entry in turnscope.entries(stored)] == ["A title"]


def test_a_compaction_leaves_question_summary_and_tail() -> None:
    mark = user(3, {"type": "compaction", "auto": True, "tail_start_id": "msg_02"})
    summed = answer(4, BEGIN, make_text("so far"), summary=True)
    session = open_value(export(*MADE, mark, summed, user(5, make_text("on")), answer(6, BEGIN, make_text("ok"))))
    assert [m.origin for m in session.messages][4:] == ["inferred", "summary", "prompt", "answer"]
    (seen,) = session.observed
    assert (seen.request, seen.edit.span, seen.edit.body) == (2, (0, 8), ())
    assert texts(session)[seen.edit.facts["summary"]] == "so far"
    failed = answer(4, BEGIN, summary=True, error={"name": "APIError"})
    assert open_value(export(*MADE, mark, failed, user(5, make_text("on")), answer(6, BEGIN, make_text("ok")))).observed == ()


def test_the_request_for_a_summary_is_a_subagent_with_the_conversation_as_one_text() -> None:
    long = answer(1, BEGIN, {"type": "reasoning", "text": "hm"}, make_text("Looking."), tool("c1", output="x" * 2_001))
    first = user(3, {"type": "compaction", "auto": True, "tail_start_id": "msg_02"})
    second = user(6, {"type": "compaction", "auto": True})
    session = open_value(
        export(
            *(MADE[0], long, MADE[2], first, answer(4, make_text("so far"), summary=True, prompt=900)),
            *(answer(5, make_text("on")), second, answer(7, make_text("more"), summary=True), answer(8, make_text("ok"))),
        )
    )
    assert [request.id[-6:] for request in session.requests] == ["msg_01", "msg_02", "msg_05", "msg_08"]
    one, two = session.subagents
    assert [agent.requests[0].usage.prompt_tokens for agent in (one, two)] == [910, 20]  # type: ignore[union-attr]
    assert [texts(session)[agent.at] for agent in (one, two)] == ["so far", "more"]
    assert texts(one)[0] == (
        "<conversation>\n[User]: go\n[User]: file a\n\n[Assistant reasoning]: hm\n[Assistant]: Looking.\n"
        f'[Assistant tool call]: read({{"path":"a"}})\n[Tool result]: {"x" * 2_000}\n[truncated]\n</conversation>'
    )
    known = "[Assistant]: Done.\n\n[Assistant]: on"
    assert texts(two)[0] == f"<conversation>\n{known}\n</conversation>\n\n<prior-summary>\nso far\n</prior-summary>"


def test_older_versions_sent_the_conversation_itself_to_be_summed_up() -> None:
    mark = user(3, {"type": "compaction", "auto": True})
    summed = answer(4, make_text("so far"), summary=True)
    session = open_value(export(*MADE, mark, summed, answer(6, make_text("ok")), version="1.2.0"))
    assert (len(session.requests), session.subagents) == (4, ())


def test_an_output_that_was_cleared_stands_until_then() -> None:
    cleared = answer(1, BEGIN, tool("c1", time={"start": T, "end": T, "compacted": T + 4_000}))
    session = open_value(
        export(MADE[0], cleared, answer(2, BEGIN, make_text("a")), user(5, make_text("on")), answer(6, BEGIN, make_text("ok")))
    )
    (seen,) = session.observed
    assert (seen.request, seen.edit.action, (seen.edit.body or ())[0].text) == (2, "clear", CLEARED)


def test_an_undone_tail_is_a_branch_and_odd_states_are_told() -> None:
    pending = answer(3, BEGIN, tool("c3", "running"), BEGIN, make_text("two"), {"type": "novel"})
    session = open_value(export(*MADE, pending, revert={"messageID": "msg_02"}))
    assert len(session.requests) == 1
    (branch,) = session.branches
    assert (len(branch.requests), INTERRUPTED in texts(branch)) == (4, True)
    assert "part novel" in session.notes[0].what
    lost = answer(3, error={"name": "MessageAbortedError"})
    assert open_value(export(*MADE, lost)).requests[-1].stop_reason == "MessageAbortedError"
    assert survives(
        export(*MADE, user(3, {"type": "compaction"}), answer(4, make_text("so far"), summary=True), answer(6, make_text("ok")))
    )


def test_a_task_is_a_subagent_where_it_was_called(tmp_path: Path) -> None:
    inner = [{**m, "info": {**m["info"], "sessionID": "ses_2", "id": f"msg_9{n}"}} for n, m in enumerate(MADE)]
    inner = [{**m, "parts": [{**part, "id": f"prt_9{n}{i}"} for i, part in enumerate(m["parts"])]} for n, m in enumerate(inner)]
    outer = [MADE[0], answer(1, BEGIN, tool("c1", metadata={"sessionId": "ses_2"})), MADE[2]]
    session = turnscope.load(base(tmp_path / "opencode.db", *outer, *inner, child=True))
    (agent,) = session.subagents
    assert (agent.id, agent.parent, session.blocks[agent.at].kind, len(agent.requests)) == ("ses_2", "ses_1", "tool_use", 2)


def test_an_id_that_leads_elsewhere_leads_nowhere(tmp_path: Path) -> None:
    folder = tree(tmp_path / "storage", *MADE)
    stray = {**INFO, "id": "ses_/../ses_1"}
    (folder / "session" / "p" / "ses_2.json").write_text(json.dumps(stray))
    with pytest.raises(BrokenFile, match="holds no message"):
        turnscope.load(folder / "session" / "p" / "ses_2.json")


def test_sessions_are_found(tmp_path: Path) -> None:
    data = tmp_path / "data"
    tree(data / "opencode" / "storage", *MADE)
    stored = base(data / "opencode" / "opencode.db", *MADE)
    here = Machine("linux", tmp_path, tmp_path, data, {})
    found = [path for place in find_places(here) for path in place.paths()]
    assert found == [data / "opencode" / "storage" / "session" / "p" / "ses_1.json", stored]


def test_the_real_export_is_what_it_says(shared: Callable[..., Path]) -> None:
    path = shared("data", "open", "opencode", "prsui-01KYP8H2-export.json")
    assert list_claims(path) == [IMPORTER.name]
    session = turnscope.load(path)
    assert (len(session.requests), len(session.messages), pairs(session)) == (69, 138, 75)
    assert (prompt_tokens(session), output_tokens(session)) == (3_735_196, 27_623)
    assert [b.kind for b in session.blocks].count("thinking") == 69
