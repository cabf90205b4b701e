"""Where layers are placed: the context in front of the conversation, lookups in front of the current conversation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from turnscope.envelope.conversation import find_droppable
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.layers.conversations import Split, exclude_prompt, find_borders, find_current
from turnscope.envelope.pieces import Piece
from turnscope.envelope.rule import Ctx
from turnscope.session.index import count_before
from turnscope.session.model import Edit, Part, Span

CONTEXT, HEADERS, SUMMARIES, REFERENCES, RETRIEVED = "context", "headers", "summaries", "references", "retrieved"
SHRINKABLE = (SUMMARIES, REFERENCES, RETRIEVED)  # slots that shrink before anything else


def find_front(ctx: Ctx) -> int:
    """Return the address at which the conversation begins."""
    return ctx.index.messages[0]


def find_current_start(ctx: Ctx, split: Split) -> int:
    """Return the address at which the current conversation begins; what is looked up is inserted there.

    Args:
        ctx: What the rule may read.
        split: How the session is split into conversations.
    """
    return find_borders(ctx, split)[find_current(ctx, split)]


def find_insert(envelope: Envelope, at: int, slot: str) -> Piece | None:
    """Return the insert of a slot at an address, or None.

    Args:
        envelope: The request as it stands.
        at: The address.
        slot: The slot.
    """
    return next(
        (p for p in envelope.iter_pieces_and_inserts(Span(at, at + 1)) if p.start == p.stop == at and p.slot == slot), None
    )


def put_texts(
    envelope: Envelope, at: int, slot: str, texts: tuple[str, ...], because: str, facts: dict[str, Any]
) -> Iterator[Edit]:
    """Yield the edit after which a slot holds these texts; nothing where it holds them already.

    Args:
        envelope: The request as it stands.
        at: Address of the insert.
        slot: The slot.
        texts: One text per message; () removes the insert.
        because: The reason for the decision log.
        facts: Further facts of the decision.
    """
    insert = find_insert(envelope, at, slot)
    body = tuple(Part("user", "text", text) for text in texts)
    if body != ((insert.body or ()) if insert else ()):
        yield Edit("insert" if body else "drop", because, Span(at, at), body, slot=slot, facts=facts)


def remove_outdated_insert(envelope: Envelope, old: int | None, at: int, slot: str) -> Iterator[Edit]:
    """Yield the edit that removes a slot's insert from its former address, if it moves.

    Args:
        envelope: The request as it stands.
        old: The former address; None = there was none.
        at: The address now.
        slot: The slot.
    """
    if old is not None and 0 <= old < envelope.stop and old != at and find_insert(envelope, old, slot):
        yield Edit("drop", f"a conversation began: the slot {slot} moves in front of it", Span(old, old), (), slot=slot)


def find_present(envelope: Envelope, ctx: Ctx, span: Span) -> Iterator[Span]:
    """Yield what is sent of the conversation in a span, without the prompt that is being answered.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        span: The span.
    """
    for part in exclude_prompt(ctx, span):
        yield from find_droppable(ctx, envelope, *part)


def count_present_tokens(envelope: Envelope, ctx: Ctx, span: Span) -> int:
    """Return the tokens of what `find_present` gives, in the policy's own units.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        span: The span.
    """
    found = 0
    for part in find_present(envelope, ctx, span):
        for piece in envelope.iter_pieces(part):
            whole = piece.body is None
            found += (
                ctx.count_tokens(max(piece.start, part.start), min(piece.stop, part.stop))
                if whole
                else sum(ctx.own.count_placeholder(piece.body))
            )
    return found


def count_shrinkable_tokens(envelope: Envelope, ctx: Ctx, split: Split) -> int:
    """Return the tokens of inserts that shrink before a conversation is dropped, in the policy's own units.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        split: How the session is split into conversations.
    """
    starts = find_borders(ctx, split)
    cut = ctx.previous.request.cut if ctx.previous else 0
    places = {find_current_start(ctx, split), starts[max(0, count_before(starts, cut) - 1)]}
    inserts = (p for at in places for p in envelope.iter_pieces_and_inserts(Span(at, at + 1)) if p.start == p.stop == at)
    return sum(sum(ctx.own.count_placeholder(piece.body)) for piece in inserts if piece.slot in SHRINKABLE)
