"""How Roo Code matches the results in a user message with the calls before it, when the message is stored.

Ported from validateToolResultIds.ts and Task.addToApiConversationHistory (RooCodeInc/Roo-Code v3.52.1, cb83656718). Results
that lose their call to a summary later on are handled by `roo.management.select_effective`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from turnscope.session.content import dumps
from turnscope.session.model import JSON

INTERRUPTED = "This call was broken off, so it has no result yet"  # our wording, at the length of Roo's (49)
Fitted = list[tuple[int, JSON]]  # (place in the message's content, block); -1 = an added result


def fit_results(user: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> Fitted | None:
    """Match the results of a user message with the calls of the last answer; None if there is nothing to match.

    The first of several results of one call stays. A result with an unknown id gets the id of the call at its own position
    among the results, or is dropped if that call has a result. Calls without a result get one, at the start.

    Args:
        user: The content of the user message.
        history: The messages before it.
    """
    content = user.get("content")
    before = next((m for m in reversed(history) if m.get("role") == "assistant"), None)
    answer = before.get("content") if before else None
    calls = [block.get("id") for block in answer if _is_kind(block, "tool_use")] if isinstance(answer, list) else []
    if user.get("role") != "user" or not isinstance(content, list) or not calls:
        return None
    kept: Fitted = []
    seen: set[Any] = set()
    for place, block in enumerate(content):
        if not _is_kind(block, "tool_result") or block.get("tool_use_id") not in seen:
            kept.append((place, block))
            seen |= {block.get("tool_use_id")} if _is_kind(block, "tool_result") else set()
    return kept if seen == set(calls) else _fit(kept, calls)


def _fit(kept: Fitted, calls: list[Any]) -> Fitted:
    used: set[Any] = set()
    out: Fitted = []
    number = -1  # the number of the result among the results
    for place, block in kept:
        if not _is_kind(block, "tool_result"):
            out.append((place, block))
            continue
        number += 1
        name = block.get("tool_use_id")
        if name not in calls or name in used:
            name = calls[number] if number < len(calls) else None
            if name is None or name in used:
                continue
            block = {**block, "tool_use_id": name}  # noqa: PLW2901 - the block under its call's id
        used.add(name)
        out.append((place, block))
    missing = [{"type": "tool_result", "tool_use_id": call, "content": INTERRUPTED} for call in calls if call not in used]
    return [*((-1, result) for result in missing), *out]


def convert_to_text(result: Mapping[str, Any]) -> dict[str, JSON]:
    """Return a result as a text block. Roo stores that if no answer comes before the message."""
    content = result.get("content")
    return {"type": "text", "text": f"Result of a tool:\n{content if isinstance(content, str) else dumps(content)}"}


def _is_kind(block: Any, kind: str) -> bool:
    return isinstance(block, Mapping) and block.get("type") == kind
