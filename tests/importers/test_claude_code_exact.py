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
from turnscope.views.exactness import describe_exactness


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


def test_a_refused_request_is_followed_by_a_compaction(tmp_path: Path) -> None:
    log = exact_log.Log()
    log.prompt("Read all of it.")
    said = exact_log.rounds(log, 4, [{"role": "user", "content": [{"type": "text", "text": "Read all of it."}]}])
    log.send(said)  # the provider's answer: the prompt is too long
    log.line("system", subtype="compact_boundary", logicalParentUuid=log.parent, compactMetadata={"trigger": "auto"})
    log.lines[-1]["parentUuid"] = None
    summary = "This session is being continued. Summary: four files were read."
    log.line("user", message={"role": "user", "content": summary}, isCompactSummary=True)
    after = [{"role": "user", "content": [{"type": "text", "text": summary}]}, *said[-2:]]
    log.answer(log.send(after), [{"type": "text", "text": "Done."}], 900)
    session = turnscope.load(log.write(tmp_path))
    assert bodies(session) == log.sent
    assert [(request.n, request.stop_reason) for request in session.requests if request.usage is None] == [(4, "error")]
    assert [seen.request for seen in session.observed if seen.edit.action == "condense"] == [5]


def test_a_subagents_own_requests_are_its_own_envelopes(tmp_path: Path) -> None:
    main, agent = exact_log.Log(), exact_log.Log()
    main.prompt("Ask somebody.")
    said: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "Ask somebody."}]}]
    call = {"type": "tool_use", "id": "task", "name": "Task", "input": {"prompt": "Count them."}}
    said = [*said, main.answer(main.send(said), [call])]
    agent.prompt("Count them.")
    agent.answer(agent.send([{"role": "user", "content": [{"type": "text", "text": "Count them."}]}]), [text("Three.")], 500)
    own = [as_agents(line) for line in agent.lines]
    result = {"type": "tool_result", "tool_use_id": "task", "content": "Three."}
    main.prompt([result])
    main.lines[-1]["toolUseResult"] = {"agentId": "a1"}
    main.answer(main.send([*said, {"role": "user", "content": [result]}]), [text("There are three.")])
    path = main.write(tmp_path)
    folder = tmp_path / "s1" / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-a1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in own), encoding="utf-8")
    session = turnscope.load(path)
    assert bodies(session) == main.sent
    (below,) = session.subagents
    assert bodies(below) == agent.sent
    assert below.about["exact_requests"] == {"requests": 1, "proven": 1}
    assert check(path, Limits(exact=True)).ok


def as_agents(line: dict[str, Any]) -> dict[str, Any]:
    """A line as it stands in a subagent's file."""
    made = {**line, "agentId": "a1"}
    if "uuid" in line:
        made |= {"uuid": f"a{line['uuid']}", "parentUuid": line["parentUuid"] and f"a{line['parentUuid']}", "isSidechain": True}
    if line["type"] == "api-request":
        made["querySource"] = "agent:builtin:general-purpose"
    if line["type"] == "assistant":
        made["message"] = {**line["message"], "id": "msg_agent"}
    return made


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def test_a_body_whose_digest_differs_is_rebuilt_and_not_proven(tmp_path: Path) -> None:
    path, _ = exact_log.session(tmp_path)
    path.write_text(path.read_text("utf-8").replace('"max_tokens": 32000', '"max_tokens": 31000'), encoding="utf-8")
    found = describe_exactness(turnscope.load(path))
    assert (found.complete, found.as_sent, found.label) == (True, False, "rebuilt, 0 of 7 proven")


def test_whole_requests_leave_nothing_unattributed(tmp_path: Path) -> None:
    view = turnscope.overview(turnscope.load(exact_log.session(tmp_path)[0]))
    assert view.cells[1:, -1].tolist() == [0] * 6
    assert view.cells[0, -1] > 0, "a bill of three times the text is no error of a counter"
    assert view.cells.sum(axis=1).tolist() == view.recorded.tolist()
    assert view.over.tolist() == [0] * 7


def test_no_file_outside_the_folder_is_looked_at_for_copied_requests(tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    path, _ = exact_log.session(tmp_path)
    copies = [json.loads(line) for line in path.read_text("utf-8").splitlines() if '"api-' not in line]
    copies = [line | {"sessionId": "s2", "requestSessionId": "../s1"} for line in copies]
    other = folder / "s2.jsonl"
    other.write_text("".join(json.dumps(line) + "\n" for line in copies), encoding="utf-8")
    assert "exact_requests" not in turnscope.load(other).about
