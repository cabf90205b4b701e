"""What a tool's log does not tell of what was sent: recorded runs beside the transcripts that the tools wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import turnscope
from conftest import shared
from turnscope.cli import main
from turnscope.session.builder import Builder
from turnscope.session.model import Session, Usage
from turnscope.views.wire_report import WireReport, report_wire

from tests.importers.test_tap import _answer, _api, list_sessions, write
from tests.wire import Run, open_run
from tests.wire.compare import sessions

# A run -> answered requests and how many the log has; shares of system prompt, tools, messages and results that it holds, in
# percent; side requests by kind, and how many of them the log has.
RUNS: dict[str, tuple[tuple[int, int], tuple[int, ...], dict[str, tuple[int, int]]]] = {
    "claude/B2-acwindow100k": ((111, 111), (99, 100, 100, 100), {"summary": (11, 0)}),
    "codex/B2-limit60k": ((111, 111), (19, 0, 100, 100), {"summary": (10, 10)}),
    "opencode/A": ((6, 6), (0, 0, 100, 100), {"title": (1, 0)}),
    "gemini/B2-thr0.1": ((111, 111), (0, 0, 100, 100), {"check": (6, 0)}),
    "qwen/A": ((6, 6), (0, 0, 46, 100), {}),
    "pi/A": ((6, 6), (0, 0, 100, 100), {}),
    "cline/A": ((6, 6), (97, 0, 100, 66), {}),
}


def record(run: Run, path: Path) -> Session:
    rows = [row for row in run.rows if _api(row["path"]) and row["body"]]
    return list_sessions(write(path, [(_api(r["path"]), r["body"], _answer(r)) for r in rows], "agent"))[0]


def report(run: Run, path: Path) -> WireReport:
    wire = record(run, path)
    return report_wire(wire, [one for one in sessions(run.transcripts) if not one.parent], turnscope.overview(wire).bill)


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("name", RUNS)
def test_what_each_tool_s_log_does_not_tell(name: str, tmp_path: Path) -> None:
    requests, shares, side = RUNS[name]
    with open_run(shared("data", "wire", *name.split("/"))) as run:
        found = report(run, tmp_path / "tap.jsonl")
    assert (found.requests, found.logged) == requests
    assert tuple(int(100 * one.share) for one in found.buckets[:4]) == shares
    assert {kind: (share.requests, logged) for kind, share, logged in found.side} == side
    lacks = any(logged < share.requests for _, share, logged in found.side)
    assert lacks == any("it has nothing of" in text for text in found.sentences)


def test_results_that_cline_cuts_before_it_sends_them_are_said(tmp_path: Path) -> None:
    with open_run(shared("data", "wire", "cline", "A")) as run:
        found = report(run, tmp_path / "tap.jsonl")
    assert "it holds nothing of the tools, 16,500 characters" in found.sentences
    assert any("of tool results that were not sent like that" in text for text in found.sentences)


def make(*texts: str, requests: int = 1, ids: bool = True) -> Session:
    builder = Builder("s", "tool", "a session")
    for number, text in enumerate(texts):
        builder.add_message("user", text)
        if number < requests:
            draft = builder.add_message("assistant", f"answer {number}")
            used = Usage(100 + number, output_tokens=5)
            builder.set_request(draft, id=f"m{number}" if ids else "", model="claude-opus-4-5", usage=used)
    return builder.build()


LONG = "a prompt of so many words that no other text holds it by chance, and then some more of them"


def test_a_log_that_tells_all_has_no_sentence_and_one_without_ids_is_matched_by_what_was_billed() -> None:
    wire = make(LONG, "go on", requests=2)
    whole = turnscope.overview(wire).bill
    assert report_wire(wire, [wire], whole).sentences == ()
    assert report_wire(wire, [make(LONG, "go on", requests=2, ids=False)], whole).logged == 2
    less = report_wire(wire, [make(LONG, requests=1, ids=False)], whole)
    assert less.sentences[0] == "it has 1 of 2 requests"
    within = report_wire(make(f"<said>{LONG}</said>"), [make(LONG)], whole).buckets[2]
    assert (within.sent - within.logged, within.unsent) == (len("<said></said>"), 0), "a text within one that was sent"


def test_the_command_finds_the_log_that_the_requests_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_run(shared("data", "wire", "claude", "A")) as run:
        path, transcripts = tmp_path / "tap.jsonl", run.transcripts
        wire = record(run, path)
        (kept,) = transcripts.rglob(f"{wire.id}.jsonl")
        folder = tmp_path / "claude" / "projects" / "-home-dev-project"
        folder.mkdir(parents=True)
        (folder / kept.name).write_bytes(kept.read_bytes())
    assert main(["unlogged", str(path)]) == 0
    assert "No log of this session was found on this machine" in capsys.readouterr().out
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    assert main(["unlogged", str(path)]) == 0
    assert capsys.readouterr().out.startswith("What the log of claude-code does not tell of: WIRE-PROMPT please read")
    assert main(["unlogged", str(path), str(folder / kept.name), "--json"]) == 0
    (made,) = json.loads(capsys.readouterr().out)
    assert (made["requests"], made["logged"], made["tool"]) == (6, 6, "claude-code")


def test_a_recording_without_a_known_log_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "go"}]}
    path = write(tmp_path / "tap.jsonl", [("openai-chat", body, None)])
    assert main(["unlogged", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["unlogged"] is None
