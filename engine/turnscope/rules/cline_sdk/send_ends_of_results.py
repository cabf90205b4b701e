"""What Cline's SDK sends of a long result: the ends of each text in it."""

from __future__ import annotations

from turnscope.envelope.conversation import get_previous_cut
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.ports.cline_sdk import messages as port
from turnscope.ports.cline_sdk.building import RESULT_MOST
from turnscope.ports.cline_sdk.history import cut_texts, parse_result
from turnscope.session.content import extract_block_text
from turnscope.session.index import count_before
from turnscope.session.model import Edit, Part, Span


def edits(envelope: Envelope, ctx: Ctx, _params: NoParams) -> Edits:
    """Yield an edit for each new result that is longer. Those that were read again stay: they count as any other."""
    results = ctx.index.results
    for at in results[count_before(results, get_previous_cut(ctx)) : count_before(results, ctx.request.cut)]:
        block = ctx.session.blocks[at]
        if len(block.text) <= RESULT_MOST or envelope.find_piece(at).body is not None:
            continue
        raw = {**block.raw}
        stored = parse_result(raw.get("content"))
        sent = cut_texts(stored)
        if sent == stored:
            continue
        raw["content"] = sent if stored is block.raw.get("content") else port.write_json(sent)
        part = Part(block.role, "tool_result", extract_block_text("tool_result", raw), raw)
        because = f"at most {RESULT_MOST:,} characters of each text of a result are sent: its beginning and its end"
        facts = {"characters": len(block.text), "left": len(part.text)}
        envelope = yield Edit("truncate", because, Span(at, at + 1), (part,), facts=facts)


RULE = Rule(
    "send_ends_of_results",
    "Send at most 8,000 characters of each text of a tool's result: its beginning and its end.",
    edits,
    NoParams,
    source="npm @cline/core 0.0.86, session/services/message-builder.ts; requests that Cline 3.0.65 sent to a recording server",
)
