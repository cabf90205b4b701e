"""SWE-agent's remove_regex: what patterns match in older messages is taken out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from engine.envelope.conversation import alone, result, result_text
from engine.envelope.envelope import Envelope
from engine.envelope.rule import Ctx, Edits, Rule
from engine.errors import PolicyError
from engine.ports.swe_agent.texts import without
from engine.session.index import upto
from engine.session.model import Bucket, Edit, Part, Span


@dataclass(frozen=True, slots=True)
class Params:
    """The options of the original."""

    remove: Annotated[tuple[str, ...], "regular expressions, each on what the one before left"] = ("<diff>.*</diff>",)
    keep_last: Annotated[int, "newest messages that stay as they are"] = 0

    def __post_init__(self) -> None:
        for pattern in self.remove:
            try:
                re.compile(pattern)
            except re.error as error:
                raise PolicyError(f"{pattern!r} is no regular expression: {error}", hint="Mend the pattern.") from error


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Texts and results alone; system prompt and calls stay. State: how many messages were looked at."""
    starts, done = ctx.index.messages, ctx.state or 0
    old = max(done, upto(starts, ctx.request.cut) - max(0, params.keep_last))
    for at in range(starts[done] if done < old else ctx.request.cut, starts[old] if old < len(starts) else ctx.request.cut):
        block = ctx.session.blocks[at]
        text = result_text(block) if block.bucket is Bucket.TOOL_RESULTS else block.text if block.kind == "text" else None
        if not text or not alone(envelope, at):
            continue
        left = without(text, params.remove)
        if left != text:
            body = (result(block, left),) if block.bucket is Bucket.TOOL_RESULTS else (Part(block.role, "text", left),)
            because = "what a pattern matches is taken out"
            envelope = yield Edit("truncate", because, Span(at, at + 1), body if left or block.kind != "text" else ())
    return old


RULE = Rule(
    "remove_matches",
    "Take what regular expressions match out of all but the newest messages.",
    edits,
    Params,
    source="SWE-agent 3ea751c0 (v1.1.0-177), sweagent/agent/history_processors.py: RemoveRegex",
    state=int,
)
