"""What was retrieved, as it stands: which conversations in which form, what there is room for, the edits that put it there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Struct, structs

from turnscope.envelope.condensing import without
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.layers.archive import Grant, calls, grants, likely
from turnscope.envelope.layers.conversations import Split, left_out, name_of, span_of, without_prompt
from turnscope.envelope.layers.places import RETRIEVED, insert_at, put, standing, standing_tokens, under_way, yielding
from turnscope.envelope.layers.trio import counts, header_line, summary_text
from turnscope.envelope.rule import Ctx
from turnscope.session.model import Edit, Span

SMALLER = {"full": "summary", "summary": "header", "header": ""}


@dataclass(frozen=True, slots=True)
class Forms(Split):
    """How much is retrieved, and how large its forms may be."""

    quota: Annotated[int, "conversations that may be retrieved while one conversation goes on"] = 5
    learn: Annotated[bool, "what earlier sessions of the project looked up again orders what is made ready"] = True
    prefetch: Annotated[int, "conversations made ready because they share most with the prompt (0 = none)"] = 3
    cache: Annotated[int, "conversations that stay ready, the last asked for first"] = 20
    header_cap: Annotated[int, "tokens of a retrieved header"] = 24
    summary_cap: Annotated[int, "tokens of a retrieved summary"] = 120


class Retrieved(Struct, frozen=True, gc=False):
    """What stands at `at` of the archive, by number and form; calls before `seen` are answered; what is ready, and how often
    what was asked for was among it."""

    at: int
    seen: int
    shown: tuple[tuple[int, str], ...] = ()
    used: int = 0
    ready: tuple[int, ...] = ()
    hits: int = 0
    misses: int = 0
    learned: tuple[str, ...] = ()  # what earlier sessions looked up again, as it was told when this one began


def answered(
    envelope: Envelope, ctx: Ctx, forms: Forms, was: Retrieved | None, learned: Sequence[str] = ()
) -> tuple[Retrieved, list[tuple[int, list[Grant]]]]:
    """The state with every new call answered, and the calls with what becomes of each of their ids.

    Where a conversation began since, nothing of the archive stands any more, and what may be asked for next is made ready.
    """
    at, found = under_way(ctx, forms), list[tuple[int, list[Grant]]]()
    now = was or Retrieved(-1, at, learned=(*learned,))
    if now.at != at:
        ready = tuple(dict.fromkeys((*likely(ctx, forms, forms.prefetch, now.learned), *now.ready)))
        now = structs.replace(now, at=at, shown=(), used=0, ready=ready[: max(0, forms.cache)])
    for call in calls(ctx, now.seen):
        raw = ctx.session.blocks[call].raw
        given = raw.get("input") if isinstance(raw, Mapping) else None
        found.append((call, [*grants(envelope, ctx, forms, given, forms.quota - now.used)]))
        now = structs.replace(_noted(now, found[-1][1], forms.cache), seen=call + 1)
    return now, found


def _noted(now: Retrieved, found: Sequence[Grant], cache: int) -> Retrieved:
    """The state after a request: each conversation once, in the form last asked for."""
    given = {grant.number: grant.form for grant in found if grant.what in ("given", "superseded")}
    hits = sum(number in now.ready for number in given)
    ready = tuple(dict.fromkeys((*given, *now.ready)))[: max(0, cache)]
    shown = tuple((dict(now.shown) | given).items())
    counted = {"hits": now.hits + hits, "misses": now.misses + len(given) - hits}
    return structs.replace(now, shown=shown, used=now.used + len(given), ready=ready, **counted)


def fitting(envelope: Envelope, ctx: Ctx, forms: Forms, was: Retrieved | None, now: Retrieved) -> tuple[tuple[int, str], ...]:
    """The forms for which there is room: from the last on, full becomes summary, then header, before one is left out.

    For headers, what nobody asked for makes room: the inserts of other layers.
    """
    insert = insert_at(envelope, was.at, RETRIEVED) if was and 0 <= was.at < envelope.stop else None
    held = sum(ctx.own.body(insert.body)) if insert else 0
    held += sum(
        standing_tokens(envelope, ctx, span_of(ctx, forms, n)) for n, form in (was.shown if was else ()) if form == "full"
    )
    room = ctx.limit - ctx.size(envelope) + held
    more = yielding(envelope, ctx, forms) - (sum(ctx.own.body(insert.body)) if insert else 0)
    shown = dict(now.shown)
    while shown and sum(_cost(ctx, forms, n, form) for n, form in shown.items()) > room:
        most = next(form for form in SMALLER if form in shown.values())
        if most == "header" and sum(_cost(ctx, forms, n, most) for n in shown) <= room + more:
            break
        last = [number for number, form in shown.items() if form == most][-1]
        if SMALLER[most]:
            shown[last] = SMALLER[most]
        else:
            del shown[last]
    return tuple(shown.items())


def laid(envelope: Envelope, ctx: Ctx, forms: Forms, was: Mapping[int, str], now: Mapping[int, str], at: int) -> Iterator[Edit]:
    """The edits from what stood to what stands now: full texts are the blocks themselves, put back; others are an insert."""
    full = {number for number, form in now.items() if form == "full"}
    facts: dict[str, Any] = {"shown": [[name_of(ctx, forms, number), form] for number, form in now.items()]}
    for number in [number for number, form in was.items() if form == "full" and number not in full]:
        left = "there is no room for it in full any more" if number in now else "the conversation that asked for it is over"
        for span in standing(envelope, ctx, span_of(ctx, forms, number)):
            yield Edit("drop", f"{name_of(ctx, forms, number)}: {left}", span, facts=facts)
    for number in full:
        if was.get(number) != "full":
            because = f"{name_of(ctx, forms, number)} was asked for in full: its blocks stand again"
            yield from (
                Edit("retrieve", because, span, None, restore=True, slot=RETRIEVED, facts=facts)
                for span in _gone(envelope, ctx, forms, number)
            )
    texts = tuple(_text(ctx, forms, number, form) for number, form in now.items() if form != "full")
    because = f"of the retrieved conversations {len(texts)} stand as header or summary"
    yield from put(envelope, at, RETRIEVED, texts, because, facts)


def _text(ctx: Ctx, forms: Forms, number: int, form: str) -> str:
    if form == "summary":
        return summary_text(ctx, forms, number, forms.summary_cap)
    return header_line(ctx, forms, number, forms.header_cap)


def _cost(ctx: Ctx, forms: Forms, number: int, form: str) -> int:
    return ctx.tokens(*span_of(ctx, forms, number)) if form == "full" else counts(ctx)([_text(ctx, forms, number, form)])[0]


def _gone(envelope: Envelope, ctx: Ctx, forms: Forms, number: int) -> Iterator[Span]:
    whole = span_of(ctx, forms, number)
    parts = (part for one in without_prompt(ctx, whole) for part in without(one, left_out(ctx, whole)))
    spans = (span for part in parts for span in ctx.index.talk(*part))
    yield from (span for span in spans if envelope.at(span.start).body == ())
