"""LiteLLM's `trim_messages`: texts lose their middle, and a walk keeps the newest messages.

Pure functions, ported from litellm/utils.py 1.106.2 (`shorten_message_to_fit_limit`, `process_messages`,
`attempt_message_addition`). The rule `shorten_middles_to_fit` acts on their results.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from turnscope.counting.ledger import Ledger
from turnscope.envelope.rule import Ctx
from turnscope.ports.rows import Row, build_content, count_row_tokens, get_rows, list_text_blocks, memoize_by_ledger
from turnscope.session.content import extract_text
from turnscope.session.index import Index
from turnscope.session.model import Part, Session

PRIMER = 3  # tokens of every list, even of an empty one (litellm's token_counter)
LEAST = 3  # process_messages: the walk ends when no more tokens than this are left
TINY = 10  # shorten_message_to_fit_limit: texts of "gpt" models are not shortened to so few tokens
MARK = ".."  # between the halves of a shortened text
ROUNDS = 10  # MAX_TOKEN_TRIMMING_ATTEMPTS

Skipped = dict[int, dict[int, int]]
"""By room: rows that cannot be kept with that room, each with the next older one to look at."""


class Failed(Exception):
    """The original raises an error here, catches it, and returns the messages unchanged."""


class Stretch(NamedTuple):
    """The rows `start:stop` that stay; or one row with a `text`, if it was shortened."""

    start: int
    stop: int
    text: str | None = None


def join_contents(contents: Iterable[str | None]) -> str:
    """Join all system contents to one text.

    Raises:
        Failed: One of them is no text.
    """
    whole = ""
    for text in contents:
        if text is None:
            raise Failed("a system message's content is not a string")
        whole += ("\n" if whole else "") + text
    return whole


def shorten(text: str, needed: int, count: Callable[[str], int], gpt: bool, total: int | None = None) -> tuple[str, int | None]:
    """Cut out the middle of a text until the list that holds it alone has at most `needed` tokens, or ten times.

    A half of no characters is taken from the end as `text[-0:]`, which is the whole text, so very small limits make it grow.

    Args:
        text: The text.
        needed: Tokens that the list may have.
        count: Returns the tokens of a list with a text.
        gpt: Whether the model is a "gpt" model.
        total: Tokens of the list with `text`; None = not counted.

    Returns:
        The text, and the tokens of its list; None = not counted.
    """
    if gpt and needed <= TINY:
        return text, total
    for _ in range(ROUNDS):
        total = count(text) if total is None else total
        if total <= needed:
            break
        half = max(0, int(len(text) * (needed / total)) - 1) // 2
        text, total = text[:half] + MARK + text[-half:], None
    return text, total


def get_text(session: Session, row: Row, join: bool) -> str | None:
    """Return the content of a message as one string; None if it is no string.

    Args:
        session: The session.
        row: The message.
        join: Also join a list of parts, or of none.
    """
    content = build_content(session, row)
    if isinstance(content, str):
        return content
    return "\n".join(extract_text(block.raw) for block in list_text_blocks(session, row)) if join else None


def build_system_text(ctx: Ctx, whole: str, frame: int) -> tuple[str, int]:
    """Return the joined system text, shortened if it alone exceeds the limit, and the tokens of a list that holds it alone.

    Args:
        ctx: The context of the request.
        whole: The system contents.
        frame: Tokens of a message's frame.
    """

    def count(text: str) -> int:
        return PRIMER + frame + ctx.own.count_parts((Part("system", "system", text, place="system"),))

    total = PRIMER + frame + sum(ctx.own.count_placeholder((Part("system", "system", whole, place="system"),)))
    if total <= ctx.limit:
        return whole, total
    text, tokens = shorten(whole, ctx.limit, count=count, gpt="gpt" in ctx.request.model, total=total)
    return text, count(text) if tokens is None else tokens


@dataclass(frozen=True, slots=True)
class Walk:
    """The rows of a walk, the tokens before each, and what earlier walks found not to fit."""

    numbers: tuple[int, ...]
    prefix: list[int]
    skipped: dict[tuple[bool, str], Skipped] = field(default_factory=dict)


@memoize_by_ledger
def _memo(_session: Session, _index: Index, _own: Ledger) -> dict[tuple[int, bool], Walk]:
    return {}


def get_walk(ctx: Ctx, frame: int, systems: bool) -> Walk:
    """Return all rows with their tokens, or all but the system's.

    Args:
        ctx: The context of the request.
        frame: Tokens of a message's frame.
        systems: Whether system messages are among the rows.
    """
    known = _memo(ctx)
    if (frame, systems) not in known:
        found = get_rows(ctx).rows
        numbers = tuple(i for i, row in enumerate(found) if systems or row.role != "system")
        prefix = [0]
        for i in numbers:
            prefix.append(prefix[-1] + count_row_tokens(ctx.own, found[i], frame))
        known[frame, systems] = Walk(numbers, prefix)
    return known[frame, systems]


def walk_rows(
    prefix: Sequence[int], there: int, room: int, shortened: Callable[[int, int], tuple[str, int] | None], skipped: Skipped
) -> tuple[list[Stretch], int]:
    """Return the rows that stay, newest first, and the tokens left.

    A row that does not fit is dropped, and older ones are tried.

    Args:
        prefix: Tokens of the first `i` rows.
        there: How many rows exist.
        room: Tokens for them.
        shortened: Returns a text that may fit, and the row's tokens with it; None = the row must not be shortened.
        skipped: Remembers which rows did not fit.
    """
    kept: list[Stretch] = []
    i = there - 1
    while room > LEAST and (i := _find_next(skipped.get(room), i)) >= 0:
        top = prefix[i + 1]
        if top - prefix[i] <= room:  # takes all that fit in one step; more than LEAST must be left before each of them
            fits = bisect_left(prefix, top - room, 0, i + 1)
            first = max(fits, bisect_right(prefix, top - room + LEAST, 0, i + 2) - 1)
            kept.append(Stretch(first, i + 1))
            room, i = room - (top - prefix[first]), first - 1
            continue
        found = shortened(i, room)
        if found and found[1] <= room:
            kept.append(Stretch(i, i + 1, found[0]))
            room -= found[1]
        else:
            skipped.setdefault(room, {})[i] = i - 1
        i -= 1
    return kept, room


def _find_next(links: dict[int, int] | None, i: int) -> int:
    """Return the newest row up to `i` that is not known to be dropped. Links are shortened on the way."""
    if not links or i not in links:
        return i
    path = []
    while i in links:
        path.append(i)
        i = links[i]
    for row in path:
        links[row] = i
    return i
