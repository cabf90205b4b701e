"""Makes content blocks in Anthropic's shape from what tools store: thoughts inside texts, images, OpenAI's Responses items,
usage.

Pure functions that know no tool.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from turnscope.reading.calls import as_text, parse_if_json
from turnscope.session.content import dumps, extract_text, find_thoughts
from turnscope.session.model import JSON, Usage
from turnscope.session.usage import drop_empty, measured, parse_count

_DATA = re.compile(r"data:([\w/+.-]+);base64,")

GOOGLE_KEYS = frozenset(  # as the Python SDK spells them
    "system_instruction function_declarations function_call function_response inline_data file_data file_uri mime_type "
    "thought_signature "
    "executable_code code_execution_result usage_metadata prompt_token_count candidates_token_count thoughts_token_count "
    "cached_content_token_count tool_use_prompt_token_count total_token_count finish_reason model_version".split()
)
GOOGLE_DATA = frozenset({"args", "response", "parameters"})  # a tool's own


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Give an object; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def as_rows(value: Any) -> list[Mapping[str, Any]]:
    """Give the objects of a list; none for anything else.

    >>> as_rows([{"role": "user"}, None, "so"]), as_rows("so")
    ([{'role': 'user'}], [])
    """
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []


def as_list(value: Any) -> list[Any]:
    """Give a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def make_text(value: str) -> list[JSON]:
    """Make a text block; none for an empty text.

    >>> make_text("so"), make_text("")
    ([{'type': 'text', 'text': 'so'}], [])
    """
    return [{"type": "text", "text": value}] if value else []


def make_thinking(value: str, signature: str = "") -> list[JSON]:
    """Make a thinking block; none for an empty one.

    Args:
        value: The thinking.
        signature: The provider's signature. Without thinking, it makes a redacted block.
    """
    if not value:
        return [{"type": "redacted_thinking", "data": signature}] if signature else []
    return [{"type": "thinking", "thinking": value, **({"signature": signature} if signature else {})}]


def split_thinking(value: str) -> list[JSON]:
    """Split a text so that its `<think>` stretches are thinking. A tag that is not closed is text."""
    blocks: list[JSON] = []
    at = 0
    for found in find_thoughts(value):
        blocks += [*make_text(value[at : found.start].strip()), *make_thinking(found.text.strip())]
        at = found.stop
    return [*blocks, *make_text(value[at:])] if blocks else make_text(value)


def make_call(id: str, name: str, arguments: Any, kind: str = "tool_use") -> dict[str, JSON]:
    """Make a tool call. Arguments as JSON text become the value. What is no JSON object stays as it is.

    Args:
        id: Id of the call.
        name: Name of the tool.
        arguments: Its arguments: a value, or JSON as text.
        kind: Type of the block.
    """
    value = parse_if_json(arguments) if isinstance(arguments, str) else arguments
    return {
        "type": kind,
        "id": id,
        "name": name,
        "input": value if isinstance(value, dict) else {} if arguments in (None, "") else arguments,
    }


def make_result(id: str, content: Any, failed: bool = False) -> dict[str, JSON]:
    """Make a tool's result. What is neither text nor blocks becomes JSON text.

    Args:
        id: Id of the call.
        content: What the tool gave.
        failed: The tool failed.
    """
    blocks = isinstance(content, list) and all(isinstance(part, Mapping) and "type" in part for part in content)
    text = content if isinstance(content, str) or blocks else "" if content is None else dumps(content)
    return {"type": "tool_result", "tool_use_id": id, "content": text, **({"is_error": True} if failed else {})}


def make_image(address: str) -> dict[str, JSON]:
    """Make an image block from its address. A data URL becomes base64 data."""
    if found := _DATA.match(address):
        source = {"type": "base64", "media_type": found[1], "data": address[found.end() :]}
    else:
        source = {"type": "url", "url": address}
    return {"type": "image", "source": source}


@measured
def make_usage(whole: Any = 0, output: Any = 0, cached: Any = 0, written: Any = 0) -> Usage | None:
    """Make the usage of a request whose whole prompt is known, cached tokens included; None where nothing was counted.

    Args:
        whole: Tokens of the prompt.
        output: Tokens of the answer.
        cached: Tokens read from the cache.
        written: Tokens written to the cache.

    >>> usage = make_usage(1_000, 50, 800)
    >>> usage.input_tokens, usage.cache_read_input_tokens
    (200, 800)
    """
    names = ("input tokens", "output tokens", "cache reads", "cache writes")
    prompt, answer, read, made = map(parse_count, (whole, output, cached, written), names)
    return drop_empty(Usage(max(0, prompt - read - made), made, read, answer))


def convert_content(parts: Any) -> list[JSON]:
    """Convert the content of a message of the Responses API, or of parts like it."""
    if isinstance(parts, str):
        return make_text(parts)
    blocks: list[JSON] = []
    for part in parts if isinstance(parts, list) else ():
        fields = part if isinstance(part, Mapping) else {"text": extract_text(part)}
        address = fields.get("image_url")
        address = address.get("url") if isinstance(address, Mapping) else address
        if isinstance(address, str) and address:
            blocks.append(make_image(address))
        elif isinstance(fields.get("text"), str):
            blocks += make_text(fields["text"])
        else:
            blocks.append({"type": "unknown", **fields})
    return blocks


def rename_google_keys(value: Any, depth: int = 12) -> Any:
    """Give Google's own names to the fields of a body or response that its Python SDK dumped, but not to a tool's data.

    Args:
        value: The body, the response, or a part of it.
        depth: How many layers to rename.

    >>> rename_google_keys({"usage_metadata": {"prompt_token_count": 9}, "args": {"mime_type": "x"}})
    {'usageMetadata': {'promptTokenCount': 9}, 'args': {'mime_type': 'x'}}
    """
    if isinstance(value, list) and depth:
        return [rename_google_keys(one, depth - 1) for one in value]
    if not isinstance(value, Mapping) or not depth:
        return value
    return {
        (_camelize(key) if key in GOOGLE_KEYS else key): one if key in GOOGLE_DATA else rename_google_keys(one, depth - 1)
        for key, one in value.items()
    }


def _camelize(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(word.title() for word in rest)


def convert_google_part(row: Any) -> list[JSON]:
    """Convert one part of a content of Google's API: a text, a thought, a call, a result or media."""
    if isinstance(row, str):
        return make_text(row)
    if not isinstance(row, Mapping):
        return []
    if isinstance(row.get("text"), str):
        return make_thinking(row["text"]) if row.get("thought") is True else make_text(row["text"])
    call = row.get("functionCall")
    if isinstance(call, Mapping):
        return [make_call(as_text(call.get("id")) or as_text(call.get("name")), as_text(call.get("name")), call.get("args"))]
    result = row.get("functionResponse")
    if isinstance(result, Mapping):
        return [_convert_google_result(result)]
    data = row.get("inlineData")
    if isinstance(data, Mapping):
        kind = as_text(data.get("mimeType"))
        source = {"type": "base64", "media_type": kind, "data": as_text(data.get("data"))}
        return [{"type": "image" if kind.startswith("image/") else "document", "source": source}]
    return [{"type": "unknown", **row}]


def _convert_google_result(record: Mapping[str, Any]) -> JSON:
    """Convert a `functionResponse`; its media are parts of its own."""
    response, parts = record.get("response"), record.get("parts")
    output = response.get("output", response.get("error")) if isinstance(response, Mapping) else response
    media = [block for part in parts for block in convert_google_part(part)] if isinstance(parts, list) else []
    id, reported = as_text(record.get("id")) or as_text(record.get("name")), output if isinstance(output, str) else response
    if not media:
        return make_result(id, reported)
    return make_result(id, [*make_text(reported if isinstance(reported, str) else dumps(reported)), *media])


OUTPUT_TYPES = ("function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output")


MCP_ITEMS = {
    **dict.fromkeys(("mcp_call", "mcp_list_tools", "mcp_approval_request"), "assistant"),
    "mcp_approval_response": "user",
}


def convert_item(record: Mapping[str, Any]) -> tuple[str, list[JSON]]:
    """Convert one item of the Responses API: the role of its message ("" = unknown) and its blocks."""
    kind = as_text(record.get("type"))
    id = as_text(record.get("call_id")) or as_text(record.get("id"))
    if kind == "message" or (not kind and "role" in record):
        return as_text(record.get("role")), convert_content(record.get("content"))
    if kind == "reasoning":
        found = record.get("summary") or record.get("content")
        return "assistant", make_thinking(extract_text(found) if found else "", as_text(record.get("encrypted_content")))
    if kind in OUTPUT_TYPES:
        result = record.get("output", record.get("tools"))
        result = result.get("content", result) if isinstance(result, Mapping) else result
        return "user", [
            make_result(id, convert_content(result) if isinstance(result, list) else result, record.get("status") == "failed")
        ]
    if kind in ("compaction", "context_compaction"):
        return "user", [{"content": "", **record, "type": "compaction"}]
    if kind in ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call"):
        plain = kind in ("local_shell_call", "tool_search_call")
        named = kind.removesuffix("_call") if plain else as_text(record.get("name"))
        arguments = record.get("arguments", record.get("action" if plain else "input"))
        return "assistant", [make_call(id, named, record.get("action", arguments) if plain else arguments)]
    if kind in MCP_ITEMS:
        return MCP_ITEMS[kind], _convert_mcp_call(record, id) if kind == "mcp_call" else [dict(record)]
    if kind in ("web_search_call", "image_generation_call", "file_search_call", "code_interpreter_call"):
        arguments = record.get("action") or {key: value for key, value in record.items() if key not in ("type", "id", "status")}
        return "assistant", [make_call(id, kind.removesuffix("_call"), arguments, "server_tool_use")]
    return "", []


def _convert_mcp_call(record: Mapping[str, Any], id: str) -> list[JSON]:
    """Convert a call of a tool that ran at a server, with what came back: both are part of the answer."""
    use = make_call(id, as_text(record.get("name")), record.get("arguments"), "mcp_tool_use")
    use["server_name"] = as_text(record.get("server_label"))
    error, output = record.get("error"), record.get("output")
    if error is None and output is None:
        return [use]
    result = make_result(id, output if output is not None else error, error is not None)
    return [use, {**result, "type": "mcp_tool_result"}]


def join_blocks(blocks: Sequence[JSON]) -> str | list[JSON]:
    """Join blocks into a message's content. A single text becomes a string."""
    if len(blocks) == 1 and set(blocks[0]) == {"type", "text"} and blocks[0]["type"] == "text":
        return str(blocks[0]["text"])
    return list(blocks)
