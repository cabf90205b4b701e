"""Makes placeholders for messages and blocks that a recorded body holds in another form, and names the change.

Pure functions over split messages. `alignment` says where the placeholders go.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from msgspec import structs

from turnscope.reading.recorded_body import RecordedMessage
from turnscope.session.builder import make_part
from turnscope.session.model import JSON, Action, Part

LEADING_CHARACTERS = 32  # beginning of a text by which its altered form is recognised

Bodies = tuple[Part, ...] | None


class Label(NamedTuple):
    """What an importer knows of a message besides its content: origin, and the kind of each part ("" = as its type says)."""

    origin: str = ""
    kinds: Sequence[str] = ()


def make_placeholder(messages: Sequence[RecordedMessage], label: Callable[[RecordedMessage], Label]) -> tuple[Part, ...]:
    """Make a placeholder of whole messages.

    Args:
        messages: The messages.
        label: Says what a message is.
    """
    parts: list[Part] = []
    for message in messages:
        kinds = label(message).kinds
        for i, raw in enumerate(message.parts or [None]):
            part = make_part(message.role, raw, "before" if i else "own", fence=not i)
            parts.append(structs.replace(part, kind=kinds[i]) if i < len(kinds) and kinds[i] else part)
    return tuple(parts)


def align_blocks(original: RecordedMessage, message: RecordedMessage) -> list[Bodies]:
    """Align the blocks of a message with its altered form.

    Args:
        original: The message.
        message: Its altered form.

    Returns:
        For each block of `original` what stands for it: itself (None), nothing, or other blocks.
    """
    blocks: list[list[JSON]] = [[] for _ in original.parts]
    itself = object()
    ahead: list[JSON] = []
    matcher = SequenceMatcher(None, original.keys, message.keys, autojunk=False)
    for tag, i, j, x, y in matcher.get_opcodes():
        if tag == "equal":
            for k in range(i, j):
                blocks[k].append(itself)
        elif tag == "insert" and not i:
            ahead = message.parts[x:y]
        elif tag != "delete":
            last = max(i, j - 1) if tag == "replace" else i - 1
            for k in range(x, y):
                blocks[min(i + k - x, last) if tag == "replace" else last].append(message.parts[k])
    blocks[0][:0] = ahead
    verbatim = any(shown == [itself] for shown in blocks)
    bodies: list[Bodies] = []
    begun = False
    for shown in blocks:
        if shown == [itself]:
            bodies.append(None)
        else:
            parts: list[Part] = []
            for raw in shown:
                place: Any = "before" if begun or parts else "after" if verbatim else "own"
                fence = place == "own"
                ref = raw is itself
                parts.append(
                    Part(message.role, ref=0, place=place, fence=fence) if ref else make_part(message.role, raw, place, fence)
                )
            bodies.append(tuple(parts))
        begun = begun or bool(shown)
    return bodies


def describe_change(raw: JSON, body: Bodies) -> tuple[Action, str]:
    """Describe the change of one block: its action, and a sentence about it.

    Args:
        raw: The block before.
        body: What stands for it now.
    """
    if body is None:
        return "restore", "in the request again, unchanged"
    kind = make_part("user", raw).kind
    if not body:
        return ("strip" if "thinking" in kind else "drop"), f"this {kind.replace('_', ' ')} was left out of its message"
    if any(part.ref is not None for part in body):
        return "insert", "its message holds more than before"
    old, new = make_part("user", raw).text, "\n".join(part.text for part in body)
    if len(new) < len(old) and new[:LEADING_CHARACTERS] == old[:LEADING_CHARACTERS]:
        return "truncate", f"shortened from {len(old):,} to {len(new):,} characters"
    if kind == "tool_result" and len(new) < len(old):
        return "clear", f"a tool result was replaced: {len(old):,} characters became {len(new):,}"
    return ("condense", f"{len(old):,} characters became {len(new):,}") if len(new) < len(old) else ("repair", "was rewritten")


def list_marks(message: RecordedMessage) -> Iterator[Hashable]:
    """List what a message is recognised by in another form: digests, ids of calls, beginnings of texts."""
    for raw, key in zip(message.parts, message.keys, strict=True):
        yield message.role, key
        if isinstance(raw, dict):
            for name in ("tool_use_id", "id"):
                if isinstance(raw.get(name), str):
                    yield message.role, name, raw[name]
        text = raw if isinstance(raw, str) else raw.get("text") if isinstance(raw, dict) else None
        if isinstance(text, str) and len(text) >= LEADING_CHARACTERS:
            yield message.role, text[:LEADING_CHARACTERS]
