"""Replace older work by an extract of it, in a few large cuts: each when it pays for the part of the cache that it breaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Struct

from turnscope.envelope.condensing import SummaryOptions, compute_fill, count_source_tokens
from turnscope.envelope.conversation import count_static_tokens, find_fitting_start, find_start
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.envelope.work_extract import Candidates, Line, find_names, find_replaced, read_block, read_extract, write_extract
from turnscope.pricing.caches import find_rules
from turnscope.session.index import count_before
from turnscope.session.model import Block, Edit, Part, Span

SLOT = "extract"
HEAD = (
    "[Extract of the earlier work, made without a model: lines that name what may be needed again, by where they stand."
    " Read a file again before you edit it. It stands for {} messages]"
)
USUAL = 0.1 / 1.15  # price of reading a token, over what writing it again costs more, where a model has no known price
SHORTEST = 300.0  # seconds that every provider's cache lives after its last use
LEAST = 3_000  # tokens; less older work is not worth a cut (in a small window: a third of what may stay of it)
COLD = 3  # where the cache is cold, so that all is written again, a third of the newest messages stays
MOST = 3  # neither newest messages nor extract take more than a third of what system prompt and tools leave of the limit
OWN = 2  # mentions that what the assistant wrote counts as, a summary by the tool, and what the earlier extract has


@dataclass(frozen=True, slots=True)
class Params:
    """What stays, how large the extract may be, and when a cut pays."""

    keep: Annotated[int, "tokens of the newest messages to keep as they are"] = 12_000
    extract: Annotated[int, "maximum tokens of the extract"] = 10_000
    prompts: Annotated[int, "maximum tokens of the user's older texts to keep whole: the first one, then the newest"] = 8_000
    payback: Annotated[
        float, "cut once sending older work again has cost so many times what the cut costs (0 = as soon as there is some)"
    ] = 1.5
    share: Annotated[float, "cut at this share of the budget, whether it pays or not"] = 0.8


class Work(Struct, frozen=True, gc=False):
    """The state: the address up to which work is in the extract, and the tokens of older work sent since, of all requests."""

    done: int = 0
    carried: int = 0


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    state: Work = ctx.state or Work()
    if not count_before(ctx.index.messages, ctx.request.cut):
        return state
    first, cold = ctx.index.messages[0], _explain_cold(ctx)
    most = max(1, (ctx.limit - count_static_tokens(envelope, ctx)) // MOST)
    keep, room = min(most, params.keep), min(most, params.extract)
    at = find_start(ctx, find_fitting_start(envelope, ctx, keep // COLD if cold else keep), answer=True)
    done = max(first, state.done)
    older = ctx.count_tokens(done, at) if done < at else 0
    carried = state.carried + older
    because = _explain_cut(envelope, ctx, params, cold, carried, keep + room) if older >= min(LEAST, most // MOST) else ""
    if not because:
        return Work(state.done, carried) if older else state
    prompts = _find_prompts(envelope, ctx, Span(first, at), done, min(params.prompts, most))
    lines = _choose_lines(envelope, ctx, Span(first, at), done, prompts, room)
    messages = count_before(ctx.index.messages, at)
    part = Part("user", "summary", write_extract(lines, HEAD.format(f"{messages:,}")))
    if (size := ctx.own.count_parts((part,))) > room:  # the room was in characters
        lines = lines[: len(lines) * room // size]
        part = Part("user", "summary", write_extract(lines, HEAD.format(f"{messages:,}")))
    facts = {"older": older, "carried": carried, "lines": len(lines), "messages": messages, "prompts": len(prompts)}
    spans = [*_find_between(ctx, Span(first, at), prompts)]
    if sum(count_source_tokens(envelope, ctx, span, SummaryOptions("")) for span in spans) <= size:
        return Work(state.done, carried)
    for span in spans[:-1]:
        piece = envelope.find_piece(span.start)
        if piece.body != () or piece.stop < span.stop:
            envelope = yield Edit("drop", "what it named is in the extract behind it", span, facts=facts)
    yield Edit("condense", because, spans[-1], (part,), slot=SLOT, facts=facts)
    return Work(at)


def _explain_cold(ctx: Ctx) -> str:
    """Why nothing of the prompt can be in the cache; "" = it may be."""
    previous = ctx.previous.request if ctx.previous else None
    if previous is None:
        return ""
    if previous.model != ctx.request.model:
        return f"{ctx.request.model or 'the model'} has nothing of it in its cache"
    used, now = previous.answered_at or previous.sent_at, ctx.request.sent_at
    if used is None or now is None or now - used <= SHORTEST:
        return ""
    lives = find_rules(ctx.prices.find_facts(ctx.request.model)).lives.values()
    hour = previous.usage is not None and previous.usage.cache_creation_1h_input_tokens > 0
    life = max(lives, default=0.0) if hour else min(lives, default=0.0)
    return f"{(now - used) / 60:,.0f} minutes passed, so nothing of it is in the cache" if life and now - used > life else ""


def _explain_cut(envelope: Envelope, ctx: Ctx, params: Params, cold: str, carried: int, behind: int) -> str:
    """Why to cut now; "" = it does not pay yet. `behind`: tokens that are written again if it is cut."""
    if cold:
        return f"{cold}: older work becomes an extract at no further cost"
    if (fill := compute_fill(envelope, ctx)) >= params.share:
        return f"the request fills {fill:.0%} of the budget: older work becomes an extract"
    if carried < params.payback * behind:  # reading never costs more than writing again
        return ""
    rates = ctx.prices.find_rates(ctx.request.model, ctx.count_envelope(envelope), ctx.request.sent_at)
    again = float(max(rates.cache_write_5m, rates.input) - rates.cache_read) if rates else 0.0
    price = float(rates.cache_read) / again if rates and again > 0 else USUAL
    if carried * price < params.payback * behind:
        return ""
    return (
        f"sending older work again has cost {carried * price / behind:.1f} times what it costs to write the {behind:,} tokens"
        " behind a cut again: it becomes an extract"
    )


def _find_prompts(envelope: Envelope, ctx: Ctx, span: Span, done: int, room: int) -> list[int]:
    """Addresses of the user's own texts that stay: the first always, then the newest that fit. Before `done` some have left."""
    blocks, messages = ctx.session.blocks, ctx.session.messages
    pieces = envelope.iter_pieces(Span(span.start, done)) if span.start < done else ()
    stood = (at for piece in pieces if piece.body is None for at in range(max(piece.start, span.start), min(piece.stop, done)))
    texts = [at for at in (*stood, *range(done, span.stop)) if _is_own_text(blocks[at], messages[blocks[at].message].origin)]
    found = texts[:1]
    room -= sum(ctx.count_tokens(at, at + 1) for at in found)
    for at in reversed(texts[1:]):
        room -= ctx.count_tokens(at, at + 1)
        if room < 0:
            break
        found.append(at)
    return sorted(found)


def _is_own_text(block: Block, origin: str) -> bool:
    return block.role == "user" and block.kind == "text" and origin != "summary"


def _choose_lines(envelope: Envelope, ctx: Ctx, span: Span, done: int, prompts: Sequence[int], room: int) -> list[Line]:
    """The lines of the extract: from the earlier one, and from what came since."""
    session, total, stay = ctx.session, ctx.own.total, {*prompts}
    found, known = Candidates(), set[str]()
    characters = tokens = 0
    for piece in envelope.iter_pieces(Span(span.start, done)) if span.start < done else ():
        if piece.slot == SLOT and piece.body:
            found.add(read_extract(piece.body[0].text), total[done], weight=OWN)
    known.update(*(find_names(session.blocks[at].text) for at in prompts if at < done))
    for block in session.blocks[done : ctx.request.cut]:
        is_own = block.role == "assistant" or session.messages[block.message].origin == "summary"
        weight = OWN if is_own else 1
        if block.at >= span.stop or block.at in stay:
            names = set().union(*(line.names for line in read_block(block, session)))
            found.count(names, total[block.at], weight=weight)
            if block.kind != "thinking":  # a provider may leave it out later
                known |= names
        else:
            found.remove(*find_replaced(block))
            found.add(read_block(block, session), total[block.at], weight=weight)
            characters += len(text := block.text)
            tokens += ctx.count_tokens(block.at, block.at + 1) if text else 0  # media have tokens and no text
    return found.choose(known, room * max(1.0, characters / max(1, tokens)), total[ctx.request.cut])


def _find_between(ctx: Ctx, span: Span, prompts: Sequence[int]) -> Iterator[Span]:
    """The conversation of a span without the texts that stay."""
    start = span.start
    for stop in (*prompts, span.stop):
        if start < stop:
            yield from ctx.index.find_conversation_spans(start, stop)
        start = stop + 1


RULE = Rule(
    "extract_old_work",
    "Replace older work by an extract of its lines, in a few large cuts that pay for the cache they break.",
    edits,
    Params,
    source="Turnscope; that a cut is due once waiting has cost as much as it is the rule of the ski-rental problem",
    state=Work,
)
