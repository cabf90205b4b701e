"""Logs of tools beside recordings of a tap: one session with what each of them lacks, or two where that is in doubt."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import turnscope
from conftest import shared
from turnscope.library.indexing import index
from turnscope.library.session_follower import SessionFollower
from turnscope.library.store import Store
from turnscope.library.transcripts import open_transcript
from turnscope.planning.render import build_body
from turnscope.reading import recordings
from turnscope.reading.source import Source
from turnscope.session.model import FROM_WIRE, SIDE, Session
from turnscope.storage import library_index
from turnscope.tap.recorder import Recorder
from turnscope.views.exactness import list_inferred, sum_exactness

from tests.claude_log import Log, tokens
from tests.importers.test_codex import META, TURN, make_message, make_usage
from tests.importers.test_opencode import T, answer, base, make_text, user
from tests.importers.test_tap import TOOLS, _answer, _api
from tests.wire import open_run

NAME = "11111111-2222-4333-8444-555555555555"
AT = 1_767_323_000.0  # 2026-01-02 03:03:20
Sent = tuple[str, Any, Any, float]  # API, body, answer, when


def record(data: Path, calls: Iterable[Sent], headers: dict[str, str] | None = None, name: str = "tool") -> Path:
    """A recording in the data folder, as if its calls had passed when they say."""
    (data / "tap").mkdir(exist_ok=True)
    path, calls = data / "tap" / f"{name}.jsonl", [*calls]
    recorder = Recorder(path, ["tool"])
    for api, body, response, at in calls:
        sent = [(key.encode(), value.encode()) for key, value in (headers or {}).items()]
        number = recorder.begin(api, "http://localhost/v1", sent, [json.dumps(body).encode()], [], at)
        failed = isinstance(response, dict) and response.get("type") == "error"
        recorder.answer(number, 529 if failed else 200, [(b"Content-Type", b"application/json")])
        recorder.add(number, json.dumps(response).encode())
        recorder.end(number, "complete")
    recorder.close()
    head, rest = path.read_text("utf-8").split("\n", 1)
    path.write_text(json.dumps({**json.loads(head), "started_at": calls[0][3] - 1}) + "\n" + rest, "utf-8")
    os.utime(path, (calls[-1][3] + 5,) * 2)
    return path


RUNS = {
    "claude/B2-acwindow100k": (111, 11),
    "codex/B2-limit60k": (111, 10),
    "opencode/C": (19, 2),
    "gemini/A": (6, 0),
    "qwen/A": (6, 0),
    "pi/A": (6, 0),
    "cline/A": (6, 0),
}


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("name", RUNS)
def test_a_recorded_run_and_its_transcript_are_one_session_as_it_was_sent(name: str, data_folder: Path) -> None:
    with open_run(shared("data", "wire", *name.split("/"))) as run:
        rows = [row for row in run.rows if _api(row["path"]) and row["body"]]
        alone = [one for one in turnscope.load_all(run.transcripts) if one.requests]
        record(data_folder, [(_api(row["path"]), row["body"], _answer(row), row["ts"]) for row in rows])
        for path in run.transcripts.rglob("*"):
            os.utime(path, (rows[-1]["ts"] + 1,) * 2)
        (joined,) = [one for one in turnscope.load_all(run.transcripts) if one.requests]
    assert FROM_WIRE not in alone[0].about
    assert (joined.id, joined.title, joined.source) == (alone[0].id, alone[0].title, alone[0].source)
    side = [request for one in joined.subagents if one.about.get(SIDE) for request in one.requests]
    assert (len(joined.requests), len(side)) == RUNS[name]
    assert sum_exactness(joined).as_sent
    bodies = [build_body(plan, joined, as_recorded=True) for plan in turnscope.replay(joined).plans]
    assert [body.get("tools") for body in bodies] != [None] * len(bodies)
    if name.startswith("claude"):  # the scripted answers name another model
        sent = [row["body"] for row in rows if row["kind"] == "main"]
        assert [{**body, "model": ""} for body in bodies] == [{**body, "model": ""} for body in sent]


def ask(*texts: str) -> dict[str, Any]:
    """A body whose messages are these texts, in turn a person's and the model's."""
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": [{"type": "text", "text": text}]} for n, text in enumerate(texts)]
    return {"model": "m-1", "max_tokens": 9, "system": "Be brief.", "tools": TOOLS, "messages": messages}


def reply(id: str, words: str, prompt: int = 30) -> dict[str, Any]:
    usage = {"input_tokens": prompt, "output_tokens": 7}
    content = [{"type": "text", "text": words}]
    return {"type": "message", "id": id, "role": "assistant", "model": "m-1", "content": content, "usage": usage}


def make_claude(folder: Path, *ids: str) -> Path:
    log = Log(NAME)
    for number, id in enumerate(ids):
        log.user(f"question {number}")
        log.answer(id, f"answer {number}", usage=tokens(30 + number, output=7))
    log.user("a question that was not sent yet")
    path = folder / f"{NAME}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in log.lines), "utf-8")
    return path


CLAUDE: list[Sent] = [
    ("anthropic-messages", {**ask("a title for: question 0"), "tools": []}, reply("m0", "A title"), AT),
    ("anthropic-messages", ask("question 0"), reply("m1", "answer 0"), AT),
    ("anthropic-messages", ask("question 0", "answer 0", "question 1"), reply("m2", "answer 1", 31), AT + 1),
]
NAMED = {"X-Claude-Code-Session-Id": NAME}


def check_joined(session: Session, requests: int = 2) -> None:
    assert session.about[FROM_WIRE]["matched"] == requests
    assert len(session.requests) == requests
    assert {"system", "tool"} <= {block.kind for block in session.blocks}
    assert sum_exactness(session).as_sent
    assert sum("from the wire" in note.what for note in session.notes) == 1


def test_a_log_of_claude_code_is_filled_by_the_answers_ids(data_folder: Path, tmp_path: Path) -> None:
    path = make_claude(tmp_path, "m1", "m2")
    following = SessionFollower(path)
    assert FROM_WIRE not in following.read_session().about
    record(data_folder, CLAUDE, NAMED)
    session = turnscope.load(path)
    check_joined(session)
    assert (session.id, session.source, session.about["cwd"]) == (NAME, "claude-code", "/work")
    assert [(one.about[SIDE], one.parent) for one in session.subagents] == [("title", NAME)]
    assert [block.at for block in session.blocks] == [*range(len(session.blocks))]
    assert [message.start for message in session.messages[1:]] == [message.stop for message in session.messages[:-1]]
    assert (session.blocks[-1].text, session.blocks[-1].turn) == ("a question that was not sent yet", 2)
    assert [build_body(plan, session, as_recorded=True) for plan in turnscope.replay(session).plans] == [
        body for _, body, _, _ in CLAUDE[1:]
    ]
    check_joined(following.read_session())
    assert FROM_WIRE not in open_transcript(path, NAME)[0].about, "what the log does not tell is told of the log alone"


def test_a_session_that_was_resumed_behind_another_tap_is_one(data_folder: Path, tmp_path: Path) -> None:
    record(data_folder, CLAUDE[:2], NAMED, "first")
    path = make_claude(tmp_path, "m1", "m2")
    assert turnscope.load(path).about[FROM_WIRE]["matched"] == 1
    record(data_folder, CLAUDE[2:], NAMED, "second")
    session = turnscope.load(path)
    check_joined(session)
    assert session.about[FROM_WIRE]["recordings"] == ["first.jsonl", "second.jsonl"]


FOUR: list[Sent] = [
    (
        "anthropic-messages",
        ask(*(text for each in range(n) for text in (f"question {each}", f"answer {each}")), f"question {n}"),
        reply(f"m{n}", f"answer {n}", 30 + n),
        AT + n,
    )
    for n in range(4)
]


@pytest.mark.parametrize("seen", [(0,), (0, 1), (1,), (1, 2), (2, 3), (3,)])
def test_of_a_session_that_was_tapped_in_part_the_other_requests_are_inferred(
    data_folder: Path, tmp_path: Path, seen: tuple[int, ...]
) -> None:
    path = make_claude(tmp_path, "m0", "m1", "m2", "m3")
    alone = turnscope.load(path)
    record(data_folder, FOUR[seen[0] : seen[-1] + 1], NAMED)
    session = turnscope.load(path)
    unseen = [n for n in range(4) if n not in seen]
    assert session.about[FROM_WIRE] | {"session": ""} == {
        "recordings": ["tool.jsonl"],
        "session": "",
        "matched": len(seen),
        "unlogged": 0,
        "side": 0,
        "unseen": len(unseen),
    }
    assert [*list_inferred(session)] == unseen
    assert [request.id for request in session.requests] == ["m0", "m1", "m2", "m3"]
    assert [request.n for request in session.requests] == [0, 1, 2, 3]
    said = [[block.text for block in session.blocks[one.cut : one.stop]] for one in session.requests]
    assert said == [[f"answer {n}"] for n in range(4)]
    assert [block.at for block in session.blocks] == [*range(len(session.blocks))]
    assert [message.start for message in session.messages[1:]] == [message.stop for message in session.messages[:-1]]
    assert session.blocks[-1].text == "a question that was not sent yet"
    trace = turnscope.replay(session)
    bodies = [build_body(plan, session, as_recorded=True) for plan in trace.plans]
    assert [bodies[n] for n in seen] == [FOUR[n][1] for n in seen]
    assert [body["system"] for body in bodies] == ["Be brief."] * 4
    assert all(len(body["messages"]) == 2 * n + 1 for n, body in enumerate(bodies))
    assert sum_exactness(session).inferred == len(unseen)
    assert (
        sum(f"what {len(unseen)} others sent that did not pass the tap is inferred" in note.what for note in session.notes) == 1
    )
    assert [one.usage for one in session.requests] == [one.usage for one in alone.requests]


def test_in_doubt_a_session_that_was_tapped_in_part_stays_apart(data_folder: Path, tmp_path: Path) -> None:
    path = make_claude(tmp_path, "m0", "m1", "m2", "m3")
    begun = "and the first recorded body does not hold what was answered before"
    shortened = [(api, {**body, "messages": body["messages"][-1:]}, said, at) for api, body, said, at in FOUR[3:]]
    for calls, many, why in (([FOUR[0], FOUR[2]], 2, "others before and behind them did"), (shortened, 3, begun)):
        recording = record(data_folder, calls, NAMED)
        session = turnscope.load(path)
        assert FROM_WIRE not in session.about
        (note,) = [note.what for note in session.notes if "tap" in note.what]
        assert f"(tool.jsonl) stays apart: {many} of the 4 answered requests in the tool's log did not pass the tap" in note
        assert note.endswith(why)
        recording.unlink()


def test_a_log_of_codex_is_filled_by_the_name_of_its_file(data_folder: Path, tmp_path: Path) -> None:
    lines = [
        META,
        TURN,
        make_message("user", "list", 1),
        make_message("assistant", "Two files.", 2),
        make_usage("r1", 105, 100, 2),
    ]
    path = tmp_path / f"rollout-2026-01-01T00-00-00-{NAME}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Two files."}]}
    usage = {"input_tokens": 100, "output_tokens": 5, "total_tokens": 105}
    response = {"object": "response", "id": "r1", "model": "gpt-x", "status": "completed", "output": [said], "usage": usage}
    tools = [{"type": "function", "name": "shell", "parameters": {"type": "object"}}]
    body = {"model": "gpt-x", "instructions": "You are careful.", "input": "list", "tools": tools, "prompt_cache_key": NAME}
    record(data_folder, [("openai-responses", body, response, AT)])
    session = turnscope.load(path)
    check_joined(session, 1)
    assert (session.id, session.source, session.requests[0].id) == (path.stem, "codex", "r1")


def test_a_log_of_opencode_is_filled_by_what_was_answered_and_when(data_folder: Path, tmp_path: Path) -> None:
    path = base(tmp_path / "opencode.db", user(0, make_text("go")), answer(1, {"type": "step-start"}, make_text("Looking.")))
    alone = turnscope.load(path)
    used = alone.requests[0].usage
    assert used
    usage = {"prompt_tokens": used.prompt_tokens, "completion_tokens": used.output_tokens}
    message = {"role": "assistant", "content": "Looking."}
    response = {"id": "c-1", "model": "m-1", "choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
    tools = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "go"}]
    call = ("openai-chat", {"model": "m-1", "messages": messages, "tools": tools}, response)
    other = record(data_folder, [(*call, T / 1000 + 86_400)], name="another-day")
    assert FROM_WIRE not in turnscope.load(path).about
    other.unlink()
    record(data_folder, [(*call, T / 1000)])
    session = turnscope.load(path)
    check_joined(session, 1)
    assert (session.id, session.source, session.title) == ("ses_1", "opencode", "A title")


def test_a_recording_of_another_session_changes_nothing(data_folder: Path, tmp_path: Path) -> None:
    path = make_claude(tmp_path, "x1", "x2")
    before = turnscope.load(path)
    record(data_folder, [(api, body, {**answer, "id": f"y{at}", "content": []}, at) for api, body, answer, at in CLAUDE], NAMED)
    assert turnscope.load(path) == before


def test_the_library_reads_it_again_and_counts_its_requests_once(data_folder: Path, tmp_path: Path) -> None:
    path, where = make_claude(tmp_path, "m1", "m2"), tmp_path / "index.db"
    store = Store(tmp_path / "store.db")
    assert FROM_WIRE not in store.open(path).session.about
    assert [one.sessions for one in index(where, [path])] == [1]
    recording = record(data_folder, CLAUDE, NAMED)
    assert FROM_WIRE in store.open(path).session.about
    assert [one.fresh for one in index(where, [path, recording])] == [True, True]
    assert sum(row.requests for row in library_index.list_spending(where)) == 3
    assert {row.tool: row.requests for row in library_index.list_rows(where)} == {"Claude Code session": 2, "Tap log": 2}
    (row,) = library_index.list_sessions(where)
    assert (row.tool, row.recordings) == ("Claude Code session", ("tool.jsonl",))
    recording.unlink()
    assert [one.fresh for one in index(where, [path])] == [True], "a recording that was deleted is missed"


def test_ids_are_read_once_and_of_a_recording_that_grew_only_what_is_new(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_claude(tmp_path, "m1", "m2")
    recording = record(data_folder, CLAUDE, NAMED)
    check_joined(turnscope.load(path))
    kept = recording.with_suffix(".ids")
    assert (kept.stat().st_mode & 0o077, NAME.encode() in kept.read_bytes()) == (0, False)
    read = recordings._read_on
    monkeypatch.setattr(recordings, "_known", {})  # as in another process
    monkeypatch.setattr(recordings, "_read_on", lambda *_: pytest.fail("it was read before"))
    check_joined(turnscope.load(path))
    begun: list[int] = []
    monkeypatch.setattr(recordings, "_read_on", lambda path, before: begun.append(before.size) or read(path, before))
    whole = recording.stat().st_size
    other = {"call": 9, "headers": {"session_id": "another-session-that-came-later"}, "body": [""]}
    with recording.open("a") as file:
        file.write(json.dumps(other, separators=(",", ":")) + "\n")
    (found,) = recordings.find_recordings(Source(tmp_path))
    assert (begun, found.has(NAME), found.has("another-session-that-came-later"), found.has("short")) == (
        [whole],
        True,
        True,
        False,
    )
    kept.write_bytes(b"no JSON\n")
    monkeypatch.setattr(recordings, "_known", {})
    assert recordings.find_recordings(Source(tmp_path))[0].has(NAME)
    recording.unlink()
    assert (recordings.find_recordings(Source(tmp_path)), kept.exists()) == ([], False)
