"""One place in a trace read closely: texts on both sides of a decision, why a block is here or not, and what was sent."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from law_sessions import ledger_of, make, sessions
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, NoParams, Rule
from turnscope.planning.policy import Policy, Step
from turnscope.planning.trace import Cursor, Trace
from turnscope.planning.trace import trace as replayed
from turnscope.session.model import Answer, Ask, Edit, Part, Session, Span
from turnscope.views.closeup import build_closeup, list_rule_queries
from turnscope.views.exact_body import diff_with_previous, format_exact_body


def _make_edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit | Ask]:
    """At request 2: clear the first result, drop the first answer, sum up two blocks, and put a note in."""
    if ctx.request.n != 2:
        return
    result = ctx.index.results[0]
    yield Edit("clear", "old result", Span(result, result + 1), (Part("user", "tool_result", "[cleared]"),))
    yield Edit("drop", "old call", Span(result - 1, result))
    answer: Answer = yield Ask("summary", "k", "Sum up.", "user: what is next?", 60)
    yield Edit("condense", "old talk", Span(result + 1, result + 3), (Part(text=answer.text, kind="summary"),))
    yield Edit("insert", "a note", Span(0, 0), (Part(text="Mind the gap."),), slot="notes")


TALK = make([[("tool", 80), ("tool", 60)], [("say", 20)], [("say", 20)]])
RESULT = 2


def trace_of(session: Session = TALK, memory: str = "remembers") -> Trace:
    policy = Policy("test", "t", "d", "s", "f", rules=(Step(Rule("cut", "", _make_edits, NoParams, memory), NoParams()),))  # type: ignore[arg-type]
    return replayed(session, policy, ledger_of(session))


def test_a_cleared_block_has_its_text_before_and_its_placeholder_after() -> None:
    found = build_closeup(trace_of(), Cursor(2, 1))
    assert found is not None
    assert (found.at, found.before, found.after) == (RESULT, TALK.blocks[RESULT].text, "[cleared]")
    assert found.before_tokens > found.after_tokens > 0
    assert found.decision is not None


def test_a_dropped_block_has_nothing_after() -> None:
    found = build_closeup(trace_of(), Cursor(2, 2))
    assert found is not None
    assert (found.at, found.after, found.after_tokens) == (RESULT - 1, None, 0)


def test_a_decision_that_spans_what_was_taken_out_before_is_shown_by_what_stood() -> None:
    def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit | Ask]:
        if ctx.request.n:
            yield Edit("drop", "old", Span(0, RESULT if ctx.request.n == 1 else RESULT + 1))

    policy = Policy("test", "t", "d", "s", "f", rules=(Step(Rule("cut", "", edits, NoParams, "remembers"), NoParams()),))
    found = build_closeup(replayed(TALK, policy, ledger_of(TALK)), Cursor(2, 1))
    assert found is not None
    assert (found.at, found.before, found.after, found.touched_blocks) == (RESULT, TALK.blocks[RESULT].text, None, RESULT + 1)


def test_a_summary_stands_for_several_blocks() -> None:
    found = build_closeup(trace_of(), Cursor(2, 3), at=RESULT + 2)
    assert found is not None
    assert (found.touched_blocks, found.replaced_blocks, found.before) == (2, 2, TALK.blocks[RESULT + 2].text)
    assert "offline" in (found.after or "")


def test_an_insert_stands_for_no_block() -> None:
    found = build_closeup(trace_of(), Cursor(2, 4))
    assert found is not None
    assert (found.at, found.name, found.before, found.after) == (-1, "notes", None, "Mind the gap.")


def test_a_block_that_the_decision_did_not_touch_is_the_same_on_both_sides() -> None:
    found = build_closeup(trace_of(), Cursor(2, 1), at=0)
    assert found is not None
    assert found.before == found.after == TALK.blocks[0].text
    assert (found.decision, found.touched_blocks) == (None, 0)


def test_before_any_decision_the_newest_block_is_shown() -> None:
    found = build_closeup(trace_of(), Cursor(1, 0))
    assert found is not None
    assert found.at == TALK.requests[1].cut - 1


def test_standing_says_how_a_block_stands_and_since_when() -> None:
    trace = trace_of()
    last = len(trace.plans) - 1
    words = {at: trace.explain(at, last).state for at in (0, RESULT - 1, RESULT, RESULT + 1)}
    assert words == {0: "here", RESULT - 1: "absent", RESULT: "replaced", RESULT + 1: "replaced"}
    found = trace.explain(RESULT, last)
    assert found.decision is not None
    assert (found.decision.request, found.decision.rule) == (2, "cut")
    assert "old result" in found.sentence


def test_a_block_said_later_is_not_here_yet_and_names_the_first_request_it_can_be_in() -> None:
    trace = trace_of()
    at = TALK.requests[3].cut - 1
    found = trace.explain(at, 2)
    assert found.state == "later"
    assert "request 3 " in found.sentence
    end = len(TALK.blocks) - 1
    assert "first" not in trace.explain(end, 2).sentence, "no request ever carried the last answer"


@given(sessions)
def test_every_block_of_every_request_has_a_standing(session: Session) -> None:
    policy = Policy("none", "t", "d", "s", "f")
    trace = replayed(session, policy, ledger_of(session))
    for n, plan in enumerate(trace.plans):
        for at in range(len(session.blocks)):
            assert trace.explain(at, n).state in (("here", "unseen") if at < plan.request.cut else ("later",))


def test_what_was_sent_is_the_rendered_body() -> None:
    body = json.loads(format_exact_body(trace_of(), 2))
    text = json.dumps(body["messages"])
    assert "[cleared]" in text
    assert "Mind the gap." in text
    assert TALK.blocks[RESULT].text not in text
    assert body["model"] == "claude-opus-4-5"


def test_what_the_log_does_not_hold_is_marked_in_the_body() -> None:
    trace = trace_of()
    assert trace.get_terms(2).prefix > 0
    assert "not in the log" in json.loads(format_exact_body(trace, 2))["system"]


def test_the_difference_shows_what_went_and_what_came() -> None:
    lines = diff_with_previous(trace_of(), 2).splitlines()
    gone = [line for line in lines if line.startswith("-")]
    come = [line for line in lines if line.startswith("+")]
    assert any(TALK.blocks[RESULT].text in line for line in gone)
    assert any("[cleared]" in line for line in come)
    assert not any(TALK.blocks[0].text in line for line in gone), "what stands alike is not told"


def test_the_first_request_has_nothing_to_be_compared_with() -> None:
    assert "first request" in diff_with_previous(trace_of(), 0)


def test_long_lines_of_a_difference_are_clipped_and_say_so() -> None:
    trace = trace_of(make([[("tool", 3_000), ("tool", 60)], [("say", 20)], [("say", 20)]]))
    longest = max(diff_with_previous(trace, 2).splitlines(), key=len)
    assert len(longest) < 500
    assert longest.endswith("more characters")


def test_what_a_rule_asked_is_told_with_its_answer_and_marked_as_made_offline() -> None:
    (one,) = list_rule_queries(trace_of(), 2)
    assert (one.ask.kind, one.offline) == ("summary", True)
    assert one.answer.text
    assert list_rule_queries(trace_of(), 1) == ()


def test_a_place_outside_the_trace_is_an_error() -> None:
    with pytest.raises(IndexError):
        build_closeup(trace_of(), Cursor(1, 9))
    assert build_closeup(trace_of(), Cursor(1, 0), at=10_000) is None
