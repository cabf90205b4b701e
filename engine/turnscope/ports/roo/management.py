"""Roo Code's context management over its stored history: what is hidden, what a summary replaces, what a request then holds.

Pure functions over messages as `api_conversation_history.json` holds them: Anthropic's, with `ts` and the tags
`truncationParent`, `isTruncationMarker`, `truncationId`, `condenseParent`, `isSummary`, `condenseId`. Nothing is ever deleted:
a message is hidden while what its tag names exists. `results` mends results, `history` reads a history off a session.
Ported from RooCodeInc/Roo-Code v3.52.1 (cb83656718): context-management/index.ts, condense/index.ts,
mergeConsecutiveApiMessages.ts, consolidateTokenUsage.ts.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from turnscope.session.content import extract_block_text, extract_text
from turnscope.session.model import JSON

Stored = Mapping[str, Any]

BUFFER = 0.1  # TOKEN_BUFFER_PERCENTAGE
RESERVED = 8_192  # ANTHROPIC_DEFAULT_MAX_TOKENS
THRESHOLDS = (5, 100)  # MIN_CONDENSE_THRESHOLD, MAX_CONDENSE_THRESHOLD
INHERIT = -1
SPACE = "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(
    map(chr, range(0x2000, 0x200B))
)  # what JavaScript trims

# Roo's own wording is not repeated here. The lengths are its (24, 63 + digits, 132 around the commands, 56): they are counted.
HEADING = "## Conversation so far:\n"
STAND_IN = "[Stand-in made offline]\n"
MARKER = "[Context note: {} earlier messages were hidden here to make room]"
WORKFLOWS = (
    "<note>\nThe task was begun with these commands. They stay valid, also when this is condensed again:\n",
    "\n</note> [Standing commands end.]",
)
DEFERRED = "Not run yet: the history was condensed before this call."

_COMMAND = re.compile(r"<command[^>]*>.*?</command>", re.DOTALL)


class Truncation(NamedTuple):
    """A history after the sliding window: how many messages were newly hidden, and the marker that stands for them."""

    messages: list[Stored]
    removed: int
    marker: Stored | None


def count_context(events: Sequence[Stored]) -> float:
    """What the newest telling event says the context held: a request's tokens in and out, or the count after a condense.

    `events` as `ui_messages.json` holds them (`text` may be read already). Truncations are not asked; 0 where nothing tells.
    """
    for event in reversed(events):
        found: float = 0
        if event.get("type") == "say" and event.get("say") == "api_req_started" and event.get("text"):
            told = _parse(event["text"])
            found = (told.get("tokensIn") or 0) + (told.get("tokensOut") or 0)
        elif event.get("type") == "say" and event.get("say") == "condense_context":
            found = (event.get("contextCondense") or {}).get("newContextTokens") or 0
        if found:
            return found
    return 0


def _parse(text: Any) -> Stored:
    if isinstance(text, Mapping):
        return text
    try:
        told = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def compute_allowed(window: int, max_output: int | None) -> float:
    """Tokens that a request may have: a tenth of the window and the reserve for the answer taken off."""
    return window * (1 - BUFFER) - (max_output or RESERVED)


def will_manage(
    total: float,
    last: int,
    window: int,
    max_output: int | None,
    auto: bool = True,
    threshold: float = 100,
    profile: float | None = None,
) -> bool:
    """Whether `total` tokens and the `last` message's make Roo act: above what is allowed, or with `auto` at the percentage.

    `profile`: a percentage of the profile's own; -1 = inherit, anything outside 5 to 100 is ignored.
    """
    size = total + last
    if size > compute_allowed(window, max_output):
        return True
    if profile is not None and profile != INHERIT and THRESHOLDS[0] <= profile <= THRESHOLDS[1]:
        threshold = profile
    return auto and 100 * size / window >= threshold


def truncate(messages: Sequence[Stored], share: float, name: str) -> Truncation:
    """Hide `share` of the visible messages behind the first, an even number, and put a marker before the first that is kept.

    Messages that a summary hides count as visible. Nothing changes where fewer than two would go.
    """
    visible = [at for at, m in enumerate(messages) if not m.get("truncationParent") and not m.get("isTruncationMarker")]
    removed = math.floor((len(visible) - 1) * share)
    removed -= removed % 2
    if removed <= 0:
        return Truncation(list(messages), 0, None)
    hidden = set(visible[1 : removed + 1])
    place = visible[removed + 1] if removed + 1 < len(visible) else len(messages)
    ts = messages[place].get("ts") if place < len(messages) else None
    marker = {
        "role": "user",
        "content": MARKER.format(removed),
        "ts": None if ts is None else ts - 1,
        "isTruncationMarker": True,
        "truncationId": name,
    }
    tagged = [{**m, "truncationParent": name} if at in hidden else m for at, m in enumerate(messages)]
    return Truncation([*tagged[:place], marker, *tagged[place:]], removed, marker)


def select_since_summary(messages: Sequence[Stored]) -> list[Stored]:
    """From the last summary on; all where there is none."""
    start = next((at for at in range(len(messages) - 1, -1, -1) if messages[at].get("isSummary")), 0)
    return list(messages[start:])


def explain_refusal(messages: Sequence[Stored]) -> str:
    """Why a history is not condensed, under Roo's name for it; "" where it can be."""
    since = select_since_summary(messages)
    if len(since) <= 1:
        return "condense_not_enough_messages" if len(messages) <= 1 else "condensed_recently"
    return "condensed_recently" if len(since) <= 2 and any(m.get("isSummary") for m in since) else ""


def build_missing_results(messages: Sequence[Stored]) -> list[JSON] | None:
    """Results for the calls that have none, as content of one more user's message for the summariser; None where all have."""
    calls = {b.get("id"): None for m in messages for b in _list_blocks(m, "assistant") if b.get("type") == "tool_use"}
    results = {b.get("tool_use_id") for m in messages for b in _list_blocks(m, "user") if b.get("type") == "tool_result"}
    missing = [call for call in calls if call not in results]
    return [{"type": "tool_result", "tool_use_id": call, "content": DEFERRED} for call in missing] or None


def build_summary_content(
    heading: str, summary: str, first: Stored, environment: str, outlines: Sequence[str] = ()
) -> list[JSON]:
    """What a summary message holds: the summary, the task's first commands, outlines of files, and the environment."""
    texts = [heading + summary]
    if found := _COMMAND.findall(_get_text(first.get("content"))):
        texts.append("\n".join(found).join(WORKFLOWS))
    texts += outlines
    if environment.strip(SPACE):
        texts.append(environment)
    return [{"type": "text", "text": text} for text in texts]


def _get_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in _to_list(content) if _get_type(block) == "text")


def render_transcript(messages: Iterable[Stored]) -> str:
    """What the summariser reads: a line or more per message, calls and results as text, thinking left out."""
    lines = []
    for message in messages:
        for block in _to_list(message.get("content")):
            kind = str(_get_type(block))
            text = extract_text(block.get("content")) if kind == "tool_result" else extract_block_text(kind, block)
            speaker = "summary" if message.get("isSummary") else "tool" if kind == "tool_result" else message.get("role")
            if kind not in ("thinking", "redacted_thinking", "reasoning"):
                lines.append(f"{speaker}: {'calls ' if kind == 'tool_use' else ''}{text.strip() or f'({kind})'}")
    return "\n".join(lines)


def clean_up(messages: Sequence[Stored]) -> list[Stored]:
    """The history without tags whose summary or marker is gone, as after a rewind: what they hid is active again."""
    known = {
        "condenseParent": {m.get("condenseId") for m in messages if m.get("isSummary") and m.get("condenseId")},
        "truncationParent": {m.get("truncationId") for m in messages if m.get("isTruncationMarker") and m.get("truncationId")},
    }
    return [{key: value for key, value in m.items() if key not in known or value in known[key]} for m in messages]


def select_effective(messages: Sequence[Stored]) -> list[Stored]:
    """What would be sent of a history: from the last summary on, without what a marker there hides; else what is not hidden.

    Behind a summary, results whose call is not behind it too are left out, and messages that this empties.
    """
    summary = next((at for at in range(len(messages) - 1, -1, -1) if messages[at].get("isSummary") is True), None)
    since = list(messages) if summary is None else _drop_unanswered(messages[summary:])
    tags = ("truncationParent",) if summary is not None else ("truncationParent", "condenseParent")
    return [m for m, live in zip(since, clean_up(since), strict=True) if not any(live.get(tag) for tag in tags)]


def _drop_unanswered(messages: Sequence[Stored]) -> list[Stored]:
    calls = {b.get("id") for m in messages for b in _list_blocks(m, "assistant") if b.get("type") == "tool_use" and b.get("id")}
    kept: list[Stored] = []
    for message in messages:
        content = message.get("content")
        if message.get("role") == "user" and isinstance(content, list):
            left = [b for b in content if _get_type(b) != "tool_result" or b.get("tool_use_id") in calls]
            if left:
                kept.append(message if len(left) == len(content) else {**message, "content": left})
        else:
            kept.append(message)
    return kept


def merge_neighbours(messages: Sequence[Stored], roles: Iterable[str] = ("user",)) -> list[Stored]:
    """Neighbours of one of `roles` as one message with the first's keys. Markers stay alone, a summary joins none before it."""
    joined, out = set(roles), list[Stored]()
    for message in messages:
        before = out[-1] if out else None
        alone = message.get("isSummary") or message.get("isTruncationMarker") or (before or {}).get("isTruncationMarker")
        if before is None or alone or message.get("role") not in joined or before.get("role") != message.get("role"):
            out.append(message)
            continue
        ts = max(before.get("ts") or 0, message.get("ts") or 0) or before.get("ts") or message.get("ts")
        out[-1] = {**before, "content": [*_to_list(before.get("content")), *_to_list(message.get("content"))], "ts": ts}
    return out


def _to_list(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def _list_blocks(message: Stored, role: str) -> list[Any]:
    content = message.get("content")
    return [b for b in content if isinstance(b, Mapping)] if message.get("role") == role and isinstance(content, list) else []


def _get_type(block: Any) -> Any:
    return block.get("type") if isinstance(block, Mapping) else None
