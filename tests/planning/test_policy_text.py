"""A policy written as TOML reads back as the same policy, whatever its texts hold, and as a person would write it."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from turnscope.errors import PolicyError
from turnscope.planning.policy import Policy, Step, list_policies, load, parse
from turnscope.planning.rule_registry import find_rule, load_rules
from turnscope.storage.thread_loading import read_about, read_policy_name
from turnscope.views.parameters import apply_changes

PROMPT = 'Summarise what follows.\n\n  - keep "names" and \'paths\'\n  - keep C:\\new\\table """ and #this\n\tNo fences.\n'
HOSTILE = st.text(st.sampled_from("ab \t\n\r\"'\\#=[]{},.\x00\x07\x1b\x7f\x85\u2028\ufeff\ud800é🔭"), max_size=24) | st.text()
# as the writer before this one left it in chats
STORED = r"""name = "mine"
title = "Mine: \"q\" \\ and\n\u007f"
doc = ""
source = "ö"
fidelity = "ours"
version = ""
counter = "chars"
per_message = 4
guarantees = ["fits", "paired"]

[budget]
formula = "share"
share = 0.5
slots = { "memory" = 0.2 }
caps = {  }

[constants]
"a.b c" = "x"

[[rules]]
rule = "fall_back_to_larger_window"
models = { "small" = "large" }

[[rules]]
rule = "clear_old_results"
exclude_tools = ["Read", "mcp__a"]
placeholder = "one\ntwo"
"""


def make_policy(text: str, prompt: str = "") -> Policy:
    """A policy with `text` in every place where text may stand."""
    clear, condense = find_rule("clear_old_results"), find_rule("condense")
    larger = find_rule("fall_back_to_larger_window")
    steps = (
        Step(clear, clear.params(exclude_tools=(text, "b"), placeholder=text)),
        Step(condense, condense.params(prompt=prompt or text)),
        Step(larger, larger.params(models={text: text})),
    )
    tables = {text: {"budget": {"tokens": 3}, "condense": {"prompt": text, "share": 0.5}}, f"{text}*": {}}
    constants = {text: text, f"{text}.x": text}
    return Policy("p", text, text, text, text, text, "words", constants=constants, models=tables, rules=steps)


@pytest.mark.parametrize("name", list_policies())
def test_every_policy_reads_back(name: str) -> None:
    assert parse(name, load(name).to_toml()) == load(name)


def test_every_rule_reads_back_with_its_defaults() -> None:
    policy = Policy("all", "t", "d", "s", "f", rules=tuple(Step(rule, rule.params()) for rule in load_rules().values()))
    assert parse("all", policy.to_toml()) == policy


@given(HOSTILE)
@example("a\r\nb\nc\rd\r\n")
@example("\n")
@example('"""\\')
@example("[[rules]]\nrule = 'x'")
def test_any_text_reads_back(text: str) -> None:
    policy = make_policy(text)
    assert parse("p", policy.to_toml()) == policy


def test_a_prompt_of_several_lines_is_written_on_several_lines() -> None:
    text = make_policy("plain", PROMPT).to_toml()
    assert 'prompt = """\nSummarise what follows.\n\n  - keep \\"names\\" and \'paths\'\n' in text
    assert parse("p", text) == make_policy("plain", PROMPT)
    windows = PROMPT.replace("\n", "\r\n")
    assert parse("p", make_policy("plain", windows).to_toml()).rules[1].params.prompt == windows


def test_what_the_writer_before_left_in_chats_reads_as_it_did() -> None:
    policy = parse(str(tomllib.loads(STORED)["name"]), STORED)
    assert (policy.title, policy.counter, policy.guarantees) == ('Mine: "q" \\ and\n\x7f', "chars", ("fits", "paired"))
    assert (policy.budget.slots, policy.budget.caps, policy.constants) == ({"memory": 0.2}, {}, {"a.b c": "x"})
    assert policy.rules[0].params.models == {"small": "large"}
    assert (policy.rules[1].params.exclude_tools, policy.rules[1].params.placeholder) == (("Read", "mcp__a"), "one\ntwo")
    assert parse("mine", f'name = "mine"\n{policy.to_toml()}') == policy


def test_writing_what_was_read_changes_nothing_more() -> None:
    once = load("balanced").to_toml()
    assert replace(parse("balanced", once), name="other").to_toml() == once


@pytest.mark.parametrize("name", list_policies())
def test_every_policy_says_what_whoever_chooses_it_must_know(name: str) -> None:
    policy = load(name)
    assert all((policy.title, policy.doc, policy.source, policy.fidelity, policy.when, policy.build_cost, policy.loss))
    assert "when to use" not in f"{policy.source} {[*policy.constants]}".lower(), "it has a field of its own"
    assert not policy.saving or "(" in policy.saving, "a saving names its source"
    assert 0 < len(policy.line) <= 48, "it stands on one line of a card"


def test_no_two_policies_say_the_same_of_themselves() -> None:
    lines = [load(name).line for name in list_policies()]
    assert len({*lines}) == len(lines)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('whn = "long chats"', "unknown key 'whn'"),
        ("[budgets]\ntokens = 1", "unknown key 'budgets'"),
        ('per_message = "four"', "per_message"),
        ('guarantees = "fits"', "guarantees"),
        ('guarantees = ["fit"]', "unknown guarantee 'fit'"),
        ('counter = "letters"', "unknown counter 'letters'"),
        ("counter = 4", "unknown counter 4"),
        ("budget = 3", "budget"),
        ("rules = 3", "rules"),
        ('rules = ["condense"]', "rules"),
        ("constants = 3", "constants"),
        ("models = 3", "models"),
        ('[models."gpt-*"]\nbudget = 3', "models"),
        ('[models."gpt-*".budget]\ntoken = 3', "no parameter 'token'"),
        ('[models."gpt-*".budget]\ntokens = "many"', "tokens"),
        ('[models."gpt-*".condense]\nshare = 0.5', "names 'condense'"),
        ('[models."gpt-*".condense]\nshares = 0.5\n[[rules]]\nrule = "condense"', "no parameter 'shares'"),
        ('[[rules]]\nrule = "condens"', "policy 'p': there is no rule 'condens'"),
        ('[[rules]]\nrule = "condense"\nshares = 0.5', "policy 'p': rule 'condense' has no parameter 'shares'"),
    ],
)
def test_a_mistake_in_a_file_is_named_and_never_passed_over(text: str, what: str) -> None:
    with pytest.raises(PolicyError, match=what) as error:
        parse("p", text)
    assert error.value.hint


def test_the_name_that_was_meant_is_suggested() -> None:
    with pytest.raises(PolicyError) as error:
        parse("p", '[[rules]]\nrule = "condens"')
    assert error.value.hint == "Did you mean 'condense'?"
    with pytest.raises(PolicyError) as error:
        load("extract")
    assert error.value.hint == "Did you mean 'extracts'?"
    with pytest.raises(PolicyError) as error:
        load("nothing like it")
    assert error.value.hint.startswith("Known: ")


def test_a_policy_by_its_earlier_name_is_the_same(tmp_path: Path) -> None:
    assert load("staged") == load("chainreview-staged")
    assert "staged" not in list_policies()
    (tmp_path / "staged.toml").write_text('title = "my own"', encoding="utf-8")
    assert load("staged", tmp_path).title == "my own", "a file of one's own keeps its name"
    assert read_policy_name(f'name = "staged"\n{load("staged").to_toml()}') == "chainreview-staged"
    assert read_about('{"policy": "staged"}', None)["policy"] == "chainreview-staged"


def test_a_parameter_by_its_earlier_name_is_the_same_and_warns() -> None:
    text = "[[rules]]\nrule = 'prune_by_pressure'\n{} = false"
    with pytest.warns(DeprecationWarning, match="the parameter 'mend' is now 'repair'"):
        assert parse("p", text.format("mend")) == parse("p", text.format("repair"))
    with pytest.warns(DeprecationWarning, match="'repair'"):
        changed = apply_changes(parse("p", text.format("repair")), {"1.mend": True})
    assert changed.rules[0].params.repair is True
