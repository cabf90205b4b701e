"""Chatbot UI's buildFinalMessages against cases of the original."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from turnscope.envelope.budget import BudgetParams
from turnscope.envelope.plan import Plan
from turnscope.planning import policy, trace
from turnscope.ports.chatbot_ui.messages import LEAD_IN, OBJECT, OPEN
from turnscope.session.builder import Builder
from turnscope.session.model import Block, Part, Session

from tests.goldens._chats import fake

SYSTEM = "chatbot-ui"


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    given = case["input"]
    session, plan = _plan(given)
    kept, new, system = _list_sent(session, plan)
    said = {m["id"]: _text(m["content"]) for m in given["messages"]}
    appended: dict[str, Any] = {}
    for id, text in new.items():
        if text.startswith(OBJECT):
            appended[id] = {"text_kind": "list content turned into a string"}
        else:
            tail = text[len(said[id]) :]
            appended[id] = {"retrieval_blocks": tail.count(OPEN), "appended_length": _units(tail)}
    pictures = {m["id"]: len(m["images"]) for m in given["messages"] if m.get("images")}
    lost = {id for id, what in appended.items() if "text_kind" in what}
    return {
        "kept": kept,
        "first": "system",
        "appended": appended,
        "image_parts": {id: n for id, n in pictures.items() if id in kept and id not in lost},
        "retrieval_appended_to_system": LEAD_IN in system,
    }


def _text(given: Any) -> str:
    if isinstance(given, str):
        return given
    return (given["unit"] * given["fill"])[: given["fill"]]


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _plan(given: dict[str, Any]) -> tuple[Session, Plan]:
    builder = Builder("golden", SYSTEM)
    files = {id: _text(text) for id, text in given["files"].items()}
    if prompt := _text(given["chat_prompt"]):
        builder.add_message("system", prompt)
    for message in given["messages"]:
        text: Any = _text(message["content"])
        if message.get("images"):
            pictures = [{"type": "image", "source": {"type": "url", "url": url}} for url in message["images"]]
            text = [{"type": "text", "text": text}, *pictures]
        builder.add_message(message["role"], text, id=message["id"], fence=True)
    stored = {m["id"]: [files[f] for f in m["files"] if f in files] for m in given["messages"] if m.get("files")}
    builder.about["file_items"] = stored
    if given["messages"] and given["new_question_files"]:
        builder.about["retrieved"] = {
            given["messages"][-1]["id"]: [files[f] for f in given["new_question_files"] if f in files]
        }
    builder.add_unanswered()
    session = builder.build()
    chosen = policy.load(SYSTEM)
    chosen = replace(chosen, counter="", budget=BudgetParams(formula="fixed", tokens=given["context_length"]))

    def count_row(_row: int, blocks: list[Block]) -> int:
        return sum(-(-_units(block.text) // 4) for block in blocks if block.kind != "image")

    def count_rows(rows: list[tuple[int, list[Block]]]) -> int:
        return sum(count_row(row, blocks) for row, blocks in rows)

    def trial(parts: list[Part]) -> int:
        return sum(-(-_units(part.text) // 4) for part in parts)

    return session, trace.trace(session, chosen, fake(session, count_rows, count_row, trial)).plans[0]


def _list_sent(session: Session, plan: Plan) -> tuple[list[str], dict[str, str], str]:
    """Ids of the messages that are sent, texts that differ from what was said, and the system's text."""
    kept: list[str] = []
    new: dict[str, str] = {}
    system = ""
    for piece in plan.after.pieces:
        standing = [(b.role, session.messages[b.message].id, b.text) for b in session.blocks[piece.start : piece.stop]]
        if piece.body is not None:
            id = session.messages[session.blocks[piece.start].message].id if piece.stop > piece.start else ""
            standing = [(part.role, id, part.text) for part in piece.body]
        for role, id, text in standing:
            if role == "system":
                system += text
                continue
            if id not in kept:
                kept.append(id)
            if piece.body is not None:
                new[id] = text
    return kept, new, system
