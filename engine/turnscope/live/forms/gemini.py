"""Gemini's `generateContent`. Its reference: google-genai 3.6, types."""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from turnscope.live.forms import shared
from turnscope.live.stream_assembler import list_blocks, repair_text
from turnscope.reading.content_blocks import make_usage
from turnscope.session.model import JSON, Usage
from turnscope.session.usage import measured, parse_count

NAME = "gemini"
UNSIGNED = urlsafe_b64decode("skip_thought_signature_validator")
"""What Google documents as the signature of a call that another model made; Gemini 3 and later refuse a call without one."""
_SIGNED_MODELS = re.compile(r"gemini-(?:[3-9]|\d\d)")
_MODES = {"auto": "AUTO", "any": "ANY", "tool": "ANY", "none": "NONE"}
STOP_REASONS = {"STOP": "end_turn", "MAX_TOKENS": "max_tokens", "MALFORMED_FUNCTION_CALL": "end_turn"}
"""Finish reasons as stop reasons. Every other one is a refusal: safety, recitation, a language, and so on."""


def build_contents(body: Mapping[str, JSON]) -> list[dict[str, Any]]:
    """Return the messages of a body as `contents` of the SDK's `generate_content`."""
    names: dict[str, str] = {}
    contents: list[dict[str, Any]] = []
    signed = bool(_SIGNED_MODELS.search(str(body.get("model"))))
    for message in shared.list_messages(body):
        answer = message.get("role") == "assistant"
        parts = [part for block in shared.list_content(message) for part in _write_parts(block, names)]
        calls = [part for part in parts if "function_call" in part]
        if signed and calls and "thought_signature" not in calls[0]:
            calls[0]["thought_signature"] = UNSIGNED
        if parts:
            contents.append({"role": "model" if answer else "user", "parts": parts})
    return contents


def build_config(body: Mapping[str, JSON]) -> dict[str, Any]:
    """Return the settings of a body as `config` of the SDK's `generate_content`."""
    made: dict[str, Any] = {"automatic_function_calling": {"disable": True}}
    if system := shared.join_system(body):
        made["system_instruction"] = system
    if tools := shared.list_tools(body):
        made["tools"] = [{"function_declarations": [*map(_write_tool, tools)]}]
        kind, name = shared.get_choice(body)
        only = {"allowed_function_names": [name]} if name else {}
        made |= {"tool_config": {"function_calling_config": {"mode": _MODES[kind], **only}}} if kind in _MODES else {}
    for ours, theirs in (
        ("max_tokens", "max_output_tokens"),
        ("temperature", "temperature"),
        ("top_p", "top_p"),
        ("top_k", "top_k"),
        ("stop_sequences", "stop_sequences"),
    ):
        if body.get(ours) is not None:
            made[theirs] = body[ours]
    if shared.get_effort(body):
        made["thinking_config"] = {"include_thoughts": True}
    return made


def _write_tool(tool: Mapping[str, JSON]) -> dict[str, Any]:
    return {
        "name": tool["name"],
        "description": str(tool.get("description") or ""),
        "parameters_json_schema": tool["input_schema"],
    }


def _write_parts(block: Mapping[str, JSON], names: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the parts of a block.

    Args:
        block: The block.
        names: The name of each tool call so far, by id: Gemini wants it with the result.
    """
    sealed = shared.get_fields(block, NAME).get("signature")
    signature = {"thought_signature": b64decode(sealed)} if sealed else {}
    match block.get("type"):
        case "tool_use":
            id, name = str(block.get("id")), str(block.get("name"))
            names[id] = name
            call = {"id": id, "name": name, "args": repair_text(block.get("input") or {})}
            yield {"function_call": call, **signature}
        case "tool_result":
            id = str(block.get("tool_use_id") or "")
            text, images = shared.read_result(block)
            response = {"error" if block.get("is_error") else "output": text}
            yield {"function_response": {"id": id, "name": names.get(id, "unknown"), "response": response}}
            for image in images:
                yield from _write_data(image)
        case "image" | "document" if any(shared.get_inline_data(block)):
            yield from _write_data(block)
        case _ if text := shared.describe(block):
            yield {"text": text, **signature}


def _write_data(block: Mapping[str, JSON]) -> Iterator[dict[str, Any]]:
    kind, data = shared.get_inline_data(block)
    if data:
        yield {"inline_data": {"mime_type": kind, "data": b64decode(data)}}


@dataclass(slots=True)
class GeminiEvents:
    """Turns the chunks of a stream, or a whole answer, into events of a Messages API stream."""

    called: bool = False
    _kind: str = ""
    _parts: int = 0
    _started: bool = False

    def read(self, chunk: Mapping[str, JSON]) -> Iterator[JSON]:
        """Yield the events of one chunk, as the SDK's object gives it in JSON mode."""
        if not self._started:
            self._started = True
            yield shared.make_start(chunk.get("response_id"))
        candidate = next((each for each in list_blocks(chunk.get("candidates")) if isinstance(each, Mapping)), {})
        content = candidate.get("content")
        for part in list_blocks(content.get("parts")) if isinstance(content, Mapping) else ():
            yield from self._read_part(part)
        reason = str(candidate.get("finish_reason") or "")
        blocked = chunk.get("prompt_feedback")
        if isinstance(blocked, Mapping) and blocked.get("block_reason"):
            reason = str(blocked["block_reason"])
        stop = STOP_REASONS.get(reason, "refusal") if reason else ""
        usage = chunk.get("usage_metadata")
        billed = read_usage(usage) if isinstance(usage, Mapping) else None
        yield from shared.make_end("tool_use" if self.called and stop == "end_turn" else stop, billed)

    def _read_part(self, part: Mapping[str, JSON]) -> Iterator[JSON]:
        mark = shared.mark(NAME, signature=part.get("thought_signature")) if part.get("thought_signature") else {}
        call, kind = part.get("function_call"), "thinking" if part.get("thought") else "text"
        if isinstance(call, Mapping):
            self.called, self._kind, self._parts = True, "", self._parts + 1
            named = {"id": call.get("id"), "name": call.get("name"), "input": call.get("args") or {}}
            yield shared.make_block(f"part {self._parts}", {"type": "tool_use", **named, **mark})
            return
        if not part.get("text") and not mark:
            return
        if kind != self._kind:
            self._kind, self._parts = kind, self._parts + 1
            own = mark or (shared.mark(NAME) if kind == "thinking" else {})
            yield shared.make_block(f"part {self._parts}", {"type": kind, kind: "", **own})
        elif mark:
            yield shared.make_fields(f"part {self._parts}", mark)
        yield from shared.make_text_delta(f"part {self._parts}", kind, part.get("text"))


@measured
def read_usage(usage: Mapping[str, JSON]) -> Usage | None:
    """Convert `usage_metadata`: the prompt has its cached tokens in it, the answer does not have its thoughts."""
    names = ("prompt_token_count", "tool_use_prompt_token_count", "candidates_token_count", "thoughts_token_count")
    prompt, tools, answer, thoughts = (parse_count(usage.get(name), name) for name in names)
    return make_usage(prompt + tools, answer + thoughts, usage.get("cached_content_token_count"))
