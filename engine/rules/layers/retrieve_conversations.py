"""Layer 5: what the model asked for of the archive stands while its conversation goes on, and gives way first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from msgspec import structs

from engine.envelope.envelope import Envelope
from engine.envelope.layers.archive import Grant, calls, grants, likely
from engine.envelope.layers.places import RETRIEVED, moved, under_way
from engine.envelope.layers.retrieved import Forms, Retrieved, fitting, laid, noted
from engine.envelope.layers.trio import over
from engine.envelope.rule import Ctx, Edits, Rule
from engine.session.model import Edit


@dataclass(frozen=True, slots=True)
class Params(Forms):
    """Parameters."""

    quota: Annotated[int, "conversations that may be retrieved while one conversation goes on"] = 5
    prefetch: Annotated[int, "conversations made ready because they share most with the prompt (0 = none)"] = 3
    cache: Annotated[int, "conversations that stay ready, the last asked for first"] = 20


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    if not over(ctx, params):
        return ctx.state
    at = under_way(ctx, params)
    was: Retrieved = ctx.state or Retrieved(-1, at)
    now = was
    if was.at != at:
        ready = dict.fromkeys((*likely(ctx, params, params.prefetch), *was.ready))
        seen = at if was.at < 0 else was.seen
        now = Retrieved(at, seen, (), 0, tuple(ready)[: max(0, params.cache)], was.hits, was.misses)
        for edit in moved(envelope, was.at, at, RETRIEVED):
            envelope = yield edit
    for call in calls(ctx, now.seen):
        raw = ctx.session.blocks[call].raw
        given = raw.get("input") if isinstance(raw, Mapping) else None
        found = [*grants(envelope, ctx, params, given, params.quota - now.used)]
        now = structs.replace(noted(now, found, params.cache), seen=call + 1)
        yield _look(found, now)
    if now.shown or was.shown:
        now = structs.replace(now, shown=fitting(envelope, ctx, params, was, now))
        for edit in [*laid(envelope, ctx, params, dict(was.shown), dict(now.shown), at)]:
            envelope = yield edit
    return was if now == was else now


def _look(found: list[Grant], now: Retrieved) -> Edit:
    """The answer to one request as a decision: the pieces change in others."""
    asked = now.hits + now.misses
    facts = {"answers": [[g.id, g.what, g.form] for g in found], "ready": now.hits, "asked": asked, "used": now.used}
    rate = f"; {now.hits} of {asked} asked for so far were ready" if asked else ""
    return Edit("retrieve", ("; ".join(g.sentence for g in found) or "no conversation was named") + rate, facts=facts)


RULE = Rule(
    "retrieve_conversations",
    "Put back what the model asks for by id: header, summary or full text; smaller forms where there is no room.",
    edits,
    Params,
    source="Smart Context Management for AI Code Assistants: layer 5, flexible archive, retrieval by id with a quota per turn",
    state=Retrieved,
)
