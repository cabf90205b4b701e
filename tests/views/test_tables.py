"""No cell of any export is run by a spreadsheet, whatever a log or a policy calls things; numbers stay numbers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from law_sessions import ledger_of, make
from msgspec import structs
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, NoParams, Rule
from turnscope.planning.policy import Policy, Step
from turnscope.planning.trace import trace
from turnscope.session.model import Edit, Part, Session, Span
from turnscope.views import decision_log, tables, text_tables
from turnscope.views.overview import build_overview

ATTACKS = (
    "=1+1",
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "  =1",
    "\u00a0=1",
    "\u200b=1",
    "\ufeff=1",
    '"=1"',
    "'=1",
    '"" =1',
    "＝1+1",
    "＋1",
    "－1+1",
    "＠SUM(1)",
    " ＝1",
    "=cmd|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0",
    '=HYPERLINK("http://a","b")',
    "x\r=1+1",
    "a,b\n=1",
    '",=1,"',
    "=\ud800",
    "-",
    "--1",
    "1\r\n=2",
    "-1 ",
    "+٣",
)
PLAIN = ("", "a=b", "claude-opus-4-5", "1+1", "3 - 2", "me@home", "{}", "é", "'tis", '"quoted"')
NUMBERS = ("-5", "+5", "-0.000001", "1e-7", "-1E+9", "0")
RUNS = re.compile(r"[^\w{,]*[=+\-@＝＋－＠]|[\t\r\n]")


def cells(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def safe(cell: str) -> bool:
    """Nothing that a spreadsheet takes off the front of a cell uncovers a formula."""
    return cell.startswith("'") or cell in NUMBERS or not RUNS.match(cell)


@pytest.mark.parametrize("attack", ATTACKS)
def test_text_that_would_be_run_is_shown_as_text(attack: str) -> None:
    head, row = cells(text_tables.format_csv([attack, "b"], [[attack, 7]]))
    assert row[1] == "7"
    for cell in (head[0], row[0]):
        assert safe(cell)
        assert cell.removeprefix("'") in (attack.replace("\ud800", "?"), attack.removeprefix("'"))


@pytest.mark.parametrize("text", PLAIN)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert cells(text_tables.format_csv(["a", "b"], [[text, 1]]))[1] == [text, "1"]


def test_numbers_are_no_formulas() -> None:
    row = cells(text_tables.format_csv(list("abcdef"), [[-5, -0.25, 1e-7, None, True, *NUMBERS]]))[1]
    assert row == ["-5", "-0.25", "1e-07", "", "True", *NUMBERS]


@given(st.lists(st.text(st.sampled_from("=+-@＝ \t\r\n\"',;1a\u200b") | st.characters(codec="utf-8"), max_size=8), min_size=1))
def test_any_row_reads_back_as_one_row(row: list[str]) -> None:
    found = cells(text_tables.format_csv(["x"] * len(row), [row]))
    assert len(found) == 2
    for cell, text in zip(found[1], row, strict=True):
        assert cell in (text, f"'{text}")
        assert cell != text or not re.match(r"\s*[=@＝]|[\t\r\n]", text)


def hostile(attack: str) -> tuple[Session, Policy]:
    """A session and a policy that carry an attack in every name and text which an export may hold."""
    told = make([[("tool", 80), ("tool", 60)], [("say", 20)], [("say", 20)]])
    requests = tuple(structs.replace(request, model=attack) for request in told.requests)

    def clear(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
        at = ctx.index.results[0]
        if at < ctx.request.cut and envelope.find_piece(at).body is None:
            yield Edit("clear", attack, Span(at, at + 1), (Part("user", "tool_result", attack),), facts={attack: attack})
        yield Edit("insert", attack, Span(0, 0), (Part(text=attack),), slot=attack)

    policy = Policy(attack, attack, attack, attack, attack, rules=(Step(Rule(attack, "", clear, NoParams), NoParams()),))
    return structs.replace(told, id=attack, title=attack, source=attack, requests=requests), policy


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_export_holds_a_cell_that_is_run(attack: str) -> None:
    session, policy = hostile(attack)
    replayed = trace(session, policy, ledger_of(session))
    view = build_overview(replayed)
    exports = [decision_log.to_csv(replayed), tables.overview_to_csv(view), tables.overview_to_csv(view, "turns")]
    for text in exports:
        head, *rows = cells(text)
        assert rows
        assert all(len(row) == len(head) for row in rows)
        assert all(safe(cell) or re.fullmatch(r"-?[0-9.]+", cell) for row in rows for cell in row)
    assert view.models == (attack,) * len(view), "what is shown elsewhere keeps its name"


def test_the_overview_keeps_negative_numbers() -> None:
    session, policy = hostile("m")
    view = build_overview(trace(session, policy, ledger_of(session)))
    below = replace(view, cells=view.cells - 50_000)
    rows = list(csv.DictReader(io.StringIO(tables.overview_to_csv(below), newline="")))
    assert [int(row["messages"]) for row in rows] == below.cells[:, 2].tolist()
    assert all(row["messages"].startswith("-") for row in rows)
