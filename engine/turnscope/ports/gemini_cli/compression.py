"""Gemini CLI's chat compression: where a history is split, how its parts are estimated, and how long outputs are shortened.

Pure functions over Gemini's contents; the rule `summarise_oldest_characters` acts on their results. Ported from
`chatCompressionService.ts` and `tokenCalculation.ts` (google-gemini/gemini-cli 5411f113ca).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from turnscope.session.model import JSON, Block

ASCII_PER_TOKEN, TOKENS_PER_OTHER = 4, 1.5  # tokenCalculation.ts
LONG_TEXT = 100_000  # UTF-16 units: a longer text is estimated at a quarter of its length, whatever its characters
IMAGE, PDF = 3_000, 25_800
DEEPEST = 3  # levels of nested parts
OUTPUT_BUDGET = 50_000  # tokens of function responses that stay whole, newest first (chatCompressionService.ts)
EXCERPT, EXCERPT_HEAD = 40_000, 0.2  # characters of a shortened output, and the share of its start


def find_split_point(chars: Sequence[int], may_begin: Sequence[bool], ends_open: bool, fraction: float) -> int:
    """Return the index of the first content that stays (`findCompressSplitPoint`). The length = all is compressed, 0 = nothing.

    Args:
        chars: UTF-16 units of the JSON of each content.
        may_begin: Indexes of user contents without a function response.
        ends_open: Whether the newest content is not an answer without calls.
        fraction: The share of the characters that is compressed, between 0 and 1.

    Raises:
        ValueError: `fraction` is not between 0 and 1.
    """
    if not 0 < fraction < 1:
        raise ValueError("fraction_out_of_range")
    target, last = sum(chars) * fraction, 0
    for i, before in enumerate(accumulate(chars, initial=0)):
        if i < len(chars) and may_begin[i]:
            if before >= target:
                return i
            last = i
    return last if ends_open or not chars else len(chars)


def can_begin(content: Mapping[str, Any]) -> bool:
    """Return whether the part that stays may begin with this content."""
    return content.get("role") == "user" and not any("functionResponse" in part for part in content.get("parts") or ())


def is_open(content: Mapping[str, Any]) -> bool:
    """Return whether this content expects another one: it is the user's, or it calls a function."""
    return content.get("role") != "model" or any("functionCall" in part for part in content.get("parts") or ())


def estimate_tokens(parts: Sequence[Mapping[str, Any]], depth: int = 0) -> int:
    """Estimate the tokens of some parts, rounded down once (`estimateTokenCountSync`).

    Args:
        parts: The parts of a content.
        depth: How many function responses they lie in. Deeper parts than `DEEPEST` are not looked into.
    """
    return math.floor(sum(_estimate_part(part, depth) for part in parts))


def _estimate_part(part: Mapping[str, Any], depth: int) -> float:
    if isinstance(part.get("text"), str):
        return _estimate_text(part["text"])
    if "functionResponse" in part:
        reply = part["functionResponse"]
        response = reply.get("response")
        text = response if isinstance(response, str) else "" if response is None else write_json(response)
        nested = reply.get("parts") or ()
        inside = estimate_tokens(nested, depth + 1) if nested and depth < DEEPEST else 0
        return (count_units(reply.get("name") or "") + count_units(text)) / ASCII_PER_TOKEN + inside
    data = part.get("inlineData") or part.get("fileData") or {}
    mime = data.get("mimeType") or ""
    if mime.startswith("image/"):
        return IMAGE
    return PDF if mime.startswith("application/pdf") else count_units(write_json(part)) / ASCII_PER_TOKEN


def _estimate_text(text: str) -> float:
    size = count_units(text)
    if size > LONG_TEXT:
        return size / ASCII_PER_TOKEN
    ascii_only = sum(1 for c in text if c < "\x80")
    return ascii_only / ASCII_PER_TOKEN + (size - ascii_only) * TOKENS_PER_OTHER


def cut_output(text: str) -> str:
    """Return the start and the end of a long output.

    A text of at most `EXCERPT` characters stays (`formatTruncatedToolOutput`).
    """
    if len(text) <= EXCERPT:
        return text
    head = int(EXCERPT * EXCERPT_HEAD)
    left = len(text) - EXCERPT
    return f"{text[:head]}\n\n[{left:,} characters of this output are left out here]\n\n{text[len(text) - EXCERPT + head :]}"


def build_content(role: str, blocks: Sequence[Block]) -> dict[str, JSON]:
    """Return a message of a session as Gemini's content.

    Args:
        role: The role of the message in the session.
        blocks: Its blocks.
    """
    return {"role": "model" if role == "assistant" else "user", "parts": [_convert_block(block) for block in blocks]}


def _convert_block(block: Block) -> dict[str, JSON]:
    raw: Any = block.raw if isinstance(block.raw, Mapping) else {}
    if block.kind == "tool_use":
        return {"functionCall": {"id": raw.get("id"), "name": block.name, "args": raw.get("input") or {}}}
    if block.kind == "tool_result":
        return {"functionResponse": {"id": raw.get("tool_use_id"), "name": block.name, "response": {"output": block.text}}}
    if block.kind in ("image", "document") and isinstance(raw.get("source"), Mapping):
        source = raw["source"]
        return {"inlineData": {"mimeType": source.get("media_type", ""), "data": source.get("data", "")}}
    thought = {"thought": True} if block.kind == "thinking" else {}
    return {"text": block.text, **thought}


def write_json(value: JSON) -> str:
    """Write compact JSON, as JavaScript does."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def count_units(text: str) -> int:
    """Return the length of a text in UTF-16 code units, as JavaScript counts."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
