"""Layer 5: what the model requested from the archive stays while its conversation goes on, and gives way first."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.layers.archive import Grant
from turnscope.envelope.layers.forms import get_metadata, list_completed
from turnscope.envelope.layers.mentions import LEARNED
from turnscope.envelope.layers.places import RETRIEVED, remove_outdated_insert
from turnscope.envelope.layers.retrieval import RetrievalLimits, RetrievalState, answer_calls, build_edits, fit_forms
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.model import Edit

NAMES = 6  # of one conversation


def edits(envelope: Envelope, ctx: Ctx, params: RetrievalLimits) -> Edits:
    if not list_completed(ctx, params):
        return ctx.state
    was: RetrievalState | None = ctx.state
    learned: tuple[str, ...] = ()
    if was is None and params.learn:
        learned = (yield LEARNED).items
    now, found = answer_calls(envelope, ctx, params, was, learned)
    for edit in remove_outdated_insert(envelope, was.at if was else None, now.at, RETRIEVED):
        envelope = yield edit
    for _, answers in found:
        yield _build_answer_edit(answers, now, [*dict.fromkeys(_collect_names(ctx, params, answers))])
    shown = was.shown if was else ()
    if now.shown or shown:
        now = structs.replace(now, shown=fit_forms(envelope, ctx, params, was, now))
        for edit in [*build_edits(envelope, ctx, params, dict(shown), dict(now.shown), now.at)]:
            envelope = yield edit
    return was if now == was else now


def _collect_names(ctx: Ctx, params: RetrievalLimits, found: list[Grant]) -> Iterator[str]:
    """What the conversations that are given speak of: by these names later sessions know what is looked up again."""
    for grant in found:
        if grant.status in ("given", "superseded"):
            yield from get_metadata(ctx, params, grant.number).names.entities[:NAMES]


def _build_answer_edit(found: list[Grant], now: RetrievalState, names: list[str]) -> Edit:
    """The answer to one request as a decision: the pieces change in others."""
    lookups = now.hits + now.misses
    facts = {"answers": [[g.id, g.status, g.form] for g in found], "ready": now.hits, "asked": lookups, "used": now.used}
    facts |= {"names": names} if names else {}
    rate = f"; {now.hits} of {lookups} requested so far were ready" if lookups else ""
    return Edit("retrieve", ("; ".join(g.sentence for g in found) or "no conversation was named") + rate, facts=facts)


RULE = Rule(
    "retrieve_conversations",
    "Return what the model asks for by id: header, summary or full text; smaller forms where there is no room.",
    edits,
    RetrievalLimits,
    source="Smart Context Management for AI Code Assistants: layer 5, flexible archive, retrieval by id with a quota per turn",
    state=RetrievalState,
)
