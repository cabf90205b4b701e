"""How Cline's SDK counts messages, and how it recognises a prompt that the user typed. The other modules of this port use it.

Pure. Ported from `sdk/packages/core/src/extensions/context/compaction-shared.ts` (cline/cline 21cb8d2525). Messages are the
SDK's: `role`, `content` (text or blocks), and optionally `id`, `metadata`, `metrics`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]

DEFAULT_INPUT = 128_000
WINDOW_SHARE, TRIGGER_SHARE, TARGET_SHARE = 0.9, 0.9, 0.7
LARGE_TARGET_SHARE, LARGE_PAIRS = 0.5, 5
PRESERVE_RECENT = 20_000
SUMMARY_OUTPUT, SUMMARY_LEAST = 4_096, 1_024
READ_MOST = 2_000  # characters that the summariser reads of a result, a file or thinking
MANUAL_RATIO, MANUAL_LEAST, MANUAL_MOST = 0.5, 0.05, 0.95
NOTICES = frozenset(  # kinds of user messages that the program writes
    "auto_compaction compaction_budget_emergency completion_reminder loop_detection_notice manual_compaction"
    " mistake_stop_notice recovery_notice".split()
)
RESUMPTION = "[TASK RESUMPTION]"  # how a message begins with which the program goes on
APPROVAL = "The user approved switching to act mode. Continue with the approved plan now."  # the program says so to the model
_TAGS = [
    (re.compile(rf"<{tag}\b[^>]*>(.*?)</{tag}>", re.DOTALL | re.ASCII), re.compile(rf"<{tag}[^>]*>"))
    for tag in ("user_input", "user_command")
]
_MODE_NOTICE = re.compile(r"<mode_notice>.*?</mode_notice>", re.DOTALL)
_COMMAND = re.compile(
    r'<user_command\b[^>]*slash="\s*[^"\s][^"]*"[^>]*>.*</user_command>', re.DOTALL | re.ASCII | re.IGNORECASE
)


def is_positive(value: Any) -> bool:
    """Return whether a value is a finite number above 0, as JavaScript sees it."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def compute_usable(window: Any, threshold: Any) -> float | None:
    """Return the input tokens that a model takes: its input limit, or 90 % of its window; None = unknown.

    Args:
        window: The window in tokens.
        threshold: The input limit in tokens. It counts up to the window.
    """
    known = window if is_positive(window) else None
    if is_positive(threshold):
        return float(threshold) if known is None else min(threshold, known)
    return None if known is None else known * WINDOW_SHARE


def write_json(value: Any) -> str:
    """Write compact JSON, as JavaScript does."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def count_units(text: str) -> int:
    """Return the length of a text in UTF-16 code units, as JavaScript counts."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def measure(value: Any) -> int:
    """Return the characters of the JSON of a value."""
    return count_units(write_json(value))


def estimate_tokens(characters: int) -> int:
    """Estimate tokens from characters: a third, rounded up, at least one."""
    return max(1, -(-characters // 3))


def count_tokens(message: Message) -> int:
    """Estimate the tokens of a message."""
    return estimate_tokens(measure(message))


def sum_tokens(messages: Iterable[Message]) -> int:
    """Estimate the tokens of some messages."""
    return sum(map(count_tokens, messages))


def list_blocks(message: Message) -> Sequence[Mapping[str, Any]]:
    """Return the blocks of a message; none if its content is a text."""
    content = message["content"]
    return () if isinstance(content, str) else content


def holds_only_results(message: Message) -> bool:
    """Return whether a user message holds tool results and nothing else."""
    blocks = list_blocks(message)
    return message["role"] == "user" and bool(blocks) and all(block["type"] == "tool_result" for block in blocks)


def get_kind(message: Message) -> Any:
    """Return what a compaction made of this message: `compaction` or `compaction_summary`; None = nothing."""
    return (message.get("metadata") or {}).get("kind")


def is_typed(message: Message) -> bool:
    """Return whether the user typed this message."""
    return message["role"] == "user" and not holds_only_results(message) and get_kind(message) != "compaction_summary"


def get_prompt_span(message: Message) -> int:
    """Return for how many prompts of the user a message stands."""
    if message["role"] != "user":
        return 0
    meta = message.get("metadata") or {}
    span = meta.get("userRunSpan")
    known = span if isinstance(span, int) and not isinstance(span, bool) and span >= 0 else None
    if get_kind(message) in ("compaction", "compaction_summary"):
        return 1 if known is None else known
    if known is not None:
        return known
    if get_kind(message) in NOTICES:
        return 0
    blocks = list_blocks(message)
    if any(b["type"] in ("file", "image") for b in blocks) and not any(b["type"] == "tool_result" for b in blocks):
        return 1
    text = message["content"] if isinstance(message["content"], str) else "\n".join(_iter_texts(blocks))
    shown = _MODE_NOTICE.sub("", unwrap_input(text)).strip()
    typed = bool(shown or _COMMAND.fullmatch(text.strip())) and not shown.startswith(RESUMPTION) and shown != APPROVAL
    return int(typed)


def _iter_texts(blocks: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    return (block["text"] for block in blocks if block["type"] == "text")


def unwrap_input(text: str) -> str:
    """Return what a person typed as a request has it: without the tags that tell of its mode or command.

    >>> unwrap_input('<user_input mode="plan">Why? </user_input>')
    'Why?'
    """
    text = text.strip()
    for whole, opening in _TAGS:
        inside = whole.sub(r"\1", text)
        text = (opening.sub("", text) if inside == text else inside).strip()
    return text


def find_cut(messages: Sequence[Message], most: float) -> int:
    """Return the number of the first message that stays after a summary.

    It is no result, and not after the newest typed prompt.

    Args:
        messages: The transcript.
        most: Tokens of messages that may stay.
    """
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
