"""Gemini CLI sends no thought again: what the model thought before an answer leaves with the next request."""

from __future__ import annotations

from turnscope.envelope.conversation import get_previous_cut
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.session.index import count_before, group_runs
from turnscope.session.model import Edit


def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    """Yield the edits of a request."""
    thoughts = ctx.index.thinking
    came = thoughts[count_before(thoughts, get_previous_cut(ctx)) : count_before(thoughts, ctx.request.cut)]
    standing = [at for at in came if envelope.find_piece(at).body is None]
    for span in group_runs(standing):
        yield Edit("strip", "thoughts are not sent again", span, facts={"blocks": span.stop - span.start})


RULE = Rule(
    "drop_thoughts",
    "Leave out all thinking of earlier answers.",
    edits,
    NoParams,
    source="requests that Gemini CLI 0.61.0 sent to a recording server",
)
