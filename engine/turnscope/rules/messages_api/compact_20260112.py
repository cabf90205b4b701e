"""The server summarises the conversation once it reaches a size, and answers from its summary. What is sent does not change.

The summary is a block of the answer and is sent back with it. From then on the server reads nothing before that block,
whatever the policy (`planning.provider_edits`). A replay has no such block unless one was recorded, so this rule remembers
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from msgspec import Struct

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.messages_api.edits import COMPACT, build_summary_ask, build_summary_edits, count_tokens, find_begin
from turnscope.session.model import JSON

LEAST = 50_000  # input tokens; the API accepts no smaller trigger
EXPECTED = 3_500  # tokens of a summary, as in the documentation's example of `usage.iterations`


class Compacted(Struct, frozen=True):
    """What the server continues from: its summary of everything before block `stop`."""

    stop: int
    summary: str


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the edit, with the API's defaults."""

    trigger: Annotated[int, "input tokens of the prompt from which on it compacts (at least 50,000)"] = 150_000
    pause_after_compaction: Annotated[bool, "stop after the summary; the chat then continues from it"] = False
    instructions: Annotated[str, "instructions for the summary (empty = the server's own prompt)"] = ""

    def __post_init__(self) -> None:
        if self.trigger < LEAST:
            raise ValueError(f"the trigger must be at least {LEAST}: the API accepts no smaller one")


def edits(seen: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the server's edits of what the model sees."""
    made: Compacted | None = ctx.state
    if made and made.stop <= find_begin(seen, ctx):  # the session holds a summary that the server really made
        made = None
    if made and not ctx.continues_previous:
        because = "the server continues from its summary, and reads nothing before it"
        for edit in build_summary_edits(ctx, find_begin(seen, ctx), made.stop, made.summary, because, {}):
            seen = yield edit
    tokens, cut = count_tokens(seen, ctx), ctx.request.cut
    if tokens < params.trigger:
        return made
    answer = yield build_summary_ask("expect", seen, ctx, cut, params.instructions, EXPECTED, {})
    because = f"the prompt has {tokens:,} tokens: from {params.trigger:,} on the server writes a summary and answers from it"
    facts = {"tokens": tokens, "trigger": params.trigger, "read": tokens, "offline": True}
    yield from build_summary_edits(ctx, find_begin(seen, ctx), cut, answer.text, because, facts)
    return Compacted(cut, answer.text)


def request_edit(params: Params, _settings: Mapping[str, JSON]) -> JSON:
    """Return the edit as the request body names it."""
    made: dict[str, JSON] = {"type": COMPACT, "trigger": {"type": "input_tokens", "value": params.trigger}}
    more = {"pause_after_compaction": params.pause_after_compaction, "instructions": params.instructions}
    return made | {key: value for key, value in more.items() if value}


RULE = Rule(
    "compact_20260112",
    "Ask the server to summarise the conversation once it reaches a size, and to continue from its summary.",
    edits,
    Params,
    "fresh",
    "Anthropic Messages API, context management edit compact_20260112",
    state=Compacted,
    sends=request_edit,
)
