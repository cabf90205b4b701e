"""Roo Code's context management over its stored history: what is hidden, and what a summary replaces.

Pure functions over messages as `api_conversation_history.json` holds them: Anthropic's, with `ts` and the tags
`truncationParent`, `isTruncationMarker`, `truncationId`, `condenseParent`, `isSummary`, `condenseId`. Nothing is ever
deleted: a message is hidden while the summary or marker that its tag names exists. `results` repairs results; `history`
reads a history from a session. Ported from RooCodeInc/Roo-Code v3.52.1 (cb83656718): context-management/index.ts,
condense/index.ts, mergeConsecutiveApiMessages.ts, consolidateTokenUsage.ts.
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
)  # the characters that JavaScript's trim removes

# Our wording, at the lengths of the original (24, 63 + digits, 132 around the commands, 56), because tokens are counted.
HEADING = "## Conversation so far:\n"
OFFLINE_HEADING = "[Summary, made offline]\n"
MARKER = "[Context note: {} earlier messages were hidden here to make room]"
WORKFLOWS = (
    "<note>\nThe task was begun with these commands. They stay valid, also when this is condensed again:\n",
    "\n</note> [Standing commands end.]",
)
DEFERRED = "Not run yet: the history was condensed before this call."

_COMMAND = re.compile(r"<command[^>]*>.*?</command>", re.DOTALL)


class Truncation(NamedTuple):
    """A history after the sliding window: how many messages were newly hidden, and the marker that replaces them."""

    messages: list[Stored]
    removed: int
    marker: Stored | None


def count_context(events: Sequence[Stored]) -> float:
    """Return the tokens of the context as the newest event reports them; 0 if none does.

    That is the input and output of a request, or the count after a condense. Truncations report nothing.

    Args:
        events: The events, as `ui_messages.json` holds them. `text` may be parsed already.
    """
    for event in reversed(events):
        found: float = 0
        if event.get("type") == "say" and event.get("say") == "api_req_started" and event.get("text"):
            report = _parse(event["text"])
            found = sum(n for n in (report.get("tokensIn"), report.get("tokensOut")) if isinstance(n, (int, float)))
        elif event.get("type") == "say" and event.get("say") == "condense_context":
            found = (event.get("contextCondense") or {}).get("newContextTokens") or 0
        if found:
            return found
    return 0


def _parse(text: Any) -> Stored:
    if isinstance(text, Mapping):
        return text
    try:
        value = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def compute_allowed(window: int, max_output: int | None) -> float:
    """Return the tokens that a request may have: the window without a tenth of it, and without the reserve for the answer.

    Args:
        window: The window in tokens.
        max_output: The reserve in tokens; None = the default.
    """
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
    """Return whether Roo acts: above the allowed tokens, or, with `auto`, at the percentage.

    Args:
        total: Tokens of the context.
        last: Tokens of the last message.
        window: The window in tokens.
        max_output: The reserve for the answer in tokens; None = the default.
        auto: Whether automatic condensing is on.
        threshold: The global percentage.
        profile: The percentage of the profile; -1 = the global one. Values outside of 5 to 100 are ignored.
    """
    size = total + last
    if size > compute_allowed(window, max_output):
        return True
    if profile is not None and profile != INHERIT and THRESHOLDS[0] <= profile <= THRESHOLDS[1]:
        threshold = profile
    return auto and 100 * size / window >= threshold


def truncate(messages: Sequence[Stored], share: float, name: str) -> Truncation:
    """Hide the oldest visible messages after the first, and put a marker before the first that stays.

    Messages that a summary hides count as visible. Nothing changes if fewer than two would be hidden.

    Args:
        messages: The history.
        share: The share of the visible messages that is hidden; the number is made even.
        name: The id of the truncation.
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
    """Return the messages from the last summary on; all if there is none."""
    start = next((at for at in range(len(messages) - 1, -1, -1) if messages[at].get("isSummary")), 0)
    return list(messages[start:])


def explain_refusal(messages: Sequence[Stored]) -> str:
    """Return why a history is not condensed, by Roo's name of the error; "" if it can be."""
    since = select_since_summary(messages)
    if len(since) <= 1:
        return "condense_not_enough_messages" if len(messages) <= 1 else "condensed_recently"
    return "condensed_recently" if len(since) <= 2 and any(m.get("isSummary") for m in since) else ""


def build_missing_results(messages: Sequence[Stored]) -> list[JSON] | None:
    """Return results for calls that have none, as the content of a user message for the summariser; None if all have."""
    calls = {b.get("id"): None for m in messages for b in _list_blocks(m, "assistant") if b.get("type") == "tool_use"}
    results = {b.get("tool_use_id") for m in messages for b in _list_blocks(m, "user") if b.get("type") == "tool_result"}
    missing = [call for call in calls if call not in results]
    return [{"type": "tool_result", "tool_use_id": call, "content": DEFERRED} for call in missing] or None


def build_summary_content(
    heading: str, summary: str, first: Stored, environment: str, outlines: Sequence[str] = ()
) -> list[JSON]:
    """Return the content of a summary message.

    Args:
        heading: The line before the summary.
        summary: The summary.
        first: The first message, whose commands are repeated.
        environment: Details of the environment; "" = none.
        outlines: Outlines of files.
    """
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
    """Return what the summariser reads: lines for each message, calls and results as text, without thinking."""
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
    """Remove tags whose summary or marker is gone, as after a rewind. What they hid becomes active again."""
    known = {
        "condenseParent": {m.get("condenseId") for m in messages if m.get("isSummary") and m.get("condenseId")},
        "truncationParent": {m.get("truncationId") for m in messages if m.get("isTruncationMarker") and m.get("truncationId")},
    }
    return [{key: value for key, value in m.items() if key not in known or value in known[key]} for m in messages]


def select_effective(messages: Sequence[Stored]) -> list[Stored]:
    """Return what would be sent of a history.

    That is everything from the last summary on, without what a marker there hides; or else everything that is not hidden.
    After a summary, results without their call are dropped, and messages that become empty.
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
    """Join neighbours of one of `roles`, with the keys of the first.

    Markers are not joined, and a summary not with those before it.

    Args:
        messages: Stored messages, oldest first.
        roles: The roles whose messages are joined.
    """
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
