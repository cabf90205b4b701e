"""Retrieved conversations: which are in the request and in which form, what fits, and the edits that insert them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Struct, structs

from turnscope.envelope.condensing import subtract_spans
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.layers.archive import Grant, find_calls, grant_ids, predict_requests
from turnscope.envelope.layers.conversations import Split, exclude_prompt, find_manual_drops, format_id, get_span
from turnscope.envelope.layers.forms import build_header_line, build_summary, make_counter
from turnscope.envelope.layers.places import (
    RETRIEVED,
    count_present_tokens,
    count_shrinkable_tokens,
    find_current_start,
    find_insert,
    find_present,
    put_texts,
)
from turnscope.envelope.rule import Ctx
from turnscope.session.model import Edit, Span

SMALLER = {"full": "summary", "summary": "header", "header": ""}


@dataclass(frozen=True, slots=True)
class RetrievalLimits(Split):
    """How many conversations may be retrieved, and how large their forms may be."""

    quota: Annotated[int, "conversations that may be retrieved during one conversation"] = 5
    learn: Annotated[bool, "prefer to make ready what earlier sessions of the project looked up again"] = True
    prefetch: Annotated[int, "conversations made ready because they are most related to the prompt (0 = none)"] = 3
    cache: Annotated[int, "conversations that stay ready, the last requested first"] = 20
    header_cap: Annotated[int, "tokens of a retrieved header"] = 24
    summary_cap: Annotated[int, "tokens of a retrieved summary"] = 120


class RetrievalState(Struct, frozen=True, gc=False):
    """What is retrieved.

    Attributes:
        at: Address of the insert.
        seen: Calls before this address are answered.
        shown: Number and form of each retrieved conversation.
        used: How much of the quota is used.
        ready: Conversations made ready, the most recent first.
        hits: How many requested conversations were ready.
        misses: How many were not.
        learned: What earlier sessions looked up again, as known when this session began.
    """

    at: int
    seen: int
    shown: tuple[tuple[int, str], ...] = ()
    used: int = 0
    ready: tuple[int, ...] = ()
    hits: int = 0
    misses: int = 0
    learned: tuple[str, ...] = ()  # items `times name`


def answer_calls(
    envelope: Envelope, ctx: Ctx, forms: RetrievalLimits, was: RetrievalState | None, learned: Sequence[str] = ()
) -> tuple[RetrievalState, list[tuple[int, list[Grant]]]]:
    """Answer all new calls of the tool.

    When a conversation begins, everything retrieved is removed, and conversations that may be needed next are made ready.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        forms: Limits of retrieval.
        was: The state before; None = the first time.
        learned: What earlier sessions looked up again.

    Returns:
        The new state, and each call with its grants.
    """
    at, found = find_current_start(ctx, forms), list[tuple[int, list[Grant]]]()
    now = was or RetrievalState(-1, at, learned=(*learned,))
    if now.at != at:
        ready = tuple(dict.fromkeys((*predict_requests(ctx, forms, forms.prefetch, now.learned), *now.ready)))
        now = structs.replace(now, at=at, shown=(), used=0, ready=ready[: max(0, forms.cache)])
    for call in find_calls(ctx, now.seen):
        raw = ctx.session.blocks[call].raw
        arguments = raw.get("input") if isinstance(raw, Mapping) else None
        found.append((call, [*grant_ids(envelope, ctx, forms, arguments, forms.quota - now.used)]))
        now = structs.replace(_record_grants(now, found[-1][1], forms.cache), seen=call + 1)
    return now, found


def _record_grants(now: RetrievalState, found: Sequence[Grant], cache: int) -> RetrievalState:
    """The state after a call: each conversation once, in the form requested last."""
    forms = {grant.number: grant.form for grant in found if grant.status in ("given", "superseded")}
    hits = sum(number in now.ready for number in forms)
    ready = tuple(dict.fromkeys((*forms, *now.ready)))[: max(0, cache)]
    shown = tuple((dict(now.shown) | forms).items())
    counted = {"hits": now.hits + hits, "misses": now.misses + len(forms) - hits}
    return structs.replace(now, shown=shown, used=now.used + len(forms), ready=ready, **counted)


def fit_forms(
    envelope: Envelope, ctx: Ctx, forms: RetrievalLimits, was: RetrievalState | None, now: RetrievalState
) -> tuple[tuple[int, str], ...]:
    """Return the forms that fit. From the last on, full becomes summary, then header, then nothing.

    Headers may also use the room of other layers' inserts.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        forms: Limits of retrieval.
        was: The state before.
        now: The state with all grants.
    """
    insert = find_insert(envelope, was.at, RETRIEVED) if was and 0 <= was.at < envelope.stop else None
    tokens = sum(ctx.own.count_placeholder(insert.body)) if insert else 0
    tokens += sum(
        count_present_tokens(envelope, ctx, get_span(ctx, forms, n)) for n, form in (was.shown if was else ()) if form == "full"
    )
    room = ctx.limit - ctx.count_envelope(envelope) + tokens
    more = count_shrinkable_tokens(envelope, ctx, forms) - (sum(ctx.own.count_placeholder(insert.body)) if insert else 0)
    shown = dict(now.shown)
    while shown and sum(_count_form(ctx, forms, n, form) for n, form in shown.items()) > room:
        most = next(form for form in SMALLER if form in shown.values())
        if most == "header" and sum(_count_form(ctx, forms, n, most) for n in shown) <= room + more:
            break
        last = [number for number, form in shown.items() if form == most][-1]
        if SMALLER[most]:
            shown[last] = SMALLER[most]
        else:
            del shown[last]
    return tuple(shown.items())


def build_edits(
    envelope: Envelope, ctx: Ctx, forms: RetrievalLimits, was: Mapping[int, str], now: Mapping[int, str], at: int
) -> Iterator[Edit]:
    """Yield the edits between the forms before and now. A full text restores the blocks; other forms are inserted.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        forms: Limits of retrieval.
        was: Forms before, by conversation.
        now: Forms now, by conversation.
        at: Address of the insert.
    """
    full = {number for number, form in now.items() if form == "full"}
    facts: dict[str, Any] = {"shown": [[format_id(ctx, forms, number), form] for number, form in now.items()]}
    for number in [number for number, form in was.items() if form == "full" and number not in full]:
        left = "it no longer fits in full" if number in now else "the conversation that requested it is completed"
        for span in find_present(envelope, ctx, get_span(ctx, forms, number)):
            yield Edit("drop", f"{format_id(ctx, forms, number)}: {left}", span, facts=facts)
    for number in full:
        if was.get(number) != "full":
            because = f"{format_id(ctx, forms, number)} was requested in full: its blocks are restored"
            yield from (
                Edit("retrieve", because, span, None, restore=True, slot=RETRIEVED, facts=facts)
                for span in _find_absent(envelope, ctx, forms, number)
            )
    texts = tuple(_render_form(ctx, forms, number, form) for number, form in now.items() if form != "full")
    because = f"{len(texts)} retrieved conversations are inserted as header or summary"
    yield from put_texts(envelope, at, RETRIEVED, texts, because=because, facts=facts)


def _render_form(ctx: Ctx, forms: RetrievalLimits, number: int, form: str) -> str:
    if form == "summary":
        return build_summary(ctx, forms, number, forms.summary_cap).content
    return build_header_line(ctx, forms, number, forms.header_cap)


def _count_form(ctx: Ctx, forms: RetrievalLimits, number: int, form: str) -> int:
    return (
        ctx.count_tokens(*get_span(ctx, forms, number))
        if form == "full"
        else make_counter(ctx)([_render_form(ctx, forms, number, form)])[0]
    )


def _find_absent(envelope: Envelope, ctx: Ctx, forms: RetrievalLimits, number: int) -> Iterator[Span]:
    whole = get_span(ctx, forms, number)
    parts = (part for one in exclude_prompt(ctx, whole) for part in subtract_spans(one, find_manual_drops(ctx, whole)))
    spans = (span for part in parts for span in ctx.index.find_conversation_spans(*part))
    yield from (span for span in spans if envelope.find_piece(span.start).body == ())
