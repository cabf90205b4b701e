"""LibreChat's legacy summarise strategy: what no longer fits goes into one summary, which is stored and summarised again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from turnscope.envelope.condensing import OFFLINE_SUMMARY, SUMMARY, build_text_ask, find_next_present
from turnscope.envelope.conversation import find_droppable
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.librechat.legacy import PRIMER, count_conversation_tokens, count_instructions, find_begin, get_summary
from turnscope.session.index import count_before
from turnscope.session.model import Answer, Edit, Part, Span

SLOT = "summary"


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    prompt: Annotated[str, "name of the prompt: a text file in engine/turnscope/envelope/prompts"] = "summarise"
    cap: Annotated[int, "maximum tokens of the summary (0 = no limit)"] = 0
    model: Annotated[str, "model that writes the summary (empty = the caller's choice)"] = ""


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. It is refused where the original raises INPUT_LENGTH; `info` is its error text."""
    instructions, starts, there = count_instructions(ctx), ctx.index.messages, count_before(ctx.index.messages, ctx.request.cut)
    if instructions and instructions > ctx.limit:
        why = f"the instructions have {instructions:,} tokens, the limit is {ctx.limit:,}"
        yield Edit("refuse", why, facts={"info": f"{instructions} / {ctx.limit}"})
        return
    if not there:
        return
    old, room = _find_old_summary(envelope), ctx.limit - (instructions or 0) - PRIMER
    oldest = count_before(starts, find_next_present(envelope, ctx, starts[0]))
    first = find_begin(ctx, oldest, room)
    if first == there and instructions is not None:
        why = f"no message fits the limit of {ctx.limit:,} tokens after the instructions"
        yield Edit("refuse", why, facts={"info": f"{instructions + PRIMER} / {ctx.limit}"})
        return
    left = room - (count_conversation_tokens(ctx, starts[first]) if first < there else 0)
    gone = first - oldest + (old is not None and not (first == oldest and sum(ctx.own.count_placeholder((old,))) <= left > 0))
    if not gone:
        return
    because = f"counted from the newest, {there - first:,} messages fit the limit of {ctx.limit:,} tokens"
    facts: dict[str, Any] = {"limit": ctx.limit, "kept": there - first, "refined": gone}
    extra = ctx.session.messages[ctx.session.blocks[starts[oldest]].message].extra if oldest < there else {}
    stored = "" if old else get_summary(extra)
    if gone == 1 and instructions is None and old:
        yield Edit("keep", f"{because}; the summary no longer fits, but is sent", facts=facts)
        return
    stop = starts[first] if first < there else ctx.request.cut
    if gone == 1 and instructions is None and stored:
        text = stored
    else:
        text = yield from _ask_summary(ctx, params, "\n".join(_render_lines(ctx, old, starts[oldest], stop)), gone, facts)
    for span in find_droppable(ctx, envelope, starts[0], stop):
        envelope = yield Edit("condense" if text else "drop", because, span, facts=facts)
    if text:
        part = Part("system", "summary", text, place="system")
        what = f"{gone:,} message{'s' if gone != 1 else ''}"
        yield Edit("insert", f"{because}: a summary replaces {what}", Span(0, 0), (part,), slot=SLOT, facts=facts)


def _find_old_summary(envelope: Envelope) -> Part | None:
    """Return the summary at the start of the envelope."""
    piece = next(envelope.pieces, None)
    return piece.body[0] if piece and piece.slot == SLOT and piece.start == piece.stop and piece.body else None


def _ask_summary(ctx: Ctx, params: Params, content: str, count: int, facts: dict[str, Any]) -> Any:
    """Ask for the summary; return "" if none was made."""
    answer: Answer = yield build_text_ask(params.prompt, content, params.cap, params.model)
    if answer.failed or not answer.text.strip():
        facts["failed"] = answer.failed or "the summary was empty"
        return ""
    facts |= {"source": answer.source, "offline": answer.source == "offline"}
    head = OFFLINE_SUMMARY if answer.source == "offline" else SUMMARY
    return f"{head.format(f'{count:,}')}\n{answer.text.strip()}"


def _render_lines(ctx: Ctx, old: Part | None, start: int, stop: int) -> Iterator[str]:
    if old:
        yield "summary: " + old.text.partition("\n")[2]
    for span in ctx.index.find_conversation_spans(start, stop):
        for block in ctx.session.blocks[span.start : span.stop]:
            if block.kind != "thinking" and block.text.strip():
                yield f"{'tool' if block.kind == 'tool_result' else block.role}: {block.text.strip()}"


RULE = Rule(
    "summarise_what_does_not_fit",
    "Replace what no longer fits, and the previous summary, by one summary at the start of the request.",
    edits,
    Params,
    source="LibreChat, api/app/clients/BaseClient.js: handleContextStrategy",
)
