"""Tools sent as text under any policy: nothing of a tool's blocks is left in the body, and the counts are those of the text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from law_sessions import ledger_of, make, sessions
from turnscope.errors import PolicyError
from turnscope.planning.assemble import replay
from turnscope.planning.lint import lint
from turnscope.planning.policy import load, parse
from turnscope.planning.render import render
from turnscope.session.model import Session

NAMES = ["balanced", "layered", "clear-tool-results", "last-5-pairs", "keep-everything"]
TEXT = 'tools = "xml"\n'


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(session=sessions)
def test_no_block_of_a_tool_is_sent(name: str, session: Session) -> None:
    policy = parse(name, TEXT + load(name).to_toml().replace('tools = ""\n', ""))
    for plan in replay(session, policy, ledger_of(session)):
        body = render(plan.after, session)
        assert "tools" not in body
        kinds = {b["type"] for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]}
        assert not kinds & {"tool_use", "tool_result"}
        assert plan.after.counts[3] == plan.after.counts[1] == 0, "it is counted as what it is sent as"
        if body["messages"][-1]["role"] == "user" and name != "keep-everything":
            assert not lint(body, "claude-opus-4-5")


def test_a_policy_says_so_in_one_line_and_is_written_so() -> None:
    policy = parse("p", TEXT + "[[rules]]\nrule = 'keep_last_pairs'\n[[rules]]\nrule = 'repair'\n")
    assert [part.rule.name for part in policy.rules] == ["keep_last_pairs", "send_tools_as_xml", "repair"]
    assert parse("p", policy.to_toml()) == policy
    with pytest.raises(PolicyError):
        parse("p", "tools = 'yaml'")


def test_a_call_is_sent_as_its_name_and_input() -> None:
    session = make([[("tool", 20)]], system=True)
    plan = [*replay(session, parse("p", TEXT), ledger_of(session))][-1]
    said = json.dumps(render(plan.after, session))
    assert "<read>\\n<path>f1</path>\\n</read>" in said
    assert "[read for 'f1'] Result:" in said
    assert "<name>read</name>" in said
