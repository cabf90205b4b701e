"""Open WebUI's whole preparation of a request against cases of the original: stored chats, replayed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from engine.counting.ledger import build_ledger
from engine.counting.tokens import CHARS
from engine.envelope.plan import Plan
from engine.planning.assemble import replay
from engine.planning.policy import load
from engine.ports.openwebui.messages import loaded, merged_system
from engine.session.builder import Builder
from engine.session.model import Answer, Ask, Session
from tests.goldens.openwebui import active, named

SYSTEM = "openwebui-prepare"


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    return {"prepare": _prepare, "session": _session}[case["kind"]](case["input"])


class Teller:
    """Answers what the summariser is asked: the first of `texts`, None = the call fails."""

    def __init__(self, texts: list[str | None]) -> None:
        self.texts = texts

    def __call__(self, _ask: Ask) -> Answer:
        text = self.texts[0]
        return Answer(failed="the call failed") if text is None else Answer(text, source="recorded")


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
            builder.about.setdefault("stored", {})[name] = about
        builder.message(message["role"], held, id=name, fence=True)


def _field(given: dict[str, Any]) -> str:
    """The field that reasoning goes to."""
    model = given.get("model") or {}
    if model.get("owned_by") == "ollama":
        return "thinking"
    return "reasoning_content" if model.get("provider") == "llama.cpp" else ""


def _policy(given: dict[str, Any]) -> Any:
    settings = given.get("compaction")
    chosen = load("openwebui-compaction" if settings else "openwebui")
    changes: dict[str, dict[str, Any]] = {"send_stored_items": {"reasoning": _field(given)}}
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
    said = loaded(path)
    if given.get("regeneration_prompt"):
        said.append({"role": "user", "content": given["regeneration_prompt"]})
    builder = Builder("golden", SYSTEM)
    if given.get("system"):
        builder.message("system", given["system"])
    _build(builder, said)
    builder.unanswered()
    session = builder.build()
    teller = Teller([(given.get("compaction") or {}).get("fake_summary")])
    plan = next(iter(replay(session, _policy(given), build_ledger(session, CHARS), answers=teller)))
    return {"messages": named(_sent(session, plan, _field(given))), **_account(plan, said)}


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


def _sent(session: Session, plan: Plan, field: str) -> list[dict[str, Any]]:
    """The request as chat messages."""
    made: list[dict[str, Any]] = []
    last = (-1, "")
    for number, (role, kind, raw, text) in _items(session, plan):
        if role == "system":
            made.append({"role": "system", "content": text})
        elif kind == "tool_result":
            made.append({"role": "tool", "tool_call_id": raw["tool_use_id"], "content": raw["content"]})
        else:
            follows = made and made[-1]["role"] == role and last[0] == number and (last[1], kind) not in APART
            if not follows:
                made.append({"role": role, "content": ""})
            _into(made[-1], kind, raw, text, field)
        last = (number, kind)
    return merged_system(made)


APART = {("text", "text"), ("tool_use", "text"), ("tool_use", "thinking"), ("text", "thinking")}


def _into(message: dict[str, Any], kind: str, raw: Any, text: str, field: str) -> None:
    if kind == "tool_use":
        name, _, arguments = text.partition(" ")
        call = {"id": raw["id"], "type": "function", "function": {"name": name, "arguments": arguments}}
        message.setdefault("tool_calls", []).append(call)
    elif kind == "thinking":
        message[field] = raw["thinking"]
    elif isinstance(raw, str):
        message["content"] = raw
    else:
        message["content"] = [*(message["content"] or []), raw]


def _items(session: Session, plan: Plan) -> Iterator[tuple[int, tuple[str, str, Any, str]]]:
    for number, piece in enumerate(plan.after.pieces):
        if piece.body is None:
            for block in session.blocks[piece.start : piece.stop]:
                yield -2 - block.message, (block.role, block.kind, block.raw, block.text)
        else:
            for part in piece.body:
                yield number, (part.role, part.kind, part.raw if part.raw is not None else part.text, part.text)


def _session(given: dict[str, Any]) -> dict[str, Any]:
    builder = Builder("golden", SYSTEM)
    if given.get("system"):
        builder.message("system", given["system"])
    for message in given["history"]:
        role = "assistant" if message["id"].startswith("a") else "user"
        _build(builder, [{**message, "role": role}])
        if role == "assistant":
            builder.request(builder.drafts[-1])
    session = builder.build()
    texts: list[str | None] = [""]
    steps, teller = [], Teller(texts)
    for plan in _plans(session, given, teller, texts):
        ids = [
            session.messages[b.message].id
            for p in plan.after.pieces
            if p.body is None
            for b in session.blocks[p.start : p.stop]
        ]
        sent = [id for id in ids if id]
        used = [p.text for piece in plan.after.pieces for p in piece.body or () if p.kind == "summary"]
        made = [d.edit.facts["summary"] for d in plan.decisions if d.action == "insert" and "threshold" in d.edit.facts]
        text = used[0].partition("\n")[2] if used else None
        steps.append({"sent": sent, "summary_used": text, "stored_summaries": {sent[0]: made[-1]} if made else {}})
    return {"steps": steps}


def _plans(session: Session, given: dict[str, Any], teller: Teller, texts: list[str | None]) -> Iterator[Plan]:
    plans = replay(session, _policy(given), build_ledger(session, CHARS), answers=teller)
    for turn in range(len(session.requests)):
        texts[0] = f"SUMMARY-{turn}"
        yield next(plans)
