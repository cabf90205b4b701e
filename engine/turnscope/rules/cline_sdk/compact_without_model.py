"""Cline SDK's basic compaction: at the trigger the newest work stays as far as it fits, and a notice tells of the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor
from typing import Annotated, Any, NamedTuple

from msgspec import Struct

from turnscope.envelope.conversation import memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.recorded_compactions import find_compactions
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.cline_sdk import basic, history
from turnscope.ports.cline_sdk import messages as port
from turnscope.ports.cline_sdk.history import History
from turnscope.ports.cline_sdk.repeated import NOTHING, Choice, Chooser, Earlier, Measured
from turnscope.ports.rows import is_intact
from turnscope.session.index import Index
from turnscope.session.model import Edit, Part, Session, Span

_REMEMBERED = 4  # states whose messages stay in memory


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


class Memory(NamedTuple):
    """What was measured for the replays of a session: by state, and what shortening its messages would save."""

    standings: dict[int, Standing]  # by id; the state is held, so its id is not reused
    chooser: Chooser


class Standing(NamedTuple):
    """The messages that a compaction left, and the messages behind them, by number, as far as they were read."""

    state: Compacted
    left: Earlier
    fresh: dict[int, Measured]


class Change(NamedTuple):
    """What a compaction changes of one message, and the messages behind it that go."""

    before: Left
    after: Left
    gone: tuple[Left, ...]


@memoize
def _recall(_session: Session, _index: Index) -> Memory:
    return Memory({}, Chooser())


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. Results count as they are sent before the first compaction, and whole after it."""
    memory, found = _recall(ctx), history.read_history(ctx)
    standing = _find_standing(memory, found, ctx.state or Compacted())
    done, there = standing.state, history.count_rows(found, ctx.request.cut)
    overhead = history.count_overhead(found, ctx, params.tools)
    total = overhead + (standing.left.tokens + found.whole[there] - found.whole[done.count] if done.left else found.sent[there])
    trigger = history.compute_trigger(ctx, total)
    if total < trigger or len(done.left) + there - done.count < 2:
        return done
    because = f"the request is estimated at {total:,} tokens, the trigger is {trigger:,.0f}"
    facts: dict[str, Any] = {"tokens": total, "trigger": round(trigger)}
    whole = max(1, min(floor(trigger * params.target), trigger - 1))
    fresh = [*_list_fresh(standing, found, there)]
    choice = memory.chooser.choose(standing.left, fresh, max(1, floor(whole - overhead)), max(1, floor(trigger - overhead)))
    left, changes = _list_left(found, standing, fresh, choice) if choice else ([], [])
    if not choice or (len(left) == len(done.left) + len(fresh) and not any(one.notice for one in left[len(done.left) :])):
        yield Edit("keep", f"{because}, but nothing more can go", facts=facts)
        return done
    for edit in _build_edits(envelope, ctx, found, changes, because, facts):
        envelope = yield edit
    state = Compacted(there, tuple(left))
    known = {id(item.about): item for item in standing.left.items[choice.same :]}
    behind = [known.get(id(one)) or _measure_left(found, one) for one in left[choice.same :]]
    _remember(memory, Standing(state, standing.left.replace(choice.same, behind), {}))
    return state


def _find_standing(memory: Memory, found: History, state: Compacted) -> Standing:
    standing = memory.standings.get(id(state))
    if standing is None or standing.state is not state:
        standing = Standing(state, NOTHING.replace(0, [_measure_left(found, one) for one in state.left]), {})
        _remember(memory, standing)
    return standing


def _remember(memory: Memory, standing: Standing) -> None:
    while len(memory.standings) >= _REMEMBERED:
        memory.standings.pop(next(iter(memory.standings), 0), None)
    memory.standings[id(standing.state)] = standing


def _list_fresh(standing: Standing, found: History, there: int) -> Iterator[Measured]:
    """The messages that no compaction took account of yet."""
    for number in range(standing.state.count, there):
        known = standing.fresh.get(number)
        yield known or standing.fresh.setdefault(number, Measured(found.messages[number], old=False, about=Left(number)))


def _measure_left(found: History, one: Left) -> Measured:
    """Measure a message as it is stored after a compaction."""
    message, row = found.messages[one.number], found.rows[one.number]
    content = [part for at, part in zip(range(row.start, row.stop), message["content"], strict=False) if at not in one.gone]
    if port.is_typed(message):
        notice = [{"type": "text", "text": one.notice}] if one.notice else []
        return Measured({**message, "content": [*content, *notice]}, old=True, about=one)
    bare = {name: value for name, value in message.items() if name != "metrics"}
    return Measured({**bare, "content": content, "metadata": {"compaction": "preserved"}}, old=True, about=one)


def _list_left(
    found: History, standing: Standing, fresh: Sequence[Measured], choice: Choice
) -> tuple[list[Left], list[Change]]:
    """What stays of a transcript, by what a compaction chose, and how that differs; notices tell of what is gone behind it."""
    places, forms, same = choice
    items, messages = [*standing.left.items, *fresh], [*standing.left.messages, *(item.message for item in fresh)]
    left = [*standing.state.left[:same], *(items[place].about for place in places[same:])]
    stops = [*places[1:], len(items)]
    touched = [n for n in range(same, len(places)) if stops[n] != places[n] + 1 or forms[n].lost]
    first = next((places[n] for n in touched if stops[n] != places[n] + 1), len(items))
    answers = basic.find_newest_answers(messages, first)
    changes = []
    for n in touched:
        place, form, before = places[n], forms[n], left[n]
        notice = basic.describe_gap(messages, answers, place, stops[n]) if items[place].typed else ""
        start, count = found.rows[before.number].start, len(form.before["content"]) + len(before.gone)
        stored = [at for at in range(start, start + count) if at not in before.gone]
        gone = tuple(sorted({*before.gone, *(stored[number] for number in form.lost)}))
        left[n] = Left(before.number, gone, before.notice + notice)
        changes.append(Change(before, left[n], tuple(item.about for item in items[place + 1 : stops[n]])))
    return left, changes


def _build_edits(
    envelope: Envelope, ctx: Ctx, found: History, changes: Sequence[Change], because: str, facts: dict[str, Any]
) -> Iterator[Edit]:
    """One edit for each stretch that goes, with the notice in place of it, and one for each block inside of what stays."""
    recorded = iter(_list_recorded_notices(ctx))
    for before, after, gone in changes:
        row = found.rows[after.number]
        for at in sorted({*after.gone} - {*before.gone}):
            if is_intact(envelope, row._replace(start=at, stop=at + 1)):
                yield Edit("condense", f"{because}: thinking and media of what stays go", Span(at, at + 1), (), facts=facts)
        if not gone:
            continue
        notice = after.notice.removeprefix(before.notice)
        body = (Part("user", "text", next(recorded, notice)),) if notice else ()
        span = Span(found.rows[gone[0].number].start, found.rows[gone[-1].number].stop)
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
