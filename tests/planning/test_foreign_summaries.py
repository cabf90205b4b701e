"""A summary that the recorded tool made is sent where its record is followed, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import turnscope
from claude_log import Log, call
from turnscope.planning import policy as policies
from turnscope.planning.foreign_summaries import DROP_DECISION, get_summary_block
from turnscope.planning.trace import Cursor, Trace
from turnscope.session.model import Session
from turnscope.views import decision_log, stepper
from turnscope.views.replay_cost import price_record
from turnscope.views.replay_range import summarize_replay_range

SUMMARY = "Alpha. " * 400  # longer than anything it stands for


def make_compacted(tmp_path: Path, words: str = "What happened so far.") -> Session:
    log = Log()
    log.user("first question")
    log.answer("m1", "first answer", usage=(10, 9000, 0, 20))
    log.user("second question")
    log.answer("m2", call("t1"), usage=(10, 100, 9000, 20))
    log.result("t1", "a result " * 60)
    log.answer("m3", "second answer", usage=(10, 200, 9100, 20))
    log.compact(words)
    log.user("third question")
    log.answer("m4", "third answer", usage=(10, 900, 0, 20))
    log.compact("All of it.")
    log.user("fourth question")
    log.answer("m5", "fourth answer", usage=(10, 700, 0, 20))
    return turnscope.load(log.save(tmp_path / "a.jsonl"))


def texts(trace: Trace, n: int) -> list[str]:
    session = trace.session
    return [
        session.blocks[at].text for at in range(trace.plans[n].request.cut) if trace.plans[n].after.find_piece(at).body is None
    ]


def test_with_everything_kept_no_summary_of_the_tools_is_sent(tmp_path: Path) -> None:
    trace = turnscope.replay(make_compacted(tmp_path), "keep-everything")
    whole = [block.text for block in trace.session.blocks if block.kind != "summary"]
    for plan in trace.plans:
        assert texts(trace, plan.request.n) == [text for text in whole if text in texts(trace, plan.request.n)]
        assert not any("so far" in text or "All of it" in text for text in texts(trace, plan.request.n))
    assert texts(trace, 4)[0] == "first question"
    left = [d for plan in trace.plans for d in plan.decisions]
    assert [(d.rule, d.action, d.request) for d in left] == [(DROP_DECISION, "drop", 3), (DROP_DECISION, "drop", 4)]
    assert stepper.build_steps(trace).changes == (), "it is no change by the policy"


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("name", [name for name in policies.list_policies() if name != "as-recorded"])
def test_no_other_policy_sends_it_either(name: str, tmp_path: Path) -> None:
    trace = turnscope.replay(make_compacted(tmp_path), name)
    for plan in trace.plans:
        assert not any("so far" in text or "All of it" in text for text in texts(trace, plan.request.n)), name


def test_what_was_recorded_stands_as_it_did(tmp_path: Path) -> None:
    trace = turnscope.replay(make_compacted(tmp_path))
    assert texts(trace, 3) == ["What happened so far.", "third question"]
    assert texts(trace, 4) == ["All of it.", "fourth question"]


def test_the_first_requests_alone_are_planned_the_same(tmp_path: Path) -> None:
    session = make_compacted(tmp_path)
    whole = turnscope.replay(session, "keep-everything")
    for n in range(1, len(session.requests)):
        alone = turnscope.replay(whole.fork(n), "keep-everything", whole.ledger)
        assert [plan.after.tokens for plan in alone.plans] == [plan.after.tokens for plan in whole.plans[:n]]


def test_a_recorded_condensation_says_what_the_log_says(tmp_path: Path) -> None:
    trace = turnscope.replay(make_compacted(tmp_path))
    data = json.loads(stepper.build_steps(trace).data)
    requests, decisions = data["requests"], data["decisions"]
    assert requests["size"] == [9010, 9110, 9310, 910, 710], "each request as it was billed"
    assert requests["sure"] == [1] * 5
    start, _, later = stepper.measure_start(trace, 3)
    summary = next(block.at for block in trace.session.blocks if block.kind == "summary")
    assert later == summary == requests["later"][3]
    assert 9310 <= start < 9310 + 60, "the request before, and its answer: no summary, no new question"
    assert [stepper.STATES[state] for state in decisions["state"]] == ["summed", "summed"]
    assert decisions["summary"] == [observed.edit.facts["summary"] for observed in trace.session.observed]
    assert all(decisions["size"]), "the summary stands for what is gone"
    rows = [row for row in decision_log.iter_rows(trace) if row["by"] == "policy"]
    assert [(row["tokens_before"], row["tokens_after"]) for row in rows] == [
        (start, 910),
        (stepper.measure_start(trace, 4)[0], 710),
    ]


def test_the_summary_of_a_block_is_found_from_the_block(tmp_path: Path) -> None:
    trace = turnscope.replay(make_compacted(tmp_path))
    first, second = (get_summary_block(observed.edit) for observed in trace.session.observed)
    assert stepper.find_summary_block(trace, Cursor(3, 1), 0) == first
    assert stepper.find_summary_block(trace, Cursor(4, 1), 0) == second
    assert stepper.find_summary_block(trace, Cursor(2, 0), 0) is None
    assert stepper.find_summary_block(trace, Cursor(3, 1), first) is None


def test_a_replay_is_estimated_and_its_dollars_are_those_of_the_comparison(tmp_path: Path) -> None:
    session = make_compacted(tmp_path)
    record, kept = turnscope.replay(session), turnscope.replay(session, "keep-everything")
    assert not any(stepper.measure_size(kept, n)[1] for n in range(5))
    steps = stepper.build_steps(record)
    whole = summarize_replay_range(record, steps, 0, 99)
    assert (whole.start, whole.stop, whole.tokens, whole.peak) == (0, 5, 29050, 9310)
    assert whole.usd == turnscope.overview(session).path_total
    assert (whole.change_request, whole.change) == (0, 9010)
    part = summarize_replay_range(record, steps, 3, 4)
    assert (part.change_request, part.change, part.repeated_share) == (3, 910 - 9310, 1.0)
    assert part.rules == (("follow_the_record", "condense", 1),)
    other = summarize_replay_range(kept, stepper.build_steps(kept, price_record(record)), 0, 5)
    assert (other.usd, other.unpriced) == (turnscope.compare(session, ["keep-everything"]).rows[0].usd, 0)
    assert other.usd != whole.usd
    assert summarize_replay_range(record, steps, 4, 2).tokens == 0


@pytest.mark.parametrize("name", ["server-compaction", "server-clear-tool-uses"])
def test_what_a_server_left_out_stays_out_where_the_tool_compacted(name: str, tmp_path: Path) -> None:
    """The server finds its summary in the conversation: a summary of the tool's that goes takes nothing of it back."""
    log = Log()
    for n in range(5):
        log.user("first question" if not n else f"question {n}")
        log.answer(f"a{n}", call(f"t{n}"), usage=(10, 0, 42_000 * n + 9_000, 20))
        log.result(f"t{n}", f"a result {n} " * 14_000)
        log.answer(f"b{n}", f"answer {n}", usage=(10, 0, 42_000 * n + 51_000, 20))
    log.compact("What happened so far.")
    log.user("last question")
    log.answer("m", "last answer", usage=(10, 900, 9_000, 20))
    trace = turnscope.replay(turnscope.load(log.save(tmp_path / "a.jsonl")), name)
    before, last = trace.plans[-2:]
    assert [d.rule for d in last.decisions] == [DROP_DECISION]
    assert last.after.tokens > 300_000
    assert before.seen.tokens < 210_000
    assert 0 < last.seen.tokens - before.seen.tokens < 100
