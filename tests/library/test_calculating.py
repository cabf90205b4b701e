"""The budget calculator: a planned conversation is a session like any other, and its figures are the planner's."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
import turnscope
from turnscope import cli as command
from turnscope.counting.tokens import count_texts, make_estimator
from turnscope.errors import TurnscopeError
from turnscope.figures import draw_turns
from turnscope.library.calculating import CALCULATED_POLICIES, WORDS, Shape, build_session
from turnscope.library.comparing import resize_budget
from turnscope.library.opening import load_policy

SMALL = Shape(window=30_000, turns=12)
NAMES = ("keep-everything", "last-5-pairs", "condense-oldest", "cline-classic")


@pytest.fixture(scope="module")
def made() -> Any:
    return turnscope.calculate(SMALL, NAMES)


def test_its_figures_are_those_of_a_replay_of_the_same_session(made: Any) -> None:
    session = build_session(SMALL)
    for name, each in zip(NAMES, made.outlooks, strict=True):
        policy = resize_budget(load_policy(name), SMALL.window)
        trace = turnscope.replay(session, policy)
        (row,) = turnscope.compare(session, [policy]).rows
        assert each.row.sizes == tuple(trace.count_tokens(n) for n in range(len(trace.plans)))
        assert (each.row.usd, each.row.cost, each.row.kept_share, each.row.changed) == (
            row.usd,
            row.cost,
            row.kept_share,
            row.changed,
        )
        by_turn: dict[int, list[float]] = {}
        for plan, size in zip(trace.plans, each.row.sizes, strict=True):
            by_turn.setdefault(plan.request.turn, []).append(size / plan.budget.window)
            assert plan.budget.window == SMALL.window
        assert each.fill == tuple(max(sizes) for _, sizes in sorted(by_turn.items()))
        first = next((plan.request.turn for plan in trace.plans if plan.is_changed), None)
        assert each.first == (None if first is None else first - min(by_turn) + 1)
        assert each.cuts == sum(plan.is_changed for plan in trace.plans)
        over = [n for n, fill in enumerate(each.fill, 1) if fill > 1] + (
            [plan.request.turn - min(by_turn) + 1 for plan in trace.plans if plan.verdict == "refuse"]
        )
        assert each.ends == min(over, default=None)


def test_keeping_everything_fills_the_window_and_ends_and_what_condenses_does_not(made: Any) -> None:
    whole, pairs, condensed, _ = made.outlooks
    assert whole.first is None
    assert whole.ends == 5
    assert [*whole.fill] == sorted(whole.fill)
    assert condensed.ends is None
    assert condensed.first
    assert pairs.row.kept_share < 1 == whole.row.kept_share
    assert len(whole.fill) == SMALL.turns


@pytest.mark.parametrize("model", ["gpt-5", "claude-sonnet-4-5", "claude-opus-4-8", "nobody-knows"])
def test_sizes_are_those_that_were_asked_for(model: str) -> None:
    shape = Shape(system=1_000, tools=2_000, person=100, answer=500, results=801, calls=2, turns=3, model=model)
    session = build_session(shape)
    counter = turnscope.replay(session).ledger.counter
    sizes = {"text": [100] * 3, "answer": [500] * 3, "tool_result": [400, 401] * 3, "system": [1_000]}
    found: dict[str, list[int]] = {}
    for block in session.blocks:
        kind = "answer" if block.role == "assistant" and block.kind == "text" else block.kind
        found.setdefault(kind, []).append(count_texts([block.text], counter)[0])
    for kind, wanted in sizes.items():
        assert found[kind] == pytest.approx(wanted, abs=1), kind
    assert found["tool"] == pytest.approx([2_000], abs=60), "a definition has its frame"
    assert len({block.digest for block in session.blocks}) == len(session.blocks), "no two texts are alike"
    assert len(session.requests) == 3 * 3


def test_every_word_is_one_token() -> None:
    for encoding in ("o200k_base", "cl100k_base"):
        counter = make_estimator(encoding)
        assert count_texts(WORDS, counter) == [1] * len(WORDS)
        assert count_texts([f"a {word}" for word in WORDS], counter) == [2] * len(WORDS)


def test_asking_again_costs_nothing_and_gives_the_same(made: Any) -> None:
    again = turnscope.calculate(SMALL, NAMES[::-1])
    assert all(one is other for one, other in zip(again.outlooks, made.outlooks[::-1], strict=True))


def test_the_command_and_the_table_hold_the_same(made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["calculate", "--window", "30000", "--turns", "12", "--policies", ",".join(NAMES)]
    assert command.main(asked) == 0
    assert capsys.readouterr().out == made.to_csv()
    rows = list(csv.DictReader(io.StringIO(made.to_csv())))
    assert next(iter(rows))["ends_at_turn"] == "5"
    assert command.main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["conversation"]["window"] == 30_000
    assert [each["fill"] for each in told["policies"]] == [[*each.fill] for each in made.outlooks]
    assert "ends at turn" in made._repr_html_()
    names = {trace.name for trace in draw_turns(made.outlooks).data if trace.mode == "lines"}
    assert names == {each.row.title for each in made.outlooks}


def test_what_cannot_be_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ({"turns": 0}, {"window": 0}, {"person": -1}, {"system": 1.5}, {"turns": 100_000}, {"results": 10**9}):
        with pytest.raises(TurnscopeError) as told:
            Shape(**wrong)  # type: ignore[arg-type]
        assert told.value.hint
    assert command.main(["calculate", "--turns", "0"]) == 2
    assert command.main(["calculate", "--policies", "no-such"]) == 2
    assert "no policy 'no-such'" in capsys.readouterr().err
    assert {*CALCULATED_POLICIES} <= {policy.name for policy in turnscope.policies()}
