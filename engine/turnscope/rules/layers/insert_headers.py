"""Layer 2: one line for each conversation that is over; the oldest are named as a range."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.layers.conversations import Split, find_current, find_manual_drops, format_id, get_memo, has_wishes
from turnscope.envelope.layers.forms import build_header, build_header_line, format_time
from turnscope.envelope.layers.places import HEADERS, find_front, put_texts
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.model import Span

PAGE = 20  # headers of one text: a page that is full never changes, so counts and a provider's cache keep it
HEAD = "[Headers of the earlier conversations: id, outcome, time (UTC), topic. Any can be retrieved by its id]"


@dataclass(frozen=True, slots=True)
class Params(Split):
    """Parameters."""

    header_cap: Annotated[int, "tokens that one header may have (published: 12)"] = 12
    most: Annotated[int, "headers that stand at most; a line names the range of the older ones"] = 200


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    here = find_current(ctx, params)
    if here > 0 and (here != ctx.state or has_wishes(ctx)):
        over = here - max(0, params.most)
        first = min(here, -(-over // PAGE) * PAGE) if over > 0 else 0  # by whole pages: each turn would move every page
        older = f"{format_id(ctx, params, 0)} to {format_id(ctx, params, first - 1)}: {first} older conversations, not listed"
        texts = (HEAD, *((older,) if first else ()), *_build_pages(ctx, params, first, here))
        because = f"{here - first} of {here} conversations that are over have a header of at most {params.header_cap} tokens"
        facts = {"headers": here - first, "conversations": here, "cap": params.header_cap}
        yield from put_texts(envelope, find_front(ctx), HEADERS, texts, because=because, facts=facts)
    return here if here > 0 else ctx.state


def _build_pages(ctx: Ctx, params: Params, first: int, stop: int) -> Iterator[str]:
    known = get_memo(ctx)
    for at in range(first - first % PAGE, stop, PAGE):
        end = min(at + PAGE, stop)
        gone = find_manual_drops(ctx, Span(0, ctx.request.cut)) if ctx.session.recorded.wishes else ()
        key = ("page", params, id(ctx.own), max(at, first), end, gone)
        if key not in known:
            known[key] = "\n".join(_build_lines(ctx, params, range(max(at, first), end)))
        yield known[key]


def _build_lines(ctx: Ctx, params: Params, numbers: range) -> Iterator[str]:
    """The headers of a page, each with its time; the day is named once for all headers of it."""
    day = ""
    for number in numbers:
        began = format_time(build_header(ctx, params, number).timestamp)[:5]
        if began and began != day:
            yield f"On {began}:"
        day = began or day
        yield build_header_line(ctx, params, number, params.header_cap, dated=False)


RULE = Rule(
    "insert_headers",
    "Put a header of every conversation that is over in front: at most so many, a range for older ones; never dropped.",
    edits,
    Params,
    source="Smart Context Management for AI Code Assistants: layer 2, conversation headers, 12 tokens each, at most 200",
    state=int,
)
