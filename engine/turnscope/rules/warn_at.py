"""Warn when a request fills much of its budget. Changes nothing."""

from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.model import Edit


@dataclass(frozen=True, slots=True)
class Params:
    """The threshold."""

    share: Annotated[float, "share of the budget from which it warns"] = 0.9


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    size, room = ctx.count_envelope(envelope), ctx.budget.limit
    scale = ctx.calibration.scale if ctx.own is ctx.ledger else 1.0
    level = 1 - (ctx.limit - size) * scale / room if room > 0 else 1.0
    if level >= params.share:
        facts = {"fill": round(level, 4), "share": params.share, "size": size, "limit": ctx.limit, "window": ctx.budget.window}
        yield Edit("warn", f"the request fills {level:.0%} of its budget of {room:,} tokens", facts=facts)


RULE = Rule("warn_at", "Warn when a request fills much of its budget.", edits, Params, memory="fresh")
