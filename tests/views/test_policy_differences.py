"""In what two policies differ, and what that comes to on a session."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import turnscope
from click.testing import CliRunner
from conftest import ROOT
from turnscope.cli import command_line
from turnscope.planning.policy import Policy, load
from turnscope.views.parameters import apply_changes
from turnscope.views.policy_differences import are_versions, find_differences

SESSION = str(ROOT / "sample_sessions" / "cache-goes-cold.jsonl")


def list_rows(a: Policy, b: Policy) -> list[tuple[str, str, str, str]]:
    return [tuple(row) for row in find_differences(a, b).rows]


def test_a_policy_differs_from_itself_in_nothing() -> None:
    assert list_rows(load("claude-code"), load("claude-code")) == []


def test_a_parameter_that_was_changed_is_the_difference() -> None:
    base = load("claude-code-2.1.330")
    changed = apply_changes(base, {"1.window": 120_000})
    assert [row[0] for row in list_rows(base, changed)] == ["compact_but_last_round"]
    assert [row[2:] for row in list_rows(base, changed)] == [("0", "120,000")]


def test_a_rule_that_only_one_has_says_what_it_does() -> None:
    rows = {row[1]: row for row in list_rows(load("claude-code"), load("claude-code-2.1.330"))}
    part, _, mine, theirs = rows["compact_but_last_round"]
    assert (part, mine) == ("Rules", "")
    assert theirs.startswith("Replace all but the last round by a summary")


def test_rules_are_compared_by_their_names_wherever_they_stand() -> None:
    base = load("gemini-cli-0.61")
    assert len(base.rules) > 1
    assert list_rows(base, replace(base, rules=base.rules[::-1])) == []


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("claude-code", "claude-code-2.1.330", True),
        ("gemini-cli", "gemini-cli-0.61", True),
        ("claude-code", "claude-code", False),
        ("claude-code", "codex", False),
        ("balanced", "tidy-tool-output", False),
        ("multi-turn-window", "multi-turn-hybrid", False),
    ],
)
def test_versions_are_policies_of_one_system(a: str, b: str, same: bool) -> None:
    assert are_versions(load(a), load(b)) is same


def test_on_a_session_it_says_where_room_is_made_and_what_is_left() -> None:
    a, b = load("claude-code"), load("last-5-pairs")
    made = turnscope.compare(turnscope.load(SESSION), [a, b])
    rows = {row.what: (row.a, row.b) for row in find_differences(a, b, made.rows).rows if row.part == "On this session"}
    assert rows["the prompt falls at request"] == ("64", "56, 61, 63, 64")
    lost = tuple(f"{len(row.losses.hits)}" for row in made.rows)
    largest = tuple(f"{max(row.sizes):,}" for row in made.rows)
    assert (lost[0] == lost[1], largest[0] == largest[1]) == (True, False)
    assert (rows.get("lost references"), rows["largest prompt (tokens)"]) == (None, largest)
    assert all(mine != theirs for mine, theirs in rows.values()), "what is the same in both is no difference"


def test_the_command_line_prints_it() -> None:
    arguments = ["compare", SESSION, "--differences", "--policies"]
    printed = json.loads(CliRunner().invoke(command_line, [*arguments, "claude-code,claude-code-2.1.330", "--json"]).stdout)
    assert (printed["a"], printed["b"]) == ("Claude Code", "Claude Code (2.1.330)")
    assert {row["part"] for row in printed["differences"]} >= {"Policy", "On this session", "Budget", "Rules", "Constants"}
    csv = CliRunner().invoke(command_line, [*arguments, "claude-code,claude-code-2.1.330"]).stdout
    assert csv.splitlines()[0] == "part,what,A,B"
    assert CliRunner().invoke(command_line, [*arguments, "claude-code"]).exit_code == 2


def test_a_terminal_gets_both_sides_below_each_other() -> None:
    lines = repr(find_differences(load("claude-code-32k"), load("claude-code"))).splitlines()
    assert lines[:2] == ["A: Claude Code (2.1.5 to 2.1.7)", "B: Claude Code"]
    at = lines.index("Budget: Reserve for the answer (tokens)")
    assert lines[at + 1 : at + 3] == ["  A  32,000", "  B  20,000"]
    assert max(map(len, lines)) <= 100
