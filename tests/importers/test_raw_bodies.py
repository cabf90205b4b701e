"""Folders of raw bodies: each body as it was sent, under the id of the transcript's session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import turnscope
from conftest import shared
from importers import exact_log
from turnscope.library.checking import Limits, check
from turnscope.planning.render import build_body


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
        row = {"session_id": path.stem, "request_file": f"{number}.request.json", "response_file": f"{number}.response.json"}
        index.append(row | {"timestamp": f"2026-11-20T10:00:{number:02}.000Z"})
    (raw / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in index), encoding="utf-8")
    return log


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


def test_a_recorded_folder_says_what_its_transcript_says(tmp_path: Path) -> None:
    from tests.wire import opened

    with opened(shared("data", "wire", "claude", "E-raw")) as run:
        raw = turnscope.load(run.transcripts / "raw")
        transcript = next(run.transcripts.glob(".claude/projects/*/*.jsonl"))
        told = turnscope.load(transcript)
    assert (raw.id, [r.usage for r in raw.requests]) == (told.id, [r.usage for r in told.requests])


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
