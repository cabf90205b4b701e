"""Repeat the rules that a person gave in words ("never push") and that the rules before this one let leave the window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from turnscope.envelope.conversation import get_previous_cut
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.envelope.user_rules import (
    HEADING,
    RULE_SOURCES,
    RuleWords,
    UserRule,
    read_block_rules,
    read_part_text,
    write_rules,
)
from turnscope.session.model import Edit, Span

SLOT = "user_rules"


@dataclass(frozen=True, slots=True)
class Params:
    """Which rules, and how many."""

    most: Annotated[int, "maximum tokens of the rules that are repeated"] = 1_000
    sources: Annotated[tuple[str, ...], "where rules are looked for: prompt, memory, system"] = ("prompt", "memory")
    heading: Annotated[str, "line in front of them"] = HEADING


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    held = _find_holders(ctx, params)
    missing = [*_find_missing(envelope, ctx, held)] if held and ctx.index.messages else []
    fits = _choose_fitting(envelope, ctx, params, missing)
    if fits:
        at = max(envelope.find_piece(at).stop for rule in missing for at in (rule.block, *rule.others))
        body = (write_rules(fits, params.heading),)
        tokens = sum(ctx.own.count_placeholder(body))
        what = f"{len(fits)} rule{'s' if len(fits) > 1 else ''}"
        less = f", {len(missing) - len(fits)} more have no room" if len(fits) < len(missing) else ""
        because = f"{what} that a person gave had left the window: repeated in {tokens:,} tokens{less}"
        facts = {"rules": len(fits), "left_out": len(missing) - len(fits), "blocks": [rule.block for rule in fits]}
        at = max(at, ctx.index.messages[0])
        yield Edit("insert", because, Span(at, at), body, slot=SLOT, facts=facts)
    return held


def _find_holders(ctx: Ctx, params: Params) -> tuple[int, ...]:
    """Addresses of the blocks that say a rule."""
    session, start = ctx.session, 0 if ctx.state is None else get_previous_cut(ctx)
    known: tuple[int, ...] = ctx.state or ()
    new = [
        block.at
        for block in session.blocks[start : ctx.request.cut]
        if any(rule.source in params.sources for rule in read_block_rules(block, session.messages[block.message].origin))
    ]
    return (*known, *new) if new else known


def _find_missing(envelope: Envelope, ctx: Ctx, held: Sequence[int]) -> Iterator[UserRule]:
    """The rules whose words the request lacks: their own blocks are gone, and no placeholder has them."""
    session = ctx.session
    gone: dict[str, UserRule] = {}
    stands = set[str]()
    for at in held:
        is_gone = envelope.find_piece(at).body is not None
        for rule in read_block_rules(session.blocks[at], session.messages[session.blocks[at].message].origin):
            if not is_gone:
                stands.add(rule.text)
            elif first := gone.get(rule.text):
                gone[rule.text] = replace(first, others=(*first.others, at))
            else:
                gone[rule.text] = rule
    if lost := [rule for text, rule in gone.items() if text not in stands]:
        texts = [read_part_text(part, session) for piece in envelope.pieces for part in piece.body or ()]
        for rule in lost:
            words = RuleWords(rule.text)
            if not any(words.are_in(text) for text in texts):
                yield rule


def _choose_fitting(envelope: Envelope, ctx: Ctx, params: Params, missing: Sequence[UserRule]) -> list[UserRule]:
    """The rules that fit, in the order in which they were given: a person's own before those of a file, the newest first."""
    room = min(params.most, ctx.limit - ctx.count_envelope(envelope))
    chosen = list[UserRule]()
    for rule in sorted(missing, key=lambda rule: (RULE_SOURCES.index(rule.source), -rule.block)):
        more = sorted((*chosen, rule), key=lambda rule: (rule.block, rule.span))
        if sum(ctx.own.count_placeholder((write_rules(more, params.heading),))) > room:
            break
        chosen = more
    return chosen


RULE = Rule(
    "repeat_user_rules",
    "Repeat the rules that a person gave in words, such as never or always, once they have left the window.",
    edits,
    Params,
    "fresh",  # what has left differs from request to request: a rule that is there again is not said twice
    state=tuple[int, ...],
)
