"""LangChain's `trim_messages`: its approximate counter, its splitters, and its search for the longest part that fits.

Pure functions, ported from langchain_core/messages/utils.py 1.7.2 (`count_tokens_approximately`, `_first_max_tokens`,
`_last_max_tokens`). The rule `keep_longest_end` acts on their results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnscope.counting.ledger import Ledger
from turnscope.envelope.rule import Ctx
from turnscope.ports.rows import Row, build_content, build_raws, get_rows, list_text_blocks, memoize_by_ledger, read_rows
from turnscope.session.content import extract_text
from turnscope.session.index import Index
from turnscope.session.model import JSON, Part, Session

TYPES = {"user": "human", "assistant": "ai", "system": "system", "tool": "tool"}
EXTRA = 3  # tokens of a message in addition to its text (count_tokens_approximately)
CHARS = 4  # characters per token
IMAGE = 85  # tokens of an image of any size


def split_lines(text: str) -> list[str]:
    """Split a text after each line break: the default splitter."""
    pieces = text.split("\n")
    return [piece + "\n" for piece in pieces[:-1]] + pieces[-1:]


def split_words(text: str) -> list[str]:
    """Split a text into words, each followed by a space."""
    return [word + " " for word in text.split(" ")]


SPLITTERS: Mapping[str, Callable[[str], list[str]]] = {"lines": split_lines, "words": split_words, "characters": list}


def find_longest(count: int, size: Callable[[int], int], room: int) -> int:
    """Return the largest number of items that fits, by the original's bisection.

    It takes as many steps as `count` has bits. If the size does not grow with the number, this is what the original finds,
    not the best.

    Args:
        count: How many items there are.
        size: Returns the size of the first n items.
        room: The largest size.
    """
    left, right = 0, count
    for _ in range(count.bit_length()):
        if left >= right:
            break
        middle = (left + right + 1) // 2
        if size(middle) <= room:
            left = middle
        else:
            right = middle - 1
    return left


def count_approximately(session: Session, row: Row, content: str | Sequence[JSON] | None = None) -> int:
    """Return the tokens of one message, as `count_tokens_approximately` does.

    Args:
        session: The session.
        row: The message.
        content: Another content for it; None = its own.
    """
    content = build_content_with_calls(session, row) if content is None else content
    tokens, chars = 0, len(row.role)
    if isinstance(content, str):
        chars += len(content)
        calls = [call for block in session.blocks[row.start : row.stop] if (call := _build_call(block.raw))]
        chars += len(repr(calls)) if calls else 0
    else:
        for part in content:
            kind = part.get("type") if isinstance(part, Mapping) else ""
            if kind in ("image", "image_url"):
                tokens += IMAGE
            elif isinstance(part, str):
                chars += len(part)
            else:
                chars += len(part.get("text", "")) if kind == "text" else len(repr(part))
    block = session.blocks[row.start]
    if row.role == "tool" and isinstance(block.raw, Mapping):
        chars += len(str(block.raw.get("tool_use_id", "")))
    name = session.messages[block.message].extra.get("name")
    chars += len(name) if isinstance(name, str) else 0
    return tokens + math.ceil(chars / CHARS) + EXTRA


def build_content_with_calls(session: Session, row: Row) -> str | list[JSON]:
    """Return the content of a message: a string, or a list of parts that includes its calls, as for Anthropic's models.

    Args:
        session: The session.
        row: The message.
    """
    content = build_content(session, row)
    if isinstance(content, str) or row.role == "tool":
        return content or ""
    return build_raws(session.blocks[row.start : row.stop])


def _build_call(raw: JSON) -> dict[str, Any] | None:
    """Return a call as LangChain writes it if the content of the message is a string."""
    if not isinstance(raw, Mapping) or raw.get("type") != "tool_use":
        return None
    return {"name": raw.get("name"), "args": raw.get("input"), "id": raw.get("id"), "type": "tool_call"}


@memoize_by_ledger
def sum_approximately(session: Session, _index: Index, _own: Ledger) -> list[int]:
    """Return `sums[i]`: tokens of the first `i` messages by the approximate counter."""
    return get_sums(session)


def get_sums(session: Session) -> list[int]:
    """Return running sums of the approximate counter over a session's messages."""
    sums = [0]
    for row in read_rows(session).rows:
        sums.append(sums[-1] + count_approximately(session, row))
    return sums


@dataclass(frozen=True, slots=True)
class Lists:
    """Counts lists of rows, by the approximate counter or by the policy's own.

    The policy's own counter adds `primer` to each list, and `frame` to each message that the ledger does not frame.
    """

    ctx: Ctx
    approximate: bool
    primer: int
    frame: int

    def count(self, a: int, b: int) -> int:
        """Return the tokens of the list of rows `a:b`.

        Args:
            a: The number of the first row.
            b: The number after the last one.
        """
        if self.approximate:
            sums = sum_approximately(self.ctx)
            return sums[b] - sums[a]
        if a == b:
            return self.primer
        found, own = get_rows(self.ctx), self.ctx.own
        start, stop = found.starts[a], found.rows[b - 1].stop
        tools = own.sums[1][stop] - own.sums[1][start]
        return self.primer + own.count_tokens(start, stop) - tools + self.frame * (found.unframed[b] - found.unframed[a])

    def size(self, number: int, content: str | Sequence[JSON]) -> int:
        """Return the tokens of one row with `content` as its content, without the primer.

        Args:
            number: The number of the row.
            content: A text, or some of the row's parts in their order.
        """
        session, row, own = self.ctx.session, get_rows(self.ctx).rows[number], self.ctx.own
        if self.approximate:
            return count_approximately(session, row, content)
        blocks = session.blocks[row.start : row.stop]
        whole = self.count(number, number + 1) - self.primer
        if isinstance(content, str):
            bare = any(isinstance(b.raw, str) for b in blocks)
            changed = list_text_blocks(session, row) if bare else [b for b in blocks if b.kind != "tool_use"]
            return whole - own.count_content(changed) + own.count_parts((Part(blocks[0].role, "text", content),))
        if row.role == "tool":
            return (
                whole
                - own.count_content(blocks)
                + own.count_parts(Part(blocks[0].role, "text", extract_text(part)) for part in content)
            )
        some = blocks[-len(content) :] if content[-1] is blocks[-1].raw else blocks[: len(content)]
        return whole - own.count_content(blocks) + own.count_content(some)
