"""The server clears results of old tool uses from what the model reads. What is sent does not change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.clearing import clear_results
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.messages_api.edits import CLEARED, TOOL_USES, count_tokens, iter_clearable, list_tool_uses
from turnscope.session.model import JSON, Edit, Part


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the edit, with the API's defaults."""

    trigger: Annotated[int, "input tokens of the prompt above which it clears"] = 100_000
    trigger_uses: Annotated[int, "tool uses in the prompt above which it clears instead (0 = by tokens)"] = 0
    keep: Annotated[int, "number of newest tool uses to keep"] = 3
    clear_at_least: Annotated[int, "clear nothing unless it saves at least this many tokens (0 = always)"] = 0
    exclude_tools: Annotated[tuple[str, ...], "tools whose uses are never cleared"] = ()
    clear_tool_inputs: Annotated[bool, "clear the inputs of the calls too"] = False
    clear_tool_inputs_of: Annotated[tuple[str, ...], "tools whose inputs are cleared, instead of all"] = ()


def edits(seen: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the server's edits of what the model sees."""
    done: int = (
        ctx.state if ctx.continues_previous and ctx.state else 0
    )  # everything before it was cleared for an earlier request
    found, tokens = list_tool_uses(seen, ctx), count_tokens(seen, ctx)
    met = len(found) > params.trigger_uses if params.trigger_uses else tokens > params.trigger
    stop = ctx.request.cut if params.keep <= 0 else found[-params.keep] if params.keep <= len(found) else 0
    if not (met or done) or stop <= done:
        return done
    chosen = [*iter_clearable(seen, ctx, done, stop, params.exclude_tools)]
    left = sum(ctx.ledger.count_placeholder((Part("user", "tool_result", CLEARED),)))
    gain = round(ctx.calibration.scale * sum(ctx.ledger.count_tokens(at, at + 1) - left for at in chosen))
    facts = {"tokens": tokens, "tool_uses": len(found), "clears": gain, "clear_at_least": params.clear_at_least}
    if not done and gain < params.clear_at_least:
        why = f"the server would clear {gain:,} tokens, fewer than the {params.clear_at_least:,} of clear_at_least"
        yield Edit("keep", why, facts=facts)
        return done
    over = f"more than {params.trigger_uses} tool uses" if params.trigger_uses else f"more than {params.trigger:,} tokens"
    because = f"the server shall clear from {over} on, and to keep the newest {params.keep} tool uses"
    inputs = params.clear_tool_inputs_of or params.clear_tool_inputs
    yield from clear_results(seen, ctx, chosen, CLEARED, because, facts, inputs)
    return stop


def request_edit(params: Params, _settings: Mapping[str, JSON]) -> JSON:
    """Return the edit as the request body names it."""
    by = ("tool_uses", params.trigger_uses) if params.trigger_uses else ("input_tokens", params.trigger)
    made: dict[str, JSON] = {"type": TOOL_USES, "trigger": {"type": by[0], "value": by[1]}}
    made["keep"] = {"type": "tool_uses", "value": params.keep}
    if params.clear_at_least:
        made["clear_at_least"] = {"type": "input_tokens", "value": params.clear_at_least}
    if params.exclude_tools:
        made["exclude_tools"] = [*params.exclude_tools]
    if params.clear_tool_inputs or params.clear_tool_inputs_of:
        made["clear_tool_inputs"] = [*params.clear_tool_inputs_of] or True
    return made


RULE = Rule(
    "clear_tool_uses_20250919",
    "Ask the server to clear the results of old tool uses once the prompt is too large.",
    edits,
    Params,
    "fresh",
    "Anthropic Messages API, context management edit clear_tool_uses_20250919",
    state=int,
    sends=request_edit,
)
