"""Compress old tool calls and their results to one line each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from turnscope.envelope.conversation import build_result, find_replaceable, get_previous_cut
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.content import dumps
from turnscope.session.index import count_before
from turnscope.session.model import Block, Edit, Part, Span


@dataclass(frozen=True, slots=True)
class Params:
    """What is compressed, and how far."""

    keep: Annotated[int, "number of newest tool uses to keep"] = 5
    line: Annotated[int, "maximum characters of the line"] = 200
    exclude_tools: Annotated[tuple[str, ...], "tools whose calls are never compressed"] = ()
    calls: Annotated[Literal["told", "kept"], "told: the line replaces call and result; kept: only the result"] = "told"
    above: Annotated[int, "minimum tokens of a result to compress (0 = every result that shrinks)"] = 0


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    results, keep = ctx.index.results, max(0, params.keep)
    start, stop = (max(0, count_before(results, cut) - keep) for cut in (get_previous_cut(ctx), ctx.request.cut))
    for at in results[start:stop]:
        block = ctx.session.blocks[at]
        at_call = block.pair
        if at_call < 0 or block.name in params.exclude_tools or ctx.session.blocks[at_call].pair != at:
            continue
        if (
            not find_replaceable(envelope, at_call)
            or not find_replaceable(envelope, at)
            or ctx.count_tokens(at, at + 1) <= params.above
        ):
            continue
        call, kept = ctx.session.blocks[at_call], params.calls == "kept"
        line = _format_line(call, block, params.line)
        part = build_result(block, line) if kept else Part(call.role, "text", line)
        gain = sum(ctx.ledger.count_tokens(i, i + 1) for i in ((at,) if kept else (at_call, at))) - sum(
            ctx.ledger.count_placeholder((part,))
        )
        stands = envelope.find_piece(at).body
        if gain <= 0 or (kept and stands and stands[0].text != block.text):  # a notice of another rule is more helpful
            continue
        what = "its result" if kept else "call and result"
        name = block.name or "a tool"
        because = f"{name} was called before the newest {keep} tool uses: one line replaces {what}, {gain:,} tokens less"
        facts = {"call": at_call, "result": at, "tokens": gain}
        if kept:
            envelope = yield Edit("condense", because, Span(at, at + 1), (part,), facts=facts)
            continue
        if at == at_call + 1:  # neighbours: one placeholder for both
            envelope = yield Edit("condense", because, Span(at_call, at + 1), (part,), facts=facts)
            continue
        envelope = yield Edit("condense", because, Span(at_call, at_call + 1), (part,), facts=facts)
        envelope = yield Edit("drop", "the line of its call shows its beginning", Span(at, at + 1), facts=facts)


def _format_line(call: Block, block: Block, size: int) -> str:
    raw = call.raw if isinstance(call.raw, Mapping) else {}
    arguments = raw.get("input")
    values = [*arguments.values()] if isinstance(arguments, Mapping) else [arguments]
    listed = ", ".join(value if isinstance(value, str) else dumps(value) for value in values)
    text = block.text
    first = next((line.strip() for line in text.splitlines() if line.strip()), "nothing")
    failed = "failed: " if isinstance(block.raw, Mapping) and block.raw.get("is_error") else ""
    head, tail = f"[called {block.name or 'a tool'}: ", f" ({text.count(chr(10)) + 1} lines)]"
    room = max(0, size - len(head) - len(tail) - len(failed) - 4)
    listed = _shorten(listed, room // 2)
    return f"{head}{listed} -> {failed}{_shorten(first, room - len(listed))}{tail}"


def _shorten(text: str, size: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= size else text[: max(0, size - 1)] + "…"


RULE = Rule(
    "compress_old_calls",
    "Replace an old tool call and its result, or only the result, by one line: tool, input, beginning of the result.",
    edits,
    Params,
    "remembers",
    "conversation memory patterns, message pruning: tool call compression",
)
