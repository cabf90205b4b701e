"""LobeChat classic against cases of the original."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.planning.assemble import replay
from turnscope.planning.policy import Policy, load
from turnscope.ports.lobechat.messages import COUNT, EXTRA, HEAD, TAIL, count_handed_over, find_window, is_limited
from turnscope.session.builder import Builder
from turnscope.session.model import Session

from tests.goldens._apps import Teller, append_stored, messages, sent

SYSTEM = "lobechat-classic"
VARIABLES = ("username=Ada", "date=1/2/2026")


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


def policy(changes: Mapping[str, Mapping[str, Any]]) -> Policy:
    """LobeChat's policy with other parameters, by rule."""
    chosen = load(SYSTEM)
    steps = [replace(s, params=replace(s.params, **changes.get(s.rule.name, {}))) for s in chosen.rules]
    return replace(chosen, rules=tuple(steps))


def _prepare(given: dict[str, Any]) -> dict[str, Any]:
    builder = Builder("golden", SYSTEM)
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
    return {"messages": _shown(sent(session, plan, ""), given["messages"])}


def _shown(made: list[dict[str, Any]], stored: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
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
    head = [{"role": "system", "content": named("\n\n".join(system))}] if system else []
    return [*head, *rest]


def _thinks(message: Mapping[str, Any], thought: Mapping[str, Any], stored: Sequence[Mapping[str, Any]]) -> bool:
    held = message.get("content")
    text = held[-1].get("text") if isinstance(held, list) and held else held
    return any(m.get("reasoning") == thought and m["role"] == message["role"] and m["content"] == text for m in stored)


def named(text: str) -> str:
    """Our own frame as the placeholders of the original's."""
    return text.replace(HEAD, "⟦SUMMARY_HEAD⟧").replace(TAIL, "⟦SUMMARY_TAIL⟧")


def _sequence(given: dict[str, Any]) -> dict[str, Any]:
    builder, config = Builder("golden", SYSTEM), given["chat_config"]
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
            due = _range({"count": 2 * turn - 1, **given})["summarise"]
            steps[-1] |= {"summarise": runs(range(read)) if read else due and due[:0] if due == [] else due}
            steps[-1]["summary_stored"] = state.summary if read else None
        used = [p.text for piece in plan.after.pieces for p in piece.body or () if p.kind == "summary"]
        text = used[0].removeprefix(HEAD).removesuffix(TAIL) if used else None
        steps.append({"sent": runs([int(id) for id in messages(session, plan)]), "summary_used": text})
    return steps[:-1]


KINDS = {
    "slice": _slice,
    "settings": _settings,
    "summary_range": _range,
    "prepare": _prepare,
    "sequence": _sequence,
}
