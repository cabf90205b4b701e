"""opencode, prompt by prompt, against what the released program asked of a model and stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from hashlib import sha256
from itertools import count
from typing import Any

from turnscope.ports.opencode import history as port
from turnscope.ports.opencode import session
from turnscope.ports.opencode.limits import CLEARED

SYSTEM = "opencode"
WORDS = {
    port.QUESTION: "⟦COMPACTION_QUESTION⟧",
    port.CONTINUE: "⟦CONTINUE⟧",
    port.CONTINUE_AFTER_MEDIA: "⟦CONTINUE_AFTER_MEDIA⟧",
    port.INTERRUPTED: "⟦INTERRUPTED⟧",
    port.MEDIA: "⟦TOOL_MEDIA⟧",
    CLEARED: "⟦CLEARED⟧",
}
OURS = "holds words of ours"
LONG = 160  # a longer text is told by its length and its digest


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    given = deepcopy(case["input"])
    stored: list[dict[str, Any]] = []
    for message in given["messages"]:
        if message["role"] == "assistant":
            message.setdefault("parent", next((m["id"] for m in reversed(stored) if m["role"] == "user"), None))
            message.setdefault("finish", "stop")
        for part in message["parts"]:
            for name in ("text", "output", "error"):
                if isinstance(part.get(name), dict):
                    part[name] = (part[name]["unit"] * part[name]["fill"])[: part[name]["fill"]]
        stored.append(message)
    talk = session.Conversation(given["model"], given["compaction"] or {}, stored, (f"n{i}" for i in count()))
    return _leave_out_digests({"steps": [_step(talk, step) for step in given["steps"]]}, case["expect"])


def _leave_out_digests(told: Any, expect: Any) -> Any:
    """What is told, without digests of texts that hold the program's own words, where ours stand here."""
    if isinstance(told, dict) and isinstance(expect, dict):
        if told.get("sha256_16") == OURS and "sha256_16" in expect:
            return {**told, "sha256_16": expect["sha256_16"]}
        return {name: _leave_out_digests(value, expect.get(name)) for name, value in told.items()}
    if isinstance(told, list) and isinstance(expect, list):
        return [_leave_out_digests(value, expect[i] if i < len(expect) else None) for i, value in enumerate(told)]
    return told


def _step(talk: session.Conversation, step: dict[str, Any]) -> dict[str, Any]:
    requests: list[dict[str, Any]] = []
    replies = iter(step["replies"])

    def ask(request: dict[str, Any]) -> session.Reply:
        requests.append(_request(request))
        reply = next(replies, {"text": "OK"})
        if "status" in reply:
            return {"refused": "long" if "context_length_exceeded" in json.dumps(reply["error"]) else "error"}
        return {"usage": [100, 5], **reply}

    before = {id(part) for part in _list_cleared(talk)}
    text = step["prompt"]
    text = (text["unit"] * text["fill"])[: text["fill"]] if isinstance(text, dict) else text
    error = session.answer_prompt(talk, text, ask)
    return {
        "requests": requests,
        "new_messages": [_message(m) for m in talk.current],
        "cleared": [part["call"] for part in _list_cleared(talk) if id(part) not in before],
        "error": error,
    }


def _list_cleared(talk: session.Conversation) -> list[dict[str, Any]]:
    return [p for m in talk.stored for p in m["parts"] if p["type"] == "tool" and p.get("compacted")]


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for part in message["parts"]:
        if part["type"] == "compaction":
            parts.append({"compaction": {name: value for name, value in part.items() if name != "type"}})
        elif part["type"] == "text":
            parts.append({"text": _text(part["text"]), **({"synthetic": True} if part.get("synthetic") else {})})
    told = {"id": message["id"], "role": message["role"], "parts": parts}
    told |= {"summary": True} if message.get("summary") else {}
    told |= {"error": message["error"]} if message.get("error") else {}
    return told | ({"answers": message["parent"]} if message["role"] == "assistant" else {})


def _request(request: dict[str, Any]) -> dict[str, Any]:
    if request["type"] == "main":
        return {"type": "main", "messages": [told for message in request["messages"] for told in _convert_message(message)]}
    return {
        "type": "summary",
        "max_tokens": request["max_tokens"],
        "conversation": _text(request["conversation"], ends=True),
        "previous_summary": request["previous"],
        "prompt_rest": "⟦PROMPT_WITH_PREVIOUS⟧" if request["previous"] else "⟦PROMPT_FIRST⟧",
    }


def _convert_message(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A message as the provider's chat API gets it."""
    content = message["content"]
    if message["role"] == "tool":
        return [
            {"role": "tool", "content": _text(_write_output(part["output"])), "tool_call_id": part["toolCallId"]}
            for part in content
        ]
    if message["role"] == "user":
        if len(content) == 1 and content[0]["type"] == "text":
            return [{"role": "user", "content": _text(content[0]["text"])}]
        return [
            {
                "role": "user",
                "content": [
                    {"text": _text(p["text"])} if p["type"] == "text" else {"image_url": _digest(p["data"])} for p in content
                ],
            }
        ]
    told: dict[str, Any] = {"role": "assistant", "content": _text("".join(p["text"] for p in content if p["type"] == "text"))}
    calls = [
        {
            "id": p["toolCallId"],
            "name": p["toolName"],
            "arguments": json.dumps(p["input"], separators=(",", ":"), ensure_ascii=False),
        }
        for p in content
        if p["type"] == "tool-call"
    ]
    reasoning = "".join(p["text"] for p in content if p["type"] == "reasoning")
    return [told | ({"tool_calls": calls} if calls else {}) | ({"reasoning": reasoning} if reasoning else {})]


def _write_output(output: Mapping[str, Any]) -> str:
    """A result as text; one with files as its JSON."""
    value = output["value"]
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _text(text: str, ends: bool = False) -> Any:
    if text in WORDS:
        return WORDS[text]
    if len(text) <= LONG:
        return text
    return {**_digest(text), **({"start": text[:60], "end": text[-60:]} if ends else {"start": text[:24]})}


def _digest(text: str) -> dict[str, Any]:
    ours = any(words in text for words in WORDS)
    return {"length": len(text), "sha256_16": OURS if ours else sha256(text.encode()).hexdigest()[:16]}
