"""Drop texts that contain only white space: a provider rejects them."""

from __future__ import annotations

from collections.abc import Iterator

from turnscope.envelope.conversation import memoize
from turnscope.envelope.difference import find_changes
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.session.index import Index
from turnscope.session.model import Block, Edit, Part, Placeholder, Session, Span

PLACEHOLDER = "[This message is empty.]"


def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    found = {span: body for change in find_changes(envelope, ctx) for span, body in _find_blank(envelope, ctx, change)}
    for span, body in found.items():
        yield Edit("repair" if body else "drop", "a blank text cannot be sent", span, body)


def _find_blank(envelope: Envelope, ctx: Ctx, change: Span) -> Iterator[tuple[Span, Placeholder]]:
    for piece in envelope.iter_pieces(change):
        if piece.body is None:
            span = Span(max(piece.start, change.start), min(piece.stop, change.stop))
            for at in _list_blank(ctx, span):
                yield Span(at, at + 1), _build_body(ctx, at)
        elif rest := [part for part in piece.body if part.ref is None and part.kind == "text" and not part.text.strip()]:
            yield Span(piece.start, piece.stop), tuple(part for part in piece.body if part not in rest)


def _find_idle_start(ctx: Ctx, span: Span, params: NoParams) -> int:
    return -1 if _list_blank(ctx, span) else span.start


def _list_blank(ctx: Ctx, span: Span) -> tuple[int, ...]:
    """Addresses of the blank blocks in a span. Policies that keep what came with a request ask for the same."""
    known = _remember_blank(ctx)
    if span in known:
        return known[span]
    found = tuple(at for at in range(*span) if _is_blank(ctx.session.blocks[at]))
    if span.stop == ctx.request.cut:
        known[span] = found
    return found


@memoize
def _remember_blank(_session: Session, _index: Index) -> dict[Span, tuple[int, ...]]:
    """What `_list_blank` found at the ends of requests, by span."""
    return {}


def _is_blank(block: Block) -> bool:
    """Whether a block is a text of white space, or a user's message without any content."""
    spoken = block.kind == "text" and block.role in ("user", "assistant") and block.raw is not None
    return (spoken or (block.kind == "empty" and block.role == "user")) and not block.text.strip()


def _build_body(ctx: Ctx, at: int) -> tuple[Part, ...]:
    """What replaces a blank text: nothing, unless it is all that a user wrote."""
    blocks, message = ctx.session.blocks, ctx.session.messages[ctx.session.blocks[at].message]
    alone = at == message.start and all(map(_is_blank, blocks[message.start : message.stop]))
    return (Part("user", "text", PLACEHOLDER),) if alone and message.role == "user" else ()


RULE = Rule(
    "drop_blank_texts",
    "Drop texts of white space. A user's message with nothing else gets a text that says it is empty.",
    edits,
    NoParams,
    "remembers",
    'Anthropic Messages API: "text content blocks must be non-empty", "must contain non-whitespace text"',
    idle_from=_find_idle_start,
)
