"""LiteLLM's `trim_messages`: texts shortened from the middle, and the walk that keeps the newest messages.

Pure functions, ported from litellm/utils.py 1.106.2 (`shorten_message_to_fit_limit`, `process_messages`,
`attempt_message_addition`). The rule `shorten_middles_to_fit` acts on what they say.
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

PRIMER = 3  # every count of a list starts with it, also that of an empty list (litellm's token_counter)
LEAST = 3  # process_messages: with no more than this left, the walk ends
TINY = 10  # shorten_message_to_fit_limit: "gpt" models are not asked to shorten to this or less
MARK = ".."  # what stands between the halves
ROUNDS = 10  # MAX_TOKEN_TRIMMING_ATTEMPTS

Skipped = dict[int, dict[int, int]]
"""By room: rows that cannot be kept with that room, each with the next older one to look at."""


class Failed(Exception):
    """The original raises here, catches everything, and returns the messages it was given."""


class Stretch(NamedTuple):
    """Kept rows `start:stop`; one row with a `text` where it was shortened."""

    start: int
    stop: int
    text: str | None = None


def join_contents(contents: Iterable[str | None]) -> str:
    """All system contents as one text. Failed: one of them is no text."""
    whole = ""
    for text in contents:
        if text is None:
            raise Failed("a system message's content is not a string")
        whole += ("\n" if whole else "") + text
    return whole


def shorten(text: str, needed: int, count: Callable[[str], int], gpt: bool, total: int | None = None) -> tuple[str, int | None]:
    """`text` with its middle cut out until the list that holds it alone has at most `needed` tokens, or after ten rounds.

    `count` gives the tokens of that list; `total` is what it gives for `text`, where that is known. The second value is what
    it gives for the result, None where that was not counted. A half of no characters is taken from the end as `text[-0:]`,
    which is the whole text: very small limits make it grow.
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
    """The content of a message as one string; `join`: also of a list of parts or of none. None where it is no string."""
    held = build_content(session, row)
    if isinstance(held, str):
        return held
    return "\n".join(extract_text(block.raw) for block in list_text_blocks(session, row)) if join else None


def build_system_text(ctx: Ctx, given: str, frame: int) -> tuple[str, int]:
    """The joined system text, shortened where it alone exceeds the limit, and the tokens of a list that holds it alone."""

    def count(text: str) -> int:
        return PRIMER + frame + ctx.own.count_parts((Part("system", "system", text, place="system"),))

    total = PRIMER + frame + sum(ctx.own.count_placeholder((Part("system", "system", given, place="system"),)))
    if total <= ctx.limit:
        return given, total
    text, tokens = shorten(given, ctx.limit, count=count, gpt="gpt" in ctx.request.model, total=total)
    return text, count(text) if tokens is None else tokens


@dataclass(frozen=True, slots=True)
class Walk:
    """Numbers of the rows that a walk meets, the tokens before each, and what earlier walks found not to fit."""

    numbers: tuple[int, ...]
    prefix: list[int]
    skipped: dict[tuple[bool, str], Skipped] = field(default_factory=dict)


@memoize_by_ledger
def _memo(_session: Session, _index: Index, _own: Ledger) -> dict[tuple[int, bool], Walk]:
    return {}


def get_walk(ctx: Ctx, frame: int, systems: bool) -> Walk:
    """All rows with their tokens, or all but the system's."""
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
    """The rows that are kept, newest first, and the tokens left.

    `prefix[i]` = tokens of the first `i` rows, `there` of which exist; `room`: tokens for them. `shortened(row, room)` gives
    a text that may fit and the row's tokens with it, None where it is not to be shortened; a row that fits neither way is
    skipped, and the walk goes on with older ones. What the room was not enough for is noted in `skipped`.
    """
    kept: list[Stretch] = []
    i = there - 1
    while room > LEAST and (i := _find_next(skipped.get(room), i)) >= 0:
        top = prefix[i + 1]
        if top - prefix[i] <= room:  # as many as fit, in one step; before each of them more than LEAST must be left
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
    """The newest row up to `i` that is not known to be skipped; links are shortened on the way."""
    if not links or i not in links:
        return i
    path = []
    while i in links:
        path.append(i)
        i = links[i]
    for row in path:
        links[row] = i
    return i
