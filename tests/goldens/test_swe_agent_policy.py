"""SWE-agent's policies do to a session what the golden cases say that the original did to its list of messages.

Left out are processors without a rule, and messages that no session can hold: lists of tool results, contents that are absent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.plan import Plan
from turnscope.errors import PolicyError
from turnscope.planning import policy, trace
from turnscope.session.builder import Builder
from turnscope.session.model import Session

from tests.goldens import DEFAULT
from tests.goldens._chats import list_sent

PATH = DEFAULT / "swe-agent.json"

RULES = {  # of a processor: the policy that has its rule, and what the original does otherwise than the policy
    "last_n_observations": ("swe-agent-last-5", "elide_old_observations", {"n": 0, "polling": 1}),
    "closed_window": ("swe-agent-windows", "close_outdated_windows", {"results": False}),
    "remove_regex": ("swe-agent-windows", "remove_matches", {"system": True, "keep_last": 0}),
}
NAMES = {"always_remove_output_for_tags": "remove_tags", "always_keep_output_for_tags": "keep_tags"}
Message = dict[str, Any]


def cases(growing: bool) -> Iterator[dict[str, Any]]:
    found = json.loads(PATH.read_text(encoding="utf-8"))["cases"] if PATH.is_file() else []
    for case in found:
        processors, messages = case["input"]["processors"], case["input"]["messages"]
        known = len(processors) == 1 and processors[0]["type"] in RULES and "error" not in case["expect"]
        plain = all(isinstance(m["content"], str) or m["role"] != "tool" for m in messages)
        if known and plain and (case["kind"] == "growing") == growing:
            yield case


@pytest.mark.parametrize("case", [*cases(growing=False)], ids=lambda case: case["id"])
def test_a_policy_sends_what_the_processor_sent(case: dict[str, Any]) -> None:
    said = {message["id"]: message for message in case["input"]["messages"]}
    sent = _replay_messages(case["input"]["messages"], case["input"]["processors"][0])
    changed = {m["id"]: {"content": m["content"]} for m in sent if m["content"] != said[m["id"]]["content"]}
    assert {"sent": [m["id"] for m in sent], "changed": changed} == case["expect"]


@pytest.mark.parametrize("case", [*cases(growing=True)], ids=lambda case: case["id"])
def test_a_policy_leaves_out_request_by_request_what_the_processor_left_out(case: dict[str, Any]) -> None:
    assert _run_growing(case["input"]) == case["expect"]["rows"]


@pytest.mark.parametrize("processor", [{"n": 0}, {"n": -1}, {"n": 5, "last": 1}])
def test_a_policy_refuses_the_options_that_the_processor_refuses(processor: dict[str, Any]) -> None:
    with pytest.raises(PolicyError):
        _replay_messages([], {"type": "last_n_observations", **processor})


def _run_growing(given: dict[str, Any]) -> list[dict[str, Any]]:
    (processor,) = given["processors"]
    session = _session(given["messages"], growing=True)
    rows: list[dict[str, Any]] = []
    for plan in _plans(session, processor):
        found = list_sent(session, plan.after)
        rows.append({"prefix": len(found), "elided": [id for id, content in found.items() if content is not None]})
    return rows


def _replay_messages(messages: Sequence[Message], processor: Mapping[str, Any]) -> list[Message]:
    """The messages as a policy with the processor's rule alone sends them. AssertionError: where the original stops."""
    session = _session(messages, growing=False)
    plans = _plans(session, processor)
    if any(d.edit.facts.get("error") == "assertion" for plan in plans for d in plan.decisions):
        raise AssertionError
    said = {message["id"]: message for message in messages}
    found = list_sent(session, plans[-1].after) if plans else {}
    return [said[id] if content is None else {**said[id], "content": content} for id, content in found.items()]


def _plans(session: Session, processor: Mapping[str, Any]) -> tuple[Plan, ...]:
    """Replayed under the policy that has the processor's rule, and under that rule alone. PolicyError: a wrong option."""
    name, rule, ours = RULES[processor["type"]]
    chosen = policy.load(name)
    (step,) = (step for step in chosen.rules if step.rule.name == rule)
    options = {NAMES.get(key, key): value for key, value in processor.items() if key != "type"}
    tuples = {key: tuple(value) if isinstance(value, list) else value for key, value in {**ours, **options}.items()}
    try:
        step = replace(step, params=replace(step.params, **tuples))
    except TypeError as error:  # no such parameter
        raise PolicyError(str(error), hint="") from error
    return trace.trace(session, replace(chosen, rules=(step,)), build_ledger(session, CHARS)).plans


def _session(messages: Sequence[Message], growing: bool) -> Session:
    """One request at the end; or one before each answer as well."""
    builder = Builder("golden", "swe-agent")
    for message in messages:
        extra = {key: message[key] for key in ("message_type", "is_demo", "tags") if key in message}
        role, held = message["role"], message["content"]
        if role == "tool":
            role, held = "user", [{"type": "tool_result", "tool_use_id": message["tool_call_ids"][0], "content": held}]
        elif message.get("tool_calls"):
            calls = [
                {"type": "tool_use", "id": c["id"], "name": c["function"]["name"], "input": {}} for c in message["tool_calls"]
            ]
            held = [{"type": "text", "text": held}, *calls]
        draft = builder.add_message(role, held, id=message["id"], fence=True, extra=extra)
        if role == "assistant" and growing:
            builder.set_request(draft)
    builder.add_unanswered()
    return builder.build()
