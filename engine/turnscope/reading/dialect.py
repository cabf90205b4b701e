"""Detects whose API a recorded call uses: Anthropic's Messages, or OpenAI's Chat Completions and the many that follow it.

Each file has one dialect or none, so that exactly one importer claims it. `calls` reads the calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Literal

from turnscope.reading.calls import OPENAI_PARTS, Exchange, find_exchange, is_bare_list, is_cassette, iter_records
from turnscope.reading.source import Source

Dialect = Literal["anthropic", "openai", ""]

CALL_KEYS = frozenset({"tool_calls", "tool_call_id", "function_call"})
OPENAI_KEYS = frozenset(
    "max_completion_tokens frequency_penalty presence_penalty response_format functions stream_options logit_bias logprobs n "
    "seed stop parallel_tool_calls reasoning_effort".split()
)
ANTHROPIC_KEYS = frozenset(
    "system stop_sequences thinking top_k context_management anthropic_version anthropic_beta betas mcp_servers container "
    "output_config cache_control".split()
)
ANTHROPIC_BLOCKS = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document", "server_tool_use", "compaction"}
)
SNIFF_RECORDS = 20  # records that are looked at


def score_dialect(source: Source, wanted: Dialect) -> int:
    """Score how well a file fits an API, 0 to 100: whether it holds calls, and whether only that API could take them.

    Args:
        source: The file.
        wanted: The dialect.
    """
    found = detect_dialect(source)
    return 0 if found[0] != wanted else 90 if found[1] else 50


def detect_dialect(source: Source) -> tuple[Dialect, bool]:
    """Detect the dialect of the calls in a file, and whether it is certain; "" where it holds none.

    The first call that is certain decides.
    """
    if "dialect" not in source.cache:
        source.cache["dialect"] = _detect(source)
    found: tuple[Dialect, bool] = source.cache["dialect"]
    return found


def _detect(source: Source) -> tuple[Dialect, bool]:
    head = source.head[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if head[:1] not in (b"{", b"["):
        if not is_cassette(head):
            return "", False
        if b"/v1/messages" in source.data:
            return "anthropic", True
        return ("openai", True) if b"/chat/completions" in source.data else ("", False)
    if isinstance(source.document, list) and is_bare_list(source.document):
        return "openai", False
    guess: Dialect = ""
    records = iter_records(source) if source.document is not None else ((record, 0) for record in source.first)
    for record, _ in islice(records, SNIFF_RECORDS):
        found = find_exchange(record, 0)
        if found is not None:
            if sure := find_certain_dialect(found):
                return sure, True
            guess = guess or guess_dialect(found)
    return guess, False


def find_certain_dialect(found: Exchange) -> Dialect:
    """Find the dialect of a call by its response, or by keys that only one of the two has; "" where nothing shows it."""
    if answered := find_response_dialect(found):
        return answered
    body = found.body
    messages = [m for m in body["messages"] if isinstance(m, Mapping)]
    listed = body["tools"] if isinstance(body.get("tools"), list) else []
    tools = [tool for tool in listed if isinstance(tool, Mapping)]
    contents = [m["content"] for m in messages if isinstance(m.get("content"), list)]
    parts = {str(part.get("type")) for content in contents for part in content if isinstance(part, Mapping)}
    roles = {str(m.get("role")) for m in messages}
    if roles & {"tool", "developer", "function"} or any(CALL_KEYS & m.keys() for m in messages):
        return "openai"
    if parts & ANTHROPIC_BLOCKS or any("input_schema" in tool for tool in tools) or "system" in body:
        return "anthropic"
    if parts & OPENAI_PARTS or any("function" in tool for tool in tools) or OPENAI_KEYS & body.keys():
        return "openai"
    return "anthropic" if ANTHROPIC_KEYS & body.keys() else ""


def find_response_dialect(found: Exchange) -> Dialect:
    """Find the dialect of a call by its response alone; "" where it has none, or one that does not show it."""
    response = found.response
    if isinstance(response, Mapping):
        return "openai" if "choices" in response else "anthropic" if response.get("type") == "message" else ""
    if isinstance(response, str) and "data:" in response:
        return "openai" if "chat.completion.chunk" in response or '"choices"' in response else "anthropic"
    return ""


def guess_dialect(found: Exchange) -> Dialect:
    """Guess the dialect of a call by the name of its model."""
    claude = "claude" in str(found.body.get("model"))
    return "anthropic" if claude and found.body["messages"][0].get("role") != "system" else "openai"
