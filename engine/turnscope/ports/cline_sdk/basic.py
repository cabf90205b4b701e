"""Cline SDK's deterministic compaction: prompts stay, the newest work as far as it fits, and notices tell of the rest.

Pure. Ported from `sdk/packages/core/src/extensions/context/basic-compaction.ts` (cline/cline 21cb8d2525).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from turnscope.ports.cline_sdk.files import Work, work
from turnscope.ports.cline_sdk.messages import Message, blocks, kind, span_of, tokens, typed, written
from turnscope.ports.cline_sdk.projection import Projection, project

ANSWERS = 3  # newest texts of answers that notices repeat
# Ours, at the length of the original (96 characters): what fits depends on it.
NOTICE = "<SYSTEM_NOTICE>\nWhat came before was shortened. This is what you did behind the question above:\n"
NOTICE_END = "</SYSTEM_NOTICE>"
READ, EDITED, RAN = "Files read:\n", "Files edited:\n", "Commands ran:\n"
ANSWERED = "\n\nYour recent responses:\n"
USAGE = {"inputTokens": 0, "outputTokens": 0, "cacheReadTokens": 0, "cacheWriteTokens": 0, "cost": 0}
REASONS = {"manual": "manual_compaction", "overflow_recovery": "overflow_recovery_compaction"}


def compacted(
    messages: Sequence[Message], target: float, trigger: float, mode: str = "auto"
) -> tuple[list[Message], Projection] | None:
    """The shorter transcript, and the projection that led to it; None where nothing can be done."""
    room = max(1, min(target, trigger))
    prompts = [i for i, m in enumerate(messages) if typed(m)]
    kept = {i: m for i in prompts if (m := _trimmed(messages[i]))}
    if len(messages) < 2 or not kept:
        return None
    newest = prompts[-1]
    used = sum(tokens({**m, "content": _blocks(m, i == newest)}) for i, m in kept.items())
    frozen = {i for i, m in enumerate(messages) if i not in kept and _preserved(m)}
    used += sum(tokens(messages[i]) for i in frozen)
    start, taken = len(messages), 0
    for i in range(len(messages) - 1, newest, -1):
        if i in frozen or used + taken + tokens(messages[i]) > room:
            break
        start, taken = i, taken + tokens(messages[i])
    while start < len(messages) and messages[start]["role"] != "assistant":
        start += 1
    recent = range(start, len(messages))
    used += sum(tokens(messages[i]) for i in recent)
    for begin, stop in reversed(list(pairwise(prompts))):
        answer = _last_answer(messages, begin, stop, frozen)
        if answer and used + tokens(answer[1]) <= room:
            kept[answer[0]] = answer[1]
            used += tokens(answer[1])
    chosen = [kept[i] if i in kept else messages[i] for i in range(len(messages)) if i in kept or i in frozen or i in recent]
    done = project(chosen, min(max(room, used), max(1, trigger)), "basic_compaction_projection")
    told = _merged(done.messages, messages)
    if written(told) == written(list(messages)):
        return None
    return [*_marked(told, messages, mode)], done


def _trimmed(message: Message) -> Message | None:
    if isinstance(message["content"], str):
        text = message["content"].strip()
        return {**message, "content": text} if text else None
    held = [
        {**block, "text": block["text"].strip()} if block["type"] == "text" else block
        for block in message["content"]
        if block["type"] != "text" or block["text"].strip()
    ]
    return {**message, "content": held} if held else None


def _blocks(message: Message, attached: bool) -> list[Any]:
    """The blocks of a message; files and images are left out where they are not `attached` any more."""
    if isinstance(message["content"], str):
        return [{"type": "text", "text": message["content"]}] if message["content"].strip() else []
    return [block for block in message["content"] if attached or block["type"] not in ("file", "image")]


def _preserved(message: Message) -> bool:
    return (message.get("metadata") or {}).get("compaction") == "preserved"


def _last_answer(messages: Sequence[Message], begin: int, stop: int, frozen: set[int]) -> tuple[int, Message] | None:
    """The last answer of a turn that calls nothing, without its thinking."""
    for i in range(stop - 1, begin, -1):
        if i in frozen:
            return None
        message = messages[i]
        if message["role"] != "assistant" or any(b["type"] == "tool_use" for b in blocks(message)):
            continue
        if isinstance(message["content"], str):
            return (i, message) if message["content"].strip() else None
        held = [b for b in message["content"] if b["type"] not in ("thinking", "redacted_thinking")]
        return (i, {**message, "content": held}) if any(b["type"] == "text" and b["text"].strip() for b in held) else None
    return None


def _answer_text(message: Message) -> str:
    if message["role"] != "assistant":
        return ""
    if isinstance(message["content"], str):
        return message["content"].strip()
    return "\n".join(filter(None, (b["text"].strip() for b in blocks(message) if b["type"] == "text")))


def _notice(done: Work, answers: Sequence[str]) -> dict[str, Any]:
    told = "\n\n".join((READ + "\n".join(done.read), EDITED + "\n".join(done.edited), RAN + "\n".join(done.commands)))
    said = ANSWERED + "\n---\n".join(answers) if answers else ""
    return {"type": "text", "text": f"{NOTICE}{told}{said}{NOTICE_END}"}


def _merged(kept: Sequence[Message], original: Sequence[Message]) -> list[Message]:
    """Neighbouring prompts as one, and behind each prompt a notice of the work that is gone after it."""
    where = {m["id"]: i for i, m in enumerate(original) if m.get("id")}
    texts = [i for i in range(len(original) - 1, -1, -1) if _answer_text(original[i])][:ANSWERS]
    newest = next((i for i in range(len(kept) - 1, -1, -1) if typed(kept[i])), -1)

    def gone(begin: int | None, stop: int | None) -> list[Any]:
        if begin is None or stop is None or stop <= begin + 1:
            return []
        done = work(original[begin + 1 : stop])
        answers = [_answer_text(original[i]) for i in range(begin + 1, stop) if i in texts]
        return [_notice(done, answers)] if done or answers else []

    runs: list[tuple[Message, int | None, int | None, bool]] = []
    at = 0
    while at < len(kept):
        first = at
        while typed(kept[first]) and at + 1 < len(kept) and typed(kept[at + 1]):
            at += 1
        message, places = kept[first], [where.get(m.get("id", "")) for m in kept[first : at + 1]]
        if at > first:
            held: list[Any] = []
            for i in range(first, at + 1):
                held += gone(places[i - first - 1], places[i - first]) if i > first else []
                held += _blocks(kept[i], i == newest)
            spans = sum(span_of(m) for m in kept[first : at + 1])
            message = {**message, "content": held, "metadata": {**(message.get("metadata") or {}), "userRunSpan": spans}}
        elif typed(message) and not isinstance(message["content"], str):
            message = {**message, "content": _blocks(message, first == newest)}
        runs.append((message, places[0], places[-1], typed(kept[first])))
        at += 1
    told: list[Message] = []
    for number, (message, _, last, prompt) in enumerate(runs):
        behind = runs[number + 1][1] if number + 1 < len(runs) else len(original)
        extra = gone(last, behind) if prompt else []
        told.append({**message, "content": [*_blocks(message, True), *extra]} if extra else message)
    return told


def _marked(told: Sequence[Message], original: Sequence[Message], mode: str) -> list[Message]:
    """The messages with what a later compaction has to know of this one."""
    before = (told[0].get("metadata") or {}) if kind(told[0]) == "compaction" else {}
    usages = [before["usageBefore"]] if before.get("usageBefore") else []
    usages += [m["metrics"] for m in original if m.get("metrics")]
    mark: dict[str, Any] = {
        "kind": "compaction",
        "reason": REASONS.get(mode, "auto_compaction"),
        "displayRole": "system",
        "messagesRemoved": before.get("messagesRemoved", 0) + len(original) - len(told),
    }
    if usages:
        mark["usageBefore"] = {name: _number(sum(u.get(name) or 0 for u in usages)) for name in USAGE}
    done: list[Message] = []
    for i, message in enumerate(told):
        bare = {name: value for name, value in message.items() if name != "metrics"}
        meta = message.get("metadata") or {}
        if i == 0 and typed(message):
            bare["metadata"] = {**meta, **mark, "userRunSpan": span_of(message)}
        elif not typed(message) and not _preserved(message):
            bare["metadata"] = {**meta, "compaction": "preserved"}
        done.append(bare)
    return done


def _number(value: float) -> float:
    return int(value) if float(value).is_integer() else value
