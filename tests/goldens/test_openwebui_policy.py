"""Open WebUI's policies do to a stored chat what the golden cases say that the original did to its messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.plan import Plan
from turnscope.planning.assemble import replay
from turnscope.planning.policy import load
from turnscope.ports.openwebui.messages import load_messages, merge_system
from turnscope.session.builder import Builder
from turnscope.session.model import Session

from tests.goldens import DEFAULT
from tests.goldens._apps import Teller, list_sent, messages
from tests.goldens.openwebui import active, replace_notices
from tests.goldens.openwebui_prepare import get_field

PATH = DEFAULT / "openwebui-prepare.json"


def cases() -> Iterator[dict[str, Any]]:
    return iter(json.loads(PATH.read_text(encoding="utf-8"))["cases"] if PATH.is_file() else [])


@pytest.mark.parametrize("case", [*cases()], ids=lambda case: case["id"])
def test_the_policy_sends_what_the_original_sent(case: dict[str, Any]) -> None:
    got = {"prepare": _prepare, "session": _session}[case["kind"]](case["input"])
    assert got == case["expect"]


def _build(builder: Builder, messages: list[Mapping[str, Any]]) -> None:
    """Stored messages as the chat's; what is stored with each goes beside the conversation."""
    for number, message in enumerate(messages):
        held: Any = message["content"]
        pictures = [f["url"] for f in message.get("files") or () if f.get("type") == "image"]
        if pictures and message["role"] == "user":
            shown = [{"type": "image_url", "image_url": {"url": url}} for url in pictures]
            held = [{"type": "text", "text": held}, *shown]
        name = message.get("id") or f"new {number}"
        about = {key: value for key, value in message.items() if key not in ("id", "role", "content")}
        if about:
            builder.about.setdefault("stored", {}).setdefault("open-webui", {})[name] = about
        builder.add_message(message["role"], held, id=name, fence=True)


def _policy(given: dict[str, Any]) -> Any:
    settings = given.get("compaction")
    chosen = load("openwebui-compaction" if settings else "openwebui")
    changes: dict[str, dict[str, Any]] = {"send_stored_items": {"reasoning": get_field(given)}}
    if settings:
        own = settings.get("chat_param")
        changes["compact_at_threshold"] = {
            "threshold": settings["token_threshold"],
            "cap": settings.get("token_cap") or 0,
            "own": own or 0,
            "retention": settings.get("retention_percentage", 40),
        }
    steps = [replace(s, params=replace(s.params, **changes.get(s.rule.name, {}))) for s in chosen.rules]
    return replace(chosen, rules=tuple(steps))


def _prepare(given: dict[str, Any]) -> dict[str, Any]:
    stored = given["messages"]
    path = [stored[key] for key in active(stored, given["user_message_id"])]
    for key in ("assistant_message_id", "regeneration_message_id"):
        if given.get(key) in stored:
            path.append(stored[given[key]])
    said = load_messages(path)
    if given.get("regeneration_prompt"):
        said.append({"role": "user", "content": given["regeneration_prompt"]})
    builder = Builder("golden", "openwebui-prepare")
    if given.get("system"):
        builder.add_message("system", given["system"])
    _build(builder, said)
    builder.add_unanswered(model="m")
    session = builder.build()
    teller = Teller([(given.get("compaction") or {}).get("fake_summary")])
    plan = next(iter(replay(session, _policy(given), build_ledger(session, CHARS), answers=teller)))
    return {"messages": replace_notices(merge_system(list_sent(session, plan, get_field(given)))), **_account(plan, said)}


def _account(plan: Plan, said: list[Any]) -> dict[str, Any]:
    ids = [message.get("id") for message in said]
    tried = [d.edit.facts for d in plan.decisions if "threshold" in d.edit.facts]
    if not tried:
        return {"summary_call": None, "stored_summaries": {}}
    first, gone = len(ids) - tried[0]["messages"] - tried[0]["kept"], tried[0]["messages"]
    old = [d.edit.facts["summary"] for d in plan.decisions if d.action == "insert" and "threshold" not in d.edit.facts]
    call = {"compacted": ids[first : first + gone], "recent": ids[first + gone :], "previous_summary": old[0] if old else None}
    made = [d.edit.facts["summary"] for d in plan.decisions if d.action == "insert" and "threshold" in d.edit.facts]
    head = said[first + gone]
    return {
        "summary_call": call,
        "stored_summaries": {head["id"]: made[0]} if made and head["role"] == "user" and head.get("id") else {},
    }


def _session(given: dict[str, Any]) -> dict[str, Any]:
    builder = Builder("golden", "openwebui-prepare")
    if given.get("system"):
        builder.add_message("system", given["system"])
    for message in given["history"]:
        role = "assistant" if message["id"].startswith("a") else "user"
        _build(builder, [{**message, "role": role}])
        if role == "assistant":
            builder.set_request(builder.drafts[-1])
    session = builder.build()
    texts: list[str | None] = [""]
    steps, teller = [], Teller(texts)
    for plan in _plans(session, given, teller, texts):
        kept = messages(session, plan)
        used = [p.text for piece in plan.after.pieces for p in piece.body or () if p.kind == "summary"]
        made = [d.edit.facts["summary"] for d in plan.decisions if d.action == "insert" and "threshold" in d.edit.facts]
        text = used[0].partition("\n")[2] if used else None
        steps.append({"sent": kept, "summary_used": text, "stored_summaries": {kept[0]: made[-1]} if made else {}})
    return {"steps": steps}


def _plans(session: Session, given: dict[str, Any], teller: Teller, texts: list[str | None]) -> Iterator[Plan]:
    plans = replay(session, _policy(given), build_ledger(session, CHARS), answers=teller)
    for turn in range(len(session.requests)):
        texts[0] = f"SUMMARY-{turn}"
        yield next(plans)
