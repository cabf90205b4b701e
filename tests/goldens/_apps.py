"""A plan's request as the chat messages that apps send, and messages as LobeChat stores them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from turnscope.envelope.plan import Plan
from turnscope.session.builder import Builder
from turnscope.session.model import Answer, Ask, Session

APART = {("text", "text"), ("tool_use", "text"), ("tool_use", "thinking"), ("text", "thinking")}


class Teller:
    """Answers what the summariser is asked: the first of `texts`, None = the call fails."""

    def __init__(self, texts: list[str | None]) -> None:
        self.texts = texts
        self.asks: list[Ask] = []

    def __call__(self, ask: Ask) -> Answer:
        self.asks.append(ask)
        text = self.texts[0]
        return Answer(failed="the call failed") if text is None else Answer(text, source="recorded")


def list_sent(session: Session, plan: Plan, field: str = "thinking") -> list[dict[str, Any]]:
    """The request, system parts as messages of their own. `field`: where reasoning goes; "" = into the content."""
    made: list[dict[str, Any]] = []
    last: tuple[int, str, bool] = (-1, "", False)
    for number, (role, kind, raw, text) in items(session, plan):
        if role == "system":
            made.append({"role": "system", "content": text})
        elif kind == "tool_result":
            made.append({"role": "tool", "tool_call_id": raw["tool_use_id"], "content": raw["content"]})
        else:
            apart = (last[1], kind) in APART and not (last[2] and isinstance(raw, dict))
            if not (made and made[-1]["role"] == role and last[0] == number and not apart):
                made.append({"role": role, "content": ""})
            _into(made[-1], kind, raw, text, field)
        last = (number, kind, isinstance(raw, dict))
    return made


def _into(message: dict[str, Any], kind: str, raw: Any, text: str, field: str) -> None:
    if kind == "tool_use":
        name, _, arguments = text.partition(" ")
        call = {"id": raw["id"], "type": "function", "function": {"name": name, "arguments": arguments}}
        message.setdefault("tool_calls", []).append(call)
    elif kind == "thinking" and field:
        message[field] = raw["thinking"]
    elif isinstance(raw, str):
        message["content"] = raw
    else:
        message["content"] = [*(message["content"] or []), raw]


def items(session: Session, plan: Plan) -> Iterator[tuple[int, tuple[str, str, Any, str]]]:
    """What is sent, in order: role, kind, content and text, each with a number that its message or placeholder shares."""
    for number, piece in enumerate(plan.after.pieces):
        if piece.body is None:
            for block in session.blocks[piece.start : piece.stop]:
                yield -2 - block.message, (block.role, block.kind, block.raw, block.text)
        else:
            for part in piece.body:
                yield number, (part.role, part.kind, part.raw if part.raw is not None else part.text, part.text)


def messages(session: Session, plan: Plan) -> list[str]:
    """Ids of the messages that are sent, in order."""
    ids: list[str] = []
    for piece in plan.after.pieces:
        if piece.body != () and piece.start < piece.stop:
            for block in session.blocks[piece.start : piece.stop]:
                name = session.messages[block.message].id
                if name and name not in ids[-1:]:
                    ids.append(name)
    return ids


def append_stored(builder: Builder, said: Sequence[Mapping[str, Any]]) -> None:
    """LobeChat's stored messages; what is stored with each goes beside the conversation."""
    for message in said:
        builder.about.setdefault("stored", {}).setdefault("lobechat", {})[message["id"]] = {**message}
        role, held = message["role"], message["content"]
        if role == "tool":
            result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": held}
            role, held = "user", [result]
        elif role in ("compressedGroup", "assistantGroup", "task", "supervisor"):
            role = "user" if role == "compressedGroup" else "assistant"
        elif calls := message.get("tools"):
            uses = [{"type": "tool_use", "id": call["id"], "name": call["apiName"], "input": {}} for call in calls]
            held = [*([{"type": "text", "text": held}] if held else []), *uses]
        builder.add_message(role, held, id=message["id"], fence=True)
