"""SWE-agent's closed_window: a view of a file is closed once a newer view of the same file was shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from msgspec import Struct

from turnscope.envelope.conversation import build_result, find_replaceable, get_previous_cut
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.swe_agent.texts import close_windows, find_window
from turnscope.session.model import Block, Bucket, Edit, Part, Span


class Windows(Struct, frozen=True):
    """The newest view of each file, as the address of its block."""

    newest: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    results: Annotated[bool, "include tool results; in older versions windows were user messages"] = True


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. A new view closes older ones of its file."""
    known: Windows = ctx.state or Windows()
    newest, kinds = dict(known.newest), ("text", "tool_result") if params.results else ("text",)
    for block in ctx.session.blocks[get_previous_cut(ctx) : ctx.request.cut]:
        file = find_window(block.text) if block.role == "user" and block.kind in kinds else None
        if file is None or ctx.session.messages[block.message].extra.get("is_demo") or not find_replaceable(envelope, block.at):
            continue
        older = newest.get(file) if file else block.at
        if file:
            newest[file] = block.at
        if older is None or not find_replaceable(envelope, older):
            continue
        because = f"a newer window of {file} was shown" if file else "its numbered lines name no file"
        placeholder = _build_body(ctx.session.blocks[older], close_windows(ctx.session.blocks[older].text) if file else "")
        envelope = yield Edit("clear", because, Span(older, older + 1), placeholder, facts={"file": file})
    return known if newest == known.newest else Windows(newest)


def _build_body(block: Block, text: str) -> tuple[Part, ...]:
    """Return the block with another text. An empty result stays, because its call needs one."""
    if block.bucket is Bucket.TOOL_RESULTS:
        return (build_result(block, text),)
    return (Part(block.role, "text", text),) if text else ()


RULE = Rule(
    "close_outdated_windows",
    "Replace older windows of a file (numbered lines after a header) by one line once a newer window was shown.",
    edits,
    Params,
    source="SWE-agent 3ea751c0 (v1.1.0-177), sweagent/agent/history_processors.py: ClosedWindowHistoryProcessor",
    state=Windows,
)
