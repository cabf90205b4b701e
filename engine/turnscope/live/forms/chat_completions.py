"""Chat Completions of OpenAI and of the many servers that speak it. Its reference: openai 3.57, types.chat."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from turnscope.live.forms import shared
from turnscope.live.stream_assembler import list_blocks
from turnscope.reading.usage import convert_usage
from turnscope.session.model import JSON

Dialect = Literal["openai", "openrouter", "server"]
"""openai: also Azure. openrouter: with its reasoning and its cache marks. server: the fields that every server knows."""
MARKED_FAMILIES = ("anthropic/", "google/", "qwen/")
"""Families of models whose prompt OpenRouter caches up to a mark. The caches of others need none."""
_COPIED = ("temperature", "top_p")


def build_arguments(body: Mapping[str, JSON], dialect: Dialect = "server", cache_key: str = "") -> dict[str, Any]:
    """Return a body as arguments of the SDK's `chat.completions.create`.

    Args:
        body: The body, in the form of the Messages API.
        dialect: Whose fields are sent.
        cache_key: Names the conversation for OpenAI's prompt cache; "" = not sent.
    """
    messages = [*_write_messages(body, dialect)]
    made: dict[str, Any] = {"model": body["model"], "messages": messages}
    made |= {name: body[name] for name in _COPIED if name in body}
    if tools := shared.list_tools(body):
        made["tools"] = [{"type": "function", "function": _write_tool(tool)} for tool in tools]
        kind, name = shared.get_choice(body)
        named = {"type": "function", "function": {"name": name}}
        made |= {"tool_choice": named if name else shared.TOOL_CHOICES[kind]} if name or kind in shared.TOOL_CHOICES else {}
    if body.get("stop_sequences"):
        made["stop"] = body["stop_sequences"]
    if body.get("max_tokens"):
        made["max_completion_tokens" if dialect == "openai" else "max_tokens"] = body["max_tokens"]
    return made | _write_extras(body, dialect, cache_key)


def _write_extras(body: Mapping[str, JSON], dialect: Dialect, cache_key: str) -> dict[str, Any]:
    effort = shared.get_effort(body)
    if dialect == "openai":
        found = {"reasoning_effort": effort} if effort else {}
        return found | ({"prompt_cache_key": cache_key} if cache_key else {})
    return {"extra_body": {"reasoning": {"effort": effort}}} if dialect == "openrouter" and effort else {}


def _write_tool(tool: Mapping[str, JSON]) -> dict[str, Any]:
    about = {"description": tool["description"]} if tool.get("description") else {}
    return {"name": tool["name"], **about, "parameters": tool["input_schema"]}


def _write_messages(body: Mapping[str, JSON], dialect: Dialect) -> Iterator[dict[str, Any]]:
    marks = dialect == "openrouter" and bool(body.get("cache_control"))
    marks = marks and str(body["model"]).startswith(MARKED_FAMILIES)
    if system := shared.join_system(body):
        yield {"role": "system", "content": _mark_last(system, body["cache_control"]) if marks else system}
    messages = shared.list_messages(body)
    last = max((i for i, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    for i, message in enumerate(messages):
        match message.get("role"):
            case "assistant":
                yield from _write_answer(message, dialect)
            case "system":
                yield {"role": "system", "content": "\n\n".join(map(shared.describe, shared.list_content(message)))}
            case _:
                written = [*_write_prompt(message)]
                if marks and i == last and written:
                    written[-1]["content"] = _mark_last(written[-1]["content"], body["cache_control"])
                yield from written


def _write_prompt(message: Mapping[str, JSON]) -> Iterator[dict[str, Any]]:
    """A user's message: results of tools become messages of their own, in front. Their images follow as the user's."""
    parts: list[dict[str, Any]] = []
    for block in shared.list_content(message):
        if block.get("type") == "tool_result":
            text, images = shared.read_result(block)
            note = "[The tool's image follows.]" if images and not text else text
            yield {"role": "tool", "tool_call_id": str(block.get("tool_use_id") or ""), "content": note}
            parts += map(_write_part, images)
        elif block.get("type") in ("image", "document") or shared.describe(block):
            parts.append(_write_part(block))
    if parts:
        texts = [part["text"] for part in parts if part["type"] == "text"]
        yield {"role": "user", "content": texts[0] if len(parts) == len(texts) == 1 else parts}


def _write_part(block: Mapping[str, JSON]) -> dict[str, Any]:
    if block.get("type") == "image" and (url := shared.get_data_url(block)):
        return {"type": "image_url", "image_url": {"url": url}}
    if block.get("type") == "document" and (url := shared.get_data_url(block)):
        return {"type": "file", "file": {"filename": str(block.get("title") or "document.pdf"), "file_data": url}}
    return {"type": "text", "text": shared.describe(block)}


def _write_answer(message: Mapping[str, JSON], dialect: Dialect) -> Iterator[dict[str, Any]]:
    blocks = shared.list_content(message)
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    text = "\n\n".join(text for block in blocks if block not in calls and (text := shared.describe(block)))
    details = [entry for block in blocks for entry in shared.get_fields(block, "openrouter").get("details", ())]
    made: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        made["tool_calls"] = [_write_call(call) for call in calls]
    if details and dialect == "openrouter":
        made["reasoning_details"] = details
    if text or calls:
        yield made


def _write_call(call: Mapping[str, JSON]) -> dict[str, Any]:
    function = {"name": call.get("name"), "arguments": shared.write_arguments(call)}
    return {"id": str(call.get("id")), "type": "function", "function": function}


def _mark_last(content: Any, mark: JSON) -> Any:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
    return [*parts[:-1], {**parts[-1], "cache_control": mark}] if parts else content


@dataclass(slots=True)
class ChatCompletionsEvents:
    """Turns the chunks of a stream, or a whole answer, into events of a Messages API stream.

    Args:
        provider: Whose answer it is: openai, openrouter or server.
        calls: Tool calls so far, by their index.
        details: OpenRouter's reasoning, which it wants back.
    """

    provider: str = "server"
    calls: dict[object, dict[str, Any]] = field(default_factory=dict)
    details: list[JSON] = field(default_factory=list)
    _kind: str = ""
    _parts: int = 0
    _thinking: str = ""
    _started: bool = False

    def read(self, chunk: Mapping[str, JSON]) -> Iterator[JSON]:
        """Yield the events of one chunk."""
        if not self._started:
            self._started = True
            yield shared.make_start(chunk.get("id"))
        choice = next((each for each in list_blocks(chunk.get("choices")) if isinstance(each, Mapping)), {})
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, Mapping):
            yield from self._add("thinking", delta.get("reasoning") or delta.get("reasoning_content"))
            yield from self._add("text", _join_text(delta.get("content")))
            yield from self._add("text", delta.get("refusal"))
            self.details += list_blocks(delta.get("reasoning_details"))
            for position, call in enumerate(list_blocks(delta.get("tool_calls"))):
                self._collect(call, position)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            yield from self.finish()
        usage = chunk.get("usage")
        yield from shared.make_end(reason if isinstance(reason, str) else "", convert_usage(usage) if usage else None)

    def finish(self) -> Iterator[JSON]:
        """Yield the tool calls, which are whole now, and what the provider wants back of its reasoning."""
        for number, call in enumerate(self.calls.values()):
            yield shared.make_block(f"call {number}", _read_call(call))
        self.calls.clear()
        if self.details and self.provider == "openrouter":
            fields = {"signature": "openrouter", **shared.mark("openrouter", details=_merge_details(self.details))}
            if self._thinking:
                yield shared.make_fields(self._thinking, fields)
            else:  # all of it is encrypted
                yield shared.make_block("details", {"type": "thinking", "thinking": "", **fields})
            self.details.clear()

    def _add(self, kind: str, text: Any) -> Iterator[JSON]:
        if not isinstance(text, str) or not text:
            return
        if kind != self._kind:
            self._kind, self._parts = kind, self._parts + 1
            if kind == "thinking":
                self._thinking = f"part {self._parts}"
                yield shared.make_block(self._thinking, {"type": kind, "thinking": "", **shared.mark(self.provider)})
        yield from shared.make_text_delta(f"part {self._parts}", kind, text)

    def _collect(self, call: Any, position: int) -> None:
        """Add a part of a tool call. Some servers name no index, and send a call whole."""
        if not isinstance(call, Mapping):
            return
        index, id = call.get("index"), call.get("id")
        key = index if isinstance(index, int) else id or position
        held = self.calls.get(key)
        if held and id and held["id"] and id != held["id"]:  # another call under the same index
            key, held = id, None
        held = held or self.calls.setdefault(key, {"id": "", "name": "", "arguments": ""})
        function = call.get("function")
        part = function if isinstance(function, Mapping) else {}
        held["id"], held["name"] = held["id"] or id or "", held["name"] or part.get("name") or ""
        arguments = part.get("arguments")
        held["arguments"] += arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else ""


def _read_call(call: Mapping[str, Any]) -> dict[str, JSON]:
    try:
        value = json.loads(call["arguments"] or "{}")
    except (ValueError, RecursionError):
        value = {"input": call["arguments"]}  # cut off, or never JSON: the tool reports which argument is missing
    return {"type": "tool_use", "id": call["id"], "name": call["name"], "input": value}


def _join_text(content: Any) -> str:
    return "".join(shared.describe(part) for part in list_blocks(content) if isinstance(part, Mapping) and part.get("text"))


def _merge_details(details: Sequence[JSON]) -> list[JSON]:
    """Join the parts of one reasoning, which a stream brings in pieces under one index."""
    merged: dict[tuple[object, object], dict[str, JSON]] = {}
    for number, part in enumerate(details):
        if not isinstance(part, Mapping):
            continue
        index = part.get("index")
        held = merged.setdefault((part.get("type"), number if index is None else index), {})
        for name, value in part.items():
            longer = name in ("text", "summary", "data") and isinstance(value, str)
            held[name] = held.get(name, "") + value if longer else value if value is not None else held.get(name)
    return [*merged.values()]
