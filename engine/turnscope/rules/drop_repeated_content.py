"""Send no content twice: a block that repeats an earlier block of the request is replaced by a short notice."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated

from turnscope.envelope.conversation import build_result, find_newest_message, get_previous_cut, get_result_text, memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.numbering import format_turn
from turnscope.session.content import INJECTED_KINDS
from turnscope.session.index import Index, count_before
from turnscope.session.model import Block, Bucket, Edit, Part, Session, Span

_KINDS = ("text", "image", "document", "tool_result", *INJECTED_KINDS)


@dataclass(frozen=True, slots=True)
class Params:
    """What counts as a repetition, and the notice."""

    min_tokens: Annotated[int, "minimum tokens of a block to replace"] = 100
    notice: Annotated[str, "text in place of a repeated block; {where} names the first one"] = "[Same content as {where}.]"


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    first, blocks = _find_first(ctx), ctx.session.blocks
    # The newest message of a person stays until it is no longer the newest. Results are replaced at once: a block that was sent
    # in full and shrinks later would break the provider's prompt cache.
    fresh, looked = find_newest_message(ctx), count_before(ctx.index.messages, get_previous_cut(ctx))
    old = ctx.index.messages[looked - 1] if looked else 0
    for at in range(old, ctx.request.cut):
        block = blocks[at]
        original = first.get(at)
        if (
            original is None
            or (at >= fresh and block.kind != "tool_result")
            or (at < get_previous_cut(ctx) and block.kind == "tool_result")
        ):
            continue
        tokens = ctx.count_tokens(at, at + 1)
        if (
            tokens < params.min_tokens
            or envelope.find_piece(at).body is not None
            or envelope.find_piece(original).body is not None
        ):
            continue
        text = params.notice.replace("{where}", _describe_place(blocks[original]))
        part = build_result(block, text) if block.kind == "tool_result" else Part(block.role, "text", text)
        if (saved := tokens - sum(ctx.own.count_placeholder((part,)))) > 0:
            because = f"the same {tokens:,} tokens are already in {_describe_place(blocks[original])}"
            facts = {"first": original, "tokens": tokens, "saved": saved}
            envelope = yield Edit("clear", because, Span(at, at + 1), (part,), facts=facts)


def _describe_place(block: Block) -> str:
    kind = block.kind.replace("_", " ")
    what = f"the result of {block.name or 'a tool'}" if block.kind == "tool_result" else f"the {kind} of the {block.role}"
    return f"{what} in turn {format_turn(block.turn)}"


@memoize
def _find_first(session: Session, _index: Index) -> dict[int, int]:
    """Address of the first block with the same content, for every block that repeats one."""
    seen: dict[tuple[str, str], int] = {}
    found: dict[int, int] = {}
    for block in session.blocks:
        if block.kind not in _KINDS or block.bucket in (Bucket.SYSTEM, Bucket.TOOLS):
            continue
        digest = block.digest  # the digest of a result includes its call, so its text is compared
        if block.kind == "tool_result":
            text = get_result_text(block)
            if not text:
                continue
            digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        at = seen.setdefault((block.role, digest), block.at)
        if at != block.at:
            found[block.at] = at
    return found


RULE = Rule(
    "drop_repeated_content",
    "Replace a block that repeats an earlier one by a short notice. Place it before rules that cut.",
    edits,
    Params,
    "remembers",
)
