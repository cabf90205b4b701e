"""Continue's IDE extensions over lists of messages; `test_continue_policy` replays the cases under its policy."""

from __future__ import annotations

from typing import Any

from turnscope.ports.continuedev.compiling import (
    NOTHING,
    UNMATCHED,
    RefusalError,
    adjust,
    compile_messages,
    compute_safety,
    find_tail,
    select_lines,
)

SYSTEM = "continue-ide"


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    return KINDS[case["kind"]](case["input"])


def _read_messages(given: dict[str, Any]) -> list[dict[str, Any]]:
    names = {"toolCalls": "tool_calls", "toolCallId": "tool_call_id"}
    return [{names.get(key, key): value for key, value in message.items()} for message in given["messages"]]


def _compile(given: dict[str, Any]) -> dict[str, Any]:
    said = _read_messages(given)
    tools, images = given.get("tools_tokens") or 0, given["supports_images"]
    try:
        found = compile_messages(said, given["context_length"], given["max_output"], tools, images)
    except RefusalError as error:
        return {"error": str(error)}
    before = {message["id"]: message["content"] for message in said}
    return {
        "sent": [message["id"] for message in found.messages],
        "did_prune": found.pruned,
        "context_percentage": found.share,
        "changed": {m["id"]: m["content"] for m in found.messages if m["content"] != before[m["id"]]},
    }


def _tail(given: dict[str, Any]) -> dict[str, Any]:
    said = _read_messages(given)
    start, ids = find_tail(said, len(said)), [message["id"] for message in said]
    if start is None or not ids:
        return {"error": UNMATCHED if ids else NOTHING}
    return {"tail": ids[start:], "rest": ids[:start]}


def _lines(given: dict[str, Any]) -> dict[str, Any]:
    left = select_lines(given["line_tokens"], given["max_tokens"], given["from"] == "top")
    return {"text": "\n".join(given["text"].split("\n")[left.start : left.stop])}


KINDS = {
    "compile": _compile,
    "tail": _tail,
    "lines": _lines,
    "buffer": lambda given: {"buffer": compute_safety(given["context_length"])},
    "adjust": lambda given: {"tokens": adjust(given["base_tokens"], given["model"])},
}
