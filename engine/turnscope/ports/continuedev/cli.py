"""Continue's CLI: the tokens of an item of the history, when the history is compacted, and how it is cut at its end.

Pure functions, written from what is documented of extensions/cli/src (compaction.ts, util/tokenizer.ts, stream/*) and
core/util/messageConversion.ts (continuedev/continue d0a3c0b6). An item is a mapping: `role`, `content`, `context`, `calls`
(each with its `output`, if it has one). The caller passes in how texts are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

from turnscope.ports.continuedev.compiling import adjust

Item = Mapping[str, Any]
Count = Callable[[str], int]
WINDOW, OUTPUT_SHARE, OUTPUT_MOST = 200_000, 0.35, 64_000  # defaults: tokens, share of the window, tokens
AUTO, BUFFER_MOST = 0.8, 15_000  # share of the room at which the history is compacted; tokens kept free, at most
ITEM, LISTED, CALL, RESULT, CONTEXT, SYSTEM = 2, 3, 10, 5, 5, 4  # tokens in addition to the texts
IMAGE = 1_024
SAFETY, ROOM = 100, 150  # tokens kept free in a request, and in a request for a summary
TOOLS = 12  # tokens before the tool definitions, and as many after them
CANCELLED = "Tool cancelled"
PROMPT_TOKENS = 91


def get_window(configured: int | None) -> int:
    """Return the window in tokens."""
    return WINDOW if configured is None else configured


def compute_output(window: int, configured: int | None) -> int:
    """Return the tokens that an answer may have.

    Args:
        window: The window in tokens.
        configured: The configured limit in tokens; None = none.
    """
    return ceil(min(OUTPUT_SHARE * window, OUTPUT_MOST)) if configured is None else configured


def count_item(item: Item, count: Count, model: str) -> int:
    """Return the tokens of an item. Only its content is scaled to the model's tokens.

    Args:
        item: The item.
        count: Counts a text.
        model: The id of the model.
    """
    content = item.get("content") or ""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    text = sum(count(part["text"]) for part in parts if part.get("type") == "text" and part.get("text"))
    pictures = IMAGE * sum(part.get("type") == "imageUrl" for part in parts)
    found = adjust(text + pictures, model) + ITEM
    for call in item.get("calls") or ():
        found += _count_text(call.get("name"), count) + CALL + _count_text(call.get("arguments"), count)
        output = None if item.get("bare_calls") else call.get("output")
        for text_of in [output] if isinstance(output, str) else output or ():
            found += _count_text(text_of, count) + RESULT
    found += RESULT if item.get("role") == "tool" else 0
    for entry in item.get("context") or ():
        found += _count_text(entry.get("content"), count) + _count_text(entry.get("name"), count) + CONTEXT
    return found


def _count_text(text: Any, count: Count) -> int:
    return count(text) if text and isinstance(text, str) else 0


def count_tools(tools: Sequence[Item], count: Count) -> int:
    """Return the tokens of tool definitions.

    Args:
        tools: The definitions, in the form of chat completions.
        count: Counts a text.
    """
    if not tools:
        return 0
    found = 2 * TOOLS
    for tool in tools:
        function = tool.get("function") or {}
        found += _count_text(function.get("name"), count) + _count_text(function.get("description"), count)
        for key, field in ((function.get("parameters") or {}).get("properties") or {}).items():
            schema = field if isinstance(field, Mapping) else {}
            found += count(key)
            for name in ("type", "description"):
                found += _count_text(schema.get(name), count) + 2 if schema.get(name) and isinstance(schema[name], str) else 0
            values = schema["enum"] if isinstance(schema.get("enum"), list) else ()
            found += sum(3 + (count(v) if isinstance(v, str) else 5) for v in values) - (3 if values else 0)
    return found


def compute_threshold(window: int, output: int) -> int | None:
    """Return the tokens from which on the history is compacted; None if the answer leaves no room, which is an error.

    Args:
        window: The window in tokens.
        output: The tokens that an answer may have.
    """
    free = window - output
    limit = free - min(BUFFER_MOST, max(output, ceil((1 - AUTO) * free)))
    return limit if limit > 0 else None


def reserve_output(window: int, output: int | None) -> int:
    """Return the tokens that a request keeps free for its answer. There is no upper bound here.

    Args:
        window: The window in tokens.
        output: The configured limit in tokens; None = none.
    """
    return output if output is not None and output > 0 else ceil(OUTPUT_SHARE * window)


def fits(tokens: int, window: int, output: int | None, buffer: int = SAFETY) -> bool:
    """Return whether a request may be sent.

    Args:
        tokens: Tokens of the request.
        window: The window in tokens.
        output: The configured limit of the answer in tokens; None = none.
        buffer: Tokens kept free.
    """
    return tokens + reserve_output(window, output) + buffer <= window


def count_kept(roles: Sequence[str], stop: int) -> int:
    """Return how many of the first `stop` items one step of cutting keeps: the last is dropped, and a prompt or call before it.

    Args:
        roles: The role of each item: user, assistant, ...; `call` for an answer that calls tools.
        stop: How many items there are.
    """
    return stop - 2 if stop > 1 and roles[stop - 2] in ("user", "call") else max(0, stop - 1)


def find_begin(summaries: Sequence[int]) -> int | None:
    """Return the number of the first summary, at which the history begins; None if there is none."""
    return summaries[0] if summaries else None


def cut_for_summary(roles: Sequence[str], sums: Sequence[int], window: int, output: int, static_tokens: int) -> int:
    """Return how many items the summariser reads.

    Args:
        roles: The role of each item.
        sums: Tokens of the first i items.
        window: The window in tokens.
        output: The tokens that an answer may have.
        static_tokens: Tokens of the summary's prompt and of the system prompt.
    """
    stop = len(roles)
    while stop and sums[stop] + static_tokens > window - output - ROOM:
        stop = count_kept(roles, stop)
    return stop


def cut_to_fit(roles: Sequence[str], sums: Sequence[int], window: int, output: int | None, static_tokens: int) -> int:
    """Return how many items are sent: the newest are dropped until the request fits, but one always stays.

    Args:
        roles: The role of each item.
        sums: Tokens of the first i items.
        window: The window in tokens.
        output: The configured limit of the answer in tokens; None = none.
        static_tokens: Tokens of system prompt and tools.
    """
    stop = len(roles)
    while stop > 1 and not fits(sums[stop] + static_tokens, window, output):
        stop = count_kept(roles, stop)
    return stop


def convert(item: Item) -> list[dict[str, Any]]:
    """Return an item as the chat messages that are sent for it."""
    role, content = str(item.get("role")), item.get("content")
    if isinstance(content, list) and role not in ("system", "tool"):  # those are sent as they are stored
        content = [_convert_part(part) for part in content]
    if role == "user" and item.get("context") and isinstance(content, str):
        blocks = [f'<context name="{c.get("name", "")}">\n{c.get("content", "")}\n</context>' for c in item["context"]]
        content = "\n\n".join([*blocks, content])
    made: dict[str, Any] = {"role": "assistant" if role == "thinking" else role, "content": content}
    calls = item.get("calls") or ()
    if calls and role == "assistant":
        made["tool_calls"] = [
            {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}} for c in calls
        ]
    if role == "tool":
        made["tool_call_id"] = item.get("tool_call_id")
    results = [] if item.get("bare_calls") else [_build_result(call) for call in calls]
    return [made, *results]


def _convert_part(part: Item) -> dict[str, Any]:
    if part["type"] == "imageUrl":
        return {"type": "image_url", "image_url": {"url": part["imageUrl"]["url"]}}
    return {"type": "text", "text": part.get("text")}


def _build_result(call: Item) -> dict[str, Any]:
    output = call.get("output")
    texts = [output] if isinstance(output, str) else output  # one empty text is a result, no text at all is none
    return {"role": "tool", "tool_call_id": call["id"], "content": "\n".join(texts) if texts else CANCELLED}
