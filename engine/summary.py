"""A summary without a model: sentences picked from the conversation. Always a stand-in, and marked as one by its caller.

Keeps what a reader needs to go on: questions and instructions of the user, decisions, file names, numbers, errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

HEAD = "Summary made offline by picking sentences (no model was asked):"
CAP = 1_000  # tokens, where the caller names no limit
CHARACTERS = 2.5  # per token: below what any tokenizer here makes of English text or code, so that the cap holds

_WEIGHTS = (
    (re.compile(r"\?\s*$"), 3.0),
    (re.compile(r"\b(must|never|always|don't|do not|please|keep|only|instead|make sure|important)\b", re.IGNORECASE), 3.0),
    (re.compile(r"\b(decided?|we will|let's|chose|agreed|plan is|because|conclusion|fixed|works now)\b", re.IGNORECASE), 2.5),
    (re.compile(r"\b(error|exception|failed|failure|traceback|denied|not found|cannot)\b", re.IGNORECASE), 2.0),
    (re.compile(r"[\w./-]+\.(py|ts|tsx|js|go|rs|java|json|toml|yaml|yml|md|sql|sh|css|html|c|h|cpp)\b"), 1.5),
    (re.compile(r"\b\d[\d.,]*\b"), 0.7),
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'`(\d])|\n+")
_SPEAKER = re.compile(r"^(user|assistant|tool|summary): ", re.IGNORECASE)


def extract(content: str, max_tokens: int = 0) -> str:
    """The most telling sentences of a transcript (`role: text` lines) in their order, at most `max_tokens` tokens."""
    room = int((max_tokens or CAP) * CHARACTERS) - len(HEAD)
    ranked = sorted(enumerate(_sentences(content)), key=lambda item: (-_weight(item[1]), item[0]))
    chosen: list[tuple[int, str]] = []
    seen: set[str] = set()
    for place, sentence in ranked:
        line = sentence if len(sentence) <= 240 else sentence[:239] + "…"
        if line in seen or len(line) + 3 > room:
            continue
        seen.add(line)
        chosen.append((place, line))
        room -= len(line) + 3
    return "\n".join((HEAD, *(f"- {line}" for _, line in sorted(chosen))))


def _sentences(content: str) -> Iterator[str]:
    speaker = ""
    for raw in _SENTENCE.split(content):
        sentence = " ".join(raw.split())
        found = _SPEAKER.match(sentence)
        if found:
            speaker = found.group(0)
        if len(sentence) > len(found.group(0) if found else "") + 8:
            yield sentence if found or not speaker else speaker + sentence


def _weight(sentence: str) -> float:
    weight = sum(w for pattern, w in _WEIGHTS if pattern.search(sentence))
    speaker = sentence.split(":", 1)[0].lower()
    return weight * {"user": 2.0, "summary": 1.8, "assistant": 1.0}.get(speaker, 0.4)
