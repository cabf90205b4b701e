"""Policies turned by hand: every parameter has a knob, changes survive a link, and saving keeps to its folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from turnscope.errors import PolicyError
from turnscope.planning import policy
from turnscope.planning.policy import Policy, Step, load, parse
from turnscope.planning.policy_catalog import load_catalog, save_policy
from turnscope.planning.rule_registry import load_rules
from turnscope.views.parameters import (
    Parameter,
    apply_changes,
    decode_changes,
    encode_changes,
    find_changes,
    format_field,
    group_parameters,
    parse_field,
)

ALL = Policy("all", "t", "d", "s", "f", rules=tuple(Step(rule, rule.params()) for rule in load_rules().values()))
EACH = [replace(ALL, rules=()), *(replace(ALL, rules=(part,)) for part in ALL.rules)]
KNOBS = [(one, knob) for one in EACH for knob in group_parameters(one)[-1].parameters]
TITLES = [f"{group_parameters(one)[-1].title}.{knob.name}" for one, knob in KNOBS]
OTHER = {"flag": lambda v: not v, "whole": lambda v: v + 7, "real": lambda v: v + 0.25, "text": lambda v: v + " é=1,\n"}
OTHER |= {"list": lambda v: [*v, "Read", "mcp__a"], "table": lambda v: {**v, "notes": 0.5}}


@pytest.mark.parametrize(("one", "knob"), KNOBS, ids=TITLES)
def test_every_parameter_can_be_turned_and_survives_a_link(one: Policy, knob: Parameter) -> None:
    other = next(c for c in knob.choices if c != knob.value) if knob.kind == "choice" else OTHER[knob.kind](knob.value)
    if knob.kind == "table" and "models" in knob.key:
        other = {"small": "large"}
    turned = apply_changes(one, decode_changes(encode_changes({knob.key: other})))
    assert find_changes(turned, one) == {knob.key: other}
    assert apply_changes(turned, {knob.key: knob.value}) == one
    assert parse("all", turned.to_toml()) == turned


def test_every_parameter_has_a_line_of_help_and_a_field_that_gives_its_value_back() -> None:
    for _, knob in KNOBS:
        assert knob.help, knob
        assert parse_field(knob, format_field(knob)) == knob.value


def test_lists_and_tables_are_written_as_a_person_writes_them() -> None:
    by = {knob.name: knob for _, knob in KNOBS}
    assert parse_field(by["exclude_tools"], " Read , Bash,, ") == ["Read", "Bash"]
    assert parse_field(by["slots"], "memory = 0.2\n\nnotes=0.05") == {"memory": 0.2, "notes": 0.05}
    assert parse_field(by["models"], "small = large") == {"small": "large"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"1.nothing": 1},
        {f"{len(ALL.rules) + 1}.keep": 1},
        {"keep": 1},
        {"budget.tokens": "many"},
        {"budget.tokens": None},
        {"": 1},
        {"budget.formula": "no"},
    ],
)
def test_a_wrong_change_is_named_and_never_guessed_at(wrong: dict[str, object]) -> None:
    with pytest.raises(PolicyError) as error:
        apply_changes(ALL, wrong)
    assert error.value.hint


@pytest.mark.parametrize("link", ["{", "[1]", "3", '"x"', "null"])
def test_a_broken_link_is_an_error_with_a_hint(link: str) -> None:
    with pytest.raises(PolicyError) as error:
        decode_changes(link)
    assert error.value.hint


def test_no_change_needs_no_link() -> None:
    assert encode_changes(find_changes(ALL, ALL)) == ""
    assert decode_changes("") == {}


def test_a_saved_policy_is_found_and_reads_back_equal(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "policies"
    mine = apply_changes(load("balanced"), {"budget.margin": 0.2})
    assert save_policy("my-own", mine.to_toml(), folder).budget.margin == 0.2
    found = load_catalog(folder)
    assert found.own == {"my-own"}
    assert found.policies["my-own"].rules == mine.rules
    assert [path.name for path in folder.iterdir()] == ["my-own.toml"], "no half-written file is left"
    assert set(policy.list_policies()) < set(found.policies)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "../evil",
        "a/b",
        "a\\b",
        ".hidden",
        "Ünï",
        "CAPS",
        "a.toml",
        "-a",
        "a-",
        "x" * 61,
        "a\n",
        "a b",
        "balanced",
        "staged",
    ],
)
def test_a_name_that_is_no_plain_name_of_a_new_policy_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as error:
        save_policy(name, load("balanced").to_toml(), tmp_path)
    assert error.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_text_that_is_no_policy_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(PolicyError):
        save_policy("mine", "rules = 3 [", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_broken_file_in_the_folder_is_reported_and_the_others_are_there(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("title = ", encoding="utf-8")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "unknown.toml").write_text('[[rules]]\nrule = "no_such_rule"\n', encoding="utf-8")
    (tmp_path / "balanced.toml").write_text(load("keep-everything").to_toml(), encoding="utf-8")
    found = load_catalog(tmp_path)
    assert set(found.problems) == {"broken", "binary", "unknown", "balanced"}
    assert found.problems["balanced"].what == "Turnscope itself has a policy of that name"
    assert all(error.hint for error in found.problems.values())
    assert found.policies["balanced"] == load("balanced"), "a file of one's own never stands in for a built-in policy"
    assert found.own == frozenset()


def test_a_folder_that_does_not_exist_holds_no_policy(tmp_path: Path) -> None:
    assert set(load_catalog(tmp_path / "none").policies) == set(policy.list_policies())
