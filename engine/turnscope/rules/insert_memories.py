"""Memory: facts about the user and facts that the agent learned are remembered, and inserted where they relate to the turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Literal

from turnscope.envelope.conversation import get_previous_cut
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.fact_extraction import extract_facts
from turnscope.envelope.layers.places import find_insert
from turnscope.envelope.memories import FINDING, FORMS, TIERS, Memory, decode_fact, find_facts_since, read_findings, score_facts
from turnscope.envelope.relevance import WORDS, compare_meanings
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.envelope.wishes import get_rating
from turnscope.session.index import find_at_or_before
from turnscope.session.model import Answer, Ask, Edit, Part, Span

KEPT = 200  # maximum facts of one session, the newest
SLOTS = {"user": "memory", "agent": "agent_memory"}
JOINED = ("memory-context",)  # forms that word the facts of both owners in one section


@dataclass(frozen=True, slots=True)
class Params:
    """Which facts are inserted, where and how. A slot's share of the budget is in the policy's budget (`slots`)."""

    form: Annotated[Literal["section", "user-context", "memory-context", "findings"], "how the facts are worded"] = "section"
    heading: Annotated[str, "section: the line in front of facts about the user"] = "What is known from earlier:"
    agent_heading: Annotated[str, "section, findings: the line in front of what the agent learned"] = (
        "What was learned about the work:"
    )
    place: Annotated[Literal["before", "behind", "message"], "around the system prompt, or a user's message in front"] = (
        "behind"
    )
    most: Annotated[int, "maximum facts of each owner in a request"] = 8
    agent: Annotated[bool, "insert what the agent learned as well, in its own slot"] = True
    tiers: Annotated[tuple[str, ...], "tiers to insert: short (for now), medium (they fade), long (they stay)"] = TIERS
    short_turns: Annotated[int, "number of turns that a short fact lasts"] = 5
    share: Annotated[float, "part of the limit to fill (0 to 1)"] = 1.0
    reviews: Annotated[bool, "remember findings of a review in the log as facts of the agent"] = False
    meaning: Annotated[str, "model that finds by meaning, beside words: wordllama, provider:NAME; empty = words"] = ""


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    own: dict[str, Memory] = {fact.id: fact for fact in ctx.state or ()}
    new = [*(read_findings(ctx) if params.reviews and ctx.state is None else ()), *find_facts_since(ctx, get_previous_cut(ctx))]
    new += yield from extract_facts(ctx, get_previous_cut(ctx), (*own.values(), *new))
    for fact in new:
        if fact.id not in own:
            yield _describe_fact(ctx, fact)
            own[fact.id] = fact
    state = ctx.state if ctx.state is not None and len(own) == len(ctx.state) else tuple(own.values())[-KEPT:]
    turn = find_at_or_before(ctx.index.turns, ctx.request.cut - 1)
    if turn is None or (state is ctx.state and _is_same_turn(envelope, ctx, params.share, turn)):
        return state
    question = ctx.session.blocks[turn].text[:4_000]
    query = f"{turn}\0{question}" + ("\0all" if params.meaning else "")
    key = blake2b(query.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    answer: Answer = yield Ask("recall", f"recall:{key}", "", question, KEPT if params.meaning else params.most)
    stored = [read for item in answer.items if (read := decode_fact(item))]
    known = {fact.id: fact for fact in (*own.values(), *stored)}
    scores: dict[str, float] = {**score_facts(ctx, known.values(), question, params.tiers, params.short_turns)}
    missing = ""
    if params.meaning and scores:
        near, missing = yield from compare_meanings(question, [known[name].text for name in scores], params.meaning)
        scores = _add_meanings(scores, near)
    order = sorted(scores, key=lambda name: -scores[name])  # equal scores: facts of this session first, then the store's order
    at = 0 if params.place == "before" else ctx.index.messages[0]
    for slot, owners in _list_sections(params).items():
        chosen = _select_related([known[name] for name in order], owners, params, stored, ctx.session.id)
        insert = find_insert(envelope, at, slot)
        there = (insert.body or ()) if insert else ()
        room = min(
            int(ctx.limit * params.share) - ctx.count_envelope(envelope) + sum(ctx.own.count_placeholder(there)),
            ctx.budget.slots.get(slot, ctx.budget.limit),
        )
        chosen = _select_fitting(chosen, owners[-1], ctx, params, room)
        if (body := _build_body(chosen, owners[-1], params)) != there:
            listed = ", ".join(f"{fact.id} {fact.tier} {scores[fact.id]}" for fact in chosen)
            facts_now = {"memories": listed, "left_out": len(known) - len(scores), "room": room}
            facts_now |= {"not_compared": missing} if missing else {}
            because = f"{len(chosen)} facts of the {' and the '.join(owners)} relate to this turn"
            envelope = yield Edit("insert" if body else "drop", because, Span(at, at), body, slot=slot, facts=facts_now)
    return state


def _select_related(
    ordered: Sequence[Memory], owners: Sequence[str], params: Params, stored: Sequence[Memory], session: str
) -> list[Memory]:
    """The facts of each owner that relate most to the turn."""
    chosen: list[Memory] = []
    for owner in owners:
        related = [fact for fact in ordered if fact.owner == owner]
        if params.form == "findings" and owner == "agent":
            related = _select_earlier(related, stored, session)
        chosen += related[: params.most if owner == "user" or params.agent else 0]
    return chosen


def _select_fitting(chosen: list[Memory], owner: str, ctx: Ctx, params: Params, room: int) -> list[Memory]:
    """The first facts whose insert fits into `room` tokens: an insert shrinks before anything else is cut."""
    while (body := _build_body(chosen, owner, params)) and sum(ctx.own.count_placeholder(body)) > room:
        chosen = chosen[:-1]
    return chosen


def _add_meanings(scores: dict[str, float], near: Sequence[float]) -> dict[str, float]:
    """Scores by words and meaning; by words alone where nothing was compared."""
    return {name: round(WORDS * scores[name] + more, 3) for name, more in zip(scores, near, strict=True)} if near else scores


def _describe_fact(ctx: Ctx, fact: Memory) -> Edit:
    """The decision about a fact that was found."""
    refused = get_rating(ctx.session, fact.text) == "down"
    because = f"{'refused by hand, not ' if refused else ''}remembered of the {fact.owner}, from {fact.source}"
    facts = {"memory": fact.id, "owner": fact.owner, "tier": fact.tier, "source": fact.source, "refused": refused}
    return Edit("keep", because, facts=facts)


def _is_same_turn(envelope: Envelope, ctx: Ctx, share: float, turn: int) -> bool:
    """Whether the previous request had the same turn and budget, and everything fits: then its choice stays."""
    last = ctx.previous
    same = last is not None and last.budget == ctx.budget and find_at_or_before(ctx.index.turns, last.request.cut - 1) == turn
    return same and ctx.count_envelope(envelope) <= int(ctx.limit * share)


def _list_sections(params: Params) -> dict[str, tuple[str, ...]]:
    """Return whose facts each slot holds: one section of each owner, or one of both."""
    return {"memory": ("user", "agent")} if params.form in JOINED else {slot: (owner,) for owner, slot in SLOTS.items()}


def _select_earlier(facts: Sequence[Memory], stored: Sequence[Memory], session: str) -> list[Memory]:
    """Return the findings of earlier reviews: what the store holds of other sessions. This review's own are not among them."""
    earlier = {one.id for one in stored if FINDING in one.source and not one.source.startswith(f"{session} ")}
    return [fact for fact in facts if fact.id in earlier]


def _build_body(chosen: list[Memory], owner: str, params: Params) -> tuple[Part, ...]:
    own = owner == "agent" and params.form not in JOINED
    form = "section" if params.form == "findings" and not own else params.form
    text = FORMS[form](chosen, params.agent_heading if own else params.heading)
    part = Part("user", "text", text) if params.place == "message" else Part("system", "text", text, place="system")
    return (part,) if chosen else ()


RULE = Rule(
    "insert_memories",
    "Remember facts about the user and facts that the agent learned. Insert those that relate to the turn.",
    edits,
    Params,
    "remembers",
    "a survey of memory patterns, section 1: LibreChat's and Open WebUI's memory, found by patterns where no model is called",
    state=tuple[Memory, ...],
)
