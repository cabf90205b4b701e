"""What the other modules of this port share: how Cline's SDK counts messages and tells a typed prompt from anything else.

Pure. Ported from `sdk/packages/core/src/extensions/context/compaction-shared.ts` (cline/cline 21cb8d2525).
Messages are the SDK's: `role`, `content` (text or blocks), and at will `id`, `metadata`, `metrics`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]

DEFAULT_INPUT = 128_000
WINDOW_SHARE, TRIGGER_SHARE, TARGET_SHARE = 0.9, 0.9, 0.7
LARGE_TARGET_SHARE, LARGE_PAIRS = 0.5, 5
PRESERVE_RECENT = 20_000
SUMMARY_OUTPUT, SUMMARY_LEAST = 4_096, 1_024
READ_MOST = 2_000  # characters of a result, a file or thinking that the summariser reads
MANUAL_RATIO, MANUAL_LEAST, MANUAL_MOST = 0.5, 0.05, 0.95


def is_positive(value: Any) -> bool:
    """Whether a value is a number above 0 that JavaScript would call finite."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def compute_usable(window: Any, given: Any) -> float | None:
    """Input tokens that a model takes: its limit of input, at most its window; else 90 % of the window; None = unknown."""
    known = window if is_positive(window) else None
    if is_positive(given):
        return float(given) if known is None else min(given, known)
    return None if known is None else known * WINDOW_SHARE


def write_json(value: Any) -> str:
    """Compact JSON, as JavaScript writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def count_units(text: str) -> int:
    """Length in UTF-16 code units, as JavaScript counts."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def measure(value: Any) -> int:
    """Characters of the JSON of a value."""
    return count_units(write_json(value))


def estimate_tokens(characters: int) -> int:
    """Tokens of so many characters: a third, rounded up, at least one."""
    return max(1, -(-characters // 3))


def count_tokens(message: Message) -> int:
    """Tokens of a message."""
    return estimate_tokens(measure(message))


def sum_tokens(messages: Iterable[Message]) -> int:
    """Tokens of some messages."""
    return sum(map(count_tokens, messages))


def list_blocks(message: Message) -> Sequence[Mapping[str, Any]]:
    """The blocks of a message; none where its content is a text."""
    content = message["content"]
    return () if isinstance(content, str) else content


def holds_only_results(message: Message) -> bool:
    """Whether a message of the user holds tool results and nothing else."""
    held = list_blocks(message)
    return message["role"] == "user" and bool(held) and all(block["type"] == "tool_result" for block in held)


def get_kind(message: Message) -> Any:
    """What a compaction made this message: `compaction`, `compaction_summary`; None = nothing."""
    return (message.get("metadata") or {}).get("kind")


def is_typed(message: Message) -> bool:
    """Whether somebody typed this message."""
    return message["role"] == "user" and not holds_only_results(message) and get_kind(message) != "compaction_summary"


def get_prompt_span(message: Message) -> int:
    """For how many prompts of the user a message stands."""
    if message["role"] != "user":
        return 0
    meta = message.get("metadata") or {}
    given = meta.get("userRunSpan")
    known = given if isinstance(given, int) and not isinstance(given, bool) and given >= 0 else None
    if get_kind(message) in ("compaction", "compaction_summary"):
        return 1 if known is None else known
    if known is not None:
        return known
    held = list_blocks(message)
    text = (
        message["content"] if isinstance(message["content"], str) else "\n".join(b["text"] for b in held if b["type"] == "text")
    )
    attached = any(b["type"] in ("file", "image") for b in held) and not any(b["type"] == "tool_result" for b in held)
    return 1 if attached or text.strip() else 0


def find_cut(messages: Sequence[Message], most: float) -> int:
    """Number of the first message kept beside a summary: never behind the newest typed prompt, never at a result."""
    if not messages:
        return 0
    counted, start = 0, len(messages)
    for i in range(len(messages) - 1, -1, -1):
        counted, start = counted + count_tokens(messages[i]), i
        if counted >= most:
            break
    if start <= 0:
        return 0
    newest = next((i for i in range(len(messages) - 1, -1, -1) if is_typed(messages[i])), 0)
    at = min(start, newest) if newest > 0 else start
    while at > 0 and not (messages[at]["role"] == "assistant" or is_typed(messages[at])):
        at -= 1
    return at
