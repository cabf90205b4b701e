"""The server clears thinking of old turns from what the model reads. What is sent does not change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.messages_api.edits import THINKING, clear_thinking, find_kept_start
from turnscope.session.model import JSON


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the edit, with the API's defaults."""

    keep: Annotated[int, "newest turns with thinking that keep it (at least 1)"] = 1
    keep_all: Annotated[bool, "keep all thinking, even if the model's server drops that of past turns"] = False

    def __post_init__(self) -> None:
        if self.keep < 1:
            raise ValueError("keep must be at least 1: the API accepts no other number of thinking turns")


def edits(seen: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the server's edits of what the model sees."""
    if params.keep_all or request_edit(params, ctx.request.settings) is None:
        return 0
    done: int = (
        ctx.state if ctx.continues_previous and ctx.state else 0
    )  # everything before it was cleared for an earlier request
    stop = max(done, find_kept_start(seen, ctx, params.keep))
    because = f"the server shall keep the thinking of the newest {params.keep} turns that hold any"
    yield from clear_thinking(seen, ctx, done, stop, because, {"keep": params.keep})
    return stop


def request_edit(params: Params, settings: Mapping[str, JSON]) -> JSON:
    """Return the edit as the request body names it; None if thinking is off."""
    thinking = settings.get("thinking")
    on = isinstance(thinking, Mapping) and thinking.get("type") in ("enabled", "adaptive")
    keep = "all" if params.keep_all else {"type": "thinking_turns", "value": params.keep}
    return {"type": THINKING, "keep": keep} if on else None  # the API rejects this edit if thinking is off


RULE = Rule(
    "clear_thinking_20251015",
    "Ask the server to clear the thinking of all turns but the newest.",
    edits,
    Params,
    "fresh",
    "Anthropic Messages API, context management edit clear_thinking_20251015",
    state=int,
    sends=request_edit,
)
