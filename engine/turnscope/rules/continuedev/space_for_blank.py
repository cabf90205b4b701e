"""Continue's treatment of blank messages: drop empty ones, make other blank texts a space.

Images are dropped for models without vision.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.conversation import get_previous_cut
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.chats import get_chat
from turnscope.ports.continuedev.compiling import TOOL, is_empty
from turnscope.session.content import extract_text
from turnscope.session.model import Edit, Part, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    images: Annotated[bool, "the model sees images"] = True


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. Only what is new since the previous request is read."""
    talk = get_chat(ctx, TOOL)
    for one in talk.chat_messages[bisect_left(talk.starts, get_previous_cut(ctx)) : bisect_left(talk.starts, ctx.request.cut)]:
        blocks = ctx.session.blocks[one.start : one.stop]
        if envelope.find_piece(one.start).body is not None:
            continue
        if is_empty(one.message):
            yield Edit("drop", "an empty message is not sent", Span(one.start, one.stop))
            continue
        pictures = not params.images and any(b.kind == "image" for b in blocks)
        texts = [b for b in blocks if b.kind in ("text", "tool_result")]
        text = extract_text(one.message.get("content") or "")
        if pictures or (texts and not text.strip()):
            sent = "\n".join(b.text for b in texts if b.kind == "text") if pictures else " "
            first = next((b for b in blocks if b.kind in ("text", "image")), None)
            for block in blocks:
                if block.kind == "tool_result" and not pictures:
                    yield Edit(
                        "repair",
                        "a blank text becomes a space",
                        Span(block.at, block.at + 1),
                        (_build_result(block.raw, sent),),
                    )
                elif block.kind in ("text", "image"):
                    body = (Part(block.role, "text", sent, sent),) if block is first else ()
                    because = "a list with images becomes its text" if pictures else "a blank text becomes a space"
                    yield Edit("repair", because, Span(block.at, block.at + 1), body)


def _build_result(raw: object, text: str) -> Part:
    result = {**raw, "content": text} if isinstance(raw, dict) else text
    return Part("user", "tool_result", text, result)


RULE = Rule(
    "space_for_blank",
    "Drop empty messages, send a space for other blank texts, and only the text of a list if the model sees no images.",
    edits,
    Params,
    source="continuedev/continue d0a3c0b6, core/llm/countTokens.ts: compileChatMessages, addSpaceToAnyEmptyMessages",
)
