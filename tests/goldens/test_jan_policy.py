"""Jan's policy does to a chat what the golden cases say that the original did to its messages.

Left out is what no session holds: an answer that goes on after its beginning.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.plan import Plan
from turnscope.planning.assemble import replay
from turnscope.planning.policy import Policy, load
from turnscope.ports.jan.messages import DONE, FRAME, INTERRUPTED, OUTPUT, UNITS
from turnscope.reading.jan_threads import is_call, split_waves
from turnscope.session.builder import Builder
from turnscope.session.model import Session

from tests.goldens import DEFAULT
from tests.goldens._apps import Teller, items, messages
from tests.goldens.jan_2026 import fill_texts, replace_notices

PATH = DEFAULT / "jan-2026.json"


def cases() -> Iterator[dict[str, Any]]:
    found = json.loads(PATH.read_text(encoding="utf-8"))["cases"] if PATH.is_file() else []
    return (c for c in found if c["kind"] in ("compact", "prepare", "sequence") and not c["input"].get("continue_text"))


@pytest.mark.parametrize("case", [*cases()], ids=lambda case: case["id"])
def test_the_policy_sends_what_the_original_sent(case: dict[str, Any]) -> None:
    forms: dict[str, Any] = {}
    kinds = {"compact": _compact, "prepare": _prepare, "sequence": _sequence}
    got = kinds[case["kind"]](fill_texts(case["input"], forms))
    assert replace_notices(got, forms) == case["expect"]


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


def _plan_one(given: Mapping[str, Any], system: str, teller: Teller, split: bool = True) -> tuple[Session, Plan]:
    builder = Builder("golden", "jan-2026")
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
    session, plan = _plan_one(given, system, teller, split=False)
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
    session, plan = _plan_one(given, given["system"] or "", Teller([given.get("fake_summary")]))
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
    builder = Builder("golden", "jan-2026")
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
