"""Overflow handling, step 2: send a request that does not fit to a model with a larger window, by a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.model import Edit


@dataclass(frozen=True, slots=True)
class Params:
    """The table of larger models."""

    models: Annotated[Mapping[str, str], "model -> the model with a larger window to use instead"] = field(default_factory=dict)


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    size = ctx.count_envelope(envelope)
    if size <= ctx.limit:
        return
    because = f"the request needs {size:,} tokens, {max(0, ctx.limit):,} are available"
    numbers = {"size": size, "limit": ctx.limit, "window": ctx.budget.window, "from": ctx.request.model}
    name, tried = ctx.request.model, []
    while larger := params.models.get(name) or params.models.get(ctx.prices.find_facts(name).name):
        window = ctx.prices.find_facts(larger).window
        if larger in tried:
            break
        tried.append(larger)
        if window and window > ctx.budget.window:
            why = f"{because}: {larger} has a window of {window:,} instead of {ctx.budget.window:,} tokens"
            yield Edit("fallback", why, facts={**numbers, "to": larger, "larger_window": window}, model=larger)
            return
        name = larger
    what = f"{tried[-1]} has no larger window" if tried else f"no larger model than {ctx.request.model or 'it'} is named"
    yield Edit("keep", f"{because}, but {what}", facts={**numbers, "tried": tried})


RULE = Rule(
    "fall_back_to_larger_window",
    "Send a request that does not fit to a model with a larger window.",
    edits,
    Params,
    memory="fresh",
    source="a design pattern for session context management; `context_window_fallback_dict` of the LiteLLM router",
)
