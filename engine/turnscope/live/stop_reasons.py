"""Why an answer ended before it was complete, as a sentence; and whether a model repeats the same call. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from turnscope.live.events import TurnStopped
from turnscope.session.content import dumps
from turnscope.session.model import Block, Request

MAX_REPEATS = 5  # of the same call in a row; from there on it is a loop


def explain_stop(request: Request, blocks: Sequence[Block], max_tokens: int = 0) -> TurnStopped | None:
    """Return what the user should know about the end of an answer; None if it ended normally or calls a tool.

    Args:
        request: The request with its stop reason.
        blocks: The blocks of its answer.
        max_tokens: The limit that the user set; 0 = none.
    """
    has_call = any(block.kind == "tool_use" for block in blocks)  # our tools, or the provider's own
    has_text = any(block.kind in ("text", "compaction") and block.text.strip() for block in blocks)
    reason, limit_sent = request.stop_reason or "", request.settings.get("max_tokens")
    limit = (
        f"The answer was cut at its limit of {limit_sent} tokens. Raise the limit in the settings, or ask the model to go on."
    )
    if isinstance(limit_sent, int) and limit_sent < max_tokens:
        limit = f"The answer was cut at {limit_sent} tokens: the window is full. Make room, then ask the model to go on."
    sentence = {
        "max_tokens": limit,
        "model_context_window_exceeded": "The answer was cut: the window is full. Make room, then ask the model to go on.",
        "refusal": "The model declined to answer. Ask in another way, or edit the message.",
    }.get(reason, "")
    if not sentence and reason == "tool_use" and not find_tool_calls(blocks):
        sentence = "The model announced a tool call but sent none. Ask again."
    if not sentence and not has_text and not has_call and reason != "pause_turn":
        sentence = "The answer is empty. Ask again, or in another way."
    return (
        TurnStopped(reason if sentence and reason not in ("end_turn", "stop_sequence") else "empty", sentence)
        if sentence
        else None
    )


def find_tool_calls(blocks: Sequence[Block]) -> list[Block]:
    """Return the calls of our tools. The provider runs its own tools and answers them itself."""
    return [block for block in blocks if block.kind == "tool_use" and block.raw.get("type") in (None, "tool_use")]


def is_loop(earlier: list[str], blocks: Sequence[Block]) -> bool:
    """Return whether a turn made the same calls five times in a row.

    Args:
        earlier: The calls of the turn so far; those of this answer are added.
        blocks: The blocks of the answer.
    """
    earlier.append(dumps([[block.name, block.raw.get("input")] for block in blocks if block.kind == "tool_use"]))
    return len(earlier) >= MAX_REPEATS and len(set(earlier[-MAX_REPEATS:])) == 1


LOOP_STOP = TurnStopped(
    "loop", f"The model made the same call {MAX_REPEATS} times in a row, so the turn was ended. Say what it should do instead."
)
TOO_MANY_REQUESTS = "The model made {} requests in this turn, so the turn was ended. Answer, or let it go on."
NO_TOOLS_STOP = TurnStopped("tool_use", "The model called a tool, but this chat has no tools.")
TOOL_NOT_RUN = "This tool did not run: the conversation was resumed after the call."
STOPPED_BY_USER = "The user stopped the turn before this tool ran."
