"""LobeChat's preparation of messages: the input template, variables, images, signed reasoning, and full function names."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated

from turnscope.envelope.conversation import get_previous_cut
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.chats import build_parts, find_leading_end, get_chat
from turnscope.ports.lobechat.messages import TOOL, fill_variables, shape_message
from turnscope.ports.lobechat.prompt import parse_variables
from turnscope.session.model import Edit, Part, Span

ROLES = ("user", "assistant", "tool", "system")  # later versions have more


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    template: Annotated[str, 'what every text of the user goes into, at {{text}}; "" = as it is'] = ""
    variables: Annotated[tuple[str, ...], "what stands for {{name}}, as name=text"] = ()
    calling: Annotated[bool, "the model calls functions"] = True
    vision: Annotated[bool, "the model sees images"] = True


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. Only what is new since the previous request is read."""
    talk, session = get_chat(ctx, TOOL), ctx.session
    variables = parse_variables(params.variables)
    for block in session.blocks[get_previous_cut(ctx) : ctx.request.cut] if params.variables else ():
        if block.role == "system" and (text := fill_variables(block.text, variables)) != block.text:
            part = Part("system", "system", text, place="system")
            envelope = yield Edit("repair", "variables are filled in", Span(block.at, block.at + 1), (part,))
    if params.variables:
        front = takewhile(lambda p: p.start <= find_leading_end(ctx), envelope.pieces)
        summary = next((p for p in front if p.slot == "summary" and p.body), None)
        text = fill_variables(summary.body[0].text, variables) if summary and summary.body else ""
        if summary and summary.body and text != summary.body[0].text:
            part = Part("system", "summary", text, place="system")
            envelope = yield Edit(
                "insert", "variables are filled in", Span(summary.start, summary.stop), (part,), slot="summary"
            )
    for one in talk.chat_messages[bisect_left(talk.starts, get_previous_cut(ctx)) : bisect_left(talk.starts, ctx.request.cut)]:
        message, body = one.message, envelope.find_piece(one.start).body
        thoughts = [b for b in session.blocks[one.start : one.stop] if b.kind == "thinking"]
        if message["role"] not in ROLES or body is not None or (thoughts and "reasoning" not in message):
            continue
        made = shape_message(message, params.template, variables, params.calling, params.vision)
        if made != {key: message[key] for key in ("role", "content", "tool_calls", "tool_call_id") if key in message}:
            because = "it is sent in the template, with variables, images and names filled in"
            envelope = yield Edit("repair", because, Span(one.start, one.stop), tuple(build_parts([made])))


RULE = Rule(
    "shape_messages",
    "Put users' texts into a template, fill in variables, and send calls, images and signed reasoning as the app does.",
    edits,
    Params,
    source="@lobehub/chat 1.143.3, packages/context-engine: InputTemplate, PlaceholderVariables, MessageContent, ToolCall",
)
