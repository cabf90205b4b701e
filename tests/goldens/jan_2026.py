"""Jan over its UI messages; `test_jan_policy` replays the cases under its policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from turnscope.ports.jan.messages import (
    FRAME,
    HEAD,
    INTERRUPTED,
    OUTPUT,
    add_files,
    build_excerpt,
    convert_to_model,
    drop_images,
    estimate_message,
    estimate_text,
    is_question,
    join_messages,
    repair_calls,
    trim,
)
from turnscope.reading.jan_threads import convert_message, find_active_path, find_new_parents, split_waves

SYSTEM = "jan-2026"


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    forms: dict[str, Any] = {}
    given = fill_texts(case["input"], forms)
    return replace_notices(KINDS[case["kind"]](given), forms)


def fill_texts(value: Any, forms: dict[str, Any]) -> Any:
    if isinstance(value, dict) and set(value) == {"fill", "unit"}:
        text = (value["unit"] * value["fill"])[: value["fill"]]
        forms[text] = value
        return text
    if isinstance(value, list):
        return [fill_texts(one, forms) for one in value]
    return {key: fill_texts(one, forms) for key, one in value.items()} if isinstance(value, dict) else value


def replace_notices(value: Any, forms: Mapping[str, Any]) -> Any:
    """Our own notices as the placeholders of the original's, and filled texts as the forms of the case."""
    if isinstance(value, str):
        return (
            forms[value] if value in forms else value.replace(HEAD, "⟦SUMMARY_HEAD⟧").replace(INTERRUPTED, "⟦TOOL_INTERRUPTED⟧")
        )
    if isinstance(value, list):
        return [replace_notices(one, forms) for one in value]
    return {key: replace_notices(one, forms) for key, one in value.items()} if isinstance(value, dict) else value


def _trim(given: dict[str, Any]) -> dict[str, Any]:
    said = given["messages"]
    first = trim(said, given["max_context"] or 0, given["max_output"], given["system_tokens"])
    return {"kept": [m["id"] for m in said[first:]], "trimmed": _count_trimmed(said, first, given)}


def _count_trimmed(said: Sequence[Any], first: int, given: Mapping[str, Any]) -> int:
    """How many were dropped. Without a message and without room the original says -1."""
    limit = given["max_context"] or 0
    return -1 if not said and 0 < limit <= given["max_output"] + given["system_tokens"] else first


def _compact(given: dict[str, Any]) -> dict[str, Any]:
    found = _summarise(given["messages"], given)
    stands = any(m["id"] == "SUMMARY" for m in found.messages)
    text = found.excerpt
    return {
        "kept": [m["id"] for m in found.messages],
        "summary_role": "system" if stands else None,
        "trimmed": found.trimmed,
        "summary_used": given["fake_summary"] if text is not None else None,
        "excerpt": None if text is None else {"length": len(text), "head": text[:24], "tail": text[-24:]},
    }


class Compacted(NamedTuple):
    """The messages that are left, how many were dropped, and what the summariser read."""

    messages: list[Any]
    trimmed: int
    excerpt: str | None


def _summarise(said: list[Any], given: Mapping[str, Any]) -> Compacted:
    """The program's compaction: a summary in front of what is left, and the same cut once more."""
    limit, output, system = given["max_context"] or 0, given["max_output"], given["system_tokens"]
    first = trim(said, limit, output, system)
    left = Compacted(said[first:], _count_trimmed(said, first, given), None)
    if not first or limit - output - system <= 0:
        return left
    excerpt = build_excerpt(said[:first], limit)
    if given.get("fake_summary") is None:
        return left._replace(excerpt=excerpt)
    text = f"{HEAD}{given['fake_summary']}"
    both = [{"id": "SUMMARY", "role": "system", "parts": [{"type": "text", "text": text}]}, *said[first:]]
    again = trim(both, limit, output, system)
    return Compacted(both[again:], first + again, excerpt)


def _send(said: Sequence[Any], given: Mapping[str, Any]) -> list[Any] | None:
    """The messages of one request; None if no question is left."""
    system = (given.get("system") or "").strip() and given["system"]
    output = given.get("max_output")
    asked = {
        **given,
        "max_output": OUTPUT if output is None else output,
        "system_tokens": estimate_text(system) + FRAME if system else 0,
    }
    split: list[Any] = split_waves(said)
    if (given["max_context"] or 0) > 0:
        first = trim(split, given["max_context"], asked["max_output"], asked["system_tokens"])
        split = _summarise(split, asked).messages if given.get("auto_compact") else split[first:]
    return split if any(is_question(message) for message in split) else None


def _prepare(given: dict[str, Any]) -> dict[str, Any]:
    sent = _send(given["messages"], given)
    if sent is None:
        return {"error": "no_user_message"}
    joined = join_messages(repair_calls(drop_images(map(add_files, sent), given.get("vision", True))))
    made = [one for message in joined for one in convert_to_model(message)]
    if (given.get("system") or "").strip():
        made.insert(0, {"role": "system", "content": given["system"]})
    if given.get("continue_text"):
        made.append({"role": "assistant", "content": [{"type": "text", "text": given["continue_text"]}]})
    return {"error": None, "messages": made}


def _sequence(given: dict[str, Any]) -> dict[str, Any]:
    said = [
        {"id": m["id"], "role": "assistant" if n % 2 else "user", "parts": [{"type": "text", "text": "x" * m["chars"]}]}
        for n, m in enumerate(given["messages"])
    ]
    summary = "s" * given["summary_chars"] if given.get("summary_chars") is not None else None
    steps: list[dict[str, Any]] = []
    for stop in range(1, len(said) + 1, 2):
        sent = _send(said[:stop], {"fake_summary": summary, **given})
        steps.append({"error": "no_user_message"} if sent is None else {"sent": [message["id"] for message in sent]})
    return {"steps": steps}


KINDS = {
    "estimate": lambda x: {"tokens": estimate_message(x["message"])},
    "trim": _trim,
    "compact": _compact,
    "waves": lambda x: {"messages": split_waves(x["messages"])},
    "coalesce": lambda x: {"messages": join_messages(x["messages"])},
    "orphans": lambda x: {"messages": repair_calls(x["messages"])},
    "strip_images": lambda x: {"messages": drop_images(x["messages"], x["vision"])},
    "path": lambda x: {"path": find_active_path(x["messages"], x["active_root"])},
    "repair": lambda x: {"parents": find_new_parents(x["messages"])},
    "to_ui": lambda x: {"messages": [convert_message(message) for message in x["messages"]]},
    "prepare": _prepare,
    "sequence": _sequence,
}
