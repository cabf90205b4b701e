"""Strip thinking that follows an edit: newer models accept thinking only after its own prefix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.conversation import find_signed_thinking, memoize
from turnscope.envelope.difference import find_first_change
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.pricing.abilities import binds_thinking
from turnscope.session.content import is_text
from turnscope.session.index import Index, find_at_or_before, group_runs
from turnscope.session.model import Edit, Part, Placeholder, Session, Span

_THINKING = ("thinking", "redacted_thinking")


@dataclass(frozen=True, slots=True)
class Params:
    """For which models it acts."""

    bound: Annotated[bool, "act only for models known to accept thinking only after its own prefix"] = False


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    was = ctx.previous.after if ctx.previous else Envelope()
    moved = ctx.previous is not None and ctx.previous.model != ctx.request.model
    for at in _find_unsigned(ctx):
        if at < ctx.request.cut and envelope.find_piece(at).body is None:
            envelope = yield Edit("strip", "thinking without a signature cannot be sent back", Span(at, at + 1))
    if params.bound and not binds_thinking(ctx.request.model, ctx.prices):
        return
    start = 0 if moved else find_first_change(was, envelope)
    if start is None or start >= ctx.request.cut:
        return
    because = (
        "another model wrote this thinking" if moved else f"the blocks before this thinking changed, from block {start} on"
    )
    for span, body in list(_find_thinking(envelope, ctx, start)):
        yield Edit("strip", because, span, body, facts={"from": start})


def _find_idle_start(ctx: Ctx, span: Span, params: Params) -> int:
    unsigned = _find_unsigned(ctx)
    return -1 if unsigned and unsigned[0] < ctx.request.cut else span.start


@memoize
def _find_unsigned(session: Session, index: Index) -> tuple[int, ...]:
    """Thinking without a signature: from a log that does not contain it, or from another kind of model."""
    thinking = (session.blocks[at] for at in index.thinking if session.blocks[at].kind == "thinking")
    return tuple(b.at for b in thinking if isinstance(b.raw, dict) and not b.in_tags and not b.raw.get("signature"))


def _find_thinking(envelope: Envelope, ctx: Ctx, start: int) -> Iterator[tuple[Span, Placeholder]]:
    """Thinking at or after `start` that would be sent, verbatim or among the parts of a placeholder; newest last."""
    newest = find_at_or_before(find_signed_thinking(ctx), ctx.request.cut - 1)
    parts = [
        piece for piece in envelope.iter_pieces(Span(start, envelope.stop)) if piece.body and any(map(_is_thinking, piece.body))
    ]
    for piece in parts:
        yield Span(piece.start, piece.stop), tuple(part for part in piece.body or () if not _is_thinking(part))
    if newest is None or newest < start:
        return
    there = (at for at in find_signed_thinking(ctx) if start <= at < ctx.request.cut)
    yield from ((span, ()) for span in group_runs(at for at in there if envelope.find_piece(at).body is None))


def _is_thinking(part: Part) -> bool:
    """Whether a placeholder's part is thinking that is sent as such, not between tags."""
    return part.kind in _THINKING and not is_text(part.raw)


RULE = Rule(
    "strip_stale_thinking",
    "Strip thinking that follows an edit or comes from another model: a provider may reject it.",
    edits,
    Params,
    "remembers",
    "Anthropic Messages API: thinking is bound to the model and to the exact messages before it (Opus 5.5, Fable 5.1)",
    idle_from=_find_idle_start,
)
