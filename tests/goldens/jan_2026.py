"""Jan against cases of the original."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.plan import Plan
from turnscope.planning.assemble import replay
from turnscope.planning.policy import Policy, load
from turnscope.ports.jan.messages import (
    DONE,
    FRAME,
    HEAD,
    INTERRUPTED,
    OUTPUT,
    UNITS,
    drop_images,
    estimate_message,
    find_first_kept,
    join_messages,
    repair_calls,
)
from turnscope.reading.jan_threads import convert_message, find_active_path, find_new_parents, is_call, split_waves
from turnscope.session.builder import Builder
from turnscope.session.model import Session

from tests.goldens._apps import Teller, items, messages

SYSTEM = "jan-2026"


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    forms: dict[str, Any] = {}
    given = _filled(case["input"], forms)
    return named(KINDS[case["kind"]](given), forms)


def _filled(value: Any, forms: dict[str, Any]) -> Any:
    if isinstance(value, dict) and set(value) == {"fill", "unit"}:
        text = (value["unit"] * value["fill"])[: value["fill"]]
        forms[text] = value
        return text
    if isinstance(value, list):
        return [_filled(one, forms) for one in value]
    return {key: _filled(one, forms) for key, one in value.items()} if isinstance(value, dict) else value


def named(value: Any, forms: Mapping[str, Any]) -> Any:
    """Our own notices as the placeholders of the original's, and filled texts as the forms of the case."""
    if isinstance(value, str):
        return (
            forms[value] if value in forms else value.replace(HEAD, "⟦SUMMARY_HEAD⟧").replace(INTERRUPTED, "⟦TOOL_INTERRUPTED⟧")
        )
    if isinstance(value, list):
        return [named(one, forms) for one in value]
    return {key: named(one, forms) for key, one in value.items()} if isinstance(value, dict) else value


def _trim(given: dict[str, Any]) -> dict[str, Any]:
    said = given["messages"]
    sums = [0, *accumulate(map(estimate_message, said))]
    budget = given["max_context"] - given["max_output"] - given["system_tokens"]
    first = find_first_kept(sums, len(said), budget) if given["max_context"] > 0 else 0
    return {"kept": [m["id"] for m in said[first:]], "trimmed": first}


def _build(builder: Builder, said: Sequence[Mapping[str, Any]], split: bool = True) -> None:
    for message in split_waves(said) if split else said:
        builder.about.setdefault("stored", {}).setdefault("jan", {})[message["id"]] = message
        blocks: list[Any] = []
        results: list[Any] = []
        for part in message["parts"]:
            if is_call(part):
                name = part.get("toolName") or part["type"].removeprefix("tool-")
                blocks.append({"type": "tool_use", "id": part["toolCallId"], "name": name, "input": part.get("input")})
                if part.get("state") in DONE:
                    held = part.get("output", part.get("errorText"))
                    results.append({"type": "tool_result", "tool_use_id": part["toolCallId"], "content": held})
            elif part["type"] == "text":
                blocks.append({"type": "text", "text": part["text"]})
            elif part["type"] == "reasoning":
                blocks.append({"type": "thinking", "thinking": part["text"]})
            elif part["type"] == "file":
                blocks.append({**part, "type": "image"})
        builder.add_message(message["role"], blocks, id=message["id"], fence=True)
        if results:
            builder.add_message("user", results, fence=True)


def _policy(given: Mapping[str, Any]) -> Policy:
    chosen = load("jan")
    output = given.get("max_output")
    changes: dict[str, dict[str, Any]] = {
        "trim_to_limit": {
            "limit": max(0, given.get("max_context") or 0),
            "output": OUTPUT if output is None else output,
            "compact": bool(given.get("auto_compact", "fake_summary" in given)),
        },
        "join_turns": {"vision": given.get("vision", True)},
    }
    steps = [replace(s, params=replace(s.params, **changes[s.rule.name])) for s in chosen.rules]
    return replace(chosen, rules=tuple(steps))


def _planned(given: Mapping[str, Any], system: str, teller: Teller, split: bool = True) -> tuple[Session, Plan]:
    builder = Builder("golden", SYSTEM)
    if system:
        builder.add_message("system", system)
    _build(builder, given["messages"], split)
    builder.add_unanswered()
    session = builder.build()
    return session, next(iter(replay(session, _policy(given), build_ledger(session, CHARS), answers=teller)))


def _summary(plan: Plan) -> str | None:
    return next((p.text for piece in plan.after.pieces for p in piece.body or () if p.kind == "summary"), None)


def _compact(given: dict[str, Any]) -> dict[str, Any]:
    teller = Teller([given["fake_summary"]])
    system = "s" * int((given["system_tokens"] - FRAME) * UNITS)
    session, plan = _planned(given, system, teller, split=False)
    kept, stands = messages(session, plan), _summary(plan) is not None
    used = bool(teller.asks) and given["fake_summary"] is not None
    text = teller.asks[0].content if teller.asks else None
    return {
        "kept": [*(["SUMMARY"] if stands else []), *kept],
        "summary_role": "system" if stands else None,
        "trimmed": len(given["messages"]) - len(kept) + (used and not stands),
        "summary_used": given["fake_summary"] if used else None,
        "excerpt": None if text is None else {"length": len(text), "head": text[:24], "tail": text[-24:]},
    }


def _prepare(given: dict[str, Any]) -> dict[str, Any]:
    session, plan = _planned(given, given["system"] or "", Teller([given.get("fake_summary")]))
    refused = [d.edit.facts["error"] for d in plan.decisions if d.action == "refuse"]
    if refused:
        return {"error": refused[0]}
    made: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    last: tuple[int, str] = (0, "")
    for number, (who, kind, raw, text) in items(session, plan):
        role = "tool" if kind == "tool_result" else who
        if role == "system":
            made.append({"role": role, "content": text})
        else:
            if not made or made[-1]["role"] != role or (role == "assistant" and last != (number, role)):
                made.append({"role": role, "content": []})
            made[-1]["content"].append(_part(kind, raw, text, names))
        last = (number, role)
    return {"error": None, "messages": made}


def _part(kind: str, raw: Any, text: str, names: dict[str, str]) -> dict[str, Any]:
    if kind == "tool_use":
        names[raw["id"]] = raw["name"]
        return {"type": "tool-call", "toolCallId": raw["id"], "toolName": raw["name"], "input": raw["input"]}
    if kind == "tool_result":
        held, name = raw["content"], names[raw["tool_use_id"]]
        how = "error-text" if held == INTERRUPTED else "text" if isinstance(held, str) else "json"
        return {
            "type": "tool-result",
            "toolCallId": raw["tool_use_id"],
            "toolName": name,
            "output": {"type": how, "value": held},
        }
    if kind == "image":
        return {"type": "file", "mediaType": raw["mediaType"], "data": raw["url"]}
    return {"type": "reasoning" if kind == "thinking" else "text", "text": text}


def _sequence(given: dict[str, Any]) -> dict[str, Any]:
    said = [
        {"id": m["id"], "role": "assistant" if n % 2 else "user", "parts": [{"type": "text", "text": "x" * m["chars"]}]}
        for n, m in enumerate(given["messages"])
    ]
    builder = Builder("golden", SYSTEM)
    builder.add_message("system", given["system"])
    for message in said:
        _build(builder, [message])
        if message["role"] == "assistant":
            builder.set_request(builder.drafts[-1])
    session = builder.build()
    teller = Teller(["s" * given.get("summary_chars", 0)])
    steps: list[dict[str, Any]] = []
    for plan in replay(session, _policy(given), build_ledger(session, CHARS), answers=teller):
        refused = [d.edit.facts["error"] for d in plan.decisions if d.action == "refuse"]
        sent = [*(["SUMMARY"] if _summary(plan) else []), *messages(session, plan)]
        steps.append({"error": refused[0]} if refused else {"sent": sent})
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
