"""The decision log: one row per decision, in three forms, with no text of a block in any of them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

from hypothesis import given
from law_sessions import ledger_of, make, sessions
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, NoParams, Rule
from turnscope.planning.policy import Policy, Step, parse
from turnscope.planning.trace import Trace
from turnscope.planning.trace import trace as replayed
from turnscope.session.model import Edit, Part, Session, Span
from turnscope.views.decision_log import COLUMNS, iter_rows, to_csv, to_json_lines, to_markdown

SECRET = "r1"  # how the first result of every made session begins


def _clear(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
    for at in ctx.index.results:
        if at < ctx.request.cut - 2 and envelope.find_piece(at).body is None:
            because = "=HYPERLINK(1) | old <b>result</b>\nof *request* `x`"
            yield Edit("clear", because, Span(at, at + 1), (Part("user", "tool_result", "gone"),), facts={"a|b": "x_y", "n": 3})
    yield Edit("keep", "a look")


def trace_of(session: Session) -> Trace:
    policy = Policy("test", "t", "````toml", "s", "f", rules=(Step(Rule("clear", "", _clear, NoParams), NoParams()),))
    return replayed(session, policy, ledger_of(session))


TRACE = trace_of(make([[("tool", 80), ("tool", 60)], [("think", 20)], [("say", 20)]]))


@given(sessions)
def test_every_decision_is_one_line(session: Session) -> None:
    trace = trace_of(session)
    many = sum(len(plan.decisions) + len(plan.server) for plan in trace.plans)
    lines = to_json_lines(trace).splitlines()
    assert len(lines) == many
    assert [json.loads(line) for line in lines] == [*iter_rows(trace)]


@given(sessions)
def test_csv_reads_back_to_the_same_rows(session: Session) -> None:
    trace = trace_of(session)
    found = list(csv.DictReader(io.StringIO(to_csv(trace))))
    known = [*iter_rows(trace)]
    assert len(found) == len(known)
    for line, row in zip(found, known, strict=True):
        assert tuple(line) == COLUMNS
        for name in ("decision", "request", "counted_before", "counted_after", "tokens_before"):
            assert line[name] == str(row[name])


def test_a_cell_that_a_spreadsheet_would_run_gets_an_apostrophe() -> None:
    line = next(row for row in csv.DictReader(io.StringIO(to_csv(TRACE))) if row["action"] == "clear")
    assert line["because"].startswith("'=HYPERLINK")


def test_tokens_are_given_as_counted_and_as_the_provider_bills_them() -> None:
    for row, plan in ((row, TRACE.plans[row["request"]]) for row in iter_rows(TRACE)):
        assert row["tokens_before"] == TRACE.get_terms(plan.request.n).predict(row["counted_before"])
        assert (row["changed"], row["by"]) == (row["action"] == "clear", "policy")


def test_no_form_of_the_log_holds_text_of_a_block() -> None:
    texts = [block.text for block in TRACE.session.blocks if len(block.text) > 8]
    forms = [to_json_lines(TRACE), to_csv(TRACE)] + [
        to_markdown(TRACE, p.request.n, i) for p in TRACE.plans for i in range(len(p.decisions))
    ]
    assert texts
    assert not [text for text in texts for form in forms if text in form]


def test_a_decision_as_markdown_keeps_to_its_lines_and_its_fence() -> None:
    place = next((p.request.n, i) for p in TRACE.plans for i, d in enumerate(p.decisions) if d.action == "clear")
    text = to_markdown(TRACE, *place)
    assert text.startswith(f"## clear by clear at request {place[0] + 1}\n")
    assert "=HYPERLINK(1) \\| old \\<b\\>result\\</b\\> of \\*request\\* \\`x\\`" in text
    assert "| a\\|b | x\\_y |" in text
    assert "1 x" not in text
    assert "user tool\\_result of read" in text
    fenced = text[text.index("`````toml\n") + len("`````toml\n") : text.rindex("\n`````")]
    assert 'doc = "````toml"' in fenced


def test_the_policy_in_the_markdown_can_be_read_again() -> None:
    from conftest import ROOT
    from turnscope import load, replay

    trace = replay(load(ROOT / "sample_sessions" / "thinking-grows.jsonl"), "strip-thinking")
    plan = next(plan for plan in trace.plans if plan.decisions)
    text = to_markdown(trace, plan.request.n, 0)
    assert parse("strip-thinking", text[text.index("```toml\n") + 8 : text.rindex("\n```")]) == trace.policy
