"""Jan's limit: the newest messages that fit, the last one always, and a summary of the others if that fits too."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Annotated, Any

from turnscope.envelope.condensing import build_text_ask
from turnscope.envelope.conversation import find_droppable
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.chats import find_leading_end
from turnscope.ports.jan.messages import (
    FRAME,
    HEAD,
    OUTPUT,
    SUMMARY_TOKENS,
    Unit,
    build_excerpt,
    estimate_text,
    find_first_kept,
)
from turnscope.ports.jan.units import get_chat
from turnscope.session.model import Answer, Ask, Edit, Part, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    limit: Annotated[int, "max_context_tokens of the assistant; 0 = off, -1 = the model's window"] = 0
    output: Annotated[int, "tokens kept free for the answer"] = OUTPUT
    compact: Annotated[bool, "summarise what is dropped, for each request again"] = False
    prompt: Annotated[str, "name of the prompt: a text file in engine/turnscope/envelope/prompts"] = "summarise"
    model: Annotated[str, "model that writes the summary (empty = the caller's choice)"] = ""


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. Each request that drops something asks for a new summary, because Jan stores none."""
    talk = get_chat(ctx)
    there = bisect_left(talk.starts, ctx.request.cut)
    static = ctx.index.static[: bisect_left(ctx.index.static, ctx.request.cut)]
    system = "\n".join(b.text for at in static if (b := ctx.session.blocks[at]).role == "system")
    limit = params.limit if params.limit >= 0 else ctx.budget.window
    budget = limit - params.output - (estimate_text(system) + FRAME if system.strip() else 0)
    first = find_first_kept(talk.sums, there, budget) if limit > 0 else 0
    facts = {"budget": budget, "kept": there - first, "of": there}
    because = f"counted from the newest, {there - first:,} of {there:,} messages fit {budget:,} tokens"
    if static and not system.strip():
        for at in static:
            if ctx.session.blocks[at].role == "system":
                yield Edit("drop", "a blank system prompt is not sent", Span(at, at + 1))
    if first:
        text = ""
        if params.compact and budget > 0:
            answer: Answer = yield _build_ask(
                [unit.message for unit in _select_excerpt(talk.units[:first], limit)], params, limit
            )
            text = "" if answer.failed else f"{HEAD}{answer.text}"
        for span in find_droppable(ctx, envelope, 0, talk.starts[first]):
            envelope = yield Edit("condense" if text else "drop", because, span, facts=facts)
        if text and talk.sums[there] - talk.sums[first] + estimate_text(text) + FRAME <= budget:
            part = Part("system", "summary", text, place="system")
            place = find_leading_end(ctx)
            yield Edit("insert", because, Span(place, place), (part,), slot="summary", facts=facts)
        elif text:
            yield Edit("keep", "there is no room for the summary, so it is dropped first", facts={"summary": text, **facts})
    if there and bisect_left(talk.asking, there) <= bisect_left(talk.asking, first):
        yield Edit("refuse", "no user message is left", facts={"error": "no_user_message"})


def _select_excerpt(dropped: list[Unit], limit: int) -> list[Unit]:
    """Return the newest of the dropped messages, a little more than the excerpt can hold."""
    size, most = 0, 8 * max(limit, 2_000)
    for number in range(len(dropped) - 1, -1, -1):
        size += sum(len(part.get("text") or "") for part in dropped[number].message["parts"])
        if size > most:
            return dropped[number:]
    return dropped


def _build_ask(messages: list[dict[str, Any]], params: Params, limit: int) -> Ask:
    return build_text_ask(params.prompt, build_excerpt(messages, limit), SUMMARY_TOKENS, params.model, capped=False)


RULE = Rule(
    "trim_to_limit",
    "Keep the newest messages that fit the assistant's own limit, after a summary of the others if that fits too.",
    edits,
    Params,
    "fresh",
    "janhq/jan 92eeab44, web-app/src/lib/context-manager.ts",
)
