"""LobeHub: the estimated tokens of a conversation, when it is compressed, and which of its messages are.

Pure functions over stored messages as plain mappings, written from what is documented of tokenAccounting, tokenCounter.ts,
GeneralChatAgent.ts and compressContext.ts (lobehub 2.2.10). Texts are estimated as by tokenx 1.3.0 (MIT), which the app
uses: about one token for six characters of a word, one for a number or a short word, half of one for a punctuation mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import ceil, floor
from typing import Any, NamedTuple

from turnscope.session.content import dumps

StoredMessage = Mapping[str, Any]
WINDOW, RATIO, DRIFT = 128_000, 0.5, 1.25  # assumed tokens; share that is used; factor by which estimates are too low
GROUP = "compressedGroup"  # the role of a stored summary
SOURCES = ("content", "reasoning", "thoughtSignature", "toolCallId", "toolCalls")
_WORD, _SHORT = 6, 3  # characters per token of a word; characters of a word that is always one token
_BLANK = "\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"  # JavaScript's white space
_SIGNS = r".,!?;(){}[\]<>:/\\|@#$%^&*+=`~_\-"
_SPLIT = re.compile(f"([{_BLANK}]+|[{_SIGNS}]+)")
_BLANKS = re.compile(f"[{_BLANK}]")
_SIGN = re.compile(f"[{_SIGNS}]")
_CLASSES = bytes(  # the class of each ASCII character: blank, punctuation, or part of a word
    ord(" ") if _BLANKS.match(chr(n)) else ord("s") if _SIGN.match(chr(n)) else ord("w") for n in range(256)
)
_THREE = re.compile(rb"(?<!s)sss(?!s)")
_DIGITS = re.compile(f"[0-9]{{{_WORD + 1},}}(?![^{_BLANK}{_SIGNS}])")
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")
_CJK = re.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf\u3000-\u303f\uff00-\uffef\u30a0-\u30ff\u2e80-\u2eff\u31c0-\u31ef\u3200-\u32ff"
    "\u3300-\u33ff\uac00-\ud7af\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\ud7b0-\ud7ff]"
)
_LANGUAGES = (  # characters per token, for words with one of these letters
    (re.compile("[äöüßẞ]", re.IGNORECASE), 3),
    (re.compile("[éèêëàâîïôûùüÿçœæáíóúñ]", re.IGNORECASE), 3),
    (re.compile("[ąćęłńóśźżěščřžýůúďťň]", re.IGNORECASE), 3.5),
)


def estimate_tokens(value: Any) -> int:
    """Estimate the tokens of a text, or of the JSON of another value; None has none."""
    if value is None:
        return 0
    text = value if isinstance(value, str) else dumps(value)
    if text.isascii():
        return _count_ascii(text)
    lines = text.split("\n")
    others = (part for line in lines if not line.isascii() for part in filter(None, _SPLIT.split(line)))
    return _count_ascii("\n".join(line for line in lines if line.isascii())) + sum(map(_count_segment, others))


def _count_ascii(text: str) -> int:
    """Estimate the tokens of ASCII text as `_count_segment` does, but without looking at each part."""
    classes = text.encode().translate(_CLASSES) + b" "
    tokens = _count_pieces(classes, b"w", _WORD) + _count_pieces(classes, b"s", 2) - len(_THREE.findall(classes))
    for found in _DIGITS.finditer(text):
        start, stop = found.span()
        if not start or classes[start - 1] != ord("w"):
            tokens -= (stop - start - 1) // _WORD
    return tokens


def _count_pieces(classes: bytes, one: bytes, size: int) -> int:
    """Return how many pieces of at most `size` bytes the runs of `one` make."""
    whole = classes.count(one * size)
    rest = classes.replace(one * size, b"|") if whole else classes
    return whole + sum(rest.count(one + other) for other in (b" ", b"s", b"w") if other != one)


def _count_segment(text: str) -> int:
    """Estimate the tokens of a run of white space, of punctuation, or of anything else."""
    if _BLANKS.match(text):
        return 0
    if _CJK.search(text):
        return len(text)
    units = len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
    if units <= _SHORT or _NUMBER.fullmatch(text):
        return 1
    if _SIGN.match(text):
        return ceil(units / 2)
    per = _WORD if text.isascii() else next((per for letters, per in _LANGUAGES if letters.search(text)), _WORD)
    return ceil(units / per)


def count_by_source(message: StoredMessage) -> dict[str, int]:
    """Return the tokens of a stored message by source. The billed tokens of an answer count for all that is in it."""
    found = dict.fromkeys(SOURCES, 0)
    billed = _get_billed(message) if message.get("role") == "assistant" else 0
    if billed:
        found["content"] = billed
    else:
        found["content"] = estimate_tokens(message.get("content"))
        for tool in (message.get("tools") or ()) if message.get("role") == "assistant" else ():
            found["toolCalls"] += sum(estimate_tokens(tool.get(key)) for key in ("id", "apiName", "arguments", "type"))
            found["thoughtSignature"] += estimate_tokens(tool.get("thoughtSignature"))
        thought = message.get("reasoning")
        found["reasoning"] = estimate_tokens(thought.get("content") if isinstance(thought, Mapping) else thought)
    found["toolCallId"] = estimate_tokens(message.get("tool_call_id") or None)
    return found


def _get_billed(message: StoredMessage) -> int:
    for fields in (message, message.get("metadata")):
        used = fields.get("usage") if isinstance(fields, Mapping) else None
        tokens = used.get("totalOutputTokens") if isinstance(used, Mapping) else None
        if isinstance(tokens, (int, float)) and not isinstance(tokens, bool):
            return max(0, int(tokens))
    return 0


def count_message(message: StoredMessage) -> int:
    """Return the tokens of a stored message, without those of its children."""
    return sum(count_by_source(message).values())


class Trigger(NamedTuple):
    """The estimate of a request, the threshold, and whether the estimate exceeds it."""

    tokens: int
    threshold: int
    compress: bool


def compute_trigger(tokens: int, window: int = WINDOW, ratio: float = RATIO, drift: float = DRIFT) -> Trigger:
    """Return whether a request is compressed before it is sent.

    Args:
        tokens: Estimated tokens of the request, with tool definitions.
        window: The window in tokens; None = unknown.
        ratio: The share of the window that may be used.
        drift: The factor by which estimates are too low.
    """
    threshold = floor(window * ratio)
    return Trigger(tokens, threshold, ceil(tokens * drift) > threshold)


def get_stored_summary(messages: Iterable[StoredMessage]) -> str | None:
    """Return the text of the system message that an older version marked as its summary."""
    marked = (m for m in messages if m.get("role") == "system" and (m.get("metadata") or {}).get("compressionSummary"))
    return next((m.get("content") for m in marked), None)
