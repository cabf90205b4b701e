"""SWE-agent's history processors over lists of messages, request by request where a case has several.

`test_swe_agent_policy` replays the same cases under the policies that have the processors' rules.
"""

from __future__ import annotations

from typing import Any

from turnscope.ports.swe_agent.processors import process

SYSTEM = "swe-agent"
REMOVED = "⟦REMOVED⟧"
ERRORS = {ValueError: "invalid_config", AssertionError: "assertion", KeyError: "missing_key", TypeError: "type_error"}


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    given = case["input"]
    if case["kind"] == "growing":
        return {"rows": [_run_prefix(given, row["prefix"]) for row in case["expect"]["rows"]]}
    try:
        done = process(given["messages"], given["processors"])
    except tuple(ERRORS) as error:
        return {"error": next(code for kind, code in ERRORS.items() if isinstance(error, kind))}
    said = {message["id"]: message for message in given["messages"]}
    changed = {message["id"]: _difference(said[message["id"]], message) for message in done}
    return {"sent": [message["id"] for message in done], "changed": {id: what for id, what in changed.items() if what}}


def _difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {key: after.get(key, REMOVED) for key in (*before, *after) if before.get(key, REMOVED) != after.get(key, REMOVED)}


def _run_prefix(given: dict[str, Any], prefix: int) -> dict[str, Any]:
    said = given["messages"][:prefix]
    done = process(said, given["processors"])
    elided = [after["id"] for before, after in zip(said, done, strict=True) if before["content"] != after["content"]]
    return {"prefix": prefix, "elided": elided}
