"""Calls and results as a request carries them: which are sent, which belong together, and what a provider would reject.

Pure functions of an envelope, for the rules that repair what other rules cut. They yield no edits.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from turnscope.envelope.condensing import find_next_present
from turnscope.envelope.conversation import memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.envelope.rule import Ctx
from turnscope.session.index import Index, count_before, find_at_or_after, find_at_or_before
from turnscope.session.model import Bucket, Edit, Part, Session, Span

_ODD = re.compile(r"[^a-zA-Z0-9_-]")  # characters that a provider rejects in an id


def select_within(addresses: Sequence[int], spans: Sequence[Span]) -> Iterator[int]:
    """Yield those of `addresses` (in order) that are inside `spans`.

    Args:
        addresses: Addresses of blocks, in order.
        spans: Spans of blocks.
    """
    return (at for start, stop in spans for at in addresses[bisect_left(addresses, start) : bisect_left(addresses, stop)])


@memoize
def find_duplicate_ids(session: Session, index: Index) -> dict[int, str]:
    """Calls whose id is used by an earlier call or is invalid, with an id that is unique and valid.

    Args:
        session: The session.
        index: Its index.
    """
    ids: set[str] = set()
    found: dict[int, str] = {}
    for at in index.calls:
        name = str(as_mapping(session.blocks[at].raw).get("id"))
        if name in ids or is_invalid_id(name):
            found[at] = f"{_ODD.sub('_', name)}-{at}"
        ids.add(name)
    return found


def is_invalid_id(name: object) -> bool:
    """Return whether a provider rejects this id of a call."""
    return not name or bool(_ODD.search(str(name)))


@memoize
def find_invalid_inputs(session: Session, index: Index) -> tuple[int, ...]:
    """Calls whose input is no object. A provider rejects them.

    Args:
        session: The session.
        index: Its index.
    """
    return tuple(at for at in index.calls if not isinstance(as_mapping(session.blocks[at].raw).get("input"), Mapping))


def as_mapping(raw: Any) -> Mapping[str, Any]:
    """Return a raw block if it is a mapping, else {}."""
    return raw if type(raw) is dict or isinstance(raw, Mapping) else {}


def is_sent(envelope: Envelope, ctx: Ctx, at: int) -> bool:
    """Return whether a call or result is sent in any form: verbatim, changed, or by reference.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        at: Address of the block.
    """
    piece, block = envelope.find_piece(at), ctx.session.blocks[at]
    if piece.body is None:
        return True
    key = "id" if block.kind == "tool_use" else "tool_use_id"
    own = piece.stop - piece.start == 1
    for part in piece.body:
        if part.ref == at:
            return True
        if (
            part.ref is None
            and part.kind == block.kind
            and (own or as_mapping(part.raw).get(key) == as_mapping(block.raw).get(key))
        ):
            return True
    return False


def stands_alone(envelope: Envelope, ctx: Ctx, at: int) -> bool:
    """Return whether a block is sent verbatim, or its piece holds just one part of the same kind.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        at: Address of the block.
    """
    piece = envelope.find_piece(at)
    if piece.body is None:
        return True
    return piece.stop - piece.start == len(piece.body) == 1 and piece.body[0].kind == ctx.session.blocks[at].kind


def get_call_id(envelope: Envelope, ctx: Ctx, call: int) -> str:
    """Return the id with which a call is sent.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        call: Address of the call.
    """
    for part in envelope.find_piece(call).body or ():
        if part.kind == "tool_use" and part.ref is None:
            return str(as_mapping(part.raw).get("id"))
    return str(as_mapping(ctx.session.blocks[call].raw).get("id"))


def is_late(envelope: Envelope, ctx: Ctx, result: int) -> bool:
    """Return whether another answer comes between the user's message behind a call and the message with its result.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        result: Address of the result.
    """
    blocks, messages = ctx.session.blocks, ctx.session.messages
    heard = False
    for message in messages[blocks[blocks[result].pair].message + 1 : blocks[result].message]:
        if message.role not in ("user", "assistant") or envelope.find_piece(message.start).body == ():
            continue
        if heard and message.role == "assistant":
            return True
        heard = heard or message.role == "user"
    return False


def find_result(envelope: Envelope, ctx: Ctx, call: int) -> int | None:
    """Return the address of the result that is sent for a call; None where there is none.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        call: Address of the call.
    """
    result = ctx.session.blocks[call].pair
    return result if call < result < ctx.request.cut and is_sent(envelope, ctx, result) else None


def explain_stray(envelope: Envelope, ctx: Ctx, result: int) -> str:
    """Return why a result cannot be sent where it is; "" where it can.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        result: Address of the result.
    """
    call = ctx.session.blocks[result].pair
    if not is_sent(envelope, ctx, result):
        return ""
    if call < 0:
        return "the session has no call for this result"
    if not is_sent(envelope, ctx, call):
        return "the call of this result was dropped"
    first = ctx.session.blocks[call].pair
    if first != result and first < ctx.request.cut and is_sent(envelope, ctx, first):
        return "the call has a result already"
    return ""


def get_role(envelope: Envelope, ctx: Ctx, at: int) -> str:
    """Return the role of the conversation at an address; "" where no conversation is sent there.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        at: The address.
    """
    body = envelope.find_piece(at).body
    if body is None:
        return "" if ctx.session.blocks[at].bucket in (Bucket.SYSTEM, Bucket.TOOLS) else ctx.session.blocks[at].role
    return next((part.role for part in body if part.place != "system"), "")


def find_leading_answer(envelope: Envelope, ctx: Ctx) -> int | None:
    """Return the address of the answer that opens the conversation; None where a user's message or a compaction does.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
    """
    at = find_next_present(envelope, ctx, 0)
    while at < ctx.request.cut and not get_role(envelope, ctx, at):
        at = find_next_present(envelope, ctx, envelope.find_piece(at).stop)
    if at >= ctx.request.cut or get_role(envelope, ctx, at) != "assistant":
        return None
    first = get_parts(envelope, ctx, at)[1][0]
    return None if "compaction" in (ctx.session.blocks[at].kind, as_mapping(first.raw).get("type")) else at


def build_opening_notice(envelope: Envelope, ctx: Ctx, notice: str) -> Edit | None:
    """Return the edit that puts a user's `notice` in front of an answer that opens the request; None where none does.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        notice: The text of the user's message.
    """
    at = find_leading_answer(envelope, ctx)
    if at is None:
        return None
    piece, parts = get_parts(envelope, ctx, at)
    body = (Part("user", "text", notice), *parts)
    because = "the conversation would begin with an answer"
    return Edit("repair", because, Span(piece.start, piece.stop), body, facts={"block": at})


def find_previous_message(envelope: Envelope, ctx: Ctx, at: int) -> int | None:
    """Return the start of the newest message before `at` that is sent; None where there is none.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        at: The address.
    """
    found = find_at_or_before(ctx.index.messages, at - 1)
    while found is not None and not get_role(envelope, ctx, found):
        found = find_at_or_before(ctx.index.messages, envelope.find_piece(found).start - 1)
    return found


def get_parts(envelope: Envelope, ctx: Ctx, at: int) -> tuple[Piece, tuple[Part, ...]]:
    """Return the piece of a block, and the parts that show the same (a reference, where the block is verbatim).

    A piece that can be cut is narrowed to the block.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        at: Address of the block.
    """
    piece, block = envelope.find_piece(at), ctx.session.blocks[at]
    if piece.body:
        return piece, piece.body
    parts = (Part(block.role, block.kind, ref=at),) if piece.body is None else ()
    return structs.replace(piece, start=at, stop=at + 1), parts


def iter_message_starts(ctx: Ctx, spans: Sequence[Span]) -> Iterator[int]:
    """Yield the starts of the messages in `spans`, and of the first message behind each span.

    Args:
        ctx: What the rule may read.
        spans: The spans.
    """
    starts = ctx.index.messages
    for span in spans:
        yield from starts[count_before(starts, span.start) : count_before(starts, span.stop)]
        follows = find_at_or_after(starts, span.stop)
        if follows is not None and follows < ctx.request.cut:
            yield follows
