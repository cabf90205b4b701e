"""Layer 0: a short text in front that says where the whole conversation stands, rewritten whenever a conversation begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.layers.context_summary import build_context, compare_focus, read_report
from turnscope.envelope.layers.conversations import Split, find_current, has_wishes
from turnscope.envelope.layers.places import CONTEXT, find_front, put_texts
from turnscope.envelope.rule import Ctx, Edits, Rule


@dataclass(frozen=True, slots=True)
class Params(Split):
    """Parameters."""

    cap: Annotated[int, "tokens that the context summary may have (published: 200 to 500)"] = 300


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    here = find_current(ctx, params)
    if here > 0 and (here != ctx.state or has_wishes(ctx)):
        text = build_context(ctx, params, params.cap)
        because = f"conversation {here + 1} begins: the context summary covers the {here} before it"
        report = {field: [*sentences] for field, sentences in read_report(ctx).items() if sentences}
        because += f"; the model's own report is in it: {', '.join(report)}" if report else ""
        entered, left = compare_focus(ctx, params)
        because += f"; entered focus: {', '.join(entered[:3])}" if entered else ""
        because += f"; left focus: {', '.join(left[:3])}" if left else ""
        facts = {"conversations": here, "cap": params.cap, "reported": report, "entered": [*entered], "left": [*left]}
        yield from put_texts(envelope, find_front(ctx), CONTEXT, (text,) if text else (), because=because, facts=facts)
    return here if here > 0 else ctx.state


RULE = Rule(
    "write_context",
    "Put a context summary in front of the conversation: objective, story, achievements, state, next steps; never dropped.",
    edits,
    Params,
    source="Smart Context Management for AI Code Assistants: layer 0, current context summary, 300 tokens",
    state=int,
)
