"""What a summary kept of what it stands for: scored beside each decision, flagged, and refused where it is larger."""

from __future__ import annotations

import json

import pytest
import turnscope
from turnscope.envelope.retention import compare_summary
from turnscope.planning.policy import parse
from turnscope.session.model import Answer
from turnscope.views import decision_log, summary_quality

from tests.rules.test_condense import RULE, chat, list_condensed, make_plans

SOURCE = """user: The build fails in engine/turnscope/build.py at line 412. Should we pin numpy 1.26.4?
assistant: We decided to pin numpy because wheels for 2.1 lack Windows builds.
tool: is this a question? 99999
user: How long does load_index take now?
assistant: calls Read {"path": "engine/turnscope/index.py"}
"""


def test_a_summary_that_says_all_of_it_keeps_all() -> None:
    kept = compare_summary(SOURCE, SOURCE)
    assert kept.share == 1.0
    assert kept.lost == ()
    assert kept.decisions == (1, 1)
    assert kept.questions[1] == 0, "the second speaker answered both"


def test_what_is_lost_is_counted_and_active_files_and_open_questions_are_named() -> None:
    source = SOURCE + "user: Why does tests/test_index.py hang on Windows machines?\n"
    kept = compare_summary(source, "They spoke about numpy 1.26.4 and build.py.")
    assert kept.identifiers == (1, 4), "build.py is named without its folder; index.py, test_index.py, load_index are not"
    assert kept.numbers == (1, 4)
    assert kept.decisions == (0, 1)
    assert kept.questions == (0, 1)
    assert kept.lost == (
        "the active file tests/test_index.py",
        "the active file engine/turnscope/index.py",
        "the open question 'Why does tests/test_index.py hang on Windows machines?'",
    )
    assert kept.share == pytest.approx((1 / 4 + 1 / 4 + 0 + 0) / 4)


def test_an_open_question_is_kept_where_most_of_its_words_are() -> None:
    source = "user: Which database should hold the embeddings?\n"
    assert compare_summary(source, "Open: which database should hold embeddings").lost == ()
    assert compare_summary(source, "They talked.").lost != ()


def test_what_says_of_itself_that_it_is_open_is_an_open_question() -> None:
    assert compare_summary("assistant: TODO: rename the config loader\nuser: fine\n", "Nothing.").questions == (0, 1)


def test_every_condensation_carries_its_score_in_debugger_and_decision_log() -> None:
    session, ledger = chat(5)
    plans = make_plans(session, ledger, parse("t", RULE), lambda _: Answer("They spoke of question 0.", source="model"))
    assert list_condensed(plans)
    told = [
        summary_quality.score_rule_summary(plan, d)
        for plan in plans
        for d in plan.decisions
        if d.action == "condense" and d.edit.body
    ]
    assert len(told) == len(list_condensed(plans))
    assert all(0 <= facts["kept"] <= 1 for facts in told)
    assert json.loads(json.dumps(dict(told[0]))) == told[0]
    trace = turnscope.replay(session, parse("t", RULE))
    logged = [row["facts"] for row in decision_log.iter_rows(trace) if row["action"] == "condense"]
    assert logged
    assert all("kept" in facts for facts in logged)
    assert "| kept |" in decision_log.to_markdown(trace, *_first(trace))


def _first(trace: turnscope.Trace) -> tuple[int, int]:
    return next((p.request.n, i) for p in trace.plans for i, d in enumerate(p.decisions) if d.action == "condense")


def test_a_summary_larger_than_its_source_is_refused_and_nothing_is_lost() -> None:
    session, ledger = chat(5)
    plans = make_plans(session, ledger, parse("t", RULE), lambda _: Answer("word " * 4_000, source="model"))
    assert not list_condensed(plans)
    looks = [d for plan in plans for d in plan.decisions]
    assert looks
    assert all(d.splice is None and "refused" in d.edit.facts for d in looks)
    assert plans[-1].after.tokens == ledger.count_tokens(0, session.requests[-1].cut)


def test_a_flag_stands_beside_a_summary_that_loses_the_active_file() -> None:
    lost = compare_summary("user: open src/a_b.py\nassistant: calls Edit src/c_d.py\n", "src/a_b.py was opened").lost
    assert lost == ("the active file src/c_d.py",)


def test_a_compaction_that_a_tool_recorded_is_scored_where_it_is_looked_at() -> None:
    trace = turnscope.replay(turnscope.load("sample_sessions/cache-goes-cold.jsonl"), "as-recorded")
    made = [d for plan in trace.plans for d in plan.decisions if d.action == "condense"]
    assert made
    assert all("kept" not in d.edit.facts for d in made), "no rule asked for these summaries"
    facts = [summary_quality.score_facts(trace, d) for d in made]
    assert all(0 <= one["kept"] <= 1 and "flagged" in one for one in facts)
    logged = [row["facts"] for row in decision_log.iter_rows(trace) if row["action"] == "condense"]
    assert logged == facts
