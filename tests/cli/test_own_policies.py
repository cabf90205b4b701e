"""Policies of the user's own in commands, with values for some models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import turnscope
from click import Context
from click.testing import CliRunner
from conftest import ROOT
from turnscope.cli import command_line
from turnscope.cli.compare import command as compare_command
from turnscope.cli.options import load_policy
from turnscope.library.checking import Limits, check
from turnscope.planning.policy import load
from turnscope.planning.policy_catalog import save_policy
from turnscope.views.model_values import ModelValue, build_model_tables
from turnscope.views.parameters import apply_changes

SESSION = str(ROOT / "sample_sessions" / "chat-forgets-first-instruction.jsonl")  # with gpt-4o-mini


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's with a policy that gives the sample's model one pair and a small window."""
    monkeypatch.setenv("TURNSCOPE_DATA", str(tmp_path))
    base = load("context-aware-chat")
    values = (ModelValue("gpt-4o-mini*", "budget.window", "1500"), ModelValue("gpt-4o-mini*", "keep_last_pairs.pairs", "1"))
    changed = apply_changes(base, {"models": build_model_tables(base, values)})
    save_policy("mine", changed.to_toml(), tmp_path / "policies")
    return tmp_path / "policies"


def invoke(*arguments: str) -> str:
    done = CliRunner().invoke(command_line, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.stdout


def test_compare_and_check_apply_the_values_for_the_session_s_model() -> None:
    shipped, mine = json.loads(invoke("compare", SESSION, "--policies", "context-aware-chat,mine", "--json"))["policies"]
    assert sum(mine["sizes"]) < sum(shipped["sizes"])
    checked = [
        json.loads(invoke("check", SESSION, "--max-fill", "100", "--policy", name, "--json"))["sessions"][0]
        for name in ("context-aware-chat", "mine")
    ]
    assert [row["window"] for row in checked] == [128_000, 1_500]


def test_a_built_in_policy_is_not_replaced_by_a_file_of_its_name(own: Path) -> None:
    (own / "balanced.toml").write_text("", encoding="utf-8")
    assert load_policy("balanced") == load("balanced")


@pytest.mark.parametrize("by_path", [False, True], ids=["name", "path"])
def test_the_library_takes_ones_own_policy_as_commands_do(own: Path, by_path: bool) -> None:
    policy = str(own / "mine.toml") if by_path else "mine"
    session = turnscope.load(SESSION)
    trace = turnscope.replay(session, policy)
    (row,) = turnscope.compare(session, [policy]).rows
    (told,) = json.loads(invoke("compare", SESSION, "--policies", policy, "--json"))["policies"]
    assert trace.policy.name == ("mine.toml" if by_path else "mine")
    assert list(row.sizes) == told["sizes"]
    assert check(SESSION, Limits(max_fill=1), policy).violations
    assert turnscope.advise(session, policy, trials=1)


def test_names_of_ones_own_policies_are_completed() -> None:
    option = next(one for one in compare_command.params if one.name == "policies")
    found = option.shell_complete(Context(compare_command), "balanced,mi")
    assert "balanced,mine" in [item.value for item in found]


@pytest.mark.parametrize("by_path", [False, True], ids=["name", "path"])
def test_a_trace_is_made_under_ones_own_policy_as_compare_replays_it(own: Path, tmp_path: Path, by_path: bool) -> None:
    policy, out = str(own / "mine.toml") if by_path else "mine", tmp_path / "spans.jsonl"
    invoke("trace", SESSION, str(out), "--policy", policy)
    spans = [
        {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}
        for line in out.read_text(encoding="utf-8").splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    assert {span["turnscope.policy"] for span in spans if "turnscope.policy" in span} == {"mine.toml" if by_path else "mine"}
    (compared,) = json.loads(invoke("compare", SESSION, "--policies", policy, "--json"))["policies"]
    expected = [int(span["turnscope.expected_input_tokens"]) for span in spans if "turnscope.expected_input_tokens" in span]
    assert expected == compared["sizes"]


@pytest.mark.parametrize(
    ("text", "why"), [("", "cannot be read"), ("[[rules]]\nrule = 'none'", "none"), ("a = ", "not valid TOML")]
)
def test_a_file_that_is_no_policy_is_named(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "odd.toml"
    if text:
        path.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(command_line, ["trace", SESSION, str(tmp_path / "out.jsonl"), "--policy", str(path)])
    assert done.exit_code == 2
    assert why in done.stderr
    assert not (tmp_path / "out.jsonl").exists()
