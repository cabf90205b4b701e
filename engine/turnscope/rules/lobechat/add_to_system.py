"""LobeHub's system message: the prompt, the date, the model, and the stored summary of older messages, in this order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.chats import find_leading_end
from turnscope.ports.lobechat.messages import fill_variables
from turnscope.ports.lobechat.prompt import format_date, format_model, format_summary, parse_variables
from turnscope.ports.lobechat.stored import get_topic
from turnscope.session.model import Edit, Part, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    dated: Annotated[bool, "name the day of the request"] = False
    timezone: Annotated[str, 'where that day is; "" = UTC'] = ""
    model: Annotated[str, 'the model\'s name for people; "" = not sent'] = ""
    cutoff: Annotated[str, 'what the model\'s knowledge ends with; "" = not sent'] = ""
    variables: Annotated[tuple[str, ...], "what stands for {{name}}, as name=text"] = ()


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. If the topic stores a system message, everything is added to it."""
    found, variables, end = get_topic(ctx), parse_variables(params.variables), find_leading_end(ctx)
    blocks = [ctx.session.blocks[at] for at in ctx.index.static[: bisect_left(ctx.index.static, end)]]
    front = [b for b in blocks if b.role == "system" and not ctx.session.messages[b.message].fence]
    units = (found.units[n] for n in found.systems[: bisect_left(found.systems, bisect_left(found.starts, ctx.request.cut))])
    stored = next((unit for unit in units if envelope.find_piece(unit.start).body != ()), None)
    more = {slot: fill_variables(text, variables) for slot, text in _build_texts(ctx, params)}
    if stored:
        text = "\n\n".join((str(stored.message["content"]), *(b.text for b in front if b.text.strip())))
        text = "\n\n".join((fill_variables(text, variables), *more.values()))
        for block in front:
            yield Edit("drop", "it is in the stored system message", Span(block.at, block.at + 1))
        if text != stored.message["content"]:
            body = (Part("system", "system", text, place="system"),)
            yield Edit("repair", "the rest is added to the stored system message", Span(stored.start, stored.stop), body)
        return
    for block in front:
        text, one = fill_variables(block.text, variables), Span(block.at, block.at + 1)
        if not text.strip():
            yield Edit("drop", "a blank system prompt is not sent", one)
        elif text != block.text:
            yield Edit("repair", "variables are filled in", one, (Part("system", "system", text, place="system"),))
    place = Span(end, end)
    for slot, text in more.items():
        part = Part("system", "summary" if slot == "summary" else "system", text, place="system")
        yield Edit("insert", f"the system message names the {slot}", place, (part,), slot=slot)


def _build_texts(ctx: Ctx, params: Params) -> Iterator[tuple[str, str]]:
    texts = {
        "date": format_date(ctx.request.sent_at, params.timezone) if params.dated else "",
        "model": format_model(params.model, ctx.request.model, params.cutoff),
        "summary": format_summary(str(ctx.session.about.get("history_summary") or "")),
    }
    return ((slot, text) for slot, text in texts.items() if text)


RULE = Rule(
    "add_to_system",
    "Add the date, the model and a stored summary of older messages to the system prompt.",
    edits,
    Params,
    "fresh",
    "lobehub 2.2.10, packages/context-engine: providers of the system message, HistorySummary.ts",
)
