"""Tool-output hygiene: output is tidied and sent once; large old output is replaced by a reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.conversation import build_result, find_replaceable, get_previous_cut, get_result_text, memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.envelope.tool_outputs import find_telling_lines, make_address, tidy_output
from turnscope.numbering import format_turn
from turnscope.session.index import Index, count_before
from turnscope.session.model import Action, Block, Edit, Session, Span


@dataclass(frozen=True, slots=True)
class Params:
    """When a result becomes a reference, and what the reference shows."""

    above: Annotated[int, "minimum tokens of an older result to replace by a reference with its main lines (0 = never)"] = 1_000
    keep: Annotated[int, "number of newest results to keep in full, whatever their size"] = 3
    findings: Annotated[int, "number of lines in the reference"] = 5
    exclude_tools: Annotated[tuple[str, ...], "tools whose results are never changed"] = ()


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    results, keep = ctx.index.results, max(0, params.keep)
    new = results[count_before(results, get_previous_cut(ctx)) : count_before(results, ctx.request.cut)]
    first, last = (max(0, count_before(results, cut) - keep) for cut in (get_previous_cut(ctx), ctx.request.cut))
    outputs = _read_outputs(ctx)
    for at in new:
        block, (tidy, named, original) = ctx.session.blocks[at], outputs.get(at, (False, "", -1))
        if not named or block.name in params.exclude_tools or envelope.find_piece(at).body is not None:
            continue
        text = get_result_text(block) or ""
        if (
            original >= 0
            and (there := envelope.find_piece(original).body) != ()
            and (there is None or there[0].kind == "tool_result")
        ):
            replacement = f"[Same output as {named}, {_describe_place(ctx.session.blocks[original])}.]"
            what: Action = "clear"
            facts = {"address": named, "first": original}
            because = f"{block.name or 'a tool'} returned the same text as before, at address {named}"
        elif not tidy:
            continue
        else:
            replacement, what, facts = tidy_output(text), "truncate", {"address": named, "characters": len(text)}
            because = f"the output of {block.name or 'a tool'} is sent without colours, times and repeated lines"
        part = build_result(block, replacement)
        tokens, left = ctx.own.count_tokens(at, at + 1), sum(ctx.own.count_placeholder((part,)))
        if left < tokens:
            facts |= {"tokens": tokens, "left": left}
            envelope = yield Edit(what, because, Span(at, at + 1), (part,), facts=facts)
    for at in results[first:last] if params.above > 0 else ():
        block, (_, named, _) = ctx.session.blocks[at], outputs.get(at, (False, "", -1))
        piece = find_replaceable(envelope, at)
        if not named or piece is None or block.name in params.exclude_tools or ctx.count_tokens(at, at + 1) <= params.above:
            continue
        tokens = sum(ctx.own.count_placeholder(piece.body)) if piece.body else ctx.count_tokens(at, at + 1)
        text = piece.body[0].text if piece.body else tidy_output(get_result_text(block) or "")
        head = f"[Output {named} of {block.name or 'a tool'}: {tokens:,} tokens, {text.count(chr(10)) + 1:,} lines. It says:]"
        part = build_result(block, "\n".join((head, *find_telling_lines(text, params.findings))))
        if tokens > params.above and (left := sum(ctx.own.count_placeholder((part,)))) < tokens:
            who = block.name or "a tool"
            because = f"{who} returned {tokens:,} tokens before the newest {keep} results: a reference replaces it"
            facts = {"address": named, "tokens": tokens, "left": left}
            envelope = yield Edit("clear", because, Span(at, at + 1), (part,), facts=facts)


def _describe_place(block: Block) -> str:
    return f"which {block.name or 'a tool'} returned in turn {format_turn(block.turn)}"


@memoize
def _read_outputs(session: Session, index: Index) -> dict[int, tuple[bool, str, int]]:
    """For every text result: whether tidying changes it, its address, and the first result with the same text (-1 = itself)."""
    seen: dict[str, int] = {}
    found: dict[int, tuple[bool, str, int]] = {}
    for at in index.results:
        text = get_result_text(session.blocks[at])
        if text:
            tidy = tidy_output(text)
            named = make_address(tidy)
            original = seen.setdefault(named, at)
            found[at] = (tidy != text, named, original if original != at else -1)
    return found


RULE = Rule(
    "tidy_tool_results",
    "Tidy the output of tools, send the same output once, and replace large old output by a reference with its main lines.",
    edits,
    Params,
    "remembers",
    "smart context management, tool-output hygiene: logs normalised, large outputs by content address, duplicates by hash",
)
