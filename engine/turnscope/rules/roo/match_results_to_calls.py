"""Match tool results with the calls of the answer before: repair unknown ids, second results, and missing results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.ports.roo.history import build_entry
from turnscope.ports.roo.results import convert_to_text, fit_results
from turnscope.session.index import count_before
from turnscope.session.model import Block, Edit, Part, Span

SLOT = "results put in"


class Group(NamedTuple):
    """Neighbouring user messages, which are one message for a provider, as they are sent; and the answer right before them."""

    blocks: list[Block]
    answer: int | None


def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    """Yield the edits of a request."""
    for group in _find_groups(envelope, ctx):
        results = [block for block in group.blocks if block.kind == "tool_result"]
        if group.answer is None:
            for block in results:
                raw = convert_to_text(block.raw)
                part = Part("user", "text", raw["text"], raw)
                why = "no answer comes before this result, so it is sent as text"
                envelope = yield Edit("repair", why, Span(block.at, block.at + 1), (part,))
            continue
        content = [{"type": "text", "text": b.raw} if isinstance(b.raw, str) else b.raw for b in group.blocks]
        fitted = fit_results({"role": "user", "content": content}, [build_entry(ctx, group.answer)])
        if fitted is not None:
            envelope = yield from _fit_results(envelope, group.blocks, content, fitted)


def _find_groups(envelope: Envelope, ctx: Ctx) -> Iterator[Group]:
    """Return the groups of user messages that the previous plan did not hold."""
    starts, messages, blocks = ctx.index.messages, ctx.session.messages, ctx.session.blocks
    since = ctx.previous.request.cut if ctx.previous else 0
    place = count_before(starts, since)
    before: int | None = starts[place - 1] if place else None  # the answer before, if it is sent
    if before is not None and (blocks[before].role != "assistant" or not _is_present(envelope, before)):
        before = None
    results: list[Block] = []
    for start in starts[place : count_before(starts, ctx.request.cut)]:
        if blocks[start].role == "user":
            there = blocks[start : messages[blocks[start].message].stop]
            results += [b for b in there if b.raw is not None and _is_present(envelope, b.at)]
            continue
        if results:
            yield Group(results, before)
        before, results = start if _is_present(envelope, start) else None, []
    if results:
        yield Group(results, before)


def _is_present(envelope: Envelope, at: int) -> bool:
    body = envelope.find_piece(at).body
    return body is None or bool(body and body[0].kind != "summary")


def _fit_results(envelope: Envelope, blocks: list[Block], content: list[Any], fitted: list[Any]) -> Any:
    kept = {place: raw for place, raw in fitted if place >= 0}
    for place, block in enumerate(blocks):
        if place not in kept:
            why = "another result answers this call, or no call is left for this result"
            envelope = yield Edit("repair", why, Span(block.at, block.at + 1), ())
        elif kept[place] is not content[place]:
            part = Part("user", "tool_result", block.text, kept[place])
            why = "no call has this result's id: it gets the id of the call at its position"
            envelope = yield Edit("repair", why, Span(block.at, block.at + 1), (part,))
    added = tuple(Part("user", "tool_result", raw["content"], raw, place="after") for place, raw in fitted if place < 0)
    if added:
        at = blocks[0].at
        why = f"{len(added)} call{'s have' if len(added) > 1 else ' has'} no result"
        envelope = yield Edit("repair", why, Span(at, at), added, slot=SLOT)
    return envelope


RULE = Rule(
    "match_results_to_calls",
    "Give results the ids of the calls before them, keep one per call, and add one for a call without.",
    edits,
    NoParams,
    "remembers",
    "Roo Code 3.52.1 (cb83656718), validateAndFixToolResultIds (task/validateToolResultIds.ts)",
)
