"""SWE-agent's history processors. What a rule does is replayed under its policy, request by request where a case has several;
marks for the cache, tags on calls and images in texts, which no rule does, run as functions over lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.plan import Plan
from turnscope.errors import PolicyError
from turnscope.planning import policy, trace
from turnscope.ports.swe_agent.processors import process
from turnscope.session.builder import Builder
from turnscope.session.model import Session

from tests.goldens._chats import sent

SYSTEM = "swe-agent"
REMOVED = "⟦REMOVED⟧"
ERRORS = {ValueError: "invalid_config", AssertionError: "assertion", KeyError: "missing_key", TypeError: "type_error"}
RULES = {  # of a processor: the policy that has its rule, and what the original does otherwise than the policy
    "last_n_observations": ("swe-agent-last-5", "elide_old_observations", {"n": 0, "polling": 1}),
    "closed_window": ("swe-agent-windows", "close_outdated_windows", {"results": False}),
    "remove_regex": ("swe-agent-windows", "remove_matches", {"system": True, "keep_last": 0}),
}
NAMES = {"always_remove_output_for_tags": "remove_tags", "always_keep_output_for_tags": "keep_tags"}
Message = dict[str, Any]


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    given = case["input"]
    if case["kind"] == "growing":
        return {"rows": _growing(given)}
    done: list[Message] = given["messages"]
    try:
        for processor in given["processors"]:
            done = _replayed(done, processor) if processor["type"] in RULES else process(done, [processor])
    except tuple(ERRORS) as error:
        return {"error": ERRORS[type(error)]}
    except PolicyError:
        return {"error": "invalid_config"}
    said = {message["id"]: message for message in given["messages"]}
    changed = {message["id"]: _difference(said[message["id"]], message) for message in done}
    return {"sent": [message["id"] for message in done], "changed": {id: what for id, what in changed.items() if what}}


def _difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {key: after.get(key, REMOVED) for key in (*before, *after) if before.get(key, REMOVED) != after.get(key, REMOVED)}


def _growing(given: dict[str, Any]) -> list[dict[str, Any]]:
    (processor,) = given["processors"]
    session = _session(given["messages"], growing=True)
    rows: list[dict[str, Any]] = []
    for plan in _plans(session, processor):
        found = sent(session, plan.after)
        rows.append({"prefix": len(found), "elided": [id for id, content in found.items() if content is not None]})
    return rows


def _replayed(messages: Sequence[Message], processor: Mapping[str, Any]) -> list[Message]:
    """The messages as a policy with the processor's rule alone sends them. AssertionError: where the original stops."""
    session = _session(messages, growing=False)
    plans = _plans(session, processor)
    if any(d.edit.facts.get("error") == "assertion" for plan in plans for d in plan.decisions):
        raise AssertionError
    said = {message["id"]: message for message in messages}
    found = sent(session, plans[-1].after) if plans else {}
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
    builder = Builder("golden", SYSTEM)
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
