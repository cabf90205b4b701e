"""Tables for models in a policy: what differs for them in budget and parameters, and which one a plan says is in force."""

from __future__ import annotations

from pathlib import Path

from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.plan import Plan
from turnscope.planning.assemble import replay
from turnscope.planning.policy import Policy, apply_model_table, keep_wishes_only, load, make_sendable, parse
from turnscope.planning.policy_catalog import save_policy
from turnscope.session.builder import Builder
from turnscope.session.model import Session
from turnscope.views.parameters import apply_changes, find_changes

TEXT = """
[budget]
formula = "fixed"
tokens = 1000

[models."claude-haiku-*".budget]
tokens = 500

[models."claude-*".budget]
tokens = 700

[models."claude-*".keep_last_messages]
keep = 3

[models."gpt-4.1".refuse_when_over]
share = 0.5

[[rules]]
rule = "keep_last_messages"
keep = 5

[[rules]]
rule = "fall_back_to_larger_window"
models = { "gpt-4o" = "gpt-4.1" }

[[rules]]
rule = "refuse_when_over"
"""


def session(*models: str, characters: int = 4) -> Session:
    builder = Builder("s", "test")
    for n, model in enumerate(models):
        builder.add_message("user", "q" * characters, id=f"q{n}", origin="prompt")
        builder.set_request(builder.add_message("assistant", "a", id=f"a{n}"), model=model)
    return builder.build()


def plans(policy: Policy, *models: str, characters: int = 4) -> list[Plan]:
    said = session(*models, characters=characters)
    return list(replay(said, policy, build_ledger(said, CHARS)))


def tables(plan: Plan) -> list[str]:
    """The tables that a plan's decisions name."""
    return [decision.edit.facts["table"] for decision in plan.decisions if decision.rule == "models"]


def test_the_first_table_that_fits_a_model_holds_and_the_plan_names_it() -> None:
    found = plans(parse("p", TEXT), "gpt-4o", "claude-haiku-4-5", "claude-sonnet-4-5", "claude-sonnet-4-5")
    assert [plan.budget.limit for plan in found] == [1_000, 500, 700, 700]
    assert [tables(plan) for plan in found] == [[], ["claude-haiku-*"], ["claude-*"], ["claude-*"]]
    assert "for claude-haiku-4-5 the table 'claude-haiku-*' holds: budget: tokens = 500" in found[1].decisions[0].edit.because
    sent = [sum(piece.stop - piece.start for piece in plan.after.pieces if piece.body is None) for plan in found]
    assert sent == [1, 3, 3, 3], "five for others, three where the table says so"


def test_what_a_table_leaves_out_is_the_policy_s_own() -> None:
    policy, pattern = apply_model_table(parse("p", TEXT), "claude-opus-5")
    assert (pattern, policy.budget.formula, policy.rules[0].params.whole_pairs) == ("claude-*", "fixed", False)
    assert apply_model_table(parse("p", TEXT), "mistral") == (parse("p", TEXT), "")


def test_a_model_that_is_fallen_back_to_has_its_own_table() -> None:
    (plan,) = plans(parse("p", TEXT), "gpt-4o", characters=4_400)
    assert (plan.model, tables(plan), plan.verdict) == ("gpt-4.1", ["gpt-4.1"], "refuse")
    larger = TEXT.replace('"gpt-4.1".refuse_when_over]\nshare = 0.5', '"gpt-4.1".budget]\ntokens = 9000')
    (plan,) = plans(parse("p", larger), "gpt-4o", characters=4_400)
    assert (plan.budget.limit, plan.verdict) == (9_000, "send")


def test_tables_survive_writing_turning_saving_and_what_a_chat_adds(tmp_path: Path) -> None:
    policy = parse("p", TEXT)
    assert parse("p", policy.to_toml()) == policy
    turned = apply_changes(policy, {"budget.tokens": 2_000, "1.keep": 9})
    assert find_changes(turned, policy) == {"budget.tokens": 2_000, "1.keep": 9}
    assert turned.models == policy.models
    assert apply_model_table(turned, "claude-haiku-4-5")[0].budget.tokens == 500
    assert save_policy("mine", turned.to_toml(), tmp_path).models == load("mine", tmp_path).models == policy.models
    for made in (make_sendable(policy), keep_wishes_only(policy)):
        assert [plan.budget.limit for plan in plans(made, "claude-haiku-4-5")] == [500]
