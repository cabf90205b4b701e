"""Gemini CLI's masking: outputs before the newest 50,000 tokens of them are masked in one batch, if that saves enough."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from msgspec import Struct

from turnscope.envelope import recorded_compactions
from turnscope.envelope.condensing import find_leading_summary
from turnscope.envelope.conversation import build_result, find_replaceable, get_result_text, memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.gemini_cli import compression as port
from turnscope.session.index import Index, count_before
from turnscope.session.model import Edit, Session, Span

EDGE = 250  # characters of each end of an output that its mask shows
MASK = "[This output is masked. Its beginning and its end:]\n{}\n[...]\n{}"


@dataclass(frozen=True, slots=True)
class Params:
    """What was seen of the original."""

    protect: Annotated[int, "tokens of the newest outputs that stay; those of the last round are not counted"] = (
        port.OUTPUT_BUDGET
    )
    least: Annotated[int, "tokens of the outputs that a batch has to mask at least"] = 30_000


class Masked(Struct, frozen=True, gc=False):
    """Up to which address outputs were masked, and the tokens of those before it that stayed, because a mask is longer."""

    stop: int = 0
    left: int = 0


class _Outputs(NamedTuple):
    at: tuple[int, ...]
    sizes: tuple[int, ...]  # estimated tokens


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. What a mask would only lengthen counts again each time, as in the original."""
    done: Masked = ctx.state or Masked()
    if not count_before(ctx.index.messages, ctx.request.cut):
        return done
    _, _, kept = find_leading_summary(envelope, ctx)
    if kept > done.stop:  # a compression took what was masked, and what was not
        done = Masked(kept, 0)
    found, fresh = _measure(ctx), ctx.previous.request.stop if ctx.previous else 0
    first, last = bisect_left(found.at, done.stop), bisect_left(found.at, fresh)  # those of the last round are not looked at
    newest = 0
    while last > first and newest + found.sizes[last - 1] <= params.protect:
        last -= 1
        newest += found.sizes[last]
    old, gain = found.at[first:last], done.left + sum(found.sizes[first:last])
    if gain < params.least or not old:
        return done
    because = f"outputs before the newest {params.protect:,} tokens have {gain:,}, at least {params.least:,}"
    facts: dict[str, Any] = {"tokens": gain, "outputs": len(old)}
    recorded = [edit for edit in recorded_compactions.find_recorded_edits(ctx, "truncate") if _fits(envelope, edit.span)]
    for edit in recorded or _build_masks(envelope, ctx, old, because, facts):
        envelope = yield edit
    stayed = (size for at, size in zip(old, found.sizes[first:last], strict=True) if envelope.find_piece(at).body is None)
    return Masked(found.at[last - 1] + 1, done.left + sum(stayed))


def _fits(envelope: Envelope, span: Span | None) -> bool:
    """Return whether a recorded mask can be followed: not where a summary of this policy stands for a part of it."""
    if span is None or span.start >= span.stop:
        return False
    first, last = envelope.find_piece(span.start), envelope.find_piece(span.stop - 1)
    return not (first.body and first.start < span.start) and not (last.body and last.stop > span.stop)


def _build_masks(envelope: Envelope, ctx: Ctx, outputs: Sequence[int], because: str, facts: dict[str, Any]) -> Iterator[Edit]:
    for at in outputs:
        block = ctx.session.blocks[at]
        text = get_result_text(block)
        mask = MASK.format(text[:EDGE], text[-EDGE:]) if text else ""
        if text and len(mask) < len(text) and find_replaceable(envelope, at):
            yield Edit("truncate", because, Span(at, at + 1), (build_result(block, mask),), facts=facts)


@memoize
def _measure(session: Session, index: Index) -> _Outputs:
    contents = (port.build_content("user", [session.blocks[at]]) for at in index.results)
    return _Outputs(tuple(index.results), tuple(port.estimate_tokens(content["parts"]) for content in contents))


RULE = Rule(
    "mask_old_outputs",
    "Mask outputs of tools before the newest 50,000 tokens of them in one batch, if they have 30,000 tokens or more.",
    edits,
    Params,
    source="requests that Gemini CLI 0.61.0 sent to a recording server, and the transcripts that it wrote",
    state=Masked,
)
