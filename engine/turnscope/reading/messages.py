"""Converts messages of any provider into Anthropic's shape: OpenAI, Bedrock Converse, Google, OpenTelemetry, LangChain, Vercel.

A message is recognised by what it holds, since traces and frameworks mix them. Pure functions; the module reads no files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from turnscope.reading.calls import as_text, parse_if_json, parse_time
from turnscope.reading.content_blocks import (
    as_mapping,
    as_rows,
    convert_google_part,
    make_call,
    make_image,
    make_result,
    make_text,
    make_thinking,
)
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords
from turnscope.reading.python_reprs import parse_message
from turnscope.session.content import dumps
from turnscope.session.model import JSON

ROLES = {
    **dict.fromkeys(("user", "human", "HumanMessage", "HumanMessageChunk", "generic", "chat"), "user"),
    **dict.fromkeys(("assistant", "ai", "model", "AIMessage", "AIMessageChunk", "approval"), "assistant"),
    **dict.fromkeys(("system", "developer", "SystemMessage"), "system"),
    **dict.fromkeys(("tool", "function", "ToolMessage", "FunctionMessage", "tool_result"), "tool"),
}
NET_PREFIX = "Microsoft.Extensions.AI."
NET_KINDS = {  # contents of Microsoft.Extensions.AI, by class or by their name in JSON
    **dict.fromkeys(("TextContent",), "text"),
    **dict.fromkeys(("TextReasoningContent",), "reasoning"),
    **dict.fromkeys(("FunctionCallContent", "functionCall"), "function_call"),
    **dict.fromkeys(("FunctionResultContent", "functionResult", "function_result"), "tool_result"),
    **dict.fromkeys(("DataContent", "UriContent", "data"), "uri"),
}
MEDIA = {"image": "image", "document": "application"}  # what stands before a format in a media type
THOUGHTS = ("reasoning", "thinking", "think", "text", "content")  # keys of the words of a thought
Value = Mapping[str, Any]


def convert_message(message: Value) -> tuple[str, list[JSON]]:
    """Convert a message into its role (user | assistant | system, "" = unknown) and its blocks.

    A tool's answer is the user's.
    """
    role = ROLES.get(as_text(message.get("role")) or as_text(message.get("type")), "")
    content = next((message[key] for key in ("content", "parts", "contents", "message") if message.get(key) is not None), None)
    if (
        isinstance(content, str)
        and content[:2] in ("[{", '{"')
        and isinstance(parse_if_json(content), (list, dict))
        and role != "tool"
    ):
        inner = parse_if_json(content)
        content = inner if as_rows(inner) and all(_is_part(part) for part in as_rows(inner)) else content
    if role == "tool":
        id = next((as_text(message[key]) for key in ("tool_call_id", "id", "name") if message.get(key)), "")
        many = message.get("tool_call_ids")
        id = as_text(many[0]) if isinstance(many, list) and many and not message.get("tool_call_id") else id
        blocks = convert_content(content)
        if any(block.get("type") == "tool_result" for block in blocks):
            return "user", blocks
        failed = bool(message.get("error")) or message.get("status") == "error"
        reported = as_mapping(message.get("error")).get("message")
        return "user", [make_result(id, blocks if not isinstance(content, str) else content or as_text(reported), failed)]
    reasoning = next((message[k] for k in ("reasoning_content", "reasoning") if isinstance(message.get(k), str)), "")
    blocks = [*make_thinking(reasoning), *convert_content(content)]
    blocks += _iter_calls(message, {as_text(b.get("id")) for b in blocks if b.get("type") == "tool_use"})
    named = {as_text(block.get("name")) for block in blocks if block.get("type") == "tool_use" and block.get("id")}
    return role, [block for block in blocks if not _is_phantom(block, named)]


def _is_phantom(block: Value, named: set[str]) -> bool:
    """Whether a block repeats, without an id, a call next to it: some tracers write both."""
    return block.get("type") == "tool_use" and not block.get("id") and (not block.get("name") or block["name"] in named)


def _iter_calls(message: Value, known: set[str]) -> Iterator[JSON]:
    """Iterate over calls outside the content that are not in it as well."""
    aside = as_mapping(message.get("additional_kwargs"))
    listed = as_rows(message.get("tool_calls")) or as_rows(message.get("toolCalls")) or as_rows(aside.get("tool_calls"))
    for each in [*listed, *as_rows(message.get("invalid_tool_calls"))]:
        call = as_mapping(each.get("tool_call")) or each
        function = as_mapping(call.get("function"))
        name = (
            as_text(function.get("name")) or as_text(call.get("function")) or as_text(call.get("name") or call.get("toolName"))
        )
        id = next((as_text(call[key]) for key in ("id", "tool_call_id", "toolCallId") if call.get(key)), "")
        keys = ("arguments", "args", "input")
        if not id or id not in known:
            yield make_call(
                id, name, next((one[key] for one in (function, call) for key in keys if one.get(key) is not None), None)
            )
    single = as_mapping(message.get("function_call"))
    if single:
        yield make_call(as_text(single.get("name")), as_text(single.get("name")), single.get("arguments"))


def convert_content(content: Any) -> list[JSON]:
    """Convert content into blocks: a text, a part, or a list of those."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return make_text(content)
    if isinstance(content, Mapping):
        return _convert_part(content)
    if isinstance(content, list):
        return [block for part in content for block in convert_content(as_mapping(part).get("message_content") or part)]
    return make_text(dumps(content))


def _is_part(part: Value) -> bool:
    return bool(part.keys() & {"type", "text", "toolUse", "toolResult", "reasoningContent", "functionCall", "kind"})


def _convert_part(part: Value) -> list[JSON]:
    """Convert one part of a message's content."""
    kind = as_text(part.get("type")) or as_text(part.get("part_kind")) or as_text(part.get("$type"))
    if kind.startswith(NET_PREFIX):  # .NET's contents, under their full name: what they hold stands in `content`
        inner = as_mapping(part.get("content")) or part
        part = {**inner, "type": kind} if inner is not part else part
        kind = kind.removeprefix(NET_PREFIX)
    kind = NET_KINDS.get(kind, kind)
    reported = next((as_text(part[key]) for key in ("text", "content") if isinstance(part.get(key), str)), "")
    id = next((as_text(part[key]) for key in ("id", "tool_call_id", "toolCallId", "call_id", "callId") if part.get(key)), "")
    match kind:
        case "text" | "input_text" | "output_text":
            return make_text(reported)
        case "reasoning" | "thought" | "thinking" | "summarized_reasoning" | "think":
            words = next((part[k] for k in THOUGHTS if isinstance(part.get(k), str)), "")
            if part.get("redacted") is True:  # only the provider's encrypted text is kept
                return make_thinking(as_text(part.get("summary")), words)
            return make_thinking(words, as_text(part.get("signature") or part.get("protectedData") or part.get("encrypted")))
        case "tool_call" | "tool-call" | "function_call" | "tool_use" | "server_tool_call" | "server_tool_use":
            arguments = next((part[key] for key in ("input", "arguments", "args") if part.get(key) is not None), None)
            name = as_text(part.get("name") or part.get("toolName") or part.get("tool_name"))
            return [make_call(id, name, arguments, "server_tool_use" if "server" in kind else "tool_use")]
        case "tool_result" | "tool_call_response" | "tool-result" | "server_tool_call_response" | "tool_return":
            content = next((part[k] for k in ("content", "response", "result", "output") if part.get(k) is not None), "")
            content = content.get("value", content) if isinstance(content, Mapping) else content
            failed = bool(part.get("is_error") or part.get("isError"))
            listed = convert_content(content) if isinstance(content, list) else content
            return [make_result(as_text(part.get("tool_use_id")) or id, listed, failed)]
        case "blob" if part.get("modality") == "image" and isinstance(part.get("content"), str):
            return [make_image(f"data:{as_text(part.get('mime_type'))};base64,{part['content']}")]
        case "image_url" | "input_image" | "image" | "uri":
            content = next((part[key] for key in ("image_url", "imageUrl", "image", "uri", "url") if part.get(key)), None)
            address = as_text(as_mapping(content).get("url")) or as_text(content)
            return [make_image(address)] if address and "source" not in part else [{**part, "type": "image"}]
    return [{**part, "type": kind}] if kind else _convert_untyped(part, reported)


def _convert_untyped(part: Value, reported: str) -> list[JSON]:
    """Convert parts of Bedrock's Converse and of Google, which have a key for each kind."""
    if use := as_mapping(part.get("toolUse")):
        return [make_call(as_text(use.get("toolUseId")), as_text(use.get("name")), use.get("input"))]
    if back := as_mapping(part.get("toolResult")):
        rows = [row.get("text", row.get("json", row)) for row in as_rows(back.get("content"))]
        listed = [block for one in rows for block in convert_content(one if isinstance(one, str) else dumps(one))]
        return [make_result(as_text(back.get("toolUseId")), listed, back.get("status") == "error")]
    if thought := as_mapping(part.get("reasoningContent")):
        words = as_mapping(thought.get("reasoningText")) or thought
        return make_thinking(
            as_text(words.get("text")), as_text(words.get("signature")) or as_text(thought.get("redactedContent"))
        )
    if use := as_mapping(part.get("functionCall") or part.get("function_call")):
        return [make_call(as_text(use.get("id")) or as_text(use.get("name")), as_text(use.get("name")), use.get("args"))]
    if back := as_mapping(part.get("functionResponse") or part.get("function_response")):
        return [make_result(as_text(back.get("id")) or as_text(back.get("name")), back.get("response"))]
    if reported:
        return make_thinking(reported) if part.get("thought") is True else make_text(reported)
    return _convert_media(part) or ([{"type": "unknown", "value": dict(part)}] if part else [])


def _convert_media(part: Value) -> list[JSON]:
    """Convert an image or a document of Google's API or Bedrock's; none where it is of another kind."""
    for kind in ("image", "document"):
        held = as_mapping(part.get(kind))
        data = as_mapping(held.get("source")).get("bytes")
        if isinstance(data, str) and held.get("format"):
            source = {"type": "base64", "media_type": f"{MEDIA[kind]}/{held['format']}", "data": data}
            return [{"type": kind, "source": source}]
    return convert_google_part(part) if as_mapping(part.get("inlineData")) else []


def convert_tool(tool: Any) -> JSON:
    """Convert a tool's definition."""
    fields = parse_if_json(tool) if isinstance(tool, str) else tool
    fields = as_mapping(fields).get("json_schema", fields)
    fields = as_mapping(parse_if_json(fields) if isinstance(fields, str) else fields)
    fields = as_mapping(fields.get("function")) or as_mapping(fields.get("toolSpec")) or fields
    schema: Any = next(
        (fields[key] for key in ("input_schema", "parameters", "inputSchema") if fields.get(key) is not None), {}
    )
    schema = parse_if_json(schema) if isinstance(schema, str) else schema
    rest = {key: value for key, value in fields.items() if key not in ("input_schema", "parameters", "inputSchema", "type")}
    return {**rest, "input_schema": as_mapping(schema).get("json", schema)}


def build_body(messages: Iterable[Any], tools: Sequence[Any] = (), **rest: JSON) -> dict[str, JSON]:
    """Build a request body. Messages with an unknown role are left out.

    Args:
        messages: The messages.
        tools: Definitions of tools.
        **rest: Further keys of the body.
    """
    body: dict[str, JSON] = {key: value for key, value in rest.items() if value}
    system: list[JSON] = []
    written: list[dict[str, JSON]] = []
    for message in messages:
        role, blocks = convert_message(message) if isinstance(message, Mapping) else ("", [])
        if role == "system" and not written:
            system += blocks
        elif role and blocks:
            last = written[-1] if written else {}
            if _are_results(blocks) and last.get("role") == "user" and _are_results(last["content"]):
                last["content"] = [*last["content"], *blocks]  # the results of one round of calls are one message
            else:
                written.append({"role": role, "content": blocks})
    if tools:
        body["tools"] = [convert_tool(tool) for tool in tools]
    if system:
        body["system"] = system
    return {**body, "messages": written}


def convert_system_prompt(value: Any) -> list[JSON]:
    """Convert a system prompt into a message."""
    content = parse_if_json(value) if isinstance(value, str) else value
    blocks = convert_content(content)
    return [{"role": "system", "content": blocks}] if blocks else []


def find_messages(value: Any) -> list[JSON]:
    """Find the messages in whatever holds them: a list, a body of any API, or one message."""
    parsed = parse_if_json(value) if isinstance(value, str) else value
    if isinstance(parsed, Mapping):
        lead = (
            parsed.get("system")
            or parsed.get("systemInstruction")
            or parsed.get("system_instruction")
            or parsed.get("instructions")
        )
        inner = next((parsed[k] for k in ("messages", "contents", "input") if isinstance(parsed.get(k), (list, str))), None)
        if isinstance(parsed.get("contents"), str) or isinstance(inner, str):
            inner = [{"role": "user", "content": inner}]
        if inner is None:
            return [parsed] if as_text(parsed.get("role")) in ROLES and "content" in parsed else []
        return [*convert_system_prompt(as_mapping(lead).get("parts", lead)), *find_messages(inner)]
    if not isinstance(parsed, list):
        return []
    found = [
        as_mapping(row).get("message", row) if isinstance(as_mapping(row).get("message"), Mapping) else row for row in parsed
    ]
    while found and isinstance(found[0], list):  # batches of prompts, as LangChain gives them
        found = found[0]
    found = [parse_message(row) if isinstance(row, str) and row.startswith("role=") else row for row in found]
    found = complete_results(found)
    return [
        {"role": "user", **row} if "parts" in row else row
        for row in as_rows(found)
        if convert_message({"role": "user", **row})[0] and _has_role(row)
    ]


def complete_results(rows: Sequence[Any]) -> list[Any]:
    """Give tools' messages what some tracers leave out: the role, where that is the tool's name, and the id of the call."""
    found: list[Any] = []
    open_: list[tuple[str, str]] = []  # name and id of each call that has no result yet
    for row in rows:
        message = as_mapping(row)
        role, named = as_text(message.get("role")), as_text(message.get("name"))
        alias = role and role not in ROLES and (message.get("tool_call_id") or any(name == role for name, _ in open_))
        if alias or (ROLES.get(role) == "tool" and isinstance(message.get("content"), str) and not message.get("id")):
            first = open_[0][1] if open_ and not (alias or named) else ""
            id = next((id for name, id in open_ if name in (role, named)), first)
            message = {**message, "role": "tool", "tool_call_id": message.get("tool_call_id") or id or named}
        if ROLES.get(role) == "assistant":
            open_ += [(as_text(one.get("name")), as_text(one.get("id"))) for one in _iter_calls(message, set())]
        known = message.get("tool_call_id")
        open_ = [(name, id) for name, id in open_ if not known or id != known]
        found.append(message or row)
    return found


def _has_role(row: Mapping[str, Any]) -> bool:
    return bool(ROLES.get(as_text(row.get("role")) or as_text(row.get("type")))) or "parts" in row


def find_answers(value: Any) -> list[Any]:
    """Find the answers in whatever holds them: messages, a response of any API, or a text."""
    found = parse_if_json(value) if isinstance(value, str) else value
    while isinstance(found, list) and found and isinstance(found[0], list):  # batches of answers, as LangChain gives them
        found = found[0]
    if isinstance(found, str) and found:
        return [{"role": "assistant", "content": found}]
    if isinstance(found, list):
        if found and all(
            as_mapping(row).get("type") in ("text", "tool_use", "thinking") or "toolUse" in as_mapping(row) for row in found
        ):
            return [{"role": "assistant", "content": found}]
        return [message for row in found[:1] for message in find_answers(row)]
    body = as_mapping(found)
    for key in ("choices", "candidates", "generations"):
        if isinstance(body.get(key), list):
            return find_answers(body[key][:1])
    for inner in (body.get("message"), body.get("kwargs"), as_mapping(body.get("output")).get("message"), body.get("content")):
        if isinstance(inner, Mapping):
            return find_answers(inner)
    if body.keys() & {"content", "parts", "contents", "tool_calls", "function_call"}:
        return [{**body, "role": "assistant"}]
    return [{"role": "assistant", "content": body["text"]}] if as_text(body.get("text")) else []


def _are_results(blocks: Sequence[JSON]) -> bool:
    return all(isinstance(block, Mapping) and block.get("type") == "tool_result" for block in blocks)


def make_nodes(
    messages: Sequence[Any],
    request: Callable[[Value], Mapping[str, Any] | None],
    passed: SkippedRecords,
    time: str = "timestamp",
) -> Iterator[Node]:
    """Make nodes of a stored list of messages, each answer with the fields of its request.

    Args:
        messages: The stored messages.
        request: Gives the fields of an answer's request; None = there was none, the message is an example.
        passed: Collects the records that are skipped.
        time: The key of a message's time.
    """
    open_: Node | None = None  # the results of one round of calls are one message
    before: float | None = None
    begun = False
    for number, message in enumerate(messages):
        role, blocks = convert_message(message) if isinstance(message, Mapping) else ("", [])
        if not role:
            passed.add(f"message of role {as_mapping(message).get('role') or 'unknown'}", message)
            continue
        at = parse_time(message.get(time))
        results = bool(blocks) and role == "user" and _are_results(blocks)
        if results and open_ is not None:
            open_.messages[0].content = [*open_.messages[0].content, *blocks]
            before = at
            continue
        node = Node(str(number), None, [], at)
        if role == "assistant":
            fields = request(message)
            sent = None if fields is None else {"sent_at": before, **fields}
            node.messages = [NodeMessage("assistant" if blocks or sent is None else "", blocks, request=sent)]
        elif role == "system":
            node.messages = [NodeMessage("system", blocks, "system", fence=begun)]
        else:
            node.messages = [
                NodeMessage("user", blocks, "tool" if results else "meta" if message.get("origin") == "meta" else "prompt")
            ]
        begun, before, open_ = begun or role != "system", at, node if results else None
        yield node
