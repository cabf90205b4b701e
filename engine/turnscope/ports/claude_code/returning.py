"""What newer versions of Claude Code send again behind a compaction: files, listings and reminders, in which order.

Derived from requests that Claude Code 2.1.330 sent to a recording server. The files are those that were read or written since
the last compaction, with those that came back then, by the time at which they were modified, latest first. A log tells that
time of files that the session wrote; of files that it only read the order of reading stands in, and they come after.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import NamedTuple

from turnscope.envelope.conversation import memoize
from turnscope.envelope.file_touches import Touch, iter_touches
from turnscope.envelope.rule import Ctx
from turnscope.session.index import Index, count_before
from turnscope.session.model import Part, Session

WRITES = ("Write", "Edit", "MultiEdit", "NotebookEdit")
LISTINGS = ("deferred_tools", "agents", "skills", "mcp_instructions", "reminder")  # behind the files, in this order
COUNTER = "<total_tokens>"  # in the reminder of tokens left, which is sent with each result
DATED = ("# gitStatus", "Today's date")  # in the reminders that stand with the memory, before the summary


class Returning(NamedTuple):
    """A file that comes back, with its text as far as the conversation tells it."""

    path: str
    text: str


def list_files(ctx: Ctx, since: int, before: Collection[str], kept: int, most: int) -> list[Returning]:
    """Return the files that come back, in the order in which they do.

    Args:
        ctx: What the rule may read.
        since: Address behind the last compaction; what was read before it is forgotten, but for `before`.
        before: The files that came back then.
        kept: Where the round begins that stays. A file that is read in it does not come back; one that is written does.
        most: How many files, at most.
    """
    touches, newest = _list_touches(ctx), dict[str, tuple[int, int, str | None]]()
    for touch in touches[: bisect_left(touches, ctx.request.cut, key=lambda one: one.at)]:
        wrote, _, text = newest.get(touch.path, (-1, -1, None))
        newest[touch.path] = (touch.at if touch.wrote else wrote, touch.at, text if touch.text is None else touch.text)
    shown = {touch.path for touch in touches if kept <= touch.at < ctx.request.cut and not touch.wrote}
    known = [path for path, (_, at, _) in newest.items() if (at >= since or path in before) and path not in shown]
    known.sort(key=lambda path: newest[path][:2], reverse=True)
    return [Returning(path, newest[path][2] or "") for path in known[:most]]


def number_lines(text: str) -> str:
    """Return a text as Read shows a file: each line behind its number."""
    return "\n".join(f"{number}\t{line}" for number, line in enumerate(text.split("\n"), 1))


def list_context(ctx: Ctx, stop: int) -> tuple[list[Part], list[Part]]:
    """Return what the first request carried beside its prompt and is sent again: before the summary, and behind the files.

    Args:
        ctx: What the rule may read.
        stop: Where the summarised conversation ends; nothing behind it is looked at.
    """
    blocks, front, behind = ctx.session.blocks, list[Part](), list[Part]()
    first = min(ctx.session.requests[0].cut, stop) if ctx.session.requests else stop
    starts = ctx.index.messages[: count_before(ctx.index.messages, first)]
    for start in starts:
        message = ctx.session.messages[blocks[start].message]
        for block in blocks[start : min(message.stop, first)]:
            part = Part(block.role, block.kind, block.text)
            if block.kind == "memory" or (block.kind == "reminder" and any(mark in block.text for mark in DATED)):
                front.append(part)
            elif block.kind in LISTINGS and COUNTER not in block.text:
                behind.append(part)
    return front, sorted(behind, key=lambda part: LISTINGS.index(part.kind))


@memoize
def _list_touches(session: Session, index: Index) -> Sequence[Touch]:
    """All reads and writes of files, in order."""
    return tuple(iter_touches(session, index, ("Read",), WRITES))
