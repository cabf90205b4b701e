"""LobeHub's compression: at half of the window a summary replaces everything but the newest prompt, and is listed after it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Struct

from turnscope.envelope.condensing import build_text_ask
from turnscope.envelope.conversation import find_droppable
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.chats import ChatMessage
from turnscope.ports.lobechat.shaping import frame_summary
from turnscope.ports.lobechat.stored import LISTED, Topic, get_topic
from turnscope.ports.lobechat.tokens import DRIFT, GROUP, RATIO, compute_trigger, estimate_tokens, get_stored_summary
from turnscope.session.model import Answer, Ask, Edit, Part, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    on: Annotated[bool, "compression is on"] = True
    ratio: Annotated[float, "share of the window above which the topic is compressed"] = RATIO
    drift: Annotated[float, "factor for estimates, which are too low"] = DRIFT
    last_step: Annotated[bool, "the step limit is reached: no tools are sent or counted"] = False
    prompt: Annotated[str, "name of the prompt: a text file in engine/turnscope/envelope/prompts"] = "summarise"
    cap: Annotated[int, "maximum tokens of the summary"] = 1_000
    model: Annotated[str, "model that writes the summary (empty = the caller's choice)"] = ""


class Compressed(Struct, frozen=True):
    """How many messages of the topic are hidden, where summaries are listed, and their estimated tokens."""

    hidden: int = 0
    places: tuple[int, ...] = ()
    tokens: int = 0


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request.

    A summary is never made again. If one fails, nothing changes, and the next request asks again.
    """
    found, state = get_topic(ctx), ctx.state or Compressed()
    there = bisect_left(found.starts, ctx.request.cut)
    due = compute_trigger(_count_listed(found, ctx, state, there, params), ctx.budget.window, params.ratio, params.drift)
    if not params.on or not due.compress:
        return ctx.state
    listed = len(state.places) + there - state.hidden + bisect_left(found.groups, state.hidden)
    prompted = there and found.units[there - 1].message["role"] == "user" and state.places[-1:] != (ctx.request.cut,)
    stop = there - 1 if prompted and listed > 1 else there
    gone = [unit for unit in found.units[state.hidden : stop] if unit.message["role"] != GROUP]
    if not gone:
        return ctx.state
    facts: dict[str, Any] = {"tokens": due.tokens, "threshold": due.threshold, "messages": len(gone)}
    because = f"{due.tokens:,} tokens x {params.drift} exceed {due.threshold:,}"
    answer: Answer = yield _build_ask(gone, params)
    if answer.failed:
        yield Edit("keep", f"{because}, but no summary was made: {answer.failed}", facts=facts)
        return ctx.state
    answers = [unit.message["id"] for unit in found.units[state.hidden : there] if unit.message["role"] == "assistant"][-1:]
    envelope = yield from _hide(envelope, ctx, gone, state.places, f"{because}: a summary replaces the older messages", facts)
    facts |= {"summary": answer.text, "parent": answers[0] if answers else None, "source": answer.source}
    part, cut = Part("user", "summary", frame_summary(answer.text), fence=True), ctx.request.cut
    yield Edit("insert", because, Span(cut, cut), (part,), slot=f"{LISTED}{len(state.places) + 1}", facts=facts)
    return Compressed(stop, (*state.places, cut), state.tokens + estimate_tokens(answer.text))


def _count_listed(found: Topic, ctx: Ctx, state: Compressed, there: int, params: Params) -> int:
    """Return the tokens of the listed messages and of the tool definitions. The system prompt is not counted."""
    old = found.groups[: bisect_left(found.groups, state.hidden)]
    stored = sum(found.sums[number + 1] - found.sums[number] for number in old)
    tools = 0 if params.last_step else found.tools[bisect_left(found.defined, ctx.request.cut)]
    return found.sums[there] - found.sums[state.hidden] + stored + state.tokens + tools


def _hide(
    envelope: Envelope, ctx: Ctx, gone: list[ChatMessage], places: tuple[int, ...], because: str, facts: dict[str, Any]
) -> Edits:
    """Drop messages. A stretch of them is cut where a summary is listed, because that stays."""
    start, listed = gone[0].start, {*places}
    for unit, after in zip(gone, [*gone[1:], None], strict=True):
        if unit.message["role"] == "system":
            envelope = yield Edit("condense", because, Span(unit.start, unit.stop), facts=facts)
        if after is None or after.start != unit.stop or unit.stop in listed:
            for one in find_droppable(ctx, envelope, start, unit.stop):
                envelope = yield Edit("condense", because, one, facts=facts)
            start = after.start if after else start
    return envelope


def _build_ask(gone: list[ChatMessage], params: Params) -> Ask:
    old = get_stored_summary([unit.message for unit in gone])
    lines = [f"summary: {old}"] if old else []
    lines += [f"{m['role']}: {m['content']}" for m in (unit.message for unit in gone) if m.get("content")]
    return build_text_ask(params.prompt, "\n".join(lines), params.cap, params.model)


RULE = Rule(
    "compress_topic",
    "Above half of the window, replace all but the newest prompt by a summary, listed after it. Summaries are never merged.",
    edits,
    Params,
    source="lobehub 2.2.10, packages/agent-runtime: GeneralChatAgent.ts, compressContext.ts, tokenCounter.ts",
    state=Compressed,
)
