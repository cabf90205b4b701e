"""Cline's classic context manager (v3.10.0 to v3.89.2): its limits, its deleted range, and how it reads a conversation.

Pure functions over a `History`. The rule `hide_oldest_pairs` acts on their results, `reads` finds repeated file reads, and
`sending` builds the messages that are sent. Ported from `ContextManager.ts` and `context-window-utils.ts` (cline/cline
v3.89.2, e1bdeeff68), where a message number is a position in the stored history.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Struct

from turnscope.envelope.budget import FORMULAS, BudgetParams
from turnscope.session.index import Index
from turnscope.session.model import JSON, Bucket, Session

Range = tuple[int, int]
Keep = Literal["none", "lastTwo", "half", "quarter"]

UNKNOWN_WINDOW = 128_000  # context-window-utils.ts: for models without a window, and DeepSeek on an OpenAI-compatible API
NOTICE, NO_READ, READ, WRITE, MENTION = range(5)  # EditType in ContextManager.ts

# Our wording, at the lengths of the original (336, 30, 153 UTF-16 units): they decide how much rewriting saves, and with it
# whether anything is cut.
TRUNCATED = (
    "[Context note] The conversation became too long for the model's context window, so a part of its history was taken out. "
    "The task as the user first put it is still here, and so are the newest messages. Rely on these, look up again whatever "
    "you need from the part that is gone, and pay most attention to what the user wrote most recently."
)
FIRST_USER = "[The task goes on from below.]"
READ_AGAIN = (
    "[Context note] This reading of the file was taken out to save space in the context window. The newest reading of the same "
    "file stands further down below."
)
MISSING = "result missing"


class Text(Struct, frozen=True, gc=False):
    """The newest text of an edited block. `before`: the text that it replaced, if that was an edit too."""

    text: str
    updates: int = 1
    before: str | None = None
    replaced: tuple[str, ...] = ()  # for mentions: the files whose text was removed
    files: tuple[str, ...] = ()  # for mentions: all files in the text


class Entry(Struct, frozen=True, gc=False):
    """What is stored about a message: the kind of edit, and the new text by number of block."""

    type: int
    blocks: Mapping[int, Text]


class State(Struct, frozen=True, gc=False):
    """What a task carries from request to request.

    That is the deleted range, the stored edits in the order of their first time, and messages whose bare text a repair
    removed for good.
    """

    range: Range | None = None
    entries: Mapping[int, Entry] = {}
    lost: frozenset[int] = frozenset()

    @property
    def start(self) -> int:
        """The first message after the deleted range."""
        return self.range[1] + 1 if self.range else 2


@dataclass(frozen=True, slots=True)
class History:
    """The conversation as Cline stores it: messages by number, each with the addresses of its blocks."""

    session: Session
    starts: tuple[int, ...]  # of all messages of the session (see `find_starts`)
    cut: int
    lost: frozenset[int] = frozenset()
    summed: frozenset[int] = frozenset()  # messages that the user had condensed

    def __len__(self) -> int:
        return bisect_left(self.starts, self.cut)

    def get_address(self, message: int) -> int:
        """Return the address at which a message begins; for the number after the last one, the end of the request."""
        return min(self.starts[message], self.cut) if message < len(self.starts) else self.cut

    def get_role(self, message: int) -> str:
        """Return the role of a message; "" if there is no such message."""
        return self.session.blocks[self.starts[message]].role if 0 <= message < len(self) else ""

    def list_addresses(self, message: int) -> list[int]:
        """Return the addresses of a message's blocks, without system and tool blocks that became valid inside it."""
        there = self.session.blocks[self.get_address(message) : self.get_address(message + 1)]
        return [block.at for block in there if block.bucket is not Bucket.SYSTEM and block.bucket is not Bucket.TOOLS]

    def get_content(self, message: int) -> str | list[tuple[int, JSON]]:
        """Return a bare text, or the blocks of the message with their addresses."""
        if message in self.lost:
            return []
        raws = [(at, self.session.blocks[at].raw) for at in self.list_addresses(message)]
        if len(raws) == 1 and isinstance(raws[0][1], str):
            return raws[0][1]
        return [(at, {"type": "text", "text": raw} if isinstance(raw, str) else raw) for at, raw in raws if raw is not None]


def find_starts(session: Session, index: Index) -> tuple[int, ...]:
    """Return where messages begin as a provider sees them: neighbours of one role are one message unless fenced.

    Args:
        session: The session.
        index: Its index.
    """
    found: list[int] = []
    before = None
    for start in index.messages:
        message = session.messages[session.blocks[start].message]
        if before is None or before.role != message.role or before.fence or message.fence:
            found.append(start)
        before = message
    return tuple(found)


def compute_allowance(window: int, handler: str = "", model: str = "") -> tuple[int, float]:
    """Return the window in tokens that counts, and the limit inside it, not rounded (`getContextWindowInfo`).

    Args:
        window: The model's window in tokens; 0 = unknown.
        handler: The kind of the API, such as `openai-compatible`.
        model: The id of the model.
    """
    if not window or (handler == "openai-compatible" and "deepseek" in model.lower()):
        window = UNKNOWN_WINDOW
    return window, FORMULAS["cline"](BudgetParams(), window)[0]


def is_over(used: int | None, window: int, limit: float, share: float = 0.0) -> bool:
    """Return whether the previous request reached the limit.

    Args:
        used: Tokens of the previous request; None = there is none.
        window: Tokens of the window.
        limit: The limit in tokens.
        share: A share of the window, which is the limit if it is smaller; 0 = none.
    """
    threshold = min(math.floor(window * share) if share else limit, limit)
    return used is not None and used >= threshold


def compute_next_range(role: Callable[[int], str], count: int, current: Range | None, keep: Keep) -> Range:
    """Return the deleted range after one more truncation, both ends included (`getNextTruncationRange`).

    It begins after the first pair, whatever was deleted before. Its end is not checked against any token count. If the last
    message of the range is no answer, it stays; but only that one.

    Args:
        role: Returns the role of a message.
        count: How many messages there are.
        current: The deleted range so far; None = nothing is deleted.
        keep: What stays of the rest: half, quarter (as the original calls it), lastTwo or none.
    """
    start = current[1] + 1 if current else 2
    rest = count - start
    remove = {
        "none": max(rest, 0),
        "lastTwo": max(rest - 2, 0),
        "half": rest // 4 * 2,
        "quarter": rest * 3 // 8 * 2,
    }[keep]
    end = start + remove - 1
    return (2, end - 1 if role(end) not in ("", "assistant") else end)


def get_opening(history: History) -> str:
    """Return the text of the first message's first block; "" if it is no text (`applyFirstUserMessageReplacement`)."""
    content = history.get_content(0) if len(history) else ""
    first = content[0][1] if content and not isinstance(content, str) else None
    return get_block_text(first) if isinstance(first, Mapping) and first.get("type") == "text" else ""


def get_block_text(raw: Any) -> str:
    """Return the text of a text block, or the first text in a tool result's list; "" for any other block."""
    if not isinstance(raw, Mapping):
        return ""
    if raw.get("type") == "tool_result" and isinstance(raw.get("content"), list) and raw["content"]:
        raw = raw["content"][0] if isinstance(raw["content"][0], Mapping) else {}
    text = raw.get("text") if raw.get("type") == "text" else ""
    return text if isinstance(text, str) else ""


def replace_text(raw: Any, text: str) -> JSON:
    """Return the block with another text; the block itself if `get_block_text` finds none to replace.

    Args:
        raw: The block, as the Messages API has it.
        text: The new text, of a text block or of a result's first text.
    """
    if raw.get("type") == "text":
        return {**raw, "text": text}
    content = raw.get("content") if raw.get("type") == "tool_result" else None
    if isinstance(content, list) and content and isinstance(content[0], Mapping) and content[0].get("type") == "text":
        return {**raw, "content": [{**content[0], "text": text}, *content[1:]]}
    return raw


def count_units(text: str) -> int:
    """Return the length of a text in UTF-16 code units, as JavaScript counts."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
