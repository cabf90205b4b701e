"""Leave out texts without a word: a provider refuses them, and they say nothing."""

from __future__ import annotations

from collections.abc import Iterator

from engine.envelope.difference import changes
from engine.envelope.envelope import Envelope
from engine.envelope.rule import Ctx, Edits, NoParams, Rule
from engine.session.model import Body, Edit, Span


def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    found = {span: body for change in changes(envelope, ctx) for span, body in _blank(envelope, ctx, change)}
    for span, body in found.items():
        yield Edit("drop", "a text without a word cannot be sent", span, body)


def _blank(envelope: Envelope, ctx: Ctx, change: Span) -> Iterator[tuple[Span, Body]]:
    for piece in envelope.over(change):
        if piece.body is None:
            for at in range(max(piece.start, change.start), min(piece.stop, change.stop)):
                block = ctx.session.blocks[at]
                said = block.kind == "text" and block.role in ("user", "assistant") and block.raw is not None
                if said and not block.text.strip():
                    yield Span(at, at + 1), ()
        elif rest := [part for part in piece.body if part.ref is None and part.kind == "text" and not part.text.strip()]:
            yield Span(piece.start, piece.stop), tuple(part for part in piece.body if part not in rest)


RULE = Rule(
    "drop_blank_texts",
    "Leave out texts that hold nothing but white space.",
    edits,
    NoParams,
    "remembers",
    'Anthropic Messages API: "text content blocks must be non-empty", "must contain non-whitespace text"',
)
