"""What the tool did to the window, as the log shows it: compaction, microcompaction, messages that were never sent.

Each function gives a look: called with the finished session, it yields the edits that were observed. Holds no parsing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from turnscope.importers.claude_code.lines import Entry, as_strings
from turnscope.session.builder import Draft, Observer, observe_drop
from turnscope.session.model import Edit, ObservedEdit, Part, Session, Span

CLEARED = "[Old tool result content cleared]"  # what microcompaction leaves of a tool result


def _find_first_request(session: Session, at: int) -> int:
    """Number of the first request that was sent when block `at` existed; past the end where none was."""
    return bisect_right(session.requests, at, key=lambda request: request.cut)


def _list_addresses(session: Session, drafts: Iterable[Draft]) -> set[int]:
    """Blocks of some messages, each tool call with its result."""
    found = {at for draft in drafts for at in range(draft.start, draft.stop)}
    return found | {session.blocks[at].pair for at in found if session.blocks[at].pair >= 0}


def observe_compaction(boundary: Entry | None, kept: Sequence[Draft]) -> Observer:
    """Everything before the summary left the window, but for messages that were preserved.

    Args:
        boundary: The line about the compaction; None where the log has none.
        kept: The messages that were preserved, and the summary as the last.
    """
    meta = boundary.get_object("compactMetadata") if boundary else {}
    facts = {key: meta[key] for key in ("trigger", "preTokens", "postTokens") if key in meta}

    def look(session: Session) -> Iterator[ObservedEdit]:
        summary = kept[-1].start
        request = _find_first_request(session, summary)
        if request < len(session.requests):
            because = f"compacted into a summary{_describe_trigger(meta)}"
            start = 0
            for at in sorted({*_list_addresses(session, kept[:-1]), summary}):
                if start < min(at, summary):
                    yield observe_drop(request, start, min(at, summary), because, "condense", summary=summary, **facts)
                start = at + 1

    return look


def _describe_trigger(meta: dict[str, Any]) -> str:
    """Why a compaction was made, as far as its line says; "" where it has no such line."""
    if meta.get("trigger") == "manual":
        return " (requested by the user)"
    size = meta.get("preTokens")
    counted = f", at {size:,} tokens by its own count" if isinstance(size, int) and size > 0 else ""
    return f" (the tool did it by itself{counted})" if meta.get("trigger") == "auto" else ""


def observe_microcompaction(
    entry: Entry, after: Draft | None, draft: Callable[[str], Draft | None], kept: Sequence[Draft] | None
) -> Observer:
    """The named tool results were cleared for later requests, their calls stay; named attachments left altogether.

    Args:
        entry: The line about it.
        after: The message before that line; None where it is the first.
        draft: Gives the message of a line by its uuid; None where it has none on this path.
        kept: As in `observe_compaction`, of the newest compaction; None before the first one.
    """
    meta = entry.get_object("microcompactMetadata")
    ids = set(as_strings(meta.get("compactedToolIds")))
    reminders = [found for uuid in as_strings(meta.get("clearedAttachmentUUIDs")) if (found := draft(uuid))]
    facts: dict[str, Any] = {key: meta[key] for key in ("trigger", "preTokens", "tokensSaved") if key in meta}

    def look(session: Session) -> Iterator[ObservedEdit]:
        request = _find_first_request(session, after.stop - 1) if after else 0
        if request >= len(session.requests):
            return
        since = kept[-1].start if kept else 0
        there = _list_addresses(session, kept) if kept else set()
        unknown = set(ids)
        for block in session.blocks[: session.requests[request].cut]:
            named = block.kind == "tool_result" and isinstance(block.raw, dict) and block.raw.get("tool_use_id")
            if not isinstance(named, str) or named not in ids:
                continue
            unknown.discard(named)
            if block.at >= since or block.at in there:
                raw = {**block.raw, "content": CLEARED}
                body = (Part("user", "tool_result", CLEARED, raw),)
                because = "microcompacted: an old tool result was cleared, its call stays"
                yield ObservedEdit(request, Edit("clear", because, Span(block.at, block.at + 1), body, facts=facts))
        for left in reminders:
            if left.start >= since:
                yield observe_drop(request, left.start, left.stop, "microcompacted: an old attachment was left out", **facts)
        if unknown:
            yield ObservedEdit(request, Edit("clear", _describe_unknown(len(unknown), len(ids), facts), facts=facts))

    return look


def _describe_unknown(unknown: int, named: int, facts: dict[str, Any]) -> str:
    """What a microcompaction did to results that stand before the file begins."""
    many = f"{unknown} of {named} tool results" if unknown < named else f"{named} tool result{'s' if named > 1 else ''}"
    saved = facts.get("tokensSaved")
    size = f"; it saved {saved:,} tokens by the tool's own count" if isinstance(saved, int) and saved > 0 else ""
    return f"microcompacted: {many} that it cleared are not in this file{size}"


def observe_unsent(draft: Draft) -> Observer:
    def look(session: Session) -> Iterator[ObservedEdit]:
        request = _find_first_request(session, draft.start)
        if request < len(session.requests):
            yield observe_drop(request, draft.start, draft.stop, "the tool's own message, never sent")

    return look


def observe_superseded(role: str, old: Draft, new: Draft) -> Observer:
    """The system prompt or the tools gave way to another version of them.

    Args:
        role: `system` or `tools`, for the reason.
        old: The version that was in force.
        new: The version that replaces it.
    """

    def look(session: Session) -> Iterator[ObservedEdit]:
        request = _find_first_request(session, new.start)
        if request < len(session.requests):
            yield observe_drop(request, old.start, old.stop, f"{role}: superseded by another version of it", superseded=True)

    return look
