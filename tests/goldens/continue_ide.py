"""Continue's IDE extensions against cases of the original."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from turnscope.envelope.budget import BudgetParams
from turnscope.planning.assemble import replay
from turnscope.planning.policy import load
from turnscope.ports.continuedev.compiling import (
    CALL,
    FRAME,
    RESULT,
    adjust,
    compute_room,
    compute_safety,
    find_tail,
    select_lines,
)
from turnscope.session.builder import Builder
from turnscope.session.model import Block, Part, Session

from tests.goldens._apps import messages
from tests.goldens._chats import fake

SYSTEM = "continue-ide"


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    return KINDS[case["kind"]](case["input"])


def build(said: Sequence[Mapping[str, Any]]) -> Session:
    """A session of the messages of a case."""
    builder = Builder("golden", SYSTEM)
    for message in said:
        role, held = message["role"], message["content"]
        stored = builder.about.setdefault("stored", {}).setdefault("continue", {})
        stored[message["id"]] = {"content": held} if role != "thinking" else {}
        if role == "tool":
            role, held = "user", [{"type": "tool_result", "tool_use_id": message["toolCallId"], "content": held}]
        elif role == "thinking":
            role, held = "assistant", [{"type": "thinking", "thinking": held, "signature": message.get("signature", "")}]
        elif calls := message.get("toolCalls"):
            uses = [{"type": "tool_use", "id": c["id"], "name": c["function"]["name"], "input": {}} for c in calls]
            held = [{"type": "text", "text": held}, *uses]
        elif isinstance(held, list):
            held = [{"type": "image", "source": part} if part["type"] == "imageUrl" else part for part in held]
        builder.add_message(role, held, id=message["id"], fence=True)
    builder.add_unanswered()
    return builder.build()


def _compile(given: dict[str, Any]) -> dict[str, Any]:
    said = given["messages"]
    session, sizes = build(said), {message["id"]: message.get("tokens", 0) for message in said}

    def bare(_row: int, blocks: list[Block]) -> int:
        beside = sum(CALL * (b.kind == "tool_use") + RESULT * (b.kind == "tool_result") for b in blocks)
        return sizes[session.messages[blocks[0].message].id] - FRAME - beside

    def whole(rows: list[tuple[int, list[Block]]]) -> int:
        return sum(sizes[session.messages[blocks[0].message].id] for _, blocks in rows)

    def trial(_parts: list[Part]) -> int:
        return 0

    ledger = fake(session, whole, bare, trial)
    tools = [given["tools_tokens"]] * len(ledger.total)
    ledger = replace(ledger, sums=(ledger.sums[0], tools, *ledger.sums[2:]))
    budget = BudgetParams(formula="window", window=given["context_length"] or 0, fallback_window=128_000)
    chosen = replace(load(SYSTEM), counter="", budget=budget)
    changes = {
        "shift_oldest_messages": {"output": given["max_output"]},
        "space_for_blank": {"images": given["supports_images"]},
    }
    steps = [replace(s, params=replace(s.params, **changes[s.rule.name])) for s in chosen.rules]
    plan = next(iter(replay(session, replace(chosen, rules=tuple(steps)), ledger)))
    refused = [d.edit.facts["error"] for d in plan.decisions if d.action == "refuse"]
    if refused:
        return {"error": refused[0]}
    pruned = any("used" in d.edit.facts for d in plan.decisions)
    ids = messages(session, plan)
    used = given["tools_tokens"] + sum(sizes[id] for id in ids)
    roles = {message["id"]: message["role"] for message in said}
    changed = {}
    for decision in plan.decisions:
        if decision.action == "repair" and decision.edit.body and decision.edit.span:
            changed[session.messages[session.blocks[decision.edit.span.start].message].id] = decision.edit.body[0].text
    return {
        "sent": sorted(ids, key=lambda name: roles[name] != "system"),
        "did_prune": pruned,
        "context_percentage": used / compute_room(plan.budget.window, given["max_output"]),
        "changed": {id: text for id, text in changed.items() if id in ids},
    }


def _tail(given: dict[str, Any]) -> dict[str, Any]:
    said = [
        {"role": m["role"], "tool_calls": m.get("toolCalls"), "tool_call_id": m.get("toolCallId")} for m in given["messages"]
    ]
    start, ids = find_tail(said, len(said)), [m["id"] for m in given["messages"]]
    return {"error": "no_tool_call"} if start is None else {"tail": ids[start:], "rest": ids[:start]}


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
