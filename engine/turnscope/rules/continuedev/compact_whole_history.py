"""Continue's CLI: near the limit the whole history becomes one answer; a request that is still too long loses its end."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from msgspec import Struct

from turnscope.counting.ledger import Ledger
from turnscope.envelope.condensing import build_text_ask
from turnscope.envelope.conversation import find_droppable
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.chats import read_chat
from turnscope.ports.continuedev.cli import (
    ITEM,
    LISTED,
    PROMPT_TOKENS,
    SYSTEM,
    TOOLS,
    compute_output,
    compute_threshold,
    convert,
    count_item,
    count_tools,
    cut_for_summary,
    cut_to_fit,
    find_begin,
    get_window,
)
from turnscope.ports.continuedev.compiling import adjust
from turnscope.ports.rows import memoize_by_ledger
from turnscope.session.index import Index
from turnscope.session.model import Answer, Ask, Bucket, Edit, Part, Session


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    output: Annotated[int, "tokens of the answer; -1 = 35 % of the window, at most 64,000"] = -1
    prompt: Annotated[str, "name of the prompt: a text file in engine/turnscope/envelope/prompts"] = "summarise"
    cap: Annotated[int, "maximum tokens of the summary"] = 4_000
    model: Annotated[str, "model that writes the summary (empty = the caller's choice)"] = ""


class Compacted(Struct, frozen=True):
    """The summary, and where the history begins after it."""

    start: int
    summary: str
    tokens: int


class History(NamedTuple):
    """Items of the history: where they begin, their roles, running sums of their tokens, and the items."""

    starts: list[int]
    roles: list[str]
    sums: list[int]
    items: list[dict[str, Any]]


@memoize_by_ledger
def _memo(_session: Session, _index: Index, _own: Ledger) -> dict[int, History]:
    return {}


def _get_history(ctx: Ctx) -> History:
    """Return the history so far, counted once per model family."""
    known, key = _memo(ctx), adjust(100_000, ctx.request.model)
    if key not in known:
        known[key] = History([], [], [0], [])
        for start, item, texts in _read_items(ctx):
            known[key].starts.append(start)
            known[key].roles.append("call" if item.get("calls") else item["role"])
            known[key].items.append(item)
            tokens = count_item(item, lambda text, texts=texts: texts.get(text) or _count_text(ctx, text), ctx.request.model)  # type: ignore[misc]
            known[key].sums.append(known[key].sums[-1] + tokens + LISTED)
    return known[key]


def _count_text(ctx: Ctx, text: str) -> int:
    return ctx.own.count_parts((Part("user", "text", text),))


def _read_items(ctx: Ctx) -> list[tuple[int, dict[str, Any], dict[str, int]]]:
    """Return the messages with the results of their calls, and the counts of their blocks."""
    found: list[tuple[int, dict[str, Any], dict[str, int]]] = []
    for one in read_chat(ctx.session).chat_messages:
        blocks, message = ctx.session.blocks[one.start : one.stop], one.message
        if message["role"] == "tool" and found and found[-1][1].get("calls"):
            call = next((c for c in found[-1][1]["calls"] if c["id"] == message["tool_call_id"]), None)
            if call is not None:
                call["output"] = blocks[0].text
                found[-1][2][blocks[0].text] = ctx.own.count_content(blocks)
                continue
        items = [b for b in blocks if b.kind in ("text", "tool_result", "thinking")]
        text = "\n".join(b.text for b in items)
        calls = [{"id": c["id"], **c["function"]} for c in message.get("tool_calls") or ()]
        item = {"role": message["role"], "content": text, "calls": calls, "context": message.get("context")}
        found.append((one.start, item, {text: ctx.own.count_content(items)} if items else {}))
    return found


@memoize_by_ledger
def _sum_static(session: Session, index: Index, own: Ledger) -> list[tuple[int, int, int]]:
    """Return address, tokens of the system text so far, and tokens of all tools so far, for each block of system and tools."""
    found: list[tuple[int, int, int]] = []
    text, tools = 0, 0
    for at in index.static:
        block = session.blocks[at]
        if block.role == "system":
            text += own.count_content((block,)) + (0 if text else SYSTEM)
        elif block.bucket is Bucket.TOOLS:
            one = count_tools([_build_function(block.raw)], lambda written: own.count_parts((Part("user", "text", written),)))
            tools += one - (2 * TOOLS if tools else 0)
        found.append((at, text, tools))
    return found


def _count_static(ctx: Ctx) -> tuple[int, int]:
    """Return the tokens of the system text, and of system text and tools."""
    tokens = _sum_static(ctx)
    place = bisect_left(tokens, (ctx.request.cut,)) - 1
    _, text, tools = tokens[place] if place >= 0 else (0, 0, 0)
    return text, text + (tools or ctx.own.sums[1][ctx.request.cut])


def _build_function(raw: Any) -> dict[str, Any]:
    tool = raw if isinstance(raw, dict) else {}
    function = {"name": tool.get("name"), "description": tool.get("description"), "parameters": tool.get("input_schema")}
    return {"function": function}


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. Where the original raises an error, the request is refused."""
    talk, state, (system, static) = _get_history(ctx), ctx.state, _count_static(ctx)
    there = bisect_left(talk.starts, ctx.request.cut)
    window = get_window(ctx.budget.window)
    output = compute_output(window, None if params.output < 0 else params.output)
    due = compute_threshold(window, output)
    if due is None:
        yield Edit("refuse", f"an answer of {output:,} tokens leaves no room in the window of {window:,}")
        return state
    first = bisect_left(talk.starts, state.start) if state else 0
    sums, roles = _build_sums(talk, first, there, state)
    if sums[-1] + static >= due:
        stop = _count_read_items(roles, sums, window, params.output, (system, static), adjust(PROMPT_TOKENS, ctx.request.model))
        lines = [f"summary: {state.summary}"] if state else []
        read = talk.items[first : max(first, first + stop - len(lines))]  # the summary is one of those that are read
        lines += [f"{m['role']}: {m['content']}" for item in read for m in convert(item) if m["content"]]
        total = sums[-1] + static
        because = f"{total:,} tokens reach {due:,}: a summary replaces the whole history, with the newest prompt"
        answer: Answer = yield _build_ask("\n".join(lines), params)
        if answer.failed:
            yield Edit("keep", f"{because}, but none was made: {answer.failed}")
        else:
            text = answer.text.strip()
            state = Compacted(ctx.request.cut, text, adjust(_count_text(ctx, text), ctx.request.model) + 2 + LISTED)
            for number, span in enumerate(find_droppable(ctx, envelope, 0, ctx.request.cut)):
                part = Part("assistant", "summary", text)
                facts = {"tokens": total, "threshold": due, "messages": there - first, "asked": stop}
                made = ((part,), facts) if not number else ((), {})
                envelope = yield Edit("condense", because, span, made[0], facts=made[1])
            first = there
            sums, roles = _build_sums(talk, first, there, state)
    left = cut_to_fit(roles, sums, window=window, output=None if params.output < 0 else params.output, static_tokens=static) - (
        state is not None
    )
    if first + left < there:
        because = f"the newest {there - first - left:,} of {there:,} messages are dropped, so that the request fits"
        start = talk.starts[first + left] if first + left < there else ctx.request.cut
        for span in find_droppable(ctx, envelope, start, ctx.request.cut):
            envelope = yield Edit("drop", because, span)
    return state


def _count_read_items(
    roles: list[str], sums: list[int], window: int, answer: int, static: tuple[int, int], prompted: int
) -> int:
    """Return how many items the summariser reads. The history is cut once for it, and again like any request."""
    answered, item = None if answer < 0 else answer, prompted + ITEM + LISTED
    stop = cut_for_summary(roles, sums, window=window, output=compute_output(window, answered), static_tokens=item + static[0])
    request = [*sums[: stop + 1], sums[stop] + item]
    return min(stop, cut_to_fit([*roles[:stop], "user"], request, window=window, output=answered, static_tokens=static[1]))


def _build_sums(talk: History, first: int, there: int, state: Compacted | None) -> tuple[list[int], list[str]]:
    """Return running sums and roles of what is sent: the summary, if there is one, and the items since."""
    lead = [state.tokens] if find_begin([0] if state else []) == 0 and state else []
    base = (lead[0] if lead else 0) - talk.sums[first]
    sums = [0, *lead] if lead else [0]
    sums += [talk.sums[i + 1] + base for i in range(first, there)]
    return sums, [*(["assistant"] if lead else []), *talk.roles[first:there]]


def _build_ask(content: str, params: Params) -> Ask:
    return build_text_ask(params.prompt, content, params.cap, params.model, capped=False)


RULE = Rule(
    "compact_whole_history",
    "Near the limit, replace the whole history by one summary. A request that is too long loses its newest messages.",
    edits,
    Params,
    source="continuedev/continue d0a3c0b6, extensions/cli/src/compaction.ts, stream/*",
    state=Compacted,
)
