"""Tool-output hygiene: what tools print is tidied, stands once, and where it is large and old gives way to a reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.conversation import build_result, find_replaceable, get_previous_cut, get_result_text, memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.envelope.tool_outputs import find_telling_lines, make_address, tidy_output
from turnscope.session.index import Index, count_before
from turnscope.session.model import Block, Edit, Session, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters."""

    above: Annotated[int, "tokens above which an older result gives way to a reference with its top findings (0 = never)"] = (
        1_000
    )
    keep: Annotated[int, "newest results that stay in full, however large"] = 3
    findings: Annotated[int, "lines of it that the reference names"] = 5
    exclude_tools: Annotated[tuple[str, ...], "tools whose results are left as they are"] = ()


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    results, keep = ctx.index.results, max(0, params.keep)
    new = results[count_before(results, get_previous_cut(ctx)) : count_before(results, ctx.request.cut)]
    first, last = (max(0, count_before(results, cut) - keep) for cut in (get_previous_cut(ctx), ctx.request.cut))
    outputs = _read_outputs(ctx)
    for at in new:
        block, (tidy, named, held) = ctx.session.blocks[at], outputs.get(at, (False, "", -1))
        if not named or block.name in params.exclude_tools or envelope.find_piece(at).body is not None:
            continue
        text = get_result_text(block) or ""
        if held >= 0 and (there := envelope.find_piece(held).body) != () and (there is None or there[0].kind == "tool_result"):
            said = f"[Same output as {named}, {_describe_place(ctx.session.blocks[held])}.]"
            what, facts = "clear", {"address": named, "first": held}
            because = f"{block.name or 'a tool'} returned what it had returned before: the same text has the address {named}"
        elif not tidy:
            continue
        else:
            said, what, facts = tidy_output(text), "truncate", {"address": named, "characters": len(text)}
            because = f"the output of {block.name or 'a tool'} stands without colours, times and repeated lines"
        part = build_result(block, said)
        tokens, left = ctx.own.count_tokens(at, at + 1), sum(ctx.own.count_placeholder((part,)))
        if left < tokens:
            envelope = yield Edit(
                "clear" if what == "clear" else "truncate", because, Span(at, at + 1), (part,),
                facts={**facts, "tokens": tokens, "left": left},
            )  # fmt: skip
    for at in results[first:last] if params.above > 0 else ():
        block, (_, named, _) = ctx.session.blocks[at], outputs.get(at, (False, "", -1))
        piece = find_replaceable(envelope, at)
        if not named or piece is None or block.name in params.exclude_tools or ctx.count_tokens(at, at + 1) <= params.above:
            continue
        tokens = sum(ctx.own.count_placeholder(piece.body)) if piece.body else ctx.count_tokens(at, at + 1)
        text = piece.body[0].text if piece.body else tidy_output(get_result_text(block) or "")
        what = f"[Output {named} of {block.name or 'a tool'}: {tokens:,} tokens, {text.count(chr(10)) + 1:,} lines. It says:]"
        part = build_result(block, "\n".join((what, *find_telling_lines(text, params.findings))))
        if tokens > params.above and (left := sum(ctx.own.count_placeholder((part,)))) < tokens:
            who = block.name or "a tool"
            because = f"{who} returned {tokens:,} tokens before the newest {keep} results: a reference stands for it"
            facts = {"address": named, "tokens": tokens, "left": left}
            envelope = yield Edit("clear", because, Span(at, at + 1), (part,), facts=facts)


def _describe_place(block: Block) -> str:
    return f"which {block.name or 'a tool'} returned in turn {block.turn + 1}"


@memoize
def _read_outputs(session: Session, index: Index) -> dict[int, tuple[bool, str, int]]:
    """Of every result of text: whether tidying changes it, its address, and the first result with the same (-1 = it is)."""
    seen: dict[str, int] = {}
    found: dict[int, tuple[bool, str, int]] = {}
    for at in index.results:
        text = get_result_text(session.blocks[at])
        if text:
            tidy = tidy_output(text)
            named = make_address(tidy)
            held = seen.setdefault(named, at)
            found[at] = (tidy != text, named, held if held != at else -1)
    return found


RULE = Rule(
    "tidy_tool_results",
    "Tidy what tools print, say the same output once, and let a reference with the top findings stand for large old ones.",
    edits,
    Params,
    "remembers",
    "smart context management, tool-output hygiene: logs normalised, large outputs by content address, duplicates by hash",
)
