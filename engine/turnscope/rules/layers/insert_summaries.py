"""Layer 3: summaries of the conversations right behind those that stand in full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Struct

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.layers.conversations import Split, find_first_full, format_id, has_wishes
from turnscope.envelope.layers.forms import Summary, build_summary, list_completed, make_counter
from turnscope.envelope.layers.places import SUMMARIES, find_current_start, find_insert, put_texts, remove_outdated_insert
from turnscope.envelope.rule import Ctx, Edits, Rule


@dataclass(frozen=True, slots=True)
class Params(Split):
    """Parameters."""

    count: Annotated[int, "conversations whose summaries stand (published: 5)"] = 5
    summary_cap: Annotated[int, "tokens that one summary may have (published: 120)"] = 120


class SummaryState(Struct, frozen=True, gc=False):
    """Where the summaries stand, and of which conversations: `first` up to and without `stop`."""

    at: int
    first: int
    stop: int


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    was: SummaryState | None = ctx.state
    if not list_completed(ctx, params):
        return was
    at = find_current_start(ctx, params)
    stop = find_first_full(envelope, ctx, params)
    first = max(0, stop - max(0, params.count))
    size = ctx.count_envelope(envelope)
    if was and (was.at, was.stop) == (at, stop) and size <= ctx.limit and not has_wishes(ctx):
        return was
    for edit in remove_outdated_insert(envelope, was.at if was else None, at, SUMMARIES):
        envelope = yield edit
    found = [build_summary(ctx, params, n, params.summary_cap) for n in range(first, stop)]
    texts = [summary.content for summary in found]
    wanted = len(texts)
    room = ctx.limit - ctx.count_envelope(envelope)
    standing = find_insert(envelope, at, SUMMARIES)
    room += sum(ctx.own.count_placeholder(standing.body)) if standing else 0
    sizes = make_counter(ctx)(texts)
    while texts and sum(sizes[len(sizes) - len(texts) :]) > room:
        texts.pop(0)
    because = f"summaries of {len(texts)} conversations behind those in full"
    because += f", up to {format_id(ctx, params, stop - 1)}" if stop else ""
    because += f": {wanted} would not fit" if len(texts) < wanted else ""
    facts = {
        "summaries": len(texts),
        "cap": params.summary_cap,
        "fields": [*map(_list_fields, found[len(found) - len(texts) :])],
    }
    yield from put_texts(envelope, at, SUMMARIES, tuple(texts), because=because, facts=facts)
    return SummaryState(at, stop - len(texts), stop)


def _list_fields(summary: Summary) -> dict[str, str | int | bool]:
    """The fields of a summary that its text does not show."""
    fields: dict[str, str | int | bool] = {"id": summary.conversation_id, "position": summary.position}
    fields |= {"decisions": len(summary.key_decisions), "changes": len(summary.code_changes)}
    return fields | {"open questions": len(summary.open_questions), "retrievable": summary.retrievable}


RULE = Rule(
    "insert_summaries",
    "Put summaries of the conversations behind the newest before the newest prompt; fewer of them where they do not fit.",
    edits,
    Params,
    source="Smart Context Management for AI Code Assistants: layer 3, semantic summaries of conversations 6 to 10, 120 tokens",
    state=SummaryState,
)
