"""The Responses API of OpenAI. Its reference: openai 3.57, types.responses. Nothing is stored at the server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from turnscope.live.forms import shared
from turnscope.live.stream_assembler import list_blocks
from turnscope.reading.usage import convert_usage
from turnscope.session.model import JSON

NAME = "openai"
MIN_OUTPUT = 16  # tokens; the API refuses a smaller limit
SEALED = "[OpenAI compacted what came before. Its summary is encrypted. The prompts were:]"
_COPIED = ("temperature", "top_p")


def build_arguments(body: Mapping[str, JSON], cache_key: str = "") -> dict[str, Any]:
    """Return a body as arguments of the SDK's `responses.create`.

    Args:
        body: The body, in the form of the Messages API.
        cache_key: Names the conversation for OpenAI's prompt cache; "" = not sent.
    """
    made = build_input(body) | {"store": False} | {name: body[name] for name in _COPIED if name in body}
    if tools := shared.list_tools(body):
        made["tools"] = [_write_tool(tool) for tool in tools]
        kind, name = shared.get_choice(body)
        named = {"type": "function", "name": name}
        made |= {"tool_choice": named if name else shared.TOOL_CHOICES[kind]} if name or kind in shared.TOOL_CHOICES else {}
    if isinstance(body.get("max_tokens"), int):
        made["max_output_tokens"] = max(MIN_OUTPUT, body["max_tokens"])
    if effort := shared.get_effort(body):
        made |= {"reasoning": {"effort": effort, "summary": "auto"}, "include": ["reasoning.encrypted_content"]}
    return made | ({"prompt_cache_key": cache_key} if cache_key else {})


def build_input(body: Mapping[str, JSON]) -> dict[str, Any]:
    """Return the model, the instructions and the items of a body: what is counted and compacted."""
    system = shared.join_system(body)
    items = [item for message in shared.list_messages(body) for item in _write_items(message)]
    return {"model": body["model"], **({"instructions": system} if system else {}), "input": items}


def _write_tool(tool: Mapping[str, JSON]) -> dict[str, Any]:
    about = {"description": tool["description"]} if tool.get("description") else {}
    return {"type": "function", "name": tool["name"], **about, "parameters": tool["input_schema"], "strict": False}


def _write_items(message: Mapping[str, JSON]) -> Iterator[dict[str, Any]]:
    role = str(message.get("role") or "user")
    parts: list[dict[str, Any]] = []
    for block in shared.list_content(message):
        if items := shared.get_fields(block, NAME).get("items"):  # of a compaction
            yield from _close_message(role, parts)
            yield from items
        elif item := _write_item(block):
            yield from _close_message(role, parts)
            yield item
        elif part := _write_part(block, role):
            parts.append(part)
    yield from _close_message(role, parts)


def _close_message(role: str, parts: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    if parts and role == "assistant":  # an answer is a text: the API's parts of one would want its id
        yield {"type": "message", "role": role, "content": "\n\n".join(part["text"] for part in parts)}
    elif parts:
        yield {"type": "message", "role": role, "content": [*parts]}
    parts.clear()


def _write_item(block: Mapping[str, JSON]) -> dict[str, Any] | None:
    """Return a block that is an item of its own; None if it is a part of a message."""
    own = shared.get_fields(block, NAME)
    match block.get("type"):
        case "tool_use":
            call = {"call_id": str(block.get("id")), "name": block.get("name"), "arguments": shared.write_arguments(block)}
            return {"type": "function_call", **call}
        case "tool_result":
            text, images = shared.read_result(block)
            parts = [*([{"type": "input_text", "text": text}] if text else []), *map(_write_image, images)]
            return {
                "type": "function_call_output",
                "call_id": str(block.get("tool_use_id") or ""),
                "output": parts if images else text,
            }
        case "thinking" if own and block.get("signature"):
            summary = [{"type": "summary_text", "text": block["thinking"]}] if block.get("thinking") else []
            item = {"type": "reasoning", "summary": summary, "encrypted_content": block["signature"]}
            return {**item, "id": str(own.get("id") or "")}
    return None


def _write_part(block: Mapping[str, JSON], role: str) -> dict[str, Any] | None:
    url = shared.get_data_url(block) if role != "assistant" else ""
    if block.get("type") == "image" and url:
        return _write_image(block)
    if block.get("type") == "document" and url:
        return {"type": "input_file", "filename": str(block.get("title") or "document.pdf"), "file_data": url}
    text = shared.describe(block)
    return {"type": "input_text", "text": text} if text else None


def _write_image(block: Mapping[str, JSON]) -> dict[str, Any]:
    return {"type": "input_image", "image_url": shared.get_data_url(block), "detail": "auto"}


@dataclass(slots=True)
class ResponsesEvents:
    """Turns the events of a stream, or a whole response, into events of a Messages API stream."""

    called: bool = False
    _seen: set[str] = field(default_factory=set)

    def read(self, event: Mapping[str, JSON]) -> Iterator[JSON]:
        """Yield the events of one event. A response that failed is not read here: `find_failure` tells of it."""
        kind, index = str(event.get("type") or ""), str(event.get("output_index"))
        if event.get("object") == "response":  # a whole one
            yield from self._read_response(event)
        match kind:
            case "response.created":
                yield shared.make_start(_as_object(event.get("response")).get("id"))
            case "response.output_text.delta" | "response.refusal.delta":
                self._seen.add(index)
                yield from shared.make_text_delta(index, "text", event.get("delta"))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield from self._think(index, event.get("delta"))
            case "response.reasoning_summary_part.added" if index in self._seen:
                yield from self._think(index, "\n\n")
            case "response.output_item.done":
                yield from self._read_item(_as_object(event.get("item")), index)
            case "response.completed" | "response.incomplete":
                yield from self._read_end(_as_object(event.get("response")))
                yield {"type": "message_stop"}

    def _read_response(self, response: Mapping[str, JSON]) -> Iterator[JSON]:
        yield shared.make_start(response.get("id"))
        for number, item in enumerate(list_blocks(response.get("output"))):
            yield from self._read_item(_as_object(item), str(number))
        yield from self._read_end(response)

    def _think(self, index: str, text: Any) -> Iterator[JSON]:
        if index not in self._seen:
            self._seen.add(index)
            yield shared.make_block(index, {"type": "thinking", "thinking": "", **shared.mark(NAME)})
        yield from shared.make_text_delta(index, "thinking", text)

    def _read_item(self, item: Mapping[str, JSON], index: str) -> Iterator[JSON]:
        match item.get("type"):
            case "message" if index not in self._seen:  # some servers send a message at once
                for part in list_blocks(item.get("content")):
                    text = part.get("text") or part.get("refusal") if isinstance(part, Mapping) else ""
                    yield from shared.make_text_delta(index, "text", text)
            case "reasoning":
                yield from self._read_reasoning(item, index)
            case "function_call":
                self.called = True
                call = {"id": item.get("call_id"), "name": item.get("name"), "input": _parse_object(item.get("arguments"))}
                yield shared.make_block(index, {"type": "tool_use", **call})

    def _read_reasoning(self, item: Mapping[str, JSON], index: str) -> Iterator[JSON]:
        """The reasoning's text, if no event brought it, and its encrypted form, which the next request sends back."""
        sealed = item.get("encrypted_content")
        parts = [part.get("text") for part in list_blocks(item.get("summary") or item.get("content")) if part.get("text")]
        new = index not in self._seen
        if not new or parts or sealed:
            yield from self._think(index, "\n\n".join(map(str, parts)) if new else "")
        if sealed:
            yield shared.make_fields(index, {"signature": sealed, **shared.mark(NAME, id=item.get("id"))})

    def _read_end(self, response: Mapping[str, JSON]) -> Iterator[JSON]:
        why = _as_object(response.get("incomplete_details")).get("reason")
        cut = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}.get(str(why), str(why or ""))
        usage = response.get("usage")
        yield from shared.make_end(
            cut or ("tool_use" if self.called else "end_turn"), convert_usage(usage) if isinstance(usage, Mapping) else None
        )


def find_failure(event: Mapping[str, JSON]) -> JSON:
    """Return the error that an event or a whole response reports; None if it reports none."""
    if event.get("type") == "error":
        return event.get("error") or {"message": event.get("message"), "code": event.get("code")}
    response = _as_object(event.get("response")) or event
    failed = event.get("type") == "response.failed" or response.get("status") == "failed"
    return (response.get("error") or {"message": "the response failed"}) if failed else None


def read_compaction(response: Mapping[str, JSON]) -> JSON:
    """Return the answer of `/responses/compact` as a message with one compaction block, in the form of the Messages API.

    The next requests to OpenAI begin with the API's own items: the prompts, and the encrypted summary. Its text is for all
    others, who cannot read the summary.
    """
    items = [*map(_as_object, list_blocks(response.get("output")))]
    if not any(item.get("type") == "compaction" and item.get("encrypted_content") for item in items):
        return {"id": response.get("id"), "content": [], "stop_reason": "compaction"}
    prompts = [shared.describe(part) for item in items if item.get("role") == "user" for part in shared.list_content(item)]
    text = "\n\n".join([SEALED, *prompts])
    block = {"type": "compaction", "content": text, **shared.mark(NAME, items=items)}
    end = {"id": response.get("id"), "content": [block], "stop_reason": "compaction"}
    usage = convert_usage(response.get("usage")) if response.get("usage") else None
    return end | ({"usage": shared.write_usage(usage)} if usage else {})


def _parse_object(text: Any) -> JSON:
    try:
        return json.loads(text or "{}") if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return {"input": text}


def _as_object(value: Any) -> Mapping[str, JSON]:
    return value if isinstance(value, Mapping) else {}
