"""Context providers: context items for a question are inserted in slots, each within its share of the budget."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Literal

from msgspec import Struct

from turnscope.envelope.context_items import KINDS, SLOTS, decode_item, describe_items, fit_items, read_recorded_items
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.layers.places import find_insert
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import find_at_or_before
from turnscope.session.model import Answer, Ask, Edit, Part, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Which items are inserted, where and how. A slot's share of the budget is in the policy's budget (`slots`)."""

    kinds: Annotated[tuple[str, ...], f"kinds of items to request: of {', '.join(KINDS)}"] = (
        "rules",
        "workspace",
        "file",
        "tree",
        "search",
    )
    form: Annotated[Literal["sources", "tagged", "fenced", "instructions"], "how the texts are worded"] = "tagged"
    place: Annotated[Literal["question", "system", "before"], "before the question, behind or before the system prompt"] = (
        "question"
    )
    most: Annotated[int, "maximum items of each kind in a request"] = 8
    share: Annotated[float, "part of the limit to fill (0 to 1)"] = 1.0


class InsertState(Struct, frozen=True, gc=False):
    """Where the inserts are, and the turn that they belong to."""

    at: int
    turn: int


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    turn = find_at_or_before(ctx.index.turns, ctx.request.cut - 1)
    was: InsertState | None = ctx.state
    kinds = [kind for kind in KINDS if kind in params.kinds]
    if turn is None:
        return was
    now = InsertState({"question": turn, "system": ctx.index.messages[0], "before": 0}[params.place], turn)
    limit = int(ctx.limit * params.share)
    same = was == now and ctx.previous is not None and ctx.previous.budget == ctx.budget
    if same and ctx.count_envelope(envelope) <= limit:
        return was
    if was and was.at != now.at and was.at < envelope.stop:
        for slot in (SLOTS[kind] for kind in kinds):
            if find_insert(envelope, was.at, slot):
                envelope = yield Edit(
                    "drop", "there is a new question: this was for the previous one", Span(was.at, was.at), slot=slot
                )
    question, requested = ctx.session.blocks[turn].text[:8_000], " ".join(kinds)
    key = blake2b(f"{turn}\0{requested}\0{question}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    answer: Answer = yield Ask("provide", f"provide:{key}", requested, question, params.most)
    found = [*read_recorded_items(ctx, turn), *(one for item in answer.items if (one := decode_item(item)))]

    def part(text: str) -> Part:
        return Part("user", "text", text) if params.place == "question" else Part("system", "text", text, place="system")

    standing = 0  # items of the kinds before, because one numbering goes over all kinds
    for kind in kinds:
        slot, texts = SLOTS[kind], [one for one in found if one.kind == kind][: params.most]
        insert = find_insert(envelope, now.at, slot)
        there = (insert.body or ()) if insert else ()
        share = int(ctx.budget.slots.get(slot, ctx.budget.limit) / (ctx.calibration.scale if ctx.own is ctx.ledger else 1.0))
        room = min(
            limit - ctx.count_envelope(envelope) + sum(ctx.own.count_placeholder(there)), share
        )  # an insert shrinks before anything else is cut
        text, many = fit_items(texts, params.form, room, lambda written: ctx.own.count_parts((part(written),)), standing + 1)
        standing += many
        body = (part(text),) if text else ()
        if body != there:
            because = (
                f"{many} of {len(texts)} {slot.replace('_', ' ')} are inserted with the question: {room:,} tokens are free"
            )
            facts = {"room": room, "found": len(texts), "stand": many, "what": describe_items(texts)}
            envelope = yield Edit("insert" if body else "drop", because, Span(now.at, now.at), body, slot=slot, facts=facts)
    return now


RULE = Rule(
    "provide_context",
    "Insert web results, documents, files, trees, pages, issues, project rules or the workspace with the question.",
    edits,
    Params,
    "remembers",
    "a survey of memory patterns, sections 1.2, 1.6 and 1.7: RAG sources and web results, context providers, rule files",
    state=InsertState,
)
