"""Inspect's compaction strategies: what each makes of a list of messages.

Pure functions, ported from `inspect_ai/model/_trim.py` and `inspect_ai/model/_compaction/{edit,trim,summary,memory}.py`
(PyPI inspect-ai 0.3.285). Messages are Inspect's: `role`, `content` (text or a list of blocks), and optionally `source`,
`metadata`, `tool_calls` (`id`, `function`, `arguments`), `tool_call_id`. The input is never changed; a changed copy has no
`id`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Message = Mapping[str, Any]
Summarise = Callable[[list[Message]], str]

REMOVED = "(Tool result removed)"
SAVED = "(content saved to memory)"
CALL_REMOVED = "[Tool call: {} (parameters and results removed from history)]"
SEARCH, MEMORY = "tool_search", "memory"  # the search for tools is never cleared; memory calls lose what they saved
SAVING = ("file_text", "insert_text", "new_str")
# Our wording, at the lengths of the original (212 and 63 characters), because their tokens are counted.
BEFORE = (
    "[SUMMARY OF WHAT WENT BEFORE]\n\n"
    "What follows sums up the work that was done here on this task until now. It was written when the conversation was "
    "compacted, takes the place of what was said, and nobody typed it:\n\n"
)
AFTER = "\n\nGo on with this task from the point where that summary ended."
_BOUNDARY = re.compile(r"</analysis>\s*(?=<summary>)")


@dataclass(frozen=True, slots=True)
class Parts:
    """A conversation as Inspect sees it: system messages, the input, and the messages since."""

    system: tuple[Message, ...]
    input: tuple[Message, ...]
    rest: tuple[Message, ...]

    def __iter__(self) -> Any:
        return iter((*self.system, *self.input, *self.rest))


def is_summary(message: Message) -> bool:
    """Return whether a compaction made this message."""
    return "summary" in (message.get("metadata") or {})


def split_parts(messages: Sequence[Message]) -> Parts:
    """Split messages into the three parts. If none is marked as input, everything up to the first user message is the input."""
    system = tuple(m for m in messages if m["role"] == "system")
    rest = [m for m in messages if m["role"] != "system"]
    inputs = [m for m in rest if m.get("source") == "input" and not is_summary(m)]
    if inputs:
        return Parts(system, tuple(inputs), tuple(m for m in rest if is_summary(m) or m.get("source") != "input"))
    stop = 0
    while stop < len(rest) and not is_summary(rest[stop]):
        stop += 1
        if rest[stop - 1]["role"] == "user":
            break
    return Parts(system, tuple(rest[:stop]), tuple(rest[stop:]))


def count_dropped(count: int, preserve: float) -> int:
    """Return how many messages are dropped.

    Args:
        count: How many messages there are.
        preserve: The share that stays, between 0 and 1.

    Raises:
        ValueError: `preserve` is not between 0 and 1.
    """
    if not 0 <= preserve <= 1:
        raise ValueError("preserve must be between 0 and 1")
    return int(count * (1 - preserve))


def trim(messages: Sequence[Message], preserve: float = 0.7) -> list[Message]:
    """Keep the input and the newest share of the rest. No result stays without its call, and no call without its result.

    Args:
        messages: The messages, oldest first.
        preserve: The share of the messages after the input that stays, between 0 and 1.
    """
    parts = split_parts(messages)
    kept: list[Message] = []
    called: set[str] = set()
    for message in parts.rest[count_dropped(len(parts.rest), preserve) :]:
        if message["role"] == "assistant":
            called = {call["id"] for call in message.get("tool_calls") or ()}
        elif message["role"] == "user":
            called = set()
        elif message.get("tool_call_id") not in called:
            continue
        kept.append(message)
    answered = {m["tool_call_id"] for m in kept if m["role"] == "tool"}
    kept = [_replace_calls(m, [c for c in m.get("tool_calls") or () if c["id"] in answered]) for m in kept]
    if kept and kept[-1]["role"] == "assistant":
        kept.pop()
    return [_remove_citations(m) for m in (*parts.system, *parts.input, *kept)]


def clear_old(
    messages: Sequence[Message],
    thinking: int | None = 1,
    uses: int = 3,
    inputs: bool = True,
    exclude: Sequence[str] = (),
    memory: bool = True,
) -> list[Message]:
    """Remove old thinking and old results.

    Args:
        messages: The messages.
        thinking: How many of the newest answers keep their thinking; None = all.
        uses: How many of the newest tool uses keep their results.
        inputs: Keep the old calls, with a fixed text as result; else drop calls and results.
        exclude: Tools that are never cleared.
        memory: Whether memory calls lose what they saved.
    """
    done = list(messages)
    answers = [i for i, m in enumerate(done) if m["role"] == "assistant"]
    for i in answers[: max(0, len(answers) - thinking)] if thinking is not None else ():
        done[i] = strip_thinking(done[i])
    results: dict[str, list[int]] = {}
    for i, m in enumerate(done):
        if m["role"] == "tool":
            results.setdefault(m["tool_call_id"], []).append(i)
    found: list[tuple[int, Mapping[str, Any], int]] = []
    for i in answers:
        for call in done[i].get("tool_calls") or ():
            at = next((at for at in results.get(call["id"], ()) if at > i), None)
            if call["function"] != SEARCH and call["function"] not in exclude and at is not None:
                found.append((i, call, at))
    for i, call, at in reversed(found[: len(found) - uses] if len(found) > uses else []):
        if inputs:
            done[at] = _copy(done[at], content=REMOVED)
        else:
            del done[at]
            done[i] = _remove_call(done[i], call)
    if memory:
        done = [strip_saved(m) for m in done]
    while done and done[-1]["role"] == "assistant":
        done.pop()
    return [_remove_citations(m) for m in done]


def strip_thinking(message: Message) -> Message:
    """Remove the reasoning of an answer, except what its provider needs to find a call again. A list makes a new message."""
    content = message["content"]
    if isinstance(content, str):
        return message
    kept = [c for c in content if c.get("type") != "reasoning" or "gemini_function_call_id" in (c.get("internal") or {})]
    return _copy(message, content=kept or "")


def strip_saved(message: Message) -> Message:
    """Remove from an answer's memory calls what they saved."""
    calls = message.get("tool_calls") or ()
    if not any(call["function"] == MEMORY and not call["arguments"].keys().isdisjoint(SAVING) for call in calls):
        return message
    kept = [
        {**call, "arguments": {name: SAVED if name in SAVING else value for name, value in call["arguments"].items()}}
        if call["function"] == MEMORY
        else call
        for call in calls
    ]
    return _copy(message, tool_calls=kept)


def build_summary_message(text: str) -> Message:
    """Return a summary as the user message that replaces the conversation."""
    return {"role": "user", "content": f"{BEFORE}{extract_summary(text)}{AFTER}", "metadata": {"summary": True}}


def extract_summary(reply: str) -> str:
    """Return a summariser's reply without the analysis before the summary, if it is clear where that ends."""
    start, summary = reply.find("<analysis>"), reply.find("<summary>")
    if start < 0 or 0 <= summary < start:
        return reply
    end = _BOUNDARY.search(reply, start)
    if end is None or "<summary>" in reply[start : end.start()]:
        return reply
    return (reply[:start] + reply[end.end() :]).strip() or reply


def replace_by_summary(messages: Sequence[Message], summarise: Summarise) -> tuple[list[Message], Message]:
    """Return the input and the summary that replaces the rest; and the summary, which joins the stored history too.

    Args:
        messages: The messages, oldest first.
        summarise: Gives the summary of the messages from the newest summary on.
    """
    parts = split_parts(messages)
    newest = max((i for i, m in enumerate(parts.rest) if is_summary(m)), default=0)
    summary = build_summary_message(summarise([*parts.system, *parts.input, *parts.rest[newest:]]))
    return [*parts.system, *parts.input, summary], summary


def _copy(message: Message, **changed: Any) -> Message:
    fields = {name: value for name, value in {**message, **changed}.items() if name != "id"}
    return {name: value for name, value in fields.items() if name != "tool_calls" or value}


def _replace_calls(message: Message, calls: list[Any]) -> Message:
    return message if len(calls) == len(message.get("tool_calls") or ()) else _copy(message, tool_calls=calls)


def _remove_call(message: Message, call: Mapping[str, Any]) -> Message:
    content = message["content"]
    parts = ([{"type": "text", "text": content}] if content else []) if isinstance(content, str) else list(content)
    calls = [c for c in message.get("tool_calls") or () if c["id"] != call["id"]]
    return _copy(message, content=[*parts, {"type": "text", "text": CALL_REMOVED.format(call["function"])}], tool_calls=calls)


def _remove_citations(message: Message) -> Message:
    """Remove the citations of a message: they may point into dropped results."""
    content = message["content"]
    if isinstance(content, str) or not any(c.get("citations") for c in content):
        return message
    return _copy(message, content=[{k: v for k, v in c.items() if k != "citations"} for c in content])
