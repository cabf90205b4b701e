"""Open WebUI's conversion: an answer is sent as the items that are stored with it, and blank parts are dropped."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.conversation import get_previous_cut
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.chats import ChatMessage, build_parts, get_chat
from turnscope.ports.openwebui.messages import FIELDS, TOOL, convert_messages, drop_blanks, drop_foreign_details, load_messages
from turnscope.session.model import Edit, Span

THINKING = ("thinking", "redacted_thinking")


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters."""

    reasoning: Annotated[str, 'where reasoning goes: thinking (Ollama) or reasoning_content (llama.cpp); "" = nowhere'] = ""


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. Only new messages are read. An unfinished answer is sent verbatim."""
    talk = get_chat(ctx, TOOL)
    for one in talk.chat_messages[bisect_right(talk.stops, get_previous_cut(ctx)) : bisect_right(talk.stops, ctx.request.cut)]:
        if envelope.find_piece(one.start).body is not None:
            continue
        yield from _convert_one(envelope, ctx, one, params)
    return None


def _convert_one(envelope: Envelope, ctx: Ctx, one: ChatMessage, params: Params) -> Edits:
    message, span = one.message, Span(one.start, one.stop)
    if FIELDS.isdisjoint(message):
        blocks = ctx.session.blocks[one.start : one.stop]
        thoughts = [b.at for b in blocks if b.kind in THINKING]
        if thoughts and not params.reasoning:
            for at in thoughts:
                yield Edit("strip", "reasoning is not sent again", Span(at, at + 1))
            if len(thoughts) == len(blocks):
                return
        kept = [b for b in blocks if b.kind not in THINKING]
        blank = [b for b in kept if b.kind == "text" and not isinstance(b.raw, str) and not b.text.strip()]
        if blank and len(blank) < len(kept):
            for block in blank:
                yield Edit("drop", "a blank text part is not sent", Span(block.at, block.at + 1))
        return
    sent = [drop_foreign_details(one, ctx.request.model) for one in load_messages([message])]
    made = drop_blanks(convert_messages(sent, params.reasoning or None))
    if not sent or not made:
        yield Edit("drop", "an answer without content is not sent", span)
    elif made != [{"role": message["role"], "content": message.get("content")}] or not _is_as_stored(ctx, one):
        yield Edit("repair", "it is sent as the items that are stored with it", span, tuple(build_parts(made)))


def _is_as_stored(ctx: Ctx, one: ChatMessage) -> bool:
    """Return whether the log holds a stored text unchanged, and not what an importer made of it."""
    content, blocks = one.message.get("content"), ctx.session.blocks[one.start : one.stop]
    return not isinstance(content, str) or (len(blocks) == 1 and blocks[0].text == content)


RULE = Rule(
    "send_stored_items",
    "Send answers as the items stored with them: calls with their results, texts, code; reasoning if the provider accepts it.",
    edits,
    Params,
    source="open-webui 0.12.4, open_webui/utils/misc.py: process_messages_with_output, convert_output_to_messages",
)
