"""Claude Code sessions that record their requests whole: each envelope is the body that was sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import turnscope
from conftest import ROOT, shared
from importers import exact_log
from msgspec import structs
from turnscope.importers.claude_code.api_requests import ApiRequests
from turnscope.library.checking import CheckResults, Limits, check
from turnscope.planning.render import build_body
from turnscope.session.model import Bucket, Session, Usage
from turnscope.views.detail import build_detail
from turnscope.views.exactness import describe_exactness, describe_request


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


@pytest.mark.parametrize("unrecorded", [{0, 1}, {2, 3}, {7}, {0, 3, 4}], ids=str)
def test_requests_without_a_record_are_inferred_from_those_beside_them(unrecorded: set[int], tmp_path: Path) -> None:
    path, log = exact_log.session(tmp_path, 7, unrecorded)
    session = turnscope.load(path)
    found = session.about["exact_requests"]
    assert found == {"requests": 8 - len(unrecorded), "proven": 8 - len(unrecorded), "inferred": sorted(unrecorded)}
    for n, (ours, sent) in enumerate(zip(bodies(session), log.sent, strict=True)):
        parts = ("system", "tools", "messages")
        strip = exact_log.strip
        assert ours == sent if n not in unrecorded else [strip(ours[p]) for p in parts] == [strip(sent[p]) for p in parts]
    assert not session.observed
    known = describe_exactness(session)
    without = f"; {len(unrecorded)} without a record are inferred"
    assert known.sentence == f"{8 - len(unrecorded)} of 8 requests rebuilt, digests equal for {8 - len(unrecorded)}{without}"
    assert {describe_request(session, n)[:8] for n in unrecorded} == {"Inferred"}
    assert {describe_request(session, n) for n in {*range(8)} - unrecorded} == {"As sent."}


def test_a_log_whose_records_all_build_on_a_lost_one_is_read_from_its_transcript(tmp_path: Path) -> None:
    path, _ = exact_log.session(tmp_path)
    lines = path.read_text("utf-8").splitlines(keepends=True)
    gone = next(n for n, line in enumerate(lines) if json.loads(line)["type"] == "api-request")
    path.write_text("".join(lines[:gone] + lines[gone + 1 :]), encoding="utf-8")
    session = turnscope.load(path)
    assert "exact_requests" not in session.about
    assert len(session.requests) == 7


def test_a_request_after_a_compaction_without_any_record_has_the_messages_of_its_transcript(tmp_path: Path) -> None:
    log = exact_log.Log()
    log.prompt("Read all of it.")
    log.unrecorded = {5}
    exact_log.rounds(log, 5, [{"role": "user", "content": [{"type": "text", "text": "Read all of it."}]}])
    log.line("system", subtype="compact_boundary", logicalParentUuid=log.parent, compactMetadata={"trigger": "auto"})
    log.lines[-1]["parentUuid"] = None
    summary = "This session is being continued. Summary: five files were read."
    log.line("user", message={"role": "user", "content": summary}, isCompactSummary=True)
    after = [{"role": "user", "content": [{"type": "text", "text": summary}]}]
    log.answer(log.send(after), [{"type": "text", "text": "Done."}], 900)
    session = turnscope.load(log.write(tmp_path))
    assert session.about["exact_requests"] == {"requests": 5, "proven": 5, "inferred": [5]}
    assert [exact_log.list_content(message) for message in bodies(session)[5]["messages"]] == after
    assert [(seen.request, seen.edit.action) for seen in session.observed] == [(5, "condense")]


def test_a_request_without_an_answer_stands_between_the_others(tmp_path: Path) -> None:
    log = exact_log.Log()
    log.prompt("Read all of it.")
    said: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "Read all of it."}]}]
    log.send(said)  # the provider was overloaded
    said = exact_log.rounds(log, 3, said)
    log.send(said)  # refused
    log.answer(log.send(said[:-2]), [{"type": "text", "text": "Done."}], 900)
    session = turnscope.load(log.write(tmp_path))
    assert bodies(session) == log.sent
    assert [request.usage is None for request in session.requests] == [True, False, False, False, True, False]
    assert session.about["exact_requests"] == {"requests": 6, "proven": 6}


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


def test_neighbouring_lines_of_the_user_are_one_message_as_sent(tmp_path: Path) -> None:
    """Results of parallel calls have a line each; the tool writes no further copy of the message that they make up."""
    log = exact_log.Log()
    log.prompt("Read both.")
    said: list[dict[str, Any]] = [{"role": "user", "content": "Read both."}]
    calls = [{"type": "tool_use", "id": f"toolu_{n}", "name": "Read", "input": {"path": f"{n}"}} for n in range(2)]
    said = [*said, log.answer(log.send(said), calls)]
    results = [{"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": f"of {n}"} for n in range(2)]
    for result in results:
        log.prompt([result])
    log.known.add(exact_log.digest({"role": "user", "content": results}))
    log.answer(log.send([*said, {"role": "user", "content": results}]), [{"type": "text", "text": "Done."}])
    session = turnscope.load(log.write(tmp_path))
    assert session.about["exact_requests"] == {"requests": 2, "proven": 2}
    assert bodies(session) == log.sent


@pytest.mark.parametrize("prompted", [False, True])
def test_a_recorded_request_behind_the_last_answer_is_one_note(prompted: bool, tmp_path: Path) -> None:
    path, log = exact_log.session(tmp_path, 2)
    assert not any("no answer in the log" in note.what for note in turnscope.load(path).notes)
    if prompted:
        log.prompt("And now?")
    log.send([{"role": "user", "content": "And now?"}])
    session = turnscope.load(log.write(tmp_path))
    (found,) = [note for note in session.notes if "the last request has no answer in the log" in note.what]
    assert found.line == (0 if prompted else len(log.lines))
    assert len(session.requests) == 3


def test_a_request_that_goes_on_from_a_lost_one_is_not_rebuilt_of_its_end_alone(tmp_path: Path) -> None:
    path, log = exact_log.session(tmp_path)
    requests = ApiRequests()
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        record = json.loads(line)
        if record.get("id") != "r1":
            requests.add(record, number)
        if "message" in record and record["type"] in ("user", "assistant"):
            requests.hear(record["message"])
    assert [requests.rebuild(request) is None for request in requests.requests.values()] == [
        False,
        *[True] * (len(log.sent) - 2),
    ]


def test_what_a_record_leaves_out_by_its_own_account_is_noted(tmp_path: Path) -> None:
    path, log = exact_log.session(tmp_path)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    cut, withheld = [line for line in lines if line["type"] == "api-request"][2:4]
    cut |= {"cut": {"cuts": 1, "placeholders": 1}, "cutRequestDigest": cut.pop("requestDigest")}
    withheld["withheld"] = ["top_k"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    session = turnscope.load(path)
    assert bodies(session) == log.sent
    exactness = describe_exactness(session)
    assert (exactness.whole, exactness.proven, exactness.as_sent) == (6, 6, False)
    assert exactness.label == "rebuilt, 6 of 7 proven"
    noted = [note.what for note in session.notes if "leaves out" in note.what]
    assert noted[0].endswith("texts that were sent")
    assert noted[1].endswith("top_k")


def test_an_answer_that_was_paused_answers_two_requests(tmp_path: Path) -> None:
    log = exact_log.Log()
    log.prompt("Search.")
    said: list[dict[str, Any]] = [{"role": "user", "content": "Search."}]
    paused = log.send(said)
    said = [*said, log.answer(paused, [{"type": "text", "text": "Searching."}])]
    resumed = log.send(said)
    log.line("api-request-resumed", messageId="msg_r0", pausedRequestId=paused, resumedRequestId=resumed)
    log.prompt("Go on.")
    said = [*said, {"role": "user", "content": [{"type": "text", "text": "Go on."}]}]
    log.answer(log.send(said), [{"type": "text", "text": "Done."}])
    session = turnscope.load(log.write(tmp_path))
    assert bodies(session) == [log.sent[0], log.sent[2]], "the request that went on is part of the one that was paused"


def test_check_says_whether_every_request_is_proven(tmp_path: Path) -> None:
    path, _ = exact_log.session(tmp_path)
    found = check(path, Limits(exact=True))
    assert found.ok
    assert "7 of 7 requests rebuilt, digests equal for 7" in found.summary
    assert CheckResults((found,)).to_csv().splitlines()[1].endswith('"7 of 7 requests rebuilt, digests equal for 7"')
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
    own = [make_agent_line(line) for line in agent.lines]
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


def make_agent_line(line: dict[str, Any]) -> dict[str, Any]:
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


def test_the_same_system_and_tools_have_the_same_size_in_every_request(tmp_path: Path) -> None:
    session = turnscope.load(exact_log.session(tmp_path)[0])
    counts = [plan.seen.counts for plan in turnscope.replay(session).plans]
    billed = [round(0.9 * sum(c[:2]) + (1.1 + n / 100) * sum(c[2:])) for n, c in enumerate(counts)]
    requests = [structs.replace(q, usage=Usage(tokens)) for q, tokens in zip(session.requests, billed, strict=True)]
    session = structs.replace(session, requests=tuple(requests))
    trace, view = turnscope.replay(session), turnscope.overview(session)
    assert {(system, tools) for system, tools in view.cells[:, :2].tolist()} == {tuple(view.cells[0, :2].tolist())}
    assert view.cells.sum(axis=1).tolist() == billed == [trace.count_tokens(n) for n in range(len(billed))]
    assert [sum(item.tokens for item in build_detail(trace, view, n).items) for n in range(len(billed))] == pytest.approx(
        billed, abs=len(session.blocks)
    )
    other = turnscope.replay(session, "last-5-pairs")
    assert other.get_terms(3).convert((*counts[3][:2], 0, 0, 0)) == int(view.cells[3, :2].sum())


@pytest.mark.parametrize("run", ["A", "B2-acwindow100k", "C", "D-tui"])
def test_a_recorded_sessions_system_and_tools_do_not_drift(run: str) -> None:
    from tests.wire import open_run

    with open_run(shared("data", "wire", "claude", run)) as recorded:
        paths = [path for path in recorded.transcripts.rglob("*.jsonl") if "subagents" not in path.parts]
        for session in map(turnscope.load, paths):
            view = turnscope.overview(session)
            counts = [plan.static_tokens for plan in turnscope.replay(session).plans]
            assert len({*zip(counts, view.cells[:, :2].sum(axis=1).tolist(), strict=True)}) == len({*counts})


def test_no_file_outside_the_folder_is_looked_at_for_copied_requests(tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    path, _ = exact_log.session(tmp_path)
    copies = [json.loads(line) for line in path.read_text("utf-8").splitlines() if '"api-' not in line]
    copies = [line | {"sessionId": "s2", "requestSessionId": "../s1"} for line in copies]
    other = folder / "s2.jsonl"
    other.write_text("".join(json.dumps(line) + "\n" for line in copies), encoding="utf-8")
    assert "exact_requests" not in turnscope.load(other).about
