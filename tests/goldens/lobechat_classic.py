"""LobeChat classic over stored messages; `test_lobechat_policy` replays the cases under its policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from turnscope.ports.lobechat.messages import (
    COUNT,
    EXTRA,
    HEAD,
    TAIL,
    build_call_name,
    count_handed_over,
    find_window,
    frame_summary,
    is_limited,
    prepare_messages,
    shape_message,
)

SYSTEM = "lobechat-classic"
VARIABLES = {"username": "Ada", "date": "1/2/2026"}


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    return KINDS[case["kind"]](case["input"])


def runs(numbers: Sequence[int]) -> list[list[int]]:
    """Numbers as runs, both ends included."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def _slice(given: dict[str, Any]) -> dict[str, Any]:
    return {"kept": runs(range(find_window(given["count"], given["enable"], given["history_count"]), given["count"]))}


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    config = given["chat_config"]
    on = is_limited(
        given["model"], config.get("enableHistoryCount"), config.get("disableContextCaching", False), config.get("searchMode")
    )
    count = config.get("historyCount")
    return {"enable_history_count": on, "history_count": COUNT if count is None else count}


def _range(given: dict[str, Any]) -> dict[str, Any]:
    found = _settings(given)
    due = found["enable_history_count"] and given["chat_config"].get("enableCompressHistory")
    if not due or given["count"] <= found["history_count"]:
        return {"summarise": None}
    return {"summarise": runs(range(count_handed_over(given["count"], found["history_count"])))}


def _prepare(given: dict[str, Any]) -> dict[str, Any]:
    calling = given["function_calling"]
    joined = [given["tool_system_text"]] if given.get("tool_system_text") and calling else []
    joined += [frame_summary(given["history_summary"])] if given.get("history_summary") else []
    start = find_window(len(given["messages"]), given["enable"], given["history_count"])

    def shape(message: Mapping[str, Any]) -> dict[str, Any]:
        made = shape_message(message, given.get("input_template") or "", VARIABLES, calling, given["vision"])
        if message["role"] == "assistant" and message.get("reasoning"):
            made["reasoning"] = message["reasoning"]  # the original leaves it on the message
        if message["role"] == "tool" and calling and message.get("plugin"):
            made["name"] = build_call_name(message["plugin"])
        return made

    made = prepare_messages(given["messages"][start:], [given.get("system_role") or "", *joined], shape)
    for message in made:
        if message["role"] == "system":
            message["content"] = replace_notices(message["content"])
    return {"messages": made}


def replace_notices(text: str) -> str:
    """Our own frame as the placeholders of the original's."""
    return text.replace(HEAD, "⟦SUMMARY_HEAD⟧").replace(TAIL, "⟦SUMMARY_TAIL⟧")


def _sequence(given: dict[str, Any]) -> dict[str, Any]:
    """The chat turn by turn: the window, and the summary that is made after the answer."""
    found, config = _settings(given), given["chat_config"]
    summary: str | None = None
    steps: list[dict[str, Any]] = []
    for turn in range(given["turns"]):
        count = 2 * turn + 1
        start = find_window(count, found["enable_history_count"], found["history_count"] + EXTRA)
        step = {"sent": runs(range(start, count)), "summary_used": summary, "summarise": None, "summary_stored": None}
        if found["enable_history_count"] and config.get("enableCompressHistory") and count > found["history_count"]:
            read = count_handed_over(count, found["history_count"])
            step["summarise"] = runs(range(read))
            if read >= 2:
                summary = step["summary_stored"] = f"SUMMARY-{turn}"
        steps.append(step)
    return {"steps": steps}


KINDS = {
    "slice": _slice,
    "settings": _settings,
    "summary_range": _range,
    "prepare": _prepare,
    "sequence": _sequence,
}
