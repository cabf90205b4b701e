"""Folders of raw bodies: each body as it was sent, under the id of the transcript's session, which gets them, too."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import turnscope
from conftest import shared
from importers import exact_log
from turnscope.library.checking import Limits, check, list_entries
from turnscope.library.discovery import find_sources
from turnscope.planning.render import build_body
from turnscope.reading.registry import find_related
from turnscope.reading.source import Source
from turnscope.session.model import Session
from turnscope.views.exactness import describe_exactness


def write(folder: Path) -> exact_log.Log:
    path, log = exact_log.session(folder, 3)
    raw = folder / "raw"
    raw.mkdir()
    index = []
    for number, sent in enumerate(log.sent):
        (raw / f"{number}.request.json").write_text(json.dumps(sent), encoding="utf-8")
        content = [line["message"] for line in log.lines if line["type"] == "assistant" and line["requestRef"] == f"r{number}"]
        answer = {**content[0], "type": "message", "content": [block for one in content for block in one["content"]]}
        (raw / f"{number}.response.json").write_text(json.dumps(answer), encoding="utf-8")
        names = {"session_id": path.stem, "message_id": f"msg_r{number}"}
        row = names | {"request_file": f"{number}.request.json", "response_file": f"{number}.response.json"}
        index.append(row | {"timestamp": f"2026-11-20T10:00:{number:02}.000Z"})
    (raw / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in index), encoding="utf-8")
    return log


def test_an_answer_that_cannot_be_read_is_noted(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "raw" / "1.response.json").write_text('{"id": "msg')
    session = turnscope.load(tmp_path / "raw")
    assert [bool(request.usage) for request in session.requests] == [True, False, True, True]
    (note,) = (note for note in session.notes if note.severity == "warning")
    assert (note.line, note.what.partition(" is ")[0]) == (2, "the answer 1.response.json")


def write_bare(folder: Path, raw: Path) -> exact_log.Log:
    """A transcript without records of requests where the tool keeps it, and the bodies in a folder of their own."""
    folder.mkdir()
    log = write(folder)
    kept = [line for line in log.lines if not line["type"].startswith("api-request")]
    transcript = folder / "tool" / "projects" / "place" / "s1.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
    (folder / "s1.jsonl").unlink()
    if raw != folder / "raw":
        shutil.move(folder / "raw", raw)
    return log


def render(session: Session) -> list[dict[str, Any]]:
    return [build_body(plan, session, as_recorded=True) for plan in turnscope.replay(session).plans]


@pytest.mark.parametrize("name", ["both/tool/projects/place/s1.jsonl", "both", "both.zip"])
def test_a_transcript_near_the_folder_gets_its_bodies(tmp_path: Path, name: str) -> None:
    log = write_bare(tmp_path / "both", tmp_path / "both" / "raw")
    shutil.make_archive(str(tmp_path / "both"), "zip", tmp_path / "both")
    session = next(session for session in turnscope.load_all(tmp_path / name) if session.source == "claude-code")
    assert render(session) == log.sent
    assert describe_exactness(session).sentence == "the log holds the body of each of its 4 requests"


@pytest.mark.parametrize("told", ["environment", "settings"])
def test_the_folder_is_where_the_tool_is_set_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    raw = tmp_path / "elsewhere" / "deep" / "raw"
    raw.parent.mkdir(parents=True)
    log = write_bare(tmp_path / "one", raw)
    value = {"OTEL_LOG_RAW_API_BODIES": f"file:{raw}"}
    if told == "environment":
        monkeypatch.setenv(*value.popitem())
    else:
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "settings.json").write_text(json.dumps({"env": value}), encoding="utf-8")
    assert render(turnscope.load(tmp_path / "one" / "tool" / "projects" / "place" / "s1.jsonl")) == log.sent


def test_a_request_without_a_body_is_inferred_and_said_to_be(tmp_path: Path) -> None:
    log = write_bare(tmp_path / "both", tmp_path / "both" / "raw")
    (tmp_path / "both" / "raw" / "1.request.json").unlink()
    session = turnscope.load(tmp_path / "both" / "tool" / "projects" / "place" / "s1.jsonl")
    bodies = render(session)
    assert [bodies[n] for n in (0, 2, 3)] == [log.sent[n] for n in (0, 2, 3)]
    known = describe_exactness(session)
    assert known.sentence == "raw bodies hold 3 of 4 requests; 1 without a record are inferred"
    assert (known.unproven, known.as_sent) == (1, False)


def test_redacted_thinking_has_the_text_of_the_transcript(tmp_path: Path) -> None:
    write_bare(tmp_path / "both", tmp_path / "both" / "raw")
    transcript = tmp_path / "both" / "tool" / "projects" / "place" / "s1.jsonl"
    lines = list(map(json.loads, transcript.read_text("utf-8").splitlines()))
    thought = {"type": "thinking", "thinking": "The first file first.", "signature": "abc"}
    answer = next(line for line in lines if line["type"] == "assistant")
    answer["message"]["content"] = [thought]
    transcript.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    for number in (1, 2, 3):
        body = tmp_path / "both" / "raw" / f"{number}.request.json"
        document = json.loads(body.read_text("utf-8"))
        document["messages"][1]["content"][0] = {**thought, "thinking": "<REDACTED>"}
        body.write_text(json.dumps(document), encoding="utf-8")
    session = turnscope.load(transcript)
    assert describe_exactness(session).bodies == 4
    assert [block.text for block in session.blocks if block.kind == "thinking"] == ["The first file first."]


def test_what_belongs_to_a_transcript_are_its_own_bodies(tmp_path: Path) -> None:
    write_bare(tmp_path / "both", tmp_path / "both" / "raw")
    index = tmp_path / "both" / "raw" / "index.jsonl"
    row = {"session_id": "s2", "message_id": "m", "request_file": "other.request.json"}
    index.write_text(index.read_text("utf-8") + json.dumps(row) + "\n", encoding="utf-8")
    (index.parent / "other.request.json").write_text("{}", encoding="utf-8")
    found = find_related(Source(tmp_path / "both" / "tool" / "projects" / "place" / "s1.jsonl"))
    assert [file.path.name for file in found] == [f"{n}.request.json" for n in range(4)]  # the index grows with others


@pytest.mark.parametrize("name", ["raw", "raw/index.jsonl"])
def test_the_folder_and_its_index_open_as_the_bodies_that_were_sent(tmp_path: Path, name: str) -> None:
    log = write(tmp_path)
    session, transcript = turnscope.load(tmp_path / name), turnscope.load(tmp_path / "s1.jsonl")
    trace = turnscope.replay(session)
    assert [build_body(plan, session, as_recorded=True) for plan in trace.plans] == log.sent
    assert session.id == transcript.id
    assert [request.id for request in session.requests] == [request.id for request in transcript.requests]
    assert session.title == "Please read the files one after the other."


def test_a_body_that_is_gone_is_a_note(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "raw" / "1.request.json").unlink()
    session = turnscope.load(tmp_path / "raw")
    assert len(session.requests) == 3
    assert any("1.request.json is not in the folder" in note.what for note in session.notes)


@pytest.mark.parametrize("name", ["raw", "raw/index.jsonl", "raw.zip"])
def test_a_body_without_a_line_in_the_index_is_a_note_on_the_session_that_it_names(tmp_path: Path, name: str) -> None:
    write(tmp_path)
    raw = tmp_path / "raw"
    index = (raw / "index.jsonl").read_text("utf-8")
    row = {"session_id": "s2", "request_file": "a.request.json", "response_file": "a.response.json"}
    (raw / "a.request.json").write_text(json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi."}]}), "utf-8")
    (raw / "a.response.json").write_text(json.dumps({"role": "assistant", "content": "Hello."}), "utf-8")
    (raw / "index.jsonl").write_text(index + json.dumps(row) + "\n", "utf-8")
    for file, user in (("b", json.dumps({"session_id": "s2"})), ("c", "user_1_account__session_s1"), ("d", "no-id")):
        body = {"model": "m", "messages": [{"role": "user", "content": "Go on."}], "metadata": {"user_id": user}}
        (raw / f"{file}.request.json").write_text(json.dumps(body), "utf-8")
    shutil.make_archive(str(raw), "zip", tmp_path, "raw")
    said = {
        session.id: [note.what for note in session.notes if "has no line in index.jsonl: it was aborted" in note.what]
        for session in (turnscope.load(tmp_path / name, entry) for entry in turnscope.entries(tmp_path / name))
    }
    assert [what.split()[2] for what in said["s1"]] == ["c.request.json", "d.request.json"]
    assert [what.split()[2] for what in said["s2"]] == ["b.request.json"]


def test_a_recorded_folder_says_what_its_transcript_says(tmp_path: Path) -> None:
    from tests.wire import open_run

    with open_run(shared("data", "wire", "claude", "E-raw")) as run:
        raw = turnscope.load(run.transcripts / "raw")
        transcript = next(run.transcripts.glob(".claude/projects/*/*.jsonl"))
        told = turnscope.load(transcript)
        bare = Path(shutil.copytree(run.transcripts, tmp_path / "bare")).glob(".claude/projects/*/*.jsonl").__next__()
        lines = bare.read_text("utf-8").splitlines(keepends=True)
        bare.write_text("".join(line for line in lines if '"type":"api-request' not in line), encoding="utf-8")
        joined = turnscope.load(bare)
        sent = [row["body"] for row in run.main]
    assert (raw.id, [r.usage for r in raw.requests]) == (told.id, [r.usage for r in told.requests])
    assert describe_exactness(joined).bodies == 6
    for body, wire in zip(render(joined), sent, strict=True):
        body.pop("betas")  # a header of the request, as the tool writes it into the body
        assert body == wire


def test_a_name_that_leads_out_of_the_folder_is_a_note(tmp_path: Path) -> None:
    write(tmp_path)
    index = tmp_path / "raw" / "index.jsonl"
    (tmp_path / "raw" / "0.request.json").rename(tmp_path / "0.request.json")
    index.write_text(index.read_text("utf-8").replace('"0.request.json"', '"../0.request.json"'), encoding="utf-8")
    session = turnscope.load(tmp_path / "raw")
    assert len(session.requests) == 3
    assert any("../0.request.json is not in the folder" in note.what for note in session.notes)


def test_check_takes_a_folder_of_bodies_as_exact(tmp_path: Path) -> None:
    write(tmp_path)
    found = check(tmp_path / "raw", Limits(exact=True))
    assert found.ok
    assert "the log holds the body of each of its 4 requests" in found.summary


def test_calls_that_share_nothing_with_the_first_conversation_are_those_of_subagents(tmp_path: Path) -> None:
    write(tmp_path)
    raw = tmp_path / "raw"
    row = {"session_id": "s1", "request_file": "a.request.json", "response_file": "a.response.json"}
    asked = {"role": "user", "content": "Read the file src/file_1.py."}
    (raw / "a.request.json").write_text(json.dumps({"model": "claude-sonnet-4-5", "messages": [asked]}), encoding="utf-8")
    answer = {"role": "assistant", "type": "message", "content": [{"type": "text", "text": "It is read."}]}
    (raw / "a.response.json").write_text(json.dumps(answer), encoding="utf-8")
    with (raw / "index.jsonl").open("a", encoding="utf-8") as index:
        index.write(json.dumps(row) + "\n")
    text = (
        (raw / "0.response.json")
        .read_text("utf-8")
        .replace('"path": "src/file_1.py"', '"prompt": "Read the file src/file_1.py."')
    )
    (raw / "0.response.json").write_text(text, encoding="utf-8")
    session = turnscope.load(raw)
    (agent,) = session.subagents
    assert (len(session.requests), len(agent.requests)) == (4, 1)
    assert session.blocks[agent.at].kind == "tool_use"
    found = check(raw, Limits(exact=True))
    assert found.ok
    assert "each of its 5 requests" in found.summary


def test_redacted_thinking_has_the_size_that_its_signature_tells(tmp_path: Path) -> None:
    write(tmp_path)
    answer = tmp_path / "raw" / "3.response.json"
    thought = {"type": "thinking", "thinking": "<REDACTED>", "signature": "A" * (230 + 1_600)}
    document = json.loads(answer.read_text("utf-8"))
    document = {**document, "content": [thought, *document["content"]], "usage": {"input_tokens": 9, "output_tokens": 320}}
    answer.write_text(json.dumps(document), encoding="utf-8")
    session = turnscope.load(tmp_path / "raw")
    (block,) = [block for block in session.blocks if block.kind == "thinking"]
    assert block.text == ""
    assert 290 < turnscope.replay(session).ledger.count_tokens(block.at, block.at + 1) < 320


@pytest.mark.parametrize("name", ["both", "both.zip"])
def test_a_session_and_its_bodies_are_listed_and_counted_once(tmp_path: Path, name: str) -> None:
    write_bare(tmp_path / "both", tmp_path / "both" / "raw")
    shutil.make_archive(str(tmp_path / "both"), "zip", tmp_path / "both")
    (session,) = turnscope.load_all(tmp_path / name)
    assert session.source == "claude-code"
    assert describe_exactness(session).bodies == 4
    if name == "both":
        assert [path.name for path in find_sources(tmp_path / name)] == ["s1.jsonl"]
        assert [Path(each).name for each in list_entries(tmp_path / name)] == ["s1.jsonl"]


def test_bodies_without_their_transcript_are_listed(tmp_path: Path) -> None:
    write_bare(tmp_path / "both", tmp_path / "both" / "raw")
    index = tmp_path / "both" / "raw" / "index.jsonl"
    index.write_text(index.read_text("utf-8").replace('"s1"', '"s2"', 2), encoding="utf-8")
    assert {path.name for path in find_sources(tmp_path / "both")} == {"s1.jsonl", "index.jsonl"}
    assert {entry.id.rpartition("/")[2] for entry in turnscope.entries(tmp_path / "both")} == {"s1.jsonl", "index.jsonl#s2"}
    assert {entry.id for entry in turnscope.entries(tmp_path / "both" / "raw")} == {"s1", "s2"}
    (tmp_path / "both" / "tool" / "projects" / "place" / "s1.jsonl").unlink()
    assert [path.name for path in find_sources(tmp_path / "both")] == ["index.jsonl"]
    assert len([*turnscope.entries(tmp_path / "both")]) == 2
