"""Send past turns as plain text: a call becomes a line with the beginning of its result, thinking is dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from turnscope.envelope.conversation import find_droppable, find_replaceable, find_start, memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import Index, count_before, find_at_or_before
from turnscope.session.model import Block, Edit, Part, Session, Span


@dataclass(frozen=True, slots=True)
class Params:
    """How much of results and messages is sent."""

    result: Annotated[int, "maximum characters of a tool result behind its call (0 = none)"] = 1_000
    keep: Annotated[int, "number of newest messages to keep; all answers to one prompt count as one (0 = all)"] = 0
    stored: Annotated[int, "number of newest messages that are stored, of which `keep` are sent (0 = all)"] = 0


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    start, stop = ctx.state or 0, find_at_or_before(ctx.index.turns, ctx.request.cut - 1) or 0
    for at in (at for span in ctx.index.find_conversation_spans(start, stop) for at in range(*span)):
        block = ctx.session.blocks[at]
        if block.kind == "text" or not find_replaceable(envelope, at):
            continue
        if block.kind == "tool_use":
            text = _render_call(block, ctx.session, params.result)
            because = "a past turn is sent as role and text: its call becomes a line"
            envelope = yield Edit("condense", because, Span(at, at + 1), (Part(block.role, "text", text),))
        else:
            what = "its result is in the line of the call" if block.kind == "tool_result" else f"{block.kind} is no text"
            envelope = yield Edit("drop", f"a past turn is sent as role and text: {what}", Span(at, at + 1))
    heads = _find_heads(ctx)
    there = count_before(heads, ctx.request.cut)
    keep = min(filter(None, (params.keep, params.stored)), default=0)
    if 0 < keep < there:
        first = find_start(ctx, heads[there - keep])
        of = f"{min(there, params.stored)} that are stored" if params.stored else f"{there} messages"
        because = f"only the last {keep} of {of} are kept"
        for span in find_droppable(ctx, envelope, heads[0], first):
            yield Edit("drop", because, span, facts={"messages": there, "keep": keep, "stored": params.stored})
    return max(start, stop)


@memoize
def _find_heads(_session: Session, index: Index) -> tuple[int, ...]:
    """Starts of each turn's prompt and of its answer: the messages of a chat that has only role and text."""
    prompts = set(index.turns)
    return tuple(sorted(prompts | {later for at, later in pairwise(index.messages) if at in prompts}))


def _render_call(call: Block, session: Session, most: int) -> str:
    raw = call.raw if isinstance(call.raw, Mapping) else {}
    head = f"[{call.name or raw.get('name') or 'a tool'}]"
    result = session.blocks[call.pair].text if call.pair >= 0 else ""
    return f"{head} {result[:most]}" if most > 0 and result else head


RULE = Rule(
    "send_past_as_text",
    "Send past turns as role and text only: a call and the beginning of its result become a text, thinking is dropped.",
    edits,
    Params,
    "remembers",
    "a survey of memory patterns, sections 3.3 and 4.1: turns as flat role and content, stored results cut at 1,000 characters",
    state=int,
)
