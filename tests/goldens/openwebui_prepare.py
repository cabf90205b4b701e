"""Open WebUI's whole preparation of a request over stored messages; `test_openwebui_policy` replays the cases."""

from __future__ import annotations

from typing import Any

from turnscope.ports.openwebui import compaction
from turnscope.ports.openwebui.compaction import HEADING, estimate_tokens, read_history
from turnscope.ports.openwebui.messages import (
    add_to_system,
    convert_messages,
    drop_blanks,
    drop_foreign_details,
    drop_unpaired,
    get_content,
    insert_images,
    load_messages,
    merge_system,
)

from tests.goldens.openwebui import active, replace_notices

SYSTEM = "openwebui-prepare"
MODEL = "m"  # the id of the model that all cases ask
Message = dict[str, Any]


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    return {"prepare": _prepare, "session": _session}[case["kind"]](case["input"])


def get_field(given: dict[str, Any]) -> str:
    """The field that reasoning goes to."""
    model = given.get("model") or {}
    if model.get("owned_by") == "ollama":
        return "thinking"
    return "reasoning_content" if model.get("provider") == "llama.cpp" else ""


def load_path(given: dict[str, Any]) -> list[Any]:
    """The messages that a request begins with, without the system message."""
    stored = given["messages"] or {}
    path = [stored[key] for key in active(stored, given["user_message_id"])]
    said = load_messages(path)
    if said:
        added = [stored[given[k]] for k in ("assistant_message_id", "regeneration_message_id") if given.get(k) in stored]
        said += load_messages(message for message in added if message.get("content") or message.get("output"))
    if given.get("regeneration_prompt"):
        said.append({"role": "user", "content": given["regeneration_prompt"]})
    return said


def _prepare(given: dict[str, Any]) -> dict[str, Any]:
    system = [] if given.get("system") is None else [{"role": "system", "content": given["system"]}]
    said = [*system, *map(insert_images, load_path(given))]
    said, summary, facts = _compact(said, given)
    if summary:
        said = add_to_system(said, f"{HEADING}\n{summary}", append=True)
    made = convert_messages(
        (drop_foreign_details(m, (given.get("model") or {}).get("id", MODEL)) for m in said), get_field(given)
    )
    made = merge_system(drop_blanks(drop_unpaired(made)))
    return {"messages": replace_notices(made), **facts}


def _compact(said: list[Any], given: dict[str, Any]) -> tuple[list[Any], str | None, dict[str, Any]]:
    """The messages that are left, the summary before them, and what became of it."""
    settings, facts = given.get("compaction"), {"summary_call": None, "stored_summaries": {}}
    if not settings:
        return said, None, facts
    system = said[:1] if said and said[0].get("role") == "system" else []
    talk = said[len(system) :]
    found = compaction.find_checkpoint(talk)
    if found.output is not None:
        talk = [*talk[: found.of], {**talk[found.of], "output": [*found.output]}, *talk[found.of + 1 :]]
    talk = talk[found.start :]
    limit = compaction.get_threshold(settings["token_threshold"], settings.get("token_cap"), settings.get("chat_param"))
    beside = estimate_tokens(get_content(system[0]) or "" if system else "") + estimate_tokens(found.summary or "")
    history = read_history(talk)
    total = compaction.count_history(history, 0, len(talk), beside)
    gone = 0
    if compaction.is_exceeded(total, limit):
        gone = compaction.find_boundary(history, 0, len(talk), settings.get("retention_percentage"))
    if not gone:
        return [*system, *talk], found.summary, facts
    ids = [message.get("id") for message in talk]
    facts["summary_call"] = {"compacted": ids[:gone], "recent": ids[gone:], "previous_summary": found.summary}
    if settings.get("fake_summary") is None:
        return said, None, facts  # the whole history, also that before an older summary
    text = settings["fake_summary"].strip() or compaction.build_fallback(found.summary, talk[:gone])
    name = ids[gone] or given.get("user_message_id")
    if talk[gone].get("role") == "user" and name:
        facts["stored_summaries"] = {name: text}
    return [*system, *talk[gone:]], text, facts


def _session(given: dict[str, Any]) -> dict[str, Any]:
    """The chat turn by turn; summaries stay with their messages."""
    stored: dict[str, Message] = {}
    steps: list[dict[str, Any]] = []
    for message in given["history"]:
        role = "assistant" if message["id"].startswith("a") else "user"
        stored[message["id"]] = {**message, "role": role, "parentId": next(reversed(stored), None)}
        if role == "assistant":
            continue
        settings = {**given["compaction"], "fake_summary": f"SUMMARY-{len(steps)}"} if given.get("compaction") else None
        asked = {**given, "messages": stored, "user_message_id": message["id"], "compaction": settings}
        system = [] if given.get("system") is None else [{"role": "system", "content": given["system"]}]
        sent, summary, facts = _compact([*system, *load_path(asked)], asked)
        for name, text in facts["stored_summaries"].items():
            stored[name] = {**stored[name], "contextSummary": text}
        ids = [m["id"] for m in sent if m["role"] != "system"]
        steps.append({"sent": ids, "summary_used": summary, "stored_summaries": facts["stored_summaries"]})
    return {"steps": steps}
