"""Open WebUI's context compaction: above a threshold a summary after the system prompt replaces the older messages."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Struct

from turnscope.counting.ledger import Ledger
from turnscope.envelope.condensing import build_text_ask
from turnscope.envelope.conversation import find_droppable, get_previous_cut
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.chats import build_parts, find_leading_end, get_chat, read_chat
from turnscope.ports.openwebui.compaction import (
    HEADING,
    History,
    build_fallback,
    count_history,
    estimate_tokens,
    find_boundary,
    find_checkpoint,
    get_threshold,
    is_exceeded,
    read_history,
)
from turnscope.ports.openwebui.messages import TOOL, add_to_system, convert_message, merge_system
from turnscope.ports.rows import memoize_by_ledger
from turnscope.session.index import Index
from turnscope.session.model import Answer, Ask, Edit, Part, Session, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters."""

    threshold: Annotated[int, "tokens from which on the chat is compacted; 0 = never"] = 80_000
    cap: Annotated[int, "the highest threshold that a chat may choose; 0 = the threshold itself"] = 0
    own: Annotated[int, "a chat's own threshold; 0 = none"] = 0
    retention: Annotated[int, "per cent of the messages that stay, 10 to 50"] = 40
    prompt: Annotated[str, "name of the prompt: a text file in engine/turnscope/envelope/prompts"] = "summarise"
    summary: Annotated[int, "maximum tokens of the summary"] = 1_000
    model: Annotated[str, "model that writes the summary (empty = the caller's choice)"] = ""


class Compacted(Struct, frozen=True):
    """Where the history begins, and the summary of what came before."""

    start: int
    summary: str


@memoize_by_ledger
def _read_history(session: Session, _index: Index, _own: Ledger) -> History:
    return read_history(one.message for one in read_chat(session, TOOL).chat_messages)


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. If a summary fails, the history stays, and the next request asks again."""
    talk, state = get_chat(ctx, TOOL), ctx.state
    there = bisect_right(talk.stops, ctx.request.cut)
    new = bisect_right(talk.stops, get_previous_cut(ctx))
    found = find_checkpoint([one.message for one in talk.chat_messages[new:there]])
    if found.summary is not None and (state is None or talk.starts[new + found.start] > state.start):
        state = Compacted(talk.starts[new + found.start], found.summary)
        because = "a summary is stored here: it replaces everything before"
        envelope = yield from _cut_history(envelope, ctx, state, because, {})
        if found.output is not None:  # it was made between the calls of an answer; the later items of that answer stay
            one = talk.chat_messages[new + found.of]
            left = convert_message({**one.message, "output": [*found.output]})
            envelope = yield Edit("condense", because, Span(one.start, one.stop), tuple(build_parts(left)))
    first = bisect_left(talk.starts, state.start) if state else 0
    numbers, threshold = _read_history(ctx), _get_threshold(params)
    total = _count_tokens(ctx, numbers, first, there, state.summary if state else None)
    gone = find_boundary(numbers, first, there, params.retention) if is_exceeded(total, threshold) else 0
    if not gone:
        return state
    old, stop = [one.message for one in talk.chat_messages[first : first + gone]], talk.starts[first + gone]
    facts: dict[str, Any] = {"tokens": total, "threshold": threshold, "messages": gone, "kept": there - first - gone}
    because = f"{total:,} tokens exceed {threshold:,}: the {gone:,} oldest of {there - first:,} messages become a summary"
    answer: Answer = yield _build_ask(old, state.summary if state else None, params)
    if answer.failed:
        yield Edit("keep", f"{because}, but none was made: {answer.failed}; everything is sent", facts=facts)
        return state
    text = answer.text.strip() or build_fallback(state.summary if state else None, old)
    state = Compacted(stop, text)
    yield from _cut_history(envelope, ctx, state, because, {**facts, "source": answer.source})
    return state


def _get_threshold(params: Params) -> int:
    return get_threshold(params.threshold, params.cap, params.own) if params.threshold > 0 else 0


def _count_tokens(ctx: Ctx, numbers: History, first: int, there: int, summary: str | None) -> int:
    """Return the tokens as the app counts them: usage stored with an answer, or the billed previous request, or estimates."""
    static = ctx.index.static[: bisect_left(ctx.index.static, ctx.request.cut)]
    blocks = (ctx.session.blocks[at] for at in static)
    system = merge_system([{"role": "system", "content": b.text} for b in blocks if b.role == "system"])
    added = estimate_tokens(system[0]["content"] if system else "") + estimate_tokens(summary or "")
    total = count_history(numbers, first, there, added)
    before = ctx.previous.request if ctx.previous else None
    if before is None or before.usage is None or not ctx.previous_usage or numbers.usages:
        return total
    talk = get_chat(ctx, TOOL)
    return ctx.previous_usage + numbers.sums[there] - numbers.sums[bisect_left(talk.starts, before.stop)]


def _build_ask(messages: list[dict[str, Any]], previous: str | None, params: Params) -> Ask:
    lines = [f"summary: {previous}"] if previous else []
    lines += [f"{m.get('role')}: {m['content']}" for m in messages if m.get("content")]
    return build_text_ask(params.prompt, "\n".join(lines), params.summary, params.model)


def _cut_history(envelope: Envelope, ctx: Ctx, state: Compacted, because: str, facts: dict[str, Any]) -> Edits:
    for span in find_droppable(ctx, envelope, 0, state.start):
        envelope = yield Edit("condense", because, span, facts=facts)
    place = find_leading_end(ctx)
    made = add_to_system((), f"{HEADING}\n{state.summary}")[0]["content"]
    part = Part("system", "summary", made, place="system")
    envelope = yield Edit(
        "insert", because, Span(place, place), (part,), slot="summary", facts={**facts, "summary": state.summary}
    )
    return envelope


RULE = Rule(
    "compact_at_threshold",
    "Above a threshold, replace the older messages by a summary after the system prompt, which later summaries include.",
    edits,
    Params,
    source="open-webui 0.12.4, open_webui/utils/context_compaction.py",
    state=Compacted,
)
