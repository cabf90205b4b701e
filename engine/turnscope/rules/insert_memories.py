"""Memory: facts about the user and facts that the agent learned are remembered, and inserted where they relate to the turn."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Literal

from turnscope.envelope.conversation import get_previous_cut
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.fact_extraction import extract_facts
from turnscope.envelope.layers.places import find_insert
from turnscope.envelope.memories import FORMS, TIERS, Memory, decode_fact, find_facts_since, read_findings, score_facts
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.envelope.wishes import get_rating
from turnscope.session.index import find_at_or_before
from turnscope.session.model import Answer, Ask, Edit, Part, Span

KEPT = 200  # maximum facts of one session, the newest
SLOTS = {"user": "memory", "agent": "agent_memory"}


@dataclass(frozen=True, slots=True)
class Params:
    """Which facts are inserted, where and how. A slot's share of the budget is in the policy's budget (`slots`)."""

    form: Annotated[Literal["section", "user-context", "memory-context", "findings"], "how the facts are worded"] = "section"
    heading: Annotated[str, "section, findings: the line in front of the facts"] = "What is known from earlier:"
    place: Annotated[Literal["before", "behind", "message"], "around the system prompt, or a user's message in front"] = (
        "behind"
    )
    most: Annotated[int, "maximum facts of each owner in a request"] = 8
    agent: Annotated[bool, "insert what the agent learned as well, in its own slot"] = True
    tiers: Annotated[tuple[str, ...], "tiers to insert: short (for now), medium (they fade), long (they stay)"] = TIERS
    short_turns: Annotated[int, "number of turns that a short fact lasts"] = 5
    reviews: Annotated[bool, "remember findings of a review in the log as facts of the agent"] = False


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    own: dict[str, Memory] = {fact.id: fact for fact in ctx.state or ()}
    new = [*(read_findings(ctx) if params.reviews and ctx.state is None else ()), *find_facts_since(ctx, get_previous_cut(ctx))]
    new += yield from extract_facts(ctx, get_previous_cut(ctx), (*own.values(), *new))
    for fact in new:
        if fact.id not in own:
            refused = get_rating(ctx.session, fact.text) == "down"
            because = f"{'refused by hand, not ' if refused else ''}remembered of the {fact.owner}, from {fact.source}"
            facts = {"memory": fact.id, "owner": fact.owner, "tier": fact.tier, "source": fact.source, "refused": refused}
            yield Edit("keep", because, facts=facts)
            own[fact.id] = fact
    state = ctx.state if ctx.state is not None and len(own) == len(ctx.state) else tuple(own.values())[-KEPT:]
    turn = find_at_or_before(ctx.index.turns, ctx.request.cut - 1)
    if turn is None or (state is ctx.state and _is_same_turn(envelope, ctx, turn)):
        return state
    question = ctx.session.blocks[turn].text[:4_000]
    key = blake2b(f"{turn}\0{question}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    answer: Answer = yield Ask("recall", f"recall:{key}", "", question, params.most)
    stored = [read for item in answer.items if (read := decode_fact(item))]
    known = {fact.id: fact for fact in (*own.values(), *stored)}
    scores = score_facts(ctx, known.values(), question, params.tiers, params.short_turns)
    order = sorted(scores, key=lambda name: -scores[name])  # equal scores: facts of this session first, then the store's order
    at = 0 if params.place == "before" else ctx.index.messages[0]
    for owner, slot in SLOTS.items():
        chosen = [fact for name in order if (fact := known[name]).owner == owner]
        chosen = chosen[: params.most if owner == "user" or params.agent else 0]
        insert = find_insert(envelope, at, slot)
        there = (insert.body or ()) if insert else ()
        room = min(
            ctx.limit - ctx.count_envelope(envelope) + sum(ctx.own.count_placeholder(there)),
            ctx.budget.slots.get(slot, ctx.budget.limit),
        )
        while (body := _build_body(chosen, params)) and sum(
            ctx.own.count_placeholder(body)
        ) > room:  # an insert shrinks before anything else is cut
            chosen = chosen[:-1]
        if body != there:
            listed = ", ".join(f"{fact.id} {fact.tier} {scores[fact.id]}" for fact in chosen)
            facts_now = {"memories": listed, "left_out": len(known) - len(scores), "room": room}
            because = f"{len(chosen)} facts of the {owner} relate to this turn"
            envelope = yield Edit("insert" if body else "drop", because, Span(at, at), body, slot=slot, facts=facts_now)
    return state


def _is_same_turn(envelope: Envelope, ctx: Ctx, turn: int) -> bool:
    """Whether the previous request had the same turn and budget, and everything fits: then its choice stays."""
    last = ctx.previous
    same = last is not None and last.budget == ctx.budget and find_at_or_before(ctx.index.turns, last.request.cut - 1) == turn
    return same and ctx.count_envelope(envelope) <= ctx.limit


def _build_body(chosen: list[Memory], params: Params) -> tuple[Part, ...]:
    text = FORMS[params.form](chosen, params.heading)
    part = Part("user", "text", text) if params.place == "message" else Part("system", "text", text, place="system")
    return (part,) if chosen else ()


RULE = Rule(
    "insert_memories",
    "Remember facts about the user and facts that the agent learned. Insert those that relate to the turn.",
    edits,
    Params,
    "remembers",
    "a survey of memory patterns, section 1: LibreChat's and Open WebUI's memory, found by patterns where no model is asked",
    state=tuple[Memory, ...],
)
