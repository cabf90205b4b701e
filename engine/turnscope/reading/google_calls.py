"""A recorded call of Google's `generateContent` or of Bedrock's Converse in Anthropic's shape.

Any recorder may have written it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnscope.reading.calls import as_text
from turnscope.reading.content_blocks import as_mapping, as_rows, rename_google_keys
from turnscope.reading.conversations import Call
from turnscope.reading.messages import build_body, convert_message, find_answers, find_messages
from turnscope.reading.streams import join_converse, join_google, parse_events
from turnscope.reading.usage import convert_usage

USAGE = {
    "thoughtsTokenCount": "reasoning_tokens",
    "promptTokenCount": "prompt_token_count",
    "candidatesTokenCount": "candidates_token_count",
    "cachedContentTokenCount": "cached_content_token_count",
    "totalTokenCount": "total_token_count",
}
Value = Mapping[str, Any]


def convert_call(body: Value, response: Value, line: int, model: str = "", sent_at: float | None = None) -> Call:
    """Convert a recorded call.

    Args:
        body: The request's body.
        response: The response; empty where there is none.
        line: Its line number.
        model: The model's name, where neither of them has it.
        sent_at: When it was sent, in seconds since the Unix epoch; None = unknown.
    """
    body = as_mapping(rename_google_keys(body))  # the Python SDK mixes both spellings
    listed = as_rows(body.get("tools")) or as_rows(as_mapping(body.get("toolConfig")).get("tools"))
    tools = [inner for tool in listed for inner in as_rows(tool.get("functionDeclarations")) or [tool]]
    used = as_mapping(response.get("usageMetadata")) or as_mapping(response.get("usage"))
    first = next(iter(as_rows(response.get("candidates"))), {})
    reason = as_text(first.get("finishReason")) or as_text(response.get("stopReason"))
    named = as_text(response.get("modelVersion")) or as_text(body.get("modelId")) or as_text(body.get("model"))
    about: dict[str, Any] = {"model": named or model, "stop_reason": reason or None, "sent_at": sent_at}
    about["usage"] = convert_usage({USAGE.get(key, key): count for key, count in _add_tool_tokens(used).items()})
    content = [block for message in find_answers(response) for block in convert_message(message)[1]]
    return Call(build_body(find_messages(body), tools), {"content": content} if content else None, about, "", line)


def _add_tool_tokens(used: Value) -> Value:
    """Google counts what its own tools put into the prompt apart from the prompt; the total has both."""
    prompt, more = used.get("promptTokenCount"), used.get("toolUsePromptTokenCount")
    if isinstance(prompt, int) and isinstance(more, int):
        return {**used, "promptTokenCount": prompt + more}
    return used


def join_answer(response: Any) -> Value:
    """Join what an answer's body is, an object, a list of chunks or a stream, into one response of either API."""
    if isinstance(response, str):
        response = list(parse_events(response))
    if not isinstance(response, list):
        return as_mapping(rename_google_keys(_unwrap(as_mapping(response))))
    chunks = [dict(as_mapping(rename_google_keys(_unwrap(one)))) for one in as_rows(response)]
    google = any(one.keys() & {"candidates", "usageMetadata"} for one in chunks)
    return (join_google(chunks) if google else join_converse(chunks)) or {}


def _unwrap(response: Value) -> Value:
    """A response as Google's API gives it: Code Assist wraps it."""
    return as_mapping(response.get("response")) or response
