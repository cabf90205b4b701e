"""Logs of Anthropic's Messages API: request bodies, alone or with their responses, as JSON, JSON lines or HTTP cassettes.

Every body is an envelope that was really sent; replayed as recorded, each is rendered again exactly. Responses may be bodies,
JSON text, or streams of server-sent events (docs.claude.com, "Streaming Messages").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.importers import Importer
from engine.reading.calls import Exchange, events, parsed
from engine.reading.conversations import Call, read_calls
from engine.reading.dialect import dialect
from engine.reading.source import Source
from engine.session.builder import usage
from engine.session.model import Session

NAME = "anthropic-api"
# What a delta of a stream adds to its block: type of delta -> (key of the delta, key of the block).
DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("partial_json", "input"),
}


def sniff(source: Source) -> bool:
    return dialect(source) == "anthropic"


def read(source: Source) -> tuple[Session, ...]:
    return read_calls(source, source.path.stem, NAME, _call)


def _call(found: Exchange) -> Call:
    response = found.response
    if isinstance(response, str):
        response = assembled(events(response))
    elif isinstance(response, list):
        response = assembled(event for event in response if isinstance(event, dict))
    about: dict[str, Any] = {
        "model": _text(found.body.get("model")),
        "sent_at": found.sent_at,
        "answered_at": found.answered_at,
    }
    if (
        not isinstance(response, Mapping)
        or response.get("type") == "error"
        or not isinstance(response.get("content"), (list, str))
    ):
        error = response.get("error") if isinstance(response, Mapping) else None
        what = _text(error.get("message")) if isinstance(error, Mapping) else ""
        return Call(found.body, None, about, found.error or what, found.line)
    about |= {"usage": usage(response.get("usage")), "id": _text(response.get("id"))}
    about["model"] = _text(response.get("model")) or about["model"]
    about["stop_reason"] = response["stop_reason"] if isinstance(response.get("stop_reason"), str) else None
    return Call(found.body, {"content": response["content"]}, about, "", found.line)


def assembled(stream: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """The message that a stream's events add up to, its usage included; None where none was begun."""
    message: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    for event in stream:
        kind = event.get("type")
        if kind == "message_start" and isinstance(event.get("message"), dict):
            message = dict(event["message"])
        elif kind == "content_block_start" and isinstance(event.get("content_block"), dict):
            blocks[event.get("index", len(blocks))] = dict(event["content_block"])
        elif kind == "content_block_delta" and isinstance(event.get("delta"), dict):
            _add(blocks.setdefault(event.get("index", 0), {}), event["delta"])
        elif kind == "message_delta":
            more = {key: value for key, value in event.items() if key not in ("type", "delta", "usage")}
            used = {**(message.get("usage") or {}), **(event.get("usage") or {})}
            message |= {**(event.get("delta") or {}), **more, "usage": used}
        elif kind == "error":
            return {"type": "error", "error": event.get("error")}
    if not message:
        return None
    for block in blocks.values():
        if isinstance(block.get("input"), str):
            block["input"] = parsed(block["input"]) if block["input"] else {}
    return {**message, "content": [blocks[index] for index in sorted(blocks)]}


def _add(block: dict[str, Any], delta: dict[str, Any]) -> None:
    kind = delta.get("type")
    if kind in DELTAS:
        source, target = DELTAS[kind]
        held = block.get(target)
        block[target] = (held if isinstance(held, str) else "") + _text(delta.get(source))
    elif kind == "citations_delta":
        block["citations"] = [*(block.get("citations") or []), delta.get("citation")]
    else:  # compaction_delta and its like: whole values
        block |= {key: value for key, value in delta.items() if key != "type"}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


IMPORTER = Importer(NAME, "Anthropic API log (JSON, JSON lines or cassette)", sniff, read)
