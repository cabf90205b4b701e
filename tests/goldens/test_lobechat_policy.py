"""LobeChat's policy does to a chat what the golden cases say that the original did to its stored messages.

Left out are models without function calling, whose results are sent as a user's messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.planning.assemble import replay
from turnscope.planning.policy import Policy, load
from turnscope.ports.lobechat.messages import COUNT, EXTRA, HEAD, TAIL
from turnscope.session.builder import Builder
from turnscope.session.model import Session

from tests.goldens import DEFAULT
from tests.goldens._apps import Teller, append_stored, list_sent, messages
from tests.goldens.lobechat_classic import KINDS, replace_notices, runs

PATH = DEFAULT / "lobechat-classic.json"
VARIABLES = ("username=Ada", "date=1/2/2026")


def cases() -> Iterator[dict[str, Any]]:
    found = json.loads(PATH.read_text(encoding="utf-8"))["cases"] if PATH.is_file() else []
    return (c for c in found if c["kind"] in ("prepare", "sequence") and c["input"].get("function_calling", True))


@pytest.mark.parametrize("case", [*cases()], ids=lambda case: case["id"])
def test_the_policy_sends_what_the_original_sent(case: dict[str, Any]) -> None:
    assert {"prepare": _prepare, "sequence": _sequence}[case["kind"]](case["input"]) == case["expect"]


def policy(changes: Mapping[str, Mapping[str, Any]]) -> Policy:
    """LobeChat's policy with other parameters, by rule."""
    chosen = load("lobechat-classic")
    steps = [replace(s, params=replace(s.params, **changes.get(s.rule.name, {}))) for s in chosen.rules]
    return replace(chosen, rules=tuple(steps))


def _prepare(given: dict[str, Any]) -> dict[str, Any]:
    builder = Builder("golden", "lobechat-classic")
    stored = [m for m in given["messages"] if m["role"] == "system"]
    system = [] if stored else [given.get("system_role")]
    for text in filter(None, [*system, given.get("tool_system_text") if given["function_calling"] else None]):
        builder.add_message("system", text)
    if given.get("history_summary"):
        builder.about["history_summary"] = given["history_summary"]
    append_stored(builder, given["messages"])
    builder.add_unanswered()
    session = builder.build()
    keep = given["history_count"]
    on = bool(given["enable"]) and keep is not None
    shape = {
        "template": given.get("input_template") or "",
        "variables": VARIABLES,
        "calling": given["function_calling"],
        "vision": given["vision"],
    }
    chosen = policy({"keep_last_stored": {"on": on, "count": (keep or 0) - EXTRA}, "shape_messages": shape})
    plan = next(iter(replay(session, chosen, build_ledger(session, CHARS))))
    return {"messages": _describe_messages(list_sent(session, plan, ""), given["messages"])}


def _describe_messages(made: list[dict[str, Any]], stored: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One system message, results named after their calls, and the field that the original leaves on answers."""
    system = [m["content"] for m in made if m["role"] == "system"]
    rest = [m for m in made if m["role"] != "system"]
    names = {call["id"]: call["function"]["name"] for m in rest for call in m.get("tool_calls", ())}
    thoughts = [m["reasoning"] for m in stored if m.get("reasoning")]
    for message in rest:
        if message["role"] == "tool":
            message["name"] = names[message["tool_call_id"]]
        thought = next((t for t in thoughts if _thinks(message, t, stored)), None)
        if thought:
            message["reasoning"] = thought
    head = [{"role": "system", "content": replace_notices("\n\n".join(system))}] if system else []
    return [*head, *rest]


def _thinks(message: Mapping[str, Any], thought: Mapping[str, Any], stored: Sequence[Mapping[str, Any]]) -> bool:
    held = message.get("content")
    text = held[-1].get("text") if isinstance(held, list) and held else held
    return any(m.get("reasoning") == thought and m["role"] == message["role"] and m["content"] == text for m in stored)


def _sequence(given: dict[str, Any]) -> dict[str, Any]:
    builder, config = Builder("golden", "lobechat-classic"), given["chat_config"]
    for turn in range(given["turns"]):
        builder.add_message("user", f"question {turn}", id=str(2 * turn), fence=True)
        builder.set_request(
            builder.add_message("assistant", f"answer {turn}", id=str(2 * turn + 1), fence=True), model=given["model"]
        )
    builder.add_message("user", "one more, so that the last summary shows", fence=True)
    builder.add_unanswered(model=given["model"])
    session = builder.build()
    count = config.get("historyCount", COUNT)
    changes = {
        "on": bool(config.get("enableHistoryCount")),
        "count": count,
        "uncached": config.get("disableContextCaching", False),
        "search": config.get("searchMode") or "",
        "summarise": bool(config.get("enableCompressHistory")),
    }
    return {"steps": _steps(session, policy({"keep_last_stored": changes}), given)}


def _steps(session: Session, chosen: Policy, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    texts: list[str | None] = [""]
    teller, steps = Teller(texts), []
    plans = replay(session, chosen, build_ledger(session, CHARS), answers=teller)
    for turn in range(given["turns"] + 1):
        texts[0] = f"SUMMARY-{turn - 1}"
        before = len(teller.asks)
        plan = next(plans)
        if turn:  # the step after an answer is seen at the next request
            state = plan.get_state("keep_last_stored")
            read = state.read if state and len(teller.asks) > before else 0
            due = KINDS["summary_range"]({"count": 2 * turn - 1, **given})["summarise"]
            steps[-1] |= {"summarise": runs(range(read)) if read else due and due[:0] if due == [] else due}
            steps[-1]["summary_stored"] = state.summary if read else None
        used = [p.text for piece in plan.after.pieces for p in piece.body or () if p.kind == "summary"]
        text = used[0].removeprefix(HEAD).removesuffix(TAIL) if used else None
        steps.append({"sent": runs([int(id) for id in messages(session, plan)]), "summary_used": text})
    return steps[:-1]
