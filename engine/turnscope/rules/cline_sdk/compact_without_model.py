"""Cline SDK's basic compaction: at the trigger the newest work stays as far as it fits, and a notice tells of the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor
from typing import Annotated, Any

from msgspec import Struct

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.recorded_compactions import find_compactions
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.cline_sdk import basic, history
from turnscope.ports.cline_sdk import messages as port
from turnscope.ports.cline_sdk.history import History
from turnscope.ports.cline_sdk.messages import Message
from turnscope.ports.rows import is_intact
from turnscope.session.model import Edit, Part, Span


@dataclass(frozen=True, slots=True)
class Params:
    """The options of the original."""

    target: Annotated[float, "share of the trigger that may be left"] = port.TARGET_SHARE
    tools: Annotated[int, "estimated tokens of the definitions of tools, where the log holds none"] = history.TOOLS


class Left(Struct, frozen=True):
    """A message that a compaction left: its number, the addresses of its blocks that went, and the notice behind it."""

    number: int
    gone: tuple[int, ...] = ()
    notice: str = ""


class Compacted(Struct, frozen=True):
    """Of how many messages the newest compaction took account, and what it left of them; later ones keep all of that."""

    count: int = 0
    left: tuple[Left, ...] = ()


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. Results count as they are sent before the first compaction, and whole after it."""
    done, found = ctx.state or Compacted(), history.read_history(ctx)
    there = history.count_rows(found, ctx.request.cut)
    left = (*done.left, *map(Left, range(done.count, there)))
    current = [_build_message(ctx, found, one, one.number < done.count) for one in left]
    overhead = history.count_overhead(found, ctx, params.tools)
    total = overhead + (port.sum_tokens(current) if done.left else found.sent[there])
    trigger = history.compute_trigger(ctx, total)
    if total < trigger or len(current) < 2:
        return done
    because = f"the request is estimated at {total:,} tokens, the trigger is {trigger:,.0f}"
    facts: dict[str, Any] = {"tokens": total, "trigger": round(trigger)}
    whole = max(1, min(floor(trigger * params.target), trigger - 1))
    made = basic.compact(current, max(1, floor(whole - overhead)), max(1, floor(trigger - overhead)))
    kept = _list_left(found, left, current, made[1].messages) if made else left
    if len(kept) == len(left) and not any(one.notice for one in kept[len(done.left) :]):
        yield Edit("keep", f"{because}, but nothing more can go", facts=facts)
        return done
    for edit in _build_edits(envelope, ctx, found, left, kept, because, facts):
        envelope = yield edit
    return Compacted(there, kept)


def _build_message(ctx: Ctx, found: History, one: Left, old: bool) -> Message:
    """A message as it is stored after a compaction, or as it was written."""
    message = found.messages[one.number]
    if not old:
        return message
    row = found.rows[one.number]
    content = [part for at, part in zip(range(row.start, row.stop), message["content"], strict=False) if at not in one.gone]
    if port.is_typed(message):
        notice = [{"type": "text", "text": one.notice}] if one.notice else []
        return {**message, "content": [*content, *notice]}
    bare = {name: value for name, value in message.items() if name != "metrics"}
    return {**bare, "content": content, "metadata": {"compaction": "preserved"}}


def _list_left(
    found: History, left: Sequence[Left], current: Sequence[Message], messages: Sequence[Message]
) -> tuple[Left, ...]:
    """What stays of `left`, by the messages that a compaction chose, and the notices of what is gone behind them."""
    places = {message["id"]: place for place, message in enumerate(current)}
    chosen = [places[message["id"]] for message in messages]
    kept = []
    for (place, behind), message in zip(pairwise([*chosen, len(current)]), messages, strict=True):
        one, row = left[place], found.rows[left[place].number]
        notice = basic.describe_gap(current, place, behind) if port.is_typed(current[place]) else ""
        kept.append(Left(one.number, _find_gone(row.start, current[place], message, one.gone), one.notice + notice))
    return tuple(kept)


def _find_gone(start: int, before: Message, after: Message, gone: tuple[int, ...]) -> tuple[int, ...]:
    """Addresses of the blocks of a message that are not sent any more: thinking, and media."""
    old, new = list(before["content"]), iter(after["content"])
    following = next(new, None)
    addresses = (at for at in range(start, start + len(old) + len(gone)) if at not in gone)
    lost = list(gone)
    for at, block in zip(addresses, old, strict=False):
        if following is not None and block.get("type") == following.get("type"):
            following = next(new, None)
        else:
            lost.append(at)
    return tuple(sorted(lost))


def _build_edits(
    envelope: Envelope,
    ctx: Ctx,
    found: History,
    left: Sequence[Left],
    kept: Sequence[Left],
    because: str,
    facts: dict[str, Any],
) -> Iterator[Edit]:
    """One edit for each stretch that goes, with the notice in place of it, and one for each block inside of what stays."""
    before = {one.number: one for one in left}
    numbers = [one.number for one in left]
    recorded = iter(_list_recorded_notices(ctx))
    for one, behind in pairwise([*kept, Left(len(found.rows))]):
        row = found.rows[one.number]
        for at in sorted({*one.gone} - {*before[one.number].gone}):
            if is_intact(envelope, row._replace(start=at, stop=at + 1)):
                yield Edit("condense", f"{because}: thinking and media of what stays go", Span(at, at + 1), (), facts=facts)
        gone = [number for number in numbers if one.number < number < behind.number]
        if not gone:
            continue
        notice = one.notice.removeprefix(before[one.number].notice)
        body = (Part("user", "text", next(recorded, notice)),) if notice else ()
        span = Span(found.rows[gone[0]].start, found.rows[gone[-1]].stop)
        text = f"{because}: the newest work stays, {len(gone):,} messages go"
        yield Edit("condense", text, span, body, facts={**facts, "messages": len(gone)})


def _list_recorded_notices(ctx: Ctx) -> list[str]:
    """The notices that the tool itself wrote at this request, where the log holds them."""
    parts = (part for edit in find_compactions(ctx) for part in edit.body or ())
    return [part.text for part in parts if part.role == "user" and part.text.startswith(basic.TAG)]


RULE = Rule(
    "compact_without_model",
    "Once the request is estimated at the trigger, keep prompts and the newest work as far as they fit, and tell of the rest.",
    edits,
    Params,
    source="npm @cline/core 0.0.86, extensions/context/basic-compaction.ts; requests that Cline 3.0.65 sent",
    state=Compacted,
)
