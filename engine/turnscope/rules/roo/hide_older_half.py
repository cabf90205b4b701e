"""Hide half of the visible messages after the first once the request is too large, and say so in a message."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import structs

from turnscope.envelope.condensing import subtract_spans
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.envelope.wishes import find_manual_spans
from turnscope.ports.roo import management
from turnscope.ports.roo.history import (
    SLOT,
    Entry,
    Store,
    count_message,
    count_static_tokens,
    find_own_summary,
    get_fresh_start,
    list_visible,
    measure_size,
    store_summary,
)
from turnscope.session.model import Bucket, Edit, Part, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters, with Roo's defaults."""

    share: Annotated[float, "share of the visible messages after the first that is hidden; the number is made even"] = 0.5
    factor: Annotated[float, "factor for token counts, as Roo has for those of tiktoken"] = 1.5
    count_after_condense: Annotated[
        bool, "right after a condense, compare the summary's count instead of the billed tokens"
    ] = True


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request."""
    store: Store = ctx.state or Store()
    if parts := get_fresh_start(envelope, ctx):
        made = store_summary(envelope, ctx, parts, store.summary, params.factor)
        return structs.replace(store, summaries=(*store.summaries, structs.replace(made, texts=())))  # only counted
    size = measure_size(ctx, store.summary, params.factor, params.count_after_condense)
    window, output = ctx.budget.window, ctx.budget.max_output
    over = size is not None and management.will_manage(size.total, size.last, window, output, auto=False)
    if size is None or not over or find_own_summary(envelope, ctx):
        return store
    limit = management.compute_allowed(window, output)
    cut = management.truncate(list_visible(ctx, store), params.share, "new")
    kept = [m for m in cut.messages if not m.get("truncationParent") and not m.get("isTruncationMarker")]
    left = math.ceil(count_static_tokens(envelope, ctx, Bucket.SYSTEM) * params.factor)
    left += sum(m["tokens"] if "tokens" in m else count_message(ctx, m["at"][0], params.factor) for m in kept)
    because = f"{size.whole:,} tokens, where {limit:,.0f} are allowed"
    facts = {"size": size.whole, "allowed": limit, "window": window, "removed": cut.removed, "new_size": left}
    if cut.marker is None:
        yield Edit("keep", f"{because}, but too few messages are left to hide any", facts=facts)
        return store
    shown = management.select_effective(cut.messages)
    place = cut.messages.index(cut.marker) + 1
    first = cut.messages[place]["at"] if place < len(cut.messages) else (ctx.request.cut, 0)
    number = store.markers + 1
    facts |= {"marker": number, "ts": cut.marker["ts"]}
    hiding = structs.replace(store, first=first, markers=number)
    if not any(m is cut.marker for m in shown):
        yield Edit("keep", f"{because}, but the {cut.removed} messages to hide are before the summary", facts=facts)
        return hiding
    because += f": {cut.removed} of {len(kept) + cut.removed} messages are hidden"
    for span in _find_spans(envelope, ctx, store, cut.messages, first[0]):
        yield Edit("drop", because, span, facts=facts)
    body = (Part("user", "text", cut.marker["content"], fence=True),)
    yield Edit("insert", because, Span(first[0], first[0]), body, slot=f"{SLOT} {number}", facts=facts)
    return hiding


def _find_spans(envelope: Envelope, ctx: Ctx, store: Store, messages: list[Any], stop: int) -> Iterator[Span]:
    """Return what is still sent of the messages that are hidden now. A hidden summary takes with it all that it replaced."""
    hidden: list[Entry] = [m for m in messages if m.get("truncationParent") == "new"]
    start = min(m["at"][0] for m in hidden)
    if store.summary and not store.hides_summary:
        start = ctx.index.messages[0]
    condensed = find_manual_spans(envelope, ctx)  # what the user condensed stays condensed
    for talk in ctx.index.find_conversation_spans(start, stop):
        for span in subtract_spans(talk, condensed):
            piece = envelope.find_piece(span.start)
            if piece.body != () or piece.stop < span.stop:
                yield span


RULE = Rule(
    "hide_older_half",
    "Hide half of the visible messages after the first once the request is above the limit and was not condensed.",
    edits,
    Params,
    "remembers",
    "Roo Code 3.52.1 (cb83656718), truncateConversation and manageContext (context-management/index.ts)",
    state=Store,
)
