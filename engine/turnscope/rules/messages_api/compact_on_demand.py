"""Ask the server for a summary when a turn begins in a full window, and continue from its signed block."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.condensing import compute_fill
from turnscope.envelope.difference import find_first_change
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.messages_api.edits import build_summary_ask, build_summary_edits
from turnscope.session.index import find_at_or_before, group_runs
from turnscope.session.model import Edit, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters. The client decides when to ask; the API has no default."""

    share: Annotated[float, "share of the budget from which on it asks"] = 0.8
    max_tokens: Annotated[int, "maximum tokens of the request for a summary, with thinking"] = 4_096
    instructions: Annotated[str, "instructions for the summary (empty = the server's own prompt)"] = ""


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request."""
    level, start = min(compute_fill(envelope, ctx), 100.0), find_at_or_before(ctx.index.turns, ctx.request.cut - 1) or 0
    begun = ctx.previous is not None and ctx.previous.request.cut > start  # a turn that has begun is finished first
    if level <= params.share or begun or not any(ctx.index.find_conversation_spans(0, start)):
        return
    facts = {"fill": round(level, 4), "limit": ctx.limit, "size": ctx.count_envelope(envelope)}
    because = f"the request fills {level:.0%} of the budget, more than {params.share:.0%}"
    older = _drop_stale_thinking(envelope, ctx).replace(Edit("drop", "", Span(start, envelope.stop)), -1, ctx.ledger)[0]
    body = ctx.body(older) if ctx.body else {}
    answer = yield build_summary_ask("compact", older, ctx, start, params.instructions, params.max_tokens, body)
    if answer.failed or not answer.text.strip():
        why = answer.failed or "the summary was empty"
        yield Edit("keep", f"{because}, but no summary was made: {why}", facts={**facts, "failed": why})
        return
    block = json.loads(answer.items[0]) if answer.items else {"type": "compaction", "content": answer.text}
    facts |= {"source": answer.source, "offline": answer.source == "offline", "model": answer.model}
    summary = "the server's summary" if answer.items else "an offline summary, instead of the server's,"
    reason = f"{because}: {summary} replaces all earlier turns"
    yield from build_summary_edits(ctx, 0, start, answer.text, reason, facts, block)


def _drop_stale_thinking(envelope: Envelope, ctx: Ctx) -> Envelope:
    """The envelope without thinking that follows a change: the server would reject the request for a summary."""
    changed = find_first_change(ctx.previous.after if ctx.previous else Envelope(), envelope)
    stale = (at for at in ctx.index.thinking if changed is not None and changed <= at < ctx.request.cut)
    for span in list(group_runs(at for at in stale if envelope.find_piece(at).body is None)):
        envelope = envelope.replace(Edit("strip", "", span), -1, ctx.ledger)[0]
    return envelope


RULE = Rule(
    "compact_on_demand",
    "Ask the server for a summary when a turn begins in a full window, and continue from its block.",
    edits,
    Params,
    "remembers",
    "Anthropic Messages API, parameter `compaction` (compact-2026-09-04)",
)
