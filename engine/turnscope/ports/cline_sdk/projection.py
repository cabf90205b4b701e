"""How Cline's SDK fits messages into a budget without a model: it drops what is unsafe, shortens texts, then drops messages.

Pure. Ported from `sdk/packages/core/src/extensions/context/budget-projection/project.ts` (cline/cline 21cb8d2525).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from turnscope.ports.cline_sdk.messages import Message, count_tokens, count_units, holds_only_results, measure, sum_tokens

Intent = Literal["agentic_summary", "basic_compaction_projection", "normal_provider_request"]
Action = tuple[str, str, int, int | None, int, int]
"""Kind, reason, number of the message and of its block, characters of JSON before and after."""

UNSAFE = ("image", "media", "redacted_thinking")
LEAST = 16


@dataclass(slots=True)
class Projection:
    """What is left, what was done, and whether it fits."""

    messages: list[Message]
    numbers: list[int]
    actions: list[Action] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    status: str = "ok"
    tail: str = "included_verbatim"

    @property
    def tokens(self) -> int:
        """Tokens of what is left."""
        return sum_tokens(self.messages)


def project(messages: Sequence[Message], target: float, intent: Intent) -> Projection:
    """Fit messages into `target` tokens, as far as that is possible without touching what is protected.

    Args:
        messages: The messages.
        target: Tokens of the budget; 0 or less cannot be met.
        intent: What they are needed for. A plain request keeps thinking and media.
    """
    done = Projection(list(messages), list(range(len(messages))))
    if target <= 0:
        done.status, done.tail, done.warnings = "failed", "preserved_out_of_band", ["budget_impossible"]
        return done
    if intent != "normal_provider_request":
        _filter(done, lambda _i: True, ("thinking",), "unsafe_to_truncate", inside=False)
        newest, tail = _find_newest(done.messages), find_live_tail(done.messages)
        _filter(done, lambda i: i != newest and i < tail, UNSAFE, "over_budget", inside=True)
    if done.tokens > target:
        _shorten_all(done, target)
        _drop(done, target)
    if done.actions:
        done.tail = "included_degraded"
    if done.tokens > target:
        done.status, done.tail = "failed", "included_degraded"
        done.warnings.append("budget_unachievable_with_protections")
    return done


def find_live_tail(messages: Sequence[Message]) -> int:
    """Return the number of the newest message with a call that has no result; the end if there is none."""
    answered = {b["tool_use_id"] for m in messages for b in _list_blocks(m) if b["type"] == "tool_result"}
    for i in range(len(messages) - 1, -1, -1):
        if any(b["type"] == "tool_use" and b["id"] not in answered for b in _list_blocks(messages[i])):
            return i
    return len(messages)


def _list_blocks(message: Message) -> Sequence[Mapping[str, Any]]:
    return () if isinstance(message["content"], str) else message["content"]


def _find_prompts(messages: Sequence[Message]) -> list[int]:
    return [i for i, m in enumerate(messages) if m["role"] == "user" and not holds_only_results(m)]


def _find_newest(messages: Sequence[Message]) -> int:
    return (_find_prompts(messages) or [-1])[-1]


def _filter(done: Projection, touched: Callable[[int], bool], types: tuple[str, ...], reason: str, inside: bool) -> None:
    """Drop blocks of `types` from the messages that may be changed, and images from results. Drop empty messages."""
    for i, message in enumerate(done.messages):
        if not touched(i) or isinstance(message["content"], str):
            continue
        kept: list[Any] = []
        for number, block in enumerate(message["content"]):
            place = (done.numbers[i], number)
            if block["type"] in types:
                done.actions.append(("dropped_block", "unsafe_to_truncate", *place, measure(block), 0))
                continue
            content = block.get("content")
            if inside and block["type"] == "tool_result" and isinstance(content, list):
                left = {**block, "content": [part for part in content if part.get("type") != "image"]}
                if len(left["content"]) != len(content):
                    done.actions.append(("dropped_block", "unsafe_to_truncate", *place, measure(block), measure(left)))
                    kept.append(left)
                    continue
            kept.append(block)
        if kept != list(message["content"]):
            done.messages[i] = {**message, "content": kept}
    for message, number in zip(done.messages, done.numbers, strict=True):
        if message["content"] == []:
            done.actions.append(("dropped_message", reason, number, None, measure(message), 0))
    _keep(done, lambda i: done.messages[i]["content"] != [])


def _keep(done: Projection, stays: Callable[[int], bool]) -> None:
    left = [i for i in range(len(done.messages)) if stays(i)]
    done.messages, done.numbers = [done.messages[i] for i in left], [done.numbers[i] for i in left]


def _shorten_all(done: Projection, target: float) -> None:
    """Shorten texts, newest first; but not the newest prompt, and nothing from an open call on."""
    newest, tail, counted = _find_newest(done.messages), find_live_tail(done.messages), done.tokens
    for i in range(len(done.messages) - 1, -1, -1):
        if counted <= target:
            return
        message = done.messages[i]
        text = bool(message["content"]) if isinstance(message["content"], str) else None
        has_content = any(b["type"] in ("text", "file", "tool_result") for b in _list_blocks(message))
        if i == newest or i >= tail or not (has_content if text is None else text):
            continue
        before, old = measure(message), count_tokens(message)
        most = max(LEAST, math.floor(target * max(1, before / max(1, old)) / max(1, len(done.messages))))
        done.messages[i] = shorten(message, most)
        done.actions.append(("truncated_text", "over_budget", done.numbers[i], None, before, measure(done.messages[i])))
        counted += count_tokens(done.messages[i]) - old


def shorten(message: Message, most: int) -> Message:
    """Shorten a message to `most` characters of text, its first blocks first.

    Args:
        message: The message.
        most: UTF-16 units of text that may stay in it.
    """
    if isinstance(message["content"], str):
        return {**message, "content": cut(message["content"], most)}
    return {**message, "content": _share_room(message["content"], most)[0]}


def _share_room(blocks: Sequence[Mapping[str, Any]], room: int) -> tuple[list[Any], int]:
    done: list[Any] = []
    for block in blocks:
        name = {"text": "text", "file": "content"}.get(block["type"])
        if block["type"] == "tool_result":
            content = block["content"]
            if isinstance(content, str):
                content = cut(content, max(0, room))
                room -= count_units(content) if room > 0 else 0
            else:
                before = room
                content, _ = _share_room(content, room)
                used = sum(
                    count_units(p["text"] if p["type"] == "text" else p["content"])
                    for p in content
                    if p["type"] in ("text", "file")
                )
                room -= used if before > 0 else 0
            done.append({**block, "content": content})
        elif name:
            text = cut(block[name], room)
            room -= count_units(text) if room > 0 else 0
            done.append({**block, name: text})
        else:
            done.append(block)
    return done, room


def cut(text: str, most: int) -> str:
    """Return the start of a text, and how many characters are missing; "" if there is no room.

    Args:
        text: The text.
        most: UTF-16 units that may stay, the mark included.
    """
    if most <= 0:
        return ""
    if count_units(text) <= most:
        return text
    if most <= LEAST:
        return text[: max(1, most)]
    room = max(1, most - len(f"\n...[truncated {count_units(text) - most} chars]"))
    return f"{text[:room]}\n...[truncated {count_units(text) - room} chars]"


def _drop(done: Projection, target: float) -> None:
    """Drop messages, oldest first, each with its calls and results. Prompts at both ends and open calls stay."""
    at = 0
    while at < len(done.messages) and done.tokens > target:
        prompts = _find_prompts(done.messages) or [-1]
        tail = find_live_tail(done.messages)
        if at in (prompts[0], prompts[-1]):
            here = measure(done.messages[at])
            done.actions.append(("preserved", "protected_live_tail", done.numbers[at], None, here, here))
            at += 1
            continue
        group = _find_bound(done.messages, at)
        if not group.isdisjoint({prompts[0], prompts[-1]}) or any(i >= tail for i in group):
            at += 1
            continue
        for i in group:
            bound = len(group) > 1 or bool(_list_calls(done.messages[i]))
            reason = "tool_pair_boundary" if bound else "over_budget"
            done.actions.append(("dropped_message", reason, done.numbers[i], None, measure(done.messages[i]), 0))
        gone = set(group)
        _keep(done, lambda i: i not in gone)  # noqa: B023 - called at once


def _list_calls(message: Message) -> list[str]:
    found = [
        b["id"] if b["type"] == "tool_use" else b["tool_use_id"]
        for b in _list_blocks(message)
        if b["type"] in ("tool_use", "tool_result")
    ]
    return list(dict.fromkeys(found))


class _Group(dict[int, None]):
    """Numbers in the order in which they were found."""

    def isdisjoint(self, other: set[int]) -> bool:
        return self.keys().isdisjoint(other)


def _find_bound(messages: Sequence[Message], at: int) -> _Group:
    """Return a message and all messages that calls and results tie to it."""
    where: dict[str, list[int]] = {}
    for i, message in enumerate(messages):
        for call in _list_calls(message):
            where.setdefault(call, []).append(i)
    found, queue = _Group(), [at]
    while queue:
        i = queue.pop(0)
        if i not in found:
            found[i] = None
            queue += (j for call in _list_calls(messages[i]) for j in where[call] if j not in found)
    return found
