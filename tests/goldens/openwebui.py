"""Open WebUI's helper functions against cases of the original."""

from __future__ import annotations

from typing import Any

from turnscope.ports.librechat.legacy import find_path
from turnscope.ports.openwebui import compaction, messages
from turnscope.ports.openwebui.messages import IMAGES, VOICE

SYSTEM = "openwebui"


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    return KINDS[case["kind"]](case["input"])


def replace_notices(value: Any) -> Any:
    """Our own notices as the placeholders of the original's."""
    if isinstance(value, str):
        return value.replace(IMAGES, "⟦TOOL_IMAGES_LEAD_IN⟧").replace(VOICE, "⟦VOICE_HEADER⟧")
    if isinstance(value, list):
        return [replace_notices(one) for one in value]
    return {key: replace_notices(one) for key, one in value.items()} if isinstance(value, dict) else value


def active(stored: dict[str, Any] | None, head: str | None) -> list[str]:
    """Keys of the messages on the path to `head`."""
    tree = (
        {"messageId": key, "parentMessageId": message.get("parentId")} for key, message in (stored or {}).items() if message
    )
    return [message["messageId"] for message in find_path(tree, head)]


def _convert(given: dict[str, Any]) -> dict[str, Any]:
    made = messages.convert_items(given["output"], given["raw"], given["reasoning_format"], given["flatten_tool_images"])
    return {"messages": replace_notices(made)}


def _boundary(given: dict[str, Any]) -> dict[str, Any]:
    roles: dict[str, Any] = {
        "u": {"role": "user"},
        "a": {"role": "assistant"},
        "c": {"role": "assistant", "tool_calls": [{}]},
        "t": {"role": "tool"},
        "s": {"role": "system"},
    }
    said = [roles[letter] for letter in given["roles"]]
    return {"boundary": compaction.find_boundary(compaction.read_history(said), 0, len(said), given["retention_percentage"])}


def _exceeds(given: dict[str, Any]) -> dict[str, Any]:
    said = given["messages"]
    beside = compaction.estimate_tokens(given["system_prompt"]) + compaction.estimate_tokens(given["summary"])
    total = compaction.count_history(compaction.read_history(said), 0, len(said), beside)
    return {"exceeds": compaction.is_exceeded(total, given["threshold"])}


def _checkpoint(given: dict[str, Any]) -> dict[str, Any]:
    said = given["messages"]
    found = compaction.find_checkpoint(said)
    left = None if found.output is None else [*found.output]
    changed = {} if left is None or left == said[found.of]["output"] else {said[found.of]["id"]: left}
    return {"kept": [m["id"] for m in said[found.start :]], "summary": found.summary, "changed_output": changed}


KINDS = {
    "path": lambda x: {"path": active(x["messages"], x["head"])},
    "convert": _convert,
    "process": lambda x: {"messages": replace_notices(messages.convert_messages(x["messages"], x["reasoning_format"]))},
    "sanitize_pairs": lambda x: {"messages": messages.drop_unpaired(x["messages"])},
    "reconcile_pairs": lambda x: {"messages": messages.drop_unpaired_stored(x["messages"])},
    "boundary": _boundary,
    "estimate": lambda x: {"tokens": sum(map(compaction.count_message, x["messages"]))},
    "limit": lambda x: {"threshold": compaction.get_threshold(x["global"], x["cap"], x["chat_param"])},
    "threshold": _exceeds,
    "usage": lambda x: {"tokens": compaction.count_usage(x["usage"])},
    "add_system": lambda x: {"messages": messages.add_to_system(x["messages"], x["text"], x["append"])},
    "checkpoint": _checkpoint,
    "merge_system": lambda x: {"messages": messages.merge_system(x["messages"])},
    "strip_blank": lambda x: {"messages": messages.drop_blanks(x["messages"])},
}
