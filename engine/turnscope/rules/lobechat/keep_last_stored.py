"""LobeChat's window: the newest stored messages, with results after their calls, and a summary of older messages."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Struct

from turnscope.counting.ledger import Ledger
from turnscope.envelope.condensing import build_text_ask
from turnscope.envelope.conversation import find_droppable, memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.chats import build_parts, find_leading_end, get_chat, read_chat
from turnscope.ports.lobechat.messages import (
    COUNT,
    EXTRA,
    TOOL,
    count_handed_over,
    find_window,
    frame_summary,
    is_limited,
    order_messages,
)
from turnscope.ports.rows import memoize_by_ledger
from turnscope.session.index import Index
from turnscope.session.model import Answer, Edit, Part, Session, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    count: Annotated[int, "number of messages in the chat's setting; two more are sent"] = COUNT
    on: Annotated[bool, "the window is on"] = True
    uncached: Annotated[bool, "the setting that switches context caching off"] = False
    search: Annotated[str, "mode of search: off, auto or on"] = "off"
    summarise: Annotated[bool, "summarise older messages after each answer"] = False
    prompt: Annotated[str, "name of the prompt: a text file in engine/turnscope/envelope/prompts"] = "summarise"
    cap: Annotated[int, "maximum tokens of the summary"] = 400
    model: Annotated[str, "model that writes the summary (empty = the caller's choice)"] = ""


class Topic(Struct, frozen=True):
    """The stored summary of a topic, the turn in which it was made, and how many messages it covers."""

    summary: str
    turn: int
    read: int = 0


@memoize_by_ledger
def _find_misplaced(session: Session, _index: Index, _own: Ledger) -> tuple[int, ...]:
    """Return the numbers of the messages that are sent at another place than they are stored."""
    messages = [one.message for one in read_chat(session, TOOL).chat_messages]
    order = order_messages(messages)
    place = {number: i for i, number in enumerate(order)}
    lost = 0
    odd = []
    for number in range(len(messages)):
        if number not in place:
            lost += 1
            odd.append(number)
        elif place[number] != number - lost:
            odd.append(number)
    return tuple(odd)


@memoize_by_ledger
def _find_systems(session: Session, _index: Index, _own: Ledger) -> tuple[int, ...]:
    """Return the numbers of the stored system messages."""
    return tuple(n for n, one in enumerate(read_chat(session, TOOL).chat_messages) if one.message["role"] == "system")


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. Each summary is made of all older messages, so it takes longer the longer the chat is."""
    talk = get_chat(ctx, TOOL)
    there = bisect_left(talk.starts, ctx.request.cut)
    on = is_limited(ctx.request.model, params.on, params.uncached, params.search or None)
    state: Topic | None = ctx.state
    if params.summarise and on:
        state = yield from _make_summary(ctx, params, state)
    first = find_window(there, on, params.count + EXTRA)
    facts = {"kept": there - first, "of": there, "tokens shown by the app": ctx.count_tokens(0, ctx.request.cut)}  # of all
    kept, because = there - first, f"the {there - first:,} newest of {there:,} messages are sent"
    if first:
        stop = talk.starts[first] if kept else ctx.request.cut
        for span in find_droppable(ctx, envelope, 0, stop):
            envelope = yield Edit("drop", because, span, facts=facts)
        systems = _find_systems(ctx)
        for number in systems[: bisect_left(systems, first)]:
            one = talk.chat_messages[number]
            if envelope.find_piece(one.start).body != ():
                envelope = yield Edit("drop", because, Span(one.start, one.stop), facts=facts)
    yield from _order_results(ctx, first, there)
    text = state.summary if state else _get_stored_summary(ctx)
    if text:
        part = Part("system", "summary", frame_summary(text), place="system")
        place = find_leading_end(ctx)
        yield Edit("insert", "the summary stored with the topic", Span(place, place), (part,), slot="summary")
    return state


def _get_stored_summary(ctx: Ctx) -> str:
    """Return the topic's stored summary. An export holds the newest one, which was not sent before the end of the export."""
    about = ctx.session.about
    if "history_summary" in about:  # the log says that this very request had it
        return str(about["history_summary"] or "")
    behind = _find_summary_end(ctx)
    return str(about.get("historySummary") or "") if behind is not None and behind <= ctx.request.cut else ""


@memoize
def _find_summary_end(session: Session, _index: Index) -> int | None:
    """Return where the last message ends that an export's summary covers; None if there is no summary."""
    name = session.about.get("historySummaryBehind")
    return next((m.stop for m in reversed(session.messages) if m.id == name), None) if name else None


def _order_results(ctx: Ctx, first: int, there: int) -> Iterator[Edit]:
    """Drop results whose call is not sent, and move the others after their call."""
    messages, odd = get_chat(ctx, TOOL).chat_messages, _find_misplaced(ctx)
    lead = first
    while lead < there and messages[lead].message["role"] == "tool":
        lead += 1
    if not bisect_left(odd, there) - bisect_left(odd, first):
        for one in messages[first:lead]:
            yield Edit("drop", "its call is not sent", Span(one.start, one.stop))
        return
    order = order_messages([one.message for one in messages[first:there]])
    last, because = -1, "a result follows its call"
    for number in order:
        one = messages[first + number]
        if number == last + 1 or one.message["role"] != "tool":
            last = number
            continue
        at = messages[first + last].stop
        yield Edit("drop", because, Span(one.start, one.stop))
        yield Edit("insert", because, Span(at, at), tuple(build_parts([one.message])), slot=f"result {one.start}")
    for number in sorted(set(range(there - first)) - set(order)):
        one = messages[first + number]
        yield Edit("drop", "it has no call, or a later result replaces it", Span(one.start, one.stop))


def _make_summary(ctx: Ctx, params: Params, state: Topic | None) -> Any:
    """Make the summary that the app makes after an answer: it is due if that turn had more messages than are kept."""
    turns = ctx.index.turns
    turn = bisect_left(turns, ctx.request.cut) - 1
    if turn < 1 or (state and state.turn == turn):
        return state
    talk = get_chat(ctx, TOOL)
    count = bisect_left(talk.starts, turns[turn - 1]) + 1
    read = count_handed_over(count, params.count) if count > params.count else 0
    if read < 2:
        return Topic(state.summary, turn) if state else None
    lines = (
        f"{one.message['role']}: {one.message['content']}" for one in talk.chat_messages[:read] if one.message.get("content")
    )
    answer: Answer = yield build_text_ask(params.prompt, "\n".join(lines), params.cap, params.model)
    if answer.failed or not answer.text.strip():
        return Topic(state.summary if state else "", turn)
    return Topic(answer.text.strip(), turn, read)


RULE = Rule(
    "keep_last_stored",
    "Send the newest stored messages, results after their calls, and a summary of older ones if there is one.",
    edits,
    Params,
    "fresh",
    "@lobehub/chat 1.143.3, packages/context-engine, generateAIChatV2.ts",
    Topic,
)
