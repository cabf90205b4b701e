"""A session as libraries for chat completions see it: a list of system, user, assistant and tool messages.

In Anthropic's form, tool results are parts of user messages; here each is a row of its own, and tool definitions are none.
This module reads rows from a session and replaces their texts. It decides nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from turnscope.counting.ledger import Ledger
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx
from turnscope.session.index import Index
from turnscope.session.model import JSON, Action, Block, Bucket, Edit, Part, Session, Span

T = TypeVar("T")
_REMEMBERED = 4  # ledgers of one replay whose readings stay in memory


class Row(NamedTuple):
    """One message of a chat completion: the blocks `start:stop`. `framed`: whether a ledger counts a message frame for it."""

    start: int
    stop: int
    role: str  # system | user | assistant | tool
    framed: bool


class Rows(NamedTuple):
    """All rows of a session.

    `unframed[i]`: how many of the first `i` have no frame in a ledger; `systems`: numbers of system rows.
    """

    rows: tuple[Row, ...]
    starts: tuple[int, ...]
    unframed: tuple[int, ...]
    systems: tuple[int, ...]


def memoize_by_ledger(read: Callable[[Session, Index, Ledger], T]) -> Callable[[Ctx], T]:
    """Make a reading of a whole session and ledger once. A request then looks up the part below its cut.

    It is held by the index of its replay, and goes with it.
    """

    def recall(ctx: Ctx) -> T:
        known: dict[int, tuple[Ledger, T]] = ctx.index.remembered.setdefault(read, {})  # by id(), and the ledger keeps its id
        found = known.get(id(ctx.own))
        if found is None:
            found = (ctx.own, read(ctx.session, ctx.index, ctx.own))
            while len(known) >= _REMEMBERED:
                known.pop(next(iter(known), 0), None)
            known[id(ctx.own)] = found
        return found[1]

    return recall


def read_rows(session: Session) -> Rows:
    """Return the rows of a session, in order."""
    rows: list[Row] = []
    for message in session.messages:
        if message.start == message.stop or session.blocks[message.start].bucket is Bucket.TOOLS:
            continue
        if message.role != "user":
            rows.append(Row(message.start, message.stop, message.role, message.role != "system"))
            continue
        start = message.start
        for at in range(message.start, message.stop):
            if session.blocks[at].bucket is Bucket.TOOL_RESULTS:
                if start < at:
                    rows.append(Row(start, at, "user", start == message.start))
                rows.append(Row(at, at + 1, "tool", at == message.start))
                start = at + 1
        if start < message.stop:
            rows.append(Row(start, message.stop, "user", start == message.start))
    unframed = [0]
    for row in rows:
        unframed.append(unframed[-1] + (not row.framed))
    systems = tuple(i for i, row in enumerate(rows) if row.role == "system")
    return Rows(tuple(rows), tuple(row.start for row in rows), tuple(unframed), systems)


@memoize_by_ledger
def _get_rows(session: Session, _index: Index, _own: Ledger) -> Rows:
    return read_rows(session)


def get_rows(ctx: Ctx) -> Rows:
    """Return the rows of the session at hand."""
    return _get_rows(ctx)


def count_row_tokens(own: Ledger, row: Row, frame: int) -> int:
    """Return the tokens of one row.

    Args:
        own: The policy's ledger.
        row: The row.
        frame: Tokens of a message's frame, if the ledger has not counted it.
    """
    return own.count_tokens(row.start, row.stop) + (0 if row.framed else frame)


def build_content(session: Session, row: Row) -> str | list[JSON] | None:
    """Return the `content` of a row: a string, a list of parts without calls, or None if there is neither.

    Args:
        session: The session.
        row: The row.
    """
    blocks = session.blocks[row.start : row.stop]
    if row.role == "tool":
        content = blocks[0].raw.get("content") if isinstance(blocks[0].raw, Mapping) else None
        return content if isinstance(content, (str, list)) else None
    for block in blocks:
        if isinstance(block.raw, str):
            return block.raw
    return build_raws(block for block in blocks if block.kind != "tool_use") or None


def build_raws(blocks: Iterable[Block]) -> list[JSON]:
    """Return the content of blocks as it was stored: a text that was split at its thinking is one again."""
    raws: list[JSON] = []
    thought = False
    for block in blocks:
        raw, in_tags = block.raw, block.in_tags
        if (thought or in_tags) and raws and _get_type(raw) == _get_type(raws[-1]) == "text":
            raws[-1] = {**raws[-1], **raw, "text": f"{raws[-1]['text']}{raw['text']}"}
        elif raw is not None:
            raws.append(raw)
        thought = in_tags
    return raws


def list_text_blocks(session: Session, row: Row) -> list[Block]:
    """Return the blocks that hold the text of a row.

    Args:
        session: The session.
        row: The row.
    """
    blocks = session.blocks[row.start : row.stop]
    return [b for b in blocks if row.role == "tool" or isinstance(b.raw, str) or _get_type(b.raw) == "text"]


def _get_type(raw: JSON) -> JSON:
    return raw.get("type") if isinstance(raw, Mapping) else None


def replace_text(
    session: Session, row: Row, text: str, action: Action, because: str, facts: Mapping[str, JSON]
) -> Iterator[Edit]:
    """Return the edits that replace the content of a row by a text. Its calls and its thinking stay.

    Args:
        session: The session.
        row: The row.
        text: The text.
        action: The action of the edits.
        because: The reason of the edits.
        facts: Facts about them.
    """
    blocks = list_text_blocks(session, row)
    first = blocks[0] if blocks else session.blocks[row.start]
    fence = session.messages[first.message].fence and row.stop - row.start == 1
    if row.role == "tool" and isinstance(first.raw, Mapping):
        part = Part(first.role, "tool_result", text, {**first.raw, "content": text})
    elif isinstance(first.raw, Mapping):
        part = Part(first.role, "text", text, {"type": "text", "text": text}, fence=fence)
    else:
        part = Part(first.role, "text", text, fence=fence)
    if blocks or first.raw is None:
        yield Edit(action, because, Span(first.at, first.at + 1), (part,), facts=facts)
        for block in blocks[1:]:
            yield Edit(action, "its text stands in the block before it", Span(block.at, block.at + 1), facts=facts)
    else:
        yield Edit(action, because, Span(row.start, row.start), (part,), slot="text", facts=facts)


def is_intact(envelope: Envelope, row: Row) -> bool:
    """Return whether every block of a row is verbatim: no earlier rule replaced any.

    Args:
        envelope: The envelope.
        row: The row.
    """
    at = row.start
    while at < row.stop:
        piece = envelope.find_piece(at)
        if piece.body is not None:
            return False
        at = piece.stop
    return True


def iter_droppable(ctx: Ctx, envelope: Envelope, start: int, stop: int) -> Iterator[Span]:
    """Yield the spans in `[start, stop)` that are still sent, without tool definitions. No span cuts a placeholder.

    Args:
        ctx: The context of the request.
        envelope: The envelope.
        start: The first block.
        stop: The block after the last one.
    """
    if start < stop:
        first, last = envelope.find_piece(start), envelope.find_piece(stop - 1)
        start = first.stop if first.body and first.start < start else start
        stop = last.start if last.body and last.stop > stop else stop
    static = ctx.index.static
    for at in static[bisect_left(static, start) : bisect_left(static, stop)]:
        if ctx.session.blocks[at].bucket is Bucket.TOOLS:
            yield from _keep_present(envelope, start, at)
            start = at + 1
    yield from _keep_present(envelope, start, stop)


def _keep_present(envelope: Envelope, start: int, stop: int) -> Iterator[Span]:
    if start < stop:
        piece = envelope.find_piece(start)
        if piece.body != () or piece.stop < stop:
            yield Span(start, stop)
