"""Budgets by formula, and the shares that slots and buckets are held to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from law_sessions import ledger_of, make
from turnscope.envelope.budget import BudgetParams, compute_budget
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, NoParams, Rule
from turnscope.errors import PolicyError
from turnscope.planning.assemble import replay
from turnscope.planning.policy import Step, load, parse
from turnscope.session.model import Edit, Part, Span


@pytest.mark.parametrize(
    ("params", "window", "limit", "output"),
    [
        ({"formula": "fixed", "tokens": 9_000}, 200_000, 9_000, None),
        ({"formula": "window", "output": 8_000, "margin": 0.05}, 200_000, 182_000, 8_000),
        ({"formula": "window", "output": 8_000}, 16_000, 12_000, 4_000),  # a reserve never takes more than a quarter
        ({"formula": "cline"}, 131_072, 104_857, None),
        ({"formula": "split", "share": 0.6, "reserve": 150}, 128_000, 76_650, 51_200),
        ({"formula": "split", "share": 0.6, "reserve": 150, "fallback_window": 8_000}, None, 4_650, 3_200),
        ({"formula": "share", "share": 0.8}, 100_000, 80_000, None),
    ],
)
def test_a_formula_gives_its_limit(params: dict, window: int | None, limit: int, output: int | None) -> None:
    made = compute_budget(BudgetParams(**params), window)
    assert (made.limit, made.max_output, made.known) == (limit, output, window is not None)


def test_an_unknown_formula_is_named() -> None:
    with pytest.raises(PolicyError, match="magic"):
        compute_budget(BudgetParams("magic"), 1)


def _memo(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
    yield Edit("insert", "memory", Span(0, 0), (Part(text="remember this " * 200, place="system"),), slot="memory")


def test_slots_and_buckets_are_held_to_their_shares() -> None:
    text = '[budget]\nformula = "fixed"\ntokens = 2000\nslots = { memory = 0.1 }\ncaps = { tool_results = 0.2 }\n'
    held = parse("held", text + '[[rules]]\nrule = "hold_shares"\n')
    assert parse("held", held.to_toml()) == held
    memo = Step(Rule("memo", "", _memo, NoParams, "remembers"), NoParams())
    session = make([[("tool", 900)], [("tool", 900)], [("tool", 900)], [("say", 9)]], usage=False)
    ledger = ledger_of(session)
    plans = list(replay(session, replace(held, rules=(memo, *held.rules)), ledger))
    inserts = [piece for piece in plans[-1].after.pieces if piece.slot == "memory"]
    assert len(inserts) == 1
    assert 0 < sum(inserts[0].counts) <= 200
    assert [part.place for part in inserts[0].body or ()] == ["system"], "shortened where it stands"
    loose = list(replay(session, load("keep-everything"), ledger))
    assert loose[-1].after.counts[3] > 400
    assert plans[-1].after.counts[3] <= 400
    assert {d.rule for plan in plans for d in plan.decisions} == {"memo", "hold_shares"}
