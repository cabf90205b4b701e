"""SWE-agent's remove_regex: what patterns match in older messages is removed."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.conversation import build_result, find_replaceable, get_result_text
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.errors import PolicyError
from turnscope.ports.swe_agent.texts import DIFF, remove_matches
from turnscope.session.model import Block, Bucket, Edit, Part, Span


@dataclass(frozen=True, slots=True)
class Params:
    """The options of the original."""

    remove: Annotated[tuple[str, ...], "regular expressions, each on what the one before left"] = (DIFF,)
    keep_last: Annotated[int, "number of newest messages that do not change"] = 0
    system: Annotated[bool, "search system prompts too, as the original does"] = False

    def __post_init__(self) -> None:
        for pattern in self.remove:
            try:
                re.compile(pattern)
            except re.error as error:
                raise PolicyError(f"{pattern!r} is no regular expression: {error}", hint="Correct the pattern.") from error


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request.

    Texts and results are searched, calls and thinking are not. State: how many messages were searched.
    """
    messages, done = ctx.session.messages, ctx.state or 0
    there = bisect_left(messages, ctx.request.cut, key=lambda message: message.start)
    old = max(done, there - max(0, params.keep_last))
    for message in messages[done:old]:
        for block in ctx.session.blocks[message.start : message.stop]:
            found = _get_text(block, params)
            if found and find_replaceable(envelope, block.at) and (left := remove_matches(found, params.remove)) != found:
                because = "what a pattern matches is removed"
                envelope = yield Edit("truncate", because, Span(block.at, block.at + 1), (_build_part(block, left),))
    return old


def _get_text(block: Block, params: Params) -> str | None:
    if block.bucket is Bucket.TOOL_RESULTS:
        return get_result_text(block)
    searched = block.kind == "text" or (params.system and block.bucket is Bucket.SYSTEM)
    return block.text if searched else None


def _build_part(block: Block, text: str) -> Part:
    if block.bucket is Bucket.TOOL_RESULTS:
        return build_result(block, text)
    return Part(block.role, block.kind, text, place="system" if block.bucket is Bucket.SYSTEM else "own")


RULE = Rule(
    "remove_matches",
    "Remove what regular expressions match from all but the newest messages.",
    edits,
    Params,
    source="SWE-agent 3ea751c0 (v1.1.0-177), sweagent/agent/history_processors.py: RemoveRegex",
    state=int,
)
