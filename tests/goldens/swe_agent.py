"""SWE-agent's history processors. `growing` is replayed through the rule, other kinds run the same functions over lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.counting.ledger import build_ledger
from engine.counting.tokens import CHARS
from engine.planning import policy, trace
from engine.ports.swe_agent.processors import process
from engine.session.builder import Builder
from tests.goldens._chats import sent

SYSTEM = "swe-agent"
REMOVED = "⟦REMOVED⟧"
ERRORS = {ValueError: "invalid_config", AssertionError: "assertion", KeyError: "missing_key", TypeError: "type_error"}


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    given = case["input"]
    if case["kind"] == "growing":
        return {"rows": _growing(given)}
    try:
        done = process(given["messages"], given["processors"])
    except tuple(ERRORS) as error:
        return {"error": ERRORS[type(error)]}
    said = {message["id"]: message for message in given["messages"]}
    changed = {message["id"]: _difference(said[message["id"]], message) for message in done}
    return {"sent": [message["id"] for message in done], "changed": {id: what for id, what in changed.items() if what}}


def _difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {key: after.get(key, REMOVED) for key in (*before, *after) if before.get(key, REMOVED) != after.get(key, REMOVED)}


def _growing(given: dict[str, Any]) -> list[dict[str, Any]]:
    (options,) = given["processors"]
    builder = Builder("golden", SYSTEM)
    for message in given["messages"]:
        extra = {"message_type": message["message_type"], "tags": message.get("tags", [])}
        role, held = message["role"], message["content"]
        if role == "tool":
            role, held = "user", [{"type": "tool_result", "tool_use_id": message["tool_call_ids"][0], "content": held}]
        elif message.get("tool_calls"):
            calls = [
                {"type": "tool_use", "id": c["id"], "name": c["function"]["name"], "input": {}} for c in message["tool_calls"]
            ]
            held = [{"type": "text", "text": held}, *calls]
        draft = builder.message(role, held, id=message["id"], fence=True, extra=extra)
        if role == "assistant":
            builder.request(draft)
    builder.unanswered()
    session = builder.build()
    chosen = policy.load("swe-agent-last-5")
    params = replace(chosen.rules[0].params, n=options["n"], polling=options.get("polling", 1))
    chosen = replace(chosen, rules=(replace(chosen.rules[0], params=params),))
    rows: list[dict[str, Any]] = []
    for plan in trace.trace(session, chosen, build_ledger(session, CHARS)).plans:
        found = sent(session, plan.after)
        rows.append({"prefix": len(found), "elided": [id for id, content in found.items() if content is not None]})
    return rows
