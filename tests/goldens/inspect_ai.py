"""Inspect's compaction strategies, and its handler over a growing list of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.ports.inspect_ai import handler
from engine.ports.inspect_ai import strategies as port

SYSTEM = "inspect-ai"
SHOWN = ("role", "content", "tool_calls", "tool_call_id")
Message = Mapping[str, Any]


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    given = case["input"]
    try:
        if case["kind"] == "sequence":
            steps = _sequence(given)
            return {"steps": [_as_told(*both) for both in zip(steps, case["expect"]["steps"], strict=True)]}
        if "strategy" not in given:
            share = 0.7 if given["preserve"] is None else given["preserve"]
            return {"sent": _told(port.trimmed(given["messages"], share), given)}
        return _strategy(given)
    except ValueError:
        return {"error": "invalid"}


def _as_told(step: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """The step with the number of what is sent where a case tells no more of it, which it does of some quiet steps."""
    return {**step, "sent": len(step["sent"])} if "sent" in step and isinstance(told.get("sent"), int) else step


def _told(messages: Sequence[Message], given: Mapping[str, Any]) -> list[Any]:
    said = {message["id"]: message for message in given["messages"]}
    return [m["id"] if m.get("id") in said and said[m["id"]] == m else _shown(m) for m in messages]


def _shown(message: Message) -> dict[str, Any]:
    return {name: _words(message[name]) for name in SHOWN if name in message}


def _words(value: Any) -> Any:
    """The program's own words as the cases name them."""
    if isinstance(value, list):
        return [_words(part) for part in value]
    if isinstance(value, dict):
        return {name: _words(part) for name, part in value.items()}
    if not isinstance(value, str):
        return value
    before, after = port.CALL_REMOVED.split("{}")
    if value.startswith(before) and value.endswith(after):
        return f"⟦CALL_REMOVED:{value[len(before) : -len(after)]}⟧"
    known = {port.REMOVED: "⟦REMOVED⟧", port.SAVED: "⟦SAVED⟧", port.BEFORE: "⟦SUMMARY_BEFORE⟧", port.AFTER: "⟦SUMMARY_AFTER⟧"}
    for text, name in known.items():
        value = value.replace(text, name)
    return value


def _strategy(given: dict[str, Any]) -> dict[str, Any]:
    saw: list[Message] = []

    def summarise(messages: list[Message]) -> str:
        saw.extend(messages)
        return str(given["fake_summary"])

    sent, appended = handler.strategy_of(given["strategy"], summarise)(given["messages"])
    told: dict[str, Any] = {"sent": _told(sent, given), "appended": None if appended is None else _shown(appended)}
    return {**told, "summariser_sees": [*_told(saw, given), "⟦PROMPT⟧"]} if saw else told


def _count(messages: Sequence[Message]) -> int:
    """The counter of the cases."""
    total = 0
    for m in messages:
        blocks = [{"type": "text", "text": m["content"]}] if isinstance(m["content"], str) else m["content"]
        chars = sum(len(b.get("text") or b.get("reasoning") or "") for b in blocks)
        total += 3 + -(-chars // 4) + 10 * len(m.get("tool_calls") or ())
    return total


def _sequence(given: dict[str, Any]) -> list[dict[str, Any]]:
    made = 0

    def summarise(_messages: list[Message]) -> str:
        nonlocal made
        made += 1
        return f"T: summary {made - 1}"

    strategy = handler.strategy_of(given["strategy"], summarise)
    most = handler.threshold(given["strategy"]["threshold"], None)
    state, history, steps = handler.State(), list[Message](), list[dict[str, Any]]()
    prefix = given["messages"][: given["prefix"]]
    for number, message in enumerate(given["messages"]):
        history.append(message)
        if message["role"] == "assistant" or number < given["prefix"] - 1:
            continue
        try:
            appended = handler.prepare(state, history, prefix, strategy, most, _count)
        except handler.Insufficient:
            steps.append({"after": message["id"], "error": "insufficient"})
            break
        history += [appended] if appended else []
        tokens = _count(state.sent)
        told = _told(state.sent, given)
        steps.append({"after": message["id"], "sent": told, "appended": appended is not None, "tokens": tokens})
        if given["usage_overhead"] is not None:
            handler.counted(state, tokens + given["usage_overhead"])
    return steps
