"""Logs of OpenAI's Chat Completions API and of the many that speak it: bodies, message lists, requests with responses.

Messages become blocks in Anthropic's shape: tool calls are `tool_use`, tool messages `tool_result`, leading system and
developer messages the system prompt. Rendering gives bodies in that shape, not in OpenAI's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.importers import Importer
from engine.reading.calls import Exchange, bare_list, events, parsed
from engine.reading.conversations import TITLE, Call, read_calls
from engine.reading.dialect import dialect
from engine.reading.source import Source
from engine.session.builder import Builder, usage
from engine.session.content import dumps, text_of
from engine.session.model import JSON, Session

NAME = "openai-chat"
SYSTEM = ("system", "developer")
TAKEN = frozenset(
    {"role", "content", "tool_calls", "tool_call_id", "function_call", "reasoning_content", "reasoning", "refusal"}
)


def sniff(source: Source) -> bool:
    return dialect(source) == "openai"


def read(source: Source) -> tuple[Session, ...]:
    document = source.document
    if isinstance(document, list) and bare_list(document) and any(m["role"] == "assistant" for m in document):
        return (_history(document, source.path.stem),)
    return read_calls(source, source.path.stem, NAME, _call)


def _history(messages: list[dict[str, Any]], stem: str) -> Session:
    """A saved conversation without its requests: each answer had a request of its own, with all that stands before it."""
    body = converted({"messages": messages})
    prompts = [text_of(m["content"]) for m in body["messages"] if m["role"] == "user"]
    builder = Builder(stem, NAME, " ".join(prompts[0].split())[:TITLE] if prompts else "")
    if "system" in body:
        builder.message("system", body["system"], origin="system")
    for message in body["messages"]:
        extra = {key: value for key, value in message.items() if key not in ("role", "content")}
        draft = builder.message(message["role"], message["content"], extra=extra, fence=message["role"] == "system")
        if message["role"] == "assistant":
            builder.request(draft)
    builder.note("info", 0, "a list of messages without requests: each answer is taken to have seen all that stands before it")
    return builder.build()


def _call(found: Exchange) -> Call:
    response = found.response
    if isinstance(response, str):
        response = assembled(response)
    about: dict[str, Any] = {
        "model": _text(found.body.get("model")),
        "sent_at": found.sent_at,
        "answered_at": found.answered_at,
    }
    body = converted(found.body)
    choices = response.get("choices") if isinstance(response, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
    if not isinstance(response, Mapping) or not isinstance(choice.get("message"), Mapping):
        return Call(body, None, about, found.error, found.line)
    about |= {"usage": usage(_used(response.get("usage"))), "id": _text(response.get("id"))}
    about["model"] = _text(response.get("model")) or about["model"]
    about["stop_reason"] = choice["finish_reason"] if isinstance(choice.get("finish_reason"), str) else None
    return Call(body, {"content": _content(choice["message"])}, about, "", found.line)


def converted(body: Mapping[str, JSON]) -> dict[str, JSON]:
    """A body of chat completions in Anthropic's shape. Keys that have no counterpart stay as they are."""
    messages = [m for m in body["messages"] if isinstance(m, Mapping)]
    lead = next((i for i, m in enumerate(messages) if m.get("role") not in SYSTEM), len(messages))
    whole: dict[str, JSON] = {key: value for key, value in body.items() if key not in ("messages", "tools")}
    system = [block for m in messages[:lead] for block in _content(m)]
    if system:
        whole["system"] = system
    if "tools" in body:
        tools = body["tools"]
        whole["tools"] = [_tool(tool) for tool in tools] if isinstance(tools, list) else tools
    written: list[dict[str, JSON]] = []
    for message in messages[lead:]:
        role = _role(message)
        extra = {key: value for key, value in message.items() if key not in TAKEN}
        content = _content(message)
        joins = written and _answers(message) and written[-1]["role"] == "user" and _results(written[-1]["content"])
        if joins:  # results of one round of calls are one message
            written[-1] = {**written[-1], **extra, "content": [*written[-1]["content"], *content]}
        else:
            plain = isinstance(message.get("content"), str) and len(content) == 1 and set(content[0]) == {"type", "text"}
            written.append({**extra, "role": role, "content": message["content"] if plain and role == "user" else content})
    return {**whole, "messages": written}


def _role(message: Mapping[str, Any]) -> str:
    role = message.get("role")
    return "system" if role in SYSTEM else "assistant" if role == "assistant" else "user"


def _answers(message: Mapping[str, Any]) -> bool:
    return message.get("role") in ("tool", "function")


def _results(content: Any) -> bool:
    return isinstance(content, list) and all(block.get("type") == "tool_result" for block in content)


def _content(message: Mapping[str, Any]) -> list[Any]:
    """The blocks of a message: reasoning, text and other parts, then calls."""
    content = message.get("content")
    if _answers(message):
        held = content if isinstance(content, str) else _blocks(content)
        return [
            {"type": "tool_result", "tool_use_id": _text(message.get("tool_call_id") or message.get("name")), "content": held}
        ]
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    blocks: list[Any] = [{"type": "thinking", "thinking": reasoning}] if isinstance(reasoning, str) and reasoning else []
    blocks += _blocks(content)
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        blocks.append({"type": "refusal", "text": message["refusal"]})
    calls = message.get("tool_calls")
    blocks += [_use(call) for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []
    if isinstance(message.get("function_call"), Mapping):  # before tools: one call, without an id
        blocks.append(_use({"id": message["function_call"].get("name"), "function": message["function_call"]}))
    return blocks


def _blocks(content: Any) -> list[Any]:
    if isinstance(content, list):
        return [part if isinstance(part, Mapping) else {"type": "text", "text": text_of(part)} for part in content]
    if content is None or content == "":
        return []
    return [{"type": "text", "text": content if isinstance(content, str) else dumps(content)}]


def _use(call: Mapping[str, Any]) -> dict[str, JSON]:
    """A tool call. Arguments that are no JSON object stay text."""
    known = call.get("function") or call.get("custom")
    function: Mapping[str, Any] = known if isinstance(known, Mapping) else {}
    given = function.get("arguments", function.get("input"))
    value = parsed(given) if isinstance(given, str) else given
    use = {"type": "tool_use", "id": _text(call.get("id")), "name": _text(function.get("name"))}
    return {**use, "input": value if isinstance(value, dict) else given}


def _tool(tool: Any) -> Any:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping):
        return tool
    rest = {key: value for key, value in function.items() if key != "parameters"}
    return {**rest, "input_schema": function.get("parameters", {})}


def _used(raw: Any) -> dict[str, JSON] | None:
    """OpenAI's usage under Anthropic's names: cached tokens are part of `prompt_tokens` there, and not here."""
    if not isinstance(raw, Mapping):
        return None
    details = raw.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    cached = cached if isinstance(cached, int) else 0
    prompt = raw.get("prompt_tokens")
    fresh = max(0, prompt - cached) if isinstance(prompt, int) else 0
    return {"input_tokens": fresh, "cache_read_input_tokens": cached, "output_tokens": raw.get("completion_tokens")}


def assembled(stream: str) -> dict[str, Any] | None:
    """The completion that a stream's chunks add up to; None where there is none."""
    whole: dict[str, Any] = {}
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    calls: dict[int, dict[str, Any]] = {}
    finish: Any = None
    for chunk in events(stream):
        whole |= {key: value for key, value in chunk.items() if key != "choices" and value is not None}
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        delta: dict[str, Any] = choice.get("delta") or {}
        finish = choice.get("finish_reason") or finish
        for key in ("content", "reasoning_content", "refusal"):
            if isinstance(delta.get(key), str):
                message[key] = message.get(key, "") + delta[key]
        for call in delta.get("tool_calls") or ():
            held = calls.setdefault(call.get("index", 0), {"id": "", "function": {"name": "", "arguments": ""}})
            held["id"] = held["id"] or _text(call.get("id"))
            for key in ("name", "arguments"):
                held["function"][key] += _text((call.get("function") or {}).get(key))
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return {**whole, "choices": [{"message": message, "finish_reason": finish}]} if whole else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


IMPORTER = Importer(NAME, "OpenAI chat log (JSON or JSON lines)", sniff, read)
