"""Calls and results as a request carries them: which stand, which answer which, and what a provider would refuse.

Pure readings of an envelope, for the rules that mend what others cut. It yields no edits.
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

_ODD = re.compile(r"[^a-zA-Z0-9_-]")  # what a provider takes in no id


def select_within(addresses: Sequence[int], spans: Sequence[Span]) -> Iterator[int]:
    """Those of rising `addresses` that lie in `spans`."""
    return (at for start, stop in spans for at in addresses[bisect_left(addresses, start) : bisect_left(addresses, stop)])


@memoize
def find_duplicate_ids(session: Session, index: Index) -> dict[int, str]:
    """Calls whose id an earlier call has already, or that is none to a provider, with an id that sets them apart."""
    ids: set[str] = set()
    found: dict[int, str] = {}
    for at in index.calls:
        name = str(as_mapping(session.blocks[at].raw).get("id"))
        if name in ids or is_invalid_id(name):
            found[at] = f"{_ODD.sub('_', name)}-{at}"
        ids.add(name)
    return found


def is_invalid_id(name: object) -> bool:
    """Whether a provider takes no such id of a call."""
    return not name or bool(_ODD.search(str(name)))


@memoize
def find_invalid_inputs(session: Session, index: Index) -> tuple[int, ...]:
    """Calls whose input is no object, which a provider does not take back."""
    return tuple(at for at in index.calls if not isinstance(as_mapping(session.blocks[at].raw).get("input"), Mapping))


def as_mapping(raw: Any) -> Mapping[str, Any]:
    """A block as sent, where it has keys; else nothing."""
    return raw if isinstance(raw, Mapping) else {}


def is_sent(envelope: Envelope, ctx: Ctx, at: int) -> bool:
    """True where a call or result is sent in some form: verbatim, changed, or by reference."""
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
    """True where a block stands verbatim, or alone as one part of its own kind."""
    piece = envelope.find_piece(at)
    if piece.body is None:
        return True
    return piece.stop - piece.start == len(piece.body) == 1 and piece.body[0].kind == ctx.session.blocks[at].kind


def get_call_id(envelope: Envelope, ctx: Ctx, call: int) -> str:
    """The id that a standing call is sent with."""
    for part in envelope.find_piece(call).body or ():
        if part.kind == "tool_use" and part.ref is None:
            return str(as_mapping(part.raw).get("id"))
    return str(as_mapping(ctx.session.blocks[call].raw).get("id"))


def is_late(envelope: Envelope, ctx: Ctx, result: int) -> bool:
    """True where another answer stands between the user's message that follows a call and the one with its result."""
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
    """The result that stands for a call in this request; None where none does."""
    result = ctx.session.blocks[call].pair
    return result if call < result < ctx.request.cut and is_sent(envelope, ctx, result) else None


def explain_stray(envelope: Envelope, ctx: Ctx, result: int) -> str:
    """Why a standing result cannot be sent where it stands; "" where it can."""
    call = ctx.session.blocks[result].pair
    if not is_sent(envelope, ctx, result):
        return ""
    if call < 0:
        return "this result answers no call of the session"
    if not is_sent(envelope, ctx, call):
        return "the call of this result is not shown any more"
    first = ctx.session.blocks[call].pair
    if first != result and first < ctx.request.cut and is_sent(envelope, ctx, first):
        return "this call has a result already"
    return ""


def get_role(envelope: Envelope, ctx: Ctx, at: int) -> str:
    """Who speaks at address `at`, where something of the conversation stands; "" where nothing does."""
    body = envelope.find_piece(at).body
    if body is None:
        return "" if ctx.session.blocks[at].bucket in (Bucket.SYSTEM, Bucket.TOOLS) else ctx.session.blocks[at].role
    return next((part.role for part in body if part.place != "system"), "")


def find_leading_answer(envelope: Envelope, ctx: Ctx) -> int | None:
    """Where the conversation begins, if with an answer; None where it does not. A server's own summary may stand first."""
    at = find_next_present(envelope, ctx, 0)
    while at < ctx.request.cut and not get_role(envelope, ctx, at):
        at = find_next_present(envelope, ctx, envelope.find_piece(at).stop)
    if at >= ctx.request.cut or get_role(envelope, ctx, at) != "assistant":
        return None
    first = get_parts(envelope, ctx, at)[1][0]
    return None if "compaction" in (ctx.session.blocks[at].kind, as_mapping(first.raw).get("type")) else at


def build_opening_notice(envelope: Envelope, ctx: Ctx, notice: str) -> Edit | None:
    """The edit that puts a `notice` of the user's before an answer that the request begins with; None where none does."""
    at = find_leading_answer(envelope, ctx)
    if at is None:
        return None
    piece, parts = get_parts(envelope, ctx, at)
    body = (Part("user", "text", notice), *parts)
    because = "the conversation would begin with an answer"
    return Edit("repair", because, Span(piece.start, piece.stop), body, facts={"block": at})


def find_previous_message(envelope: Envelope, ctx: Ctx, at: int) -> int | None:
    """The newest message start before `at` at which something stands."""
    found = find_at_or_before(ctx.index.messages, at - 1)
    while found is not None and not get_role(envelope, ctx, found):
        found = find_at_or_before(ctx.index.messages, envelope.find_piece(found).start - 1)
    return found


def get_parts(envelope: Envelope, ctx: Ctx, at: int) -> tuple[Piece, tuple[Part, ...]]:
    """The piece of block `at`, and parts that show the same (a reference where it is verbatim).

    Of a piece that can be cut, the block alone.
    """
    piece, block = envelope.find_piece(at), ctx.session.blocks[at]
    if piece.body:
        return piece, piece.body
    parts = (Part(block.role, block.kind, ref=at),) if piece.body is None else ()
    return structs.replace(piece, start=at, stop=at + 1), parts


def iter_message_starts(ctx: Ctx, spans: Sequence[Span]) -> Iterator[int]:
    """Starts of the messages in `spans`, and the first after each."""
    starts = ctx.index.messages
    for span in spans:
        yield from starts[count_before(starts, span.start) : count_before(starts, span.stop)]
        follows = find_at_or_after(starts, span.stop)
        if follows is not None and follows < ctx.request.cut:
            yield follows
