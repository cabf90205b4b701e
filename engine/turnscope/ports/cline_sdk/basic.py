"""Cline SDK's compaction without a model: prompts and the newest work stay as far as they fit; notices describe the rest.

Pure. Ported from `sdk/packages/core/src/extensions/context/basic-compaction.ts` (cline/cline 21cb8d2525).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise
from typing import Any

from turnscope.ports.cline_sdk.files import Work, find_work
from turnscope.ports.cline_sdk.messages import (
    Message,
    count_tokens,
    get_kind,
    get_prompt_span,
    is_typed,
    list_blocks,
    write_json,
)
from turnscope.ports.cline_sdk.projection import Projection, project

ANSWERS = 3  # newest answers whose texts a notice repeats
# Our wording, at the length of the original (96 characters), because it decides what fits.
TAG = "<SYSTEM_NOTICE>"
NOTICE = TAG + "\nWhat came before was shortened. This is what you did behind the question above:\n"
NOTICE_END = "</SYSTEM_NOTICE>"
READ, EDITED, RAN = "Files read:\n", "Files edited:\n", "Commands ran:\n"
ANSWERED = "\n\nYour recent responses:\n"
USAGE = {"inputTokens": 0, "outputTokens": 0, "cacheReadTokens": 0, "cacheWriteTokens": 0, "cost": 0}
REASONS = {"manual": "manual_compaction", "overflow_recovery": "overflow_recovery_compaction"}


def compact(
    messages: Sequence[Message], target: float, trigger: float, mode: str = "auto"
) -> tuple[list[Message], Projection] | None:
    """Return the shorter transcript, and the projection that it comes from; None if nothing can be done.

    Args:
        messages: The transcript.
        target: Tokens that it may have afterwards.
        trigger: Tokens from which on it is compacted.
        mode: What started it: auto, manual or overflow_recovery.
    """
    room = max(1, min(target, trigger))
    prompts = [i for i, m in enumerate(messages) if is_typed(m)]
    kept = {i: m for i in prompts if (m := trim(messages[i]))}
    if len(messages) < 2 or not kept:
        return None
    newest = prompts[-1]
    used = sum(count_tokens({**m, "content": list_attached(m, i == newest)}) for i, m in kept.items())
    frozen = {i for i, m in enumerate(messages) if i not in kept and _is_preserved(m)}
    used += sum(count_tokens(messages[i]) for i in frozen)
    start, taken = len(messages), 0
    for i in range(len(messages) - 1, newest, -1):
        if i in frozen or used + taken + count_tokens(messages[i]) > room:
            break
        start, taken = i, taken + count_tokens(messages[i])
    while start < len(messages) and messages[start]["role"] != "assistant":
        start += 1
    recent = range(start, len(messages))
    used += sum(count_tokens(messages[i]) for i in recent)
    for begin, stop in reversed(list(pairwise(prompts))):
        answer = _find_last_answer(messages, begin, stop, frozen)
        if answer and used + count_tokens(answer[1]) <= room:
            kept[answer[0]] = answer[1]
            used += count_tokens(answer[1])
    chosen = [kept[i] if i in kept else messages[i] for i in range(len(messages)) if i in kept or i in frozen or i in recent]
    done = project(chosen, min(max(room, used), max(1, trigger)), "basic_compaction_projection")
    merged = _merge_prompts(done.messages, messages)
    if write_json(merged) == write_json(list(messages)):
        return None
    return [*_mark_messages(merged, messages, mode)], done


def trim(message: Message) -> Message | None:
    """Return a prompt without white space around its texts; None if nothing is left."""
    if isinstance(message["content"], str):
        text = message["content"].strip()
        return {**message, "content": text} if text else None
    blocks = [
        {**block, "text": block["text"].strip()} if block["type"] == "text" else block
        for block in message["content"]
        if block["type"] != "text" or block["text"].strip()
    ]
    return {**message, "content": blocks} if blocks else None


def list_attached(message: Message, attached: bool) -> list[Any]:
    """Return the blocks of a message, without files and images that are no longer attached.

    Args:
        message: The message.
        attached: Whether it still has what was attached to it.
    """
    if isinstance(message["content"], str):
        return [{"type": "text", "text": message["content"]}] if message["content"].strip() else []
    return [block for block in message["content"] if attached or block["type"] not in ("file", "image")]


def _is_preserved(message: Message) -> bool:
    return (message.get("metadata") or {}).get("compaction") == "preserved"


def _find_last_answer(messages: Sequence[Message], begin: int, stop: int, frozen: set[int]) -> tuple[int, Message] | None:
    """Return the last answer of a turn that calls no tool, without its thinking."""
    for i in range(stop - 1, begin, -1):
        if i in frozen:
            return None
        if is_answer(messages[i]):
            answer = strip_thinking(messages[i])
            return (i, answer) if answer else None
    return None


def is_answer(message: Message) -> bool:
    """Return whether a message is the model's and calls no tool."""
    return message["role"] == "assistant" and not any(b["type"] == "tool_use" for b in list_blocks(message))


def strip_thinking(message: Message) -> Message | None:
    """Return an answer without its thinking; None if it says nothing."""
    if isinstance(message["content"], str):
        return message if message["content"].strip() else None
    blocks = [b for b in message["content"] if b["type"] not in ("thinking", "redacted_thinking")]
    says = any(b["type"] == "text" and b["text"].strip() for b in blocks)
    return {**message, "content": blocks} if says else None


def _get_answer_text(message: Message) -> str:
    if message["role"] != "assistant":
        return ""
    if isinstance(message["content"], str):
        return message["content"].strip()
    return "\n".join(filter(None, (b["text"].strip() for b in list_blocks(message) if b["type"] == "text")))


def _build_notice(done: Work, answers: Sequence[str]) -> dict[str, Any]:
    lists = "\n\n".join((READ + "\n".join(done.read), EDITED + "\n".join(done.edited), RAN + "\n".join(done.commands)))
    quoted = ANSWERED + "\n---\n".join(answers) if answers else ""
    return {"type": "text", "text": f"{NOTICE}{lists}{quoted}{NOTICE_END}"}


def describe_gap(messages: Sequence[Message], answers: Sequence[int], begin: int, stop: int) -> str:
    """Return the notice of the work between two messages that stay; "" if there is nothing to tell.

    Args:
        messages: The transcript.
        answers: Numbers of its newest answers.
        begin: Number of the message before the gap.
        stop: Number of the message behind it.
    """
    blocks = _build_gap(messages, answers, begin, stop)
    return str(blocks[0]["text"]) if blocks else ""


def find_newest_answers(messages: Sequence[Message], first: int = 0) -> list[int]:
    """Return the numbers of the newest answers whose texts a notice repeats, newest first.

    Args:
        messages: The transcript.
        first: The number from which on they are of interest.
    """
    return list(islice((i for i in range(len(messages) - 1, first - 1, -1) if _get_answer_text(messages[i])), ANSWERS))


def _build_gap(messages: Sequence[Message], texts: Sequence[int], begin: int, stop: int) -> list[Any]:
    if stop <= begin + 1:
        return []
    done = find_work(messages[begin + 1 : stop])
    answers = [_get_answer_text(messages[i]) for i in range(begin + 1, stop) if i in texts]
    return [_build_notice(done, answers)] if done or answers else []


def _merge_prompts(kept: Sequence[Message], original: Sequence[Message]) -> list[Message]:
    """Join neighbouring prompts, and add to each a notice of the work that was dropped after it."""
    where = {m["id"]: i for i, m in enumerate(original) if m.get("id")}
    texts = find_newest_answers(original)
    newest = next((i for i in range(len(kept) - 1, -1, -1) if is_typed(kept[i])), -1)

    def build_gap(begin: int | None, stop: int | None) -> list[Any]:
        return [] if begin is None or stop is None else _build_gap(original, texts, begin, stop)

    runs: list[tuple[Message, int | None, int | None, bool]] = []
    at = 0
    while at < len(kept):
        first = at
        while is_typed(kept[first]) and at + 1 < len(kept) and is_typed(kept[at + 1]):
            at += 1
        message, places = kept[first], [where.get(m.get("id", "")) for m in kept[first : at + 1]]
        if at > first:
            blocks: list[Any] = []
            for i in range(first, at + 1):
                blocks += build_gap(places[i - first - 1], places[i - first]) if i > first else []
                blocks += list_attached(kept[i], i == newest)
            spans = sum(get_prompt_span(m) for m in kept[first : at + 1])
            message = {**message, "content": blocks, "metadata": {**(message.get("metadata") or {}), "userRunSpan": spans}}
        elif is_typed(message) and not isinstance(message["content"], str):
            message = {**message, "content": list_attached(message, first == newest)}
        runs.append((message, places[0], places[-1], is_typed(kept[first])))
        at += 1
    merged: list[Message] = []
    for number, (message, _, last, prompt) in enumerate(runs):
        behind = runs[number + 1][1] if number + 1 < len(runs) else len(original)
        extra = build_gap(last, behind) if prompt else []
        merged.append({**message, "content": [*list_attached(message, True), *extra]} if extra else message)
    return merged


def _mark_messages(messages: Sequence[Message], original: Sequence[Message], mode: str) -> list[Message]:
    """Add to the messages what a later compaction must know of this one."""
    before = (messages[0].get("metadata") or {}) if get_kind(messages[0]) == "compaction" else {}
    usages = [before["usageBefore"]] if before.get("usageBefore") else []
    usages += [m["metrics"] for m in original if m.get("metrics")]
    mark: dict[str, Any] = {
        "kind": "compaction",
        "reason": REASONS.get(mode, "auto_compaction"),
        "displayRole": "system",
        "messagesRemoved": before.get("messagesRemoved", 0) + len(original) - len(messages),
    }
    if usages:
        mark["usageBefore"] = {name: _to_number(sum(u.get(name) or 0 for u in usages)) for name in USAGE}
    done: list[Message] = []
    for i, message in enumerate(messages):
        bare = {name: value for name, value in message.items() if name != "metrics"}
        meta = message.get("metadata") or {}
        if i == 0 and is_typed(message):
            bare["metadata"] = {**meta, **mark, "userRunSpan": get_prompt_span(message)}
        elif not is_typed(message) and not _is_preserved(message):
            bare["metadata"] = {**meta, "compaction": "preserved"}
        done.append(bare)
    return done


def _to_number(value: float) -> float:
    return int(value) if float(value).is_integer() else value
