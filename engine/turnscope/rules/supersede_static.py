"""Drop a system prompt or a set of tools once a newer one replaced it."""

from bisect import bisect_left

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.session.model import Edit, Span


def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    static = ctx.index.static
    place = bisect_left(static, ctx.previous.request.cut) if ctx.previous else 0
    last = bisect_left(static, ctx.request.cut)
    while place < last:
        after = _skip_static(ctx, place, last)
        for role in ("tools", "system"):
            if any(_is_of_role(ctx, at, role) for at in static[place:after]):
                older = [at for at in _find_older(ctx, role, place) if envelope.find_piece(at).body is None]
                if older:
                    what = "set of tools" if role == "tools" else "system prompt"
                    span = Span(older[0], older[-1] + 1)
                    facts = {"replaced_by": static[place], "blocks": len(older), "tokens": ctx.count_tokens(*span)}
                    envelope = yield Edit("drop", f"a newer {what} replaced it at block {static[place]:,}", span, facts=facts)
        place = after


def _skip_static(ctx: Ctx, place: int, last: int) -> int:
    """Number behind the static blocks from `place` on without conversation between them: one set may be several messages."""
    static = ctx.index.static
    place += 1
    while place < last and static[place] == static[place - 1] + 1:
        place += 1
    return place


def _find_older(ctx: Ctx, role: str, place: int) -> list[int]:
    """The newest neighbouring blocks of `role` before static block number `place`. Older ones were dropped when these came."""
    found: list[int] = []
    for i in range(place - 1, -1, -1):
        at = ctx.index.static[i]
        if _is_of_role(ctx, at, role):
            if found and found[-1] != at + 1:
                break
            found.append(at)
    return found[::-1]


def _is_of_role(ctx: Ctx, at: int, role: str) -> bool:
    """Whether a block is of `role`; a system message inside the conversation is not."""
    block = ctx.session.blocks[at]
    return block.role == role and not ctx.session.messages[block.message].fence


RULE = Rule("supersede_static", "Drop the system prompt and the tools that a newer version replaced.", edits, NoParams)
