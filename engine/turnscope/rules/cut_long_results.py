"""Cut long tool results to head and tail, with a notice that says how to read the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.conversation import build_result, find_path, get_call_input, get_previous_cut, get_result_text
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import count_before
from turnscope.session.model import Block, Edit, Session, Span

NOTICE = 60  # tokens of a notice, about
LEAST = 200  # tokens of a result that is cut; less says nothing


@dataclass(frozen=True, slots=True)
class Params:
    """What is cut, and what is kept."""

    max_tokens: Annotated[int, "maximum tokens of a tool result"] = 4_000
    head: Annotated[float, "part of them from the beginning (0 to 1); the rest is from the end"] = 0.75
    exclude_tools: Annotated[tuple[str, ...], "tools whose results are never cut"] = ()
    fit: Annotated[float, "cut only where a request exceeds its limit, so that it fills this share of it (0 = any request)"] = (
        0.0
    )


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    results = [*_find_results(envelope, ctx, params)]
    most = _find_fitting_size(envelope, ctx, params, results) if params.fit else max(0, params.max_tokens)
    for at in results:
        block, tokens = ctx.session.blocks[at], ctx.count_tokens(at, at + 1)
        text = get_result_text(block)
        if text is None or tokens <= most:
            continue
        keep = len(text) * most // tokens
        cut = _cut_text(text, int(keep * params.head), keep, _explain_how(block, ctx.session))
        if len(cut) >= len(text):
            continue
        part = build_result(block, cut)
        left = sum(ctx.own.count_placeholder((part,)))
        because = f"{block.name or 'a tool'} returned {tokens:,} tokens, more than {most:,}: head and tail stay"
        facts = {"tokens": tokens, "left": left, "characters": len(text), "max_tokens": most}
        envelope = yield Edit("truncate", because, Span(at, at + 1), (part,), facts=facts)


def _find_results(envelope: Envelope, ctx: Ctx, params: Params) -> Iterator[int]:
    """Addresses of the results that came since the previous request and may be cut."""
    results = ctx.index.results
    for at in results[count_before(results, get_previous_cut(ctx)) : count_before(results, ctx.request.cut)]:
        block = ctx.session.blocks[at]
        if block.name not in params.exclude_tools and envelope.find_piece(at).body is None:
            yield at


def _find_fitting_size(envelope: Envelope, ctx: Ctx, params: Params, results: Sequence[int]) -> int:
    """The most tokens of a result with which the request fits: the longest ones are cut, to one length."""
    sizes = sorted((ctx.count_tokens(at, at + 1) for at in results), reverse=True)
    over = ctx.count_envelope(envelope) - ctx.limit
    if over <= 0 or not sizes:
        return max(sizes, default=0)
    over += int(ctx.limit * (1 - params.fit)) + NOTICE * len(sizes)
    above = 0  # tokens of the results that are cut
    for count, (size, smaller) in enumerate(zip(sizes, [*sizes[1:], 0], strict=True), 1):
        above += size
        if above - count * smaller >= over:
            return max(LEAST, (above - over) // count)
    return LEAST


def _cut_text(text: str, head: int, keep: int, how: str) -> str:
    """At most `keep` characters of `text`, `head` of them from its beginning, at line ends where one is near."""
    stop = text.rfind("\n", head - head // 4, head) + 1 or head
    start = len(text) - (keep - head)
    start = text.find("\n", start, start + (keep - head) // 4) + 1 or start
    first, last, total = text.count("\n", 0, stop) + 1, text.count("\n", 0, start) + 1, text.count("\n") + 1
    lines = f"lines {first:,} to {last:,} of {total:,}" if total > 1 else "the middle"
    notice = f"[{start - stop:,} of {len(text):,} characters left out here ({lines}). {how.replace('{first}', str(first))}]"
    return f"{text[:stop].rstrip()}\n{notice}\n{text[start:].lstrip()}"


def _explain_how(block: Block, session: Session) -> str:
    if find_path(get_call_input(session, block)):
        return f"To read more, call {block.name} again from line {{first}} on."
    return f"To see more, call {block.name or 'the tool'} again and ask for less at a time."


RULE = Rule(
    "cut_long_results",
    "Keep head and tail of a tool result that is too long. A notice says what is missing and how to read it.",
    edits,
    Params,
    "remembers",
    "Cline's read_file notice, Codex's and opencode's head and tail: the pattern, not their texts",
)
