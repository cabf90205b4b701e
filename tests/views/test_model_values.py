"""Values that a policy has for some models only: shown, changed and removed by hand, and what is said of wrong ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from turnscope.envelope.budget import compute_budget
from turnscope.errors import PolicyError
from turnscope.planning.policy import Policy, apply_model_table, list_policies, load, parse
from turnscope.planning.policy_catalog import save_policy
from turnscope.views.model_values import ModelValue, build_model_tables, list_model_parameters, list_model_values
from turnscope.views.parameters import apply_changes, decode_changes, encode_changes, find_changes

SPECIFIED = "context-aware-chat"


def change(policy: Policy, *values: ModelValue) -> Policy:
    return apply_changes(policy, {"models": build_model_tables(policy, values)})


@pytest.mark.parametrize(
    ("model", "window", "limit", "output"),
    [
        ("meta-llama/llama-3.3-70b-instruct:free", None, 4_650, 3_200),
        ("deepseek/deepseek-r1:free", 64_000, 4_650, 3_200),
        ("deepseek/deepseek-r1", None, 38_250, 25_600),
        ("our-gpt-4o", None, 76_650, 51_200),
        ("gpt-4o", 32_000, 19_050, 12_800),
        ("another", None, 4_650, 3_200),
    ],
)
def test_the_specification_s_models_get_its_budgets(model: str, window: int | None, limit: int, output: int) -> None:
    budget = compute_budget(apply_model_table(load(SPECIFIED), model)[0].budget, window)
    assert (budget.limit, budget.max_output) == (limit, output)


def test_every_shipped_policy_with_tables_names_their_source_and_comes_back_from_its_form() -> None:
    having = [policy for policy in map(load, list_policies()) if policy.models]
    assert {SPECIFIED, "cline-as-described"} <= {policy.name for policy in having}
    for policy in having:
        assert policy.constants.get("models"), policy.name
        assert build_model_tables(policy, list_model_values(policy)) == policy.models


def test_values_are_added_changed_and_removed_and_survive_a_link_and_the_user_s_file(tmp_path: Path) -> None:
    policy = load(SPECIFIED)
    free, *others = list_model_values(policy)
    added = ModelValue("claude-haiku-*", "keep_last_pairs.pairs", "3")
    wanted = change(policy, replace(free, text="4,000"), *others[1:], added)
    changes = find_changes(wanted, policy)
    assert [*changes] == ["models"]
    assert apply_changes(policy, decode_changes(encode_changes(changes))) == wanted
    mine = save_policy("mine", wanted.to_toml(), tmp_path)
    assert load("mine", tmp_path).models == mine.models == wanted.models
    assert apply_model_table(mine, "x:free")[0].budget.window == 4_000
    assert apply_model_table(mine, "deepseek-r1")[1] == "", "its only value was removed"
    pairs = [s.params.pairs for s in apply_model_table(mine, "claude-haiku-4-5")[0].rules if s.rule.name == "keep_last_pairs"]
    assert pairs == [3]
    assert find_changes(change(policy, *list_model_values(policy)), policy) == {}


def test_a_new_pattern_stands_before_those_that_fit_whatever_it_fits() -> None:
    policy = change(load(SPECIFIED), ModelValue("claude-*", "budget.window", "9000"))
    both = change(policy, *list_model_values(policy), ModelValue("claude-haiku-*", "budget.window", "5000"))
    assert [*both.models] == ["claude-haiku-*", "claude-*"]
    assert apply_model_table(both, "claude-haiku-4-5")[0].budget.window == 5_000


@pytest.mark.parametrize(
    ("pattern", "key", "text", "said"),
    [
        ("", "budget.window", "1", "the pattern of a model's name is empty"),
        (" gpt ", "budget.window", "1", "has blanks around it"),
        ("gpt-[4", "budget.window", "1", "opens a bracket that is not closed"),
        ("gpt", "", "1", "no parameter is chosen for models like 'gpt'"),
        ("gpt", "budget.window", "abc", "'abc' is not a whole number"),
        ("gpt", "budget.window", "", "'' is not a whole number"),
        ("gpt", "budget.window", "-5", "'-5' is not an amount"),
        ("gpt", "budget.share", "nan", "'nan' is not an amount"),
        ("gpt", "budget.share", "60", "'60' is above 1"),
        ("gpt", "budget.formula", "magic", "'magic' is not one of its values"),
        ("gpt", "keep_last_pairs.refuse", "perhaps", "'perhaps' is neither yes nor no"),
        ("gpt", "keep_last_pairs.nothing", "1", "there is no 'keep_last_pairs.nothing'"),
    ],
)
def test_a_wrong_pattern_or_value_is_told_in_a_sentence(pattern: str, key: str, text: str, said: str) -> None:
    with pytest.raises(PolicyError) as caught:
        change(load(SPECIFIED), ModelValue(pattern, key, text))
    assert said in caught.value.what
    assert caught.value.hint.endswith(".")


def test_a_pattern_that_fits_no_name_is_told_when_a_text_is_saved(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="opens a bracket"):
        save_policy("mine", '[models."gpt-[4".budget]\nwindow = 9\n', tmp_path)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("models", ["x", {"gpt": 3}, {"gpt": {"budget": {"window": "x"}}}, {"gpt": {"other": {}}}, {"": {}}])
def test_wrong_tables_of_a_link_are_refused(models: object) -> None:
    with pytest.raises(PolicyError):
        apply_changes(load(SPECIFIED), {"models": models})


def test_texts_on_several_lines_switches_lists_and_shares_come_back_from_the_form() -> None:
    text = """
[models."a*".condense]
frame = "one\\ntwo {summary}"

[models."a*".budget]
slots = { memory = 0.25, notes = 0.5 }

[models."a*".keep_last_pairs]
refuse = true

[[rules]]
rule = "condense"

[[rules]]
rule = "keep_last_pairs"
"""
    policy = parse("p", text)
    assert build_model_tables(policy, list_model_values(policy)) == policy.models
    assert all(value.key in list_model_parameters(policy) for value in list_model_values(policy))
