"""Converts OpenAI's Chat Completions into Anthropic's shape: bodies, messages, tools, usage. Many providers and tools use them.

Tool calls become `tool_use`, tool messages `tool_result`, leading system and developer messages the system prompt. Pure
functions; the module reads no files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnscope.reading.calls import as_text, parse_if_json
from turnscope.reading.content_blocks import as_mapping
from turnscope.session.content import dumps, extract_text, split_thoughts
from turnscope.session.model import JSON, Usage
from turnscope.session.usage import measured, parse_count

SYSTEM = ("system", "developer")
CONVERTED_KEYS = frozenset(
    {"role", "content", "tool_calls", "tool_call_id", "function_call", "reasoning_content", "reasoning", "refusal"}
)


def convert_body(body: Mapping[str, JSON]) -> dict[str, JSON]:
    """Convert a body of chat completions. Keys without a counterpart stay as they are."""
    messages = [m for m in body["messages"] if isinstance(m, Mapping)]
    lead = next((i for i, m in enumerate(messages) if m.get("role") not in SYSTEM), len(messages))
    whole: dict[str, JSON] = {key: value for key, value in body.items() if key not in ("messages", "tools")}
    system = [block for m in messages[:lead] for block in convert_content(m)]
    if system:
        whole["system"] = system
    if "tools" in body:
        tools = body["tools"]
        whole["tools"] = [_convert_tool(tool) for tool in tools] if isinstance(tools, list) else tools
    written: list[dict[str, JSON]] = []
    for message in messages[lead:]:
        role = _convert_role(message)
        extra = {key: value for key, value in message.items() if key not in CONVERTED_KEYS}
        content = convert_content(message)
        joins = written and _is_tool_message(message) and written[-1]["role"] == "user" and _are_results(written[-1]["content"])
        if joins:  # the results of one round of calls are one message
            written[-1] = {**written[-1], **extra, "content": [*written[-1]["content"], *content]}
        else:
            plain = isinstance(message.get("content"), str) and len(content) == 1 and set(content[0]) == {"type", "text"}
            written.append({**extra, "role": role, "content": message["content"] if plain and role == "user" else content})
    return {**whole, "messages": written}


def _convert_role(message: Mapping[str, Any]) -> str:
    role = message.get("role")
    return "system" if role in SYSTEM else "assistant" if role == "assistant" else "user"


def _is_tool_message(message: Mapping[str, Any]) -> bool:
    return message.get("role") in ("tool", "function")


def _are_results(content: Any) -> bool:
    return isinstance(content, list) and all(block.get("type") == "tool_result" for block in content)


def convert_content(message: Mapping[str, Any]) -> list[Any]:
    """Convert a message into blocks: reasoning, text and other parts, then calls."""
    content = message.get("content")
    if _is_tool_message(message):
        converted = content if isinstance(content, str) else _convert_parts(content)
        return [
            {
                "type": "tool_result",
                "tool_use_id": as_text(message.get("tool_call_id") or message.get("name")),
                "content": converted,
            }
        ]
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    blocks: list[Any] = [{"type": "thinking", "thinking": reasoning}] if isinstance(reasoning, str) and reasoning else []
    parts = _convert_parts(content)
    blocks += [one for block in parts for one in _split_thoughts(block)] if message.get("role") == "assistant" else parts
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        blocks.append({"type": "refusal", "text": message["refusal"]})
    calls = message.get("tool_calls")
    blocks += [_convert_call(call) for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []
    if isinstance(message.get("function_call"), Mapping):  # before tools: one call, without an id
        blocks.append(_convert_call({"id": message["function_call"].get("name"), "function": message["function_call"]}))
    return blocks


def _convert_parts(content: Any) -> list[Any]:
    if isinstance(content, list):
        return [part if isinstance(part, Mapping) else {"type": "text", "text": extract_text(part)} for part in content]
    if content is None or content == "":
        return []
    return [{"type": "text", "text": content if isinstance(content, str) else dumps(content)}]


def _split_thoughts(block: Any) -> list[Any]:
    """Split a text block so that thoughts in tags are blocks of their own."""
    text = block.get("text") if block.get("type") == "text" else None
    texts = split_thoughts(text) if isinstance(text, str) else []
    return [{**block, "text": one} for one in texts] if len(texts) > 1 else [block]


def _convert_call(call: Mapping[str, Any]) -> dict[str, JSON]:
    """Convert a tool call. Arguments that are no JSON object stay text."""
    known = call.get("function") or call.get("custom")
    function: Mapping[str, Any] = known if isinstance(known, Mapping) else {}
    arguments = function.get("arguments", function.get("input"))
    value = parse_if_json(arguments) if isinstance(arguments, str) else arguments
    use = {"type": "tool_use", "id": as_text(call.get("id")), "name": as_text(function.get("name"))}
    return {**use, "input": value if isinstance(value, dict) else arguments}


def _convert_tool(tool: Any) -> Any:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping):
        return tool
    rest = {key: value for key, value in function.items() if key != "parameters"}
    return {**rest, "input_schema": function.get("parameters", {})}


@measured
def convert_usage(raw: Any) -> Usage | None:
    """Convert OpenAI's usage object. Its `prompt_tokens` include cached tokens, ours do not. None where it is no object.

    `cache_write_tokens` are OpenRouter's, for models whose cache is billed when it is written.
    """
    if not isinstance(raw, Mapping):
        return None
    details = as_mapping(raw.get("prompt_tokens_details"))
    cached, written = (parse_count(details.get(name), name) for name in ("cached_tokens", "cache_write_tokens"))
    prompt, answer = (parse_count(raw.get(name), name) for name in ("prompt_tokens", "completion_tokens"))
    return Usage(
        max(0, prompt - cached - written),
        cache_creation_input_tokens=written,
        cache_read_input_tokens=cached,
        output_tokens=answer,
    )
