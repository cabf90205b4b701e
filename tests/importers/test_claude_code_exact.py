"""Claude Code sessions that record their requests whole: each envelope is the body that was sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import turnscope
from conftest import ROOT
from importers import exact_log
from msgspec import structs
from turnscope.importers.claude_code.api_requests import ApiRequests
from turnscope.library.checking import Limits, check
from turnscope.planning.render import build_body
from turnscope.session.model import Bucket, Session


def bodies(session: Session) -> list[dict[str, Any]]:
    trace = turnscope.replay(session)
    return [build_body(plan, session, as_recorded=True) for plan in trace.plans]


def test_each_body_is_the_one_that_was_sent(tmp_path: Path) -> None:
    path, log = exact_log.session(tmp_path)
    session = turnscope.load(path)
    assert session.about["exact_requests"] == {"requests": 7, "proven": 7}
    assert bodies(session) == log.sent


def test_system_and_tools_are_measured_and_nothing_is_hidden(tmp_path: Path) -> None:
    session = turnscope.load(exact_log.session(tmp_path)[0])
    trace = turnscope.replay(session)
    assert {block.bucket for block in session.blocks} >= {Bucket.SYSTEM, Bucket.TOOLS}
    assert all(trace.get_terms(n).prefix == trace.get_terms(n).earlier == 0 for n in range(len(trace.plans)))


def test_a_reminder_beside_a_result_begins_no_turn(tmp_path: Path) -> None:
    session = turnscope.load(exact_log.session(tmp_path)[0])
    assert {request.turn for request in session.requests} == {0}
    assert {block.kind for block in session.blocks if block.text.startswith("<system-reminder>")} == {"reminder"}


def test_digests_prove_every_body(tmp_path: Path) -> None:
    path, log = exact_log.session(tmp_path)
    requests = ApiRequests()
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        record = json.loads(line)
        requests.add(record, number)
        if "message" in record and record["type"] in ("user", "assistant"):
            requests.hear(record["message"])
    assert requests.count_equal(requests.requests.values()) == len(log.sent)
    request = requests.requests["r2"]
    assert requests.count_equal([structs.replace(request, params={**request.params, "max_tokens": 1})]) == 0


def test_a_compaction_is_seen_in_the_first_body_without_what_it_replaced(tmp_path: Path) -> None:
    log = exact_log.Log()
    log.prompt("Read all of it.")
    said = exact_log.rounds(log, 5, [{"role": "user", "content": [{"type": "text", "text": "Read all of it."}]}])
    newest = said[-2:]
    meta = {"trigger": "auto", "preTokens": 1_400}
    log.line("system", subtype="compact_boundary", logicalParentUuid=log.parent, compactMetadata=meta)
    log.lines[-1]["parentUuid"] = None
    summary = "This session is being continued. Summary: five files were read."
    log.line("user", message={"role": "user", "content": summary}, isCompactSummary=True)
    after = [{"role": "user", "content": [{"type": "text", "text": summary}]}, *newest]
    log.answer(log.send(after), [{"type": "text", "text": "Done."}], 900)
    session = turnscope.load(log.write(tmp_path))
    assert bodies(session) == log.sent
    (seen,) = [seen for seen in session.observed if seen.edit.action == "condense"]
    assert (seen.request, seen.edit.facts["preTokens"]) == (5, 1_400)
    assert [part.kind for part in seen.edit.body or ()] == ["summary"]


def test_a_session_without_all_records_is_read_from_its_transcript(tmp_path: Path) -> None:
    path, _ = exact_log.session(tmp_path)
    lines = path.read_text("utf-8").splitlines(keepends=True)
    gone = next(n for n, line in enumerate(lines) if json.loads(line)["type"] == "api-request")
    path.write_text("".join(lines[:gone] + lines[gone + 1 :]), encoding="utf-8")
    session = turnscope.load(path)
    assert "exact_requests" not in session.about
    assert len(session.requests) == 7


def test_a_request_without_an_answer_stands_between_the_others(tmp_path: Path) -> None:
    log = exact_log.Log()
    log.prompt("Read all of it.")
    said = exact_log.rounds(log, 3, [{"role": "user", "content": [{"type": "text", "text": "Read all of it."}]}])
    log.send(said)  # refused
    log.answer(log.send(said[:-2]), [{"type": "text", "text": "Done."}], 900)
    session = turnscope.load(log.write(tmp_path))
    assert bodies(session) == log.sent
    assert [request.usage is None for request in session.requests] == [False, False, False, True, False]


def test_a_resumed_session_finds_its_requests_in_the_file_it_came_from(tmp_path: Path) -> None:
    path, log = exact_log.session(tmp_path)
    copies = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    copies = [line | {"sessionId": "s2"} for line in copies if not line["type"].startswith("api-")]
    for line in copies:
        if line["type"] == "assistant":
            line["requestSessionId"] = "s1"
    other = tmp_path / "s2.jsonl"
    other.write_text("".join(json.dumps(line) + "\n" for line in copies), encoding="utf-8")
    assert bodies(turnscope.load(other)) == log.sent


def test_check_says_whether_every_request_is_proven(tmp_path: Path) -> None:
    path, _ = exact_log.session(tmp_path)
    found = check(path, Limits(exact=True))
    assert found.ok
    assert "7 of 7 requests rebuilt, digests equal for 7" in found.summary
    path.write_text(path.read_text("utf-8").replace('"max_tokens": 32000', '"max_tokens": 31000'), encoding="utf-8")
    assert not check(path, Limits(exact=True)).ok, "the bodies are not those of the digests"
    assert not check(ROOT / "sample_sessions" / "cache-goes-cold.jsonl", Limits(exact=True)).ok
