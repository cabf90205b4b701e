"""Why an answer ended otherwise than by having been given, in a sentence; and whether a model only repeats a call. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from turnscope.live.events import TurnStopped
from turnscope.session.content import dumps
from turnscope.session.model import Block, Request

MAX_REPEATS = 5  # the same call so often in a row is a loop


def explain_stop(request: Request, blocks: Sequence[Block], max_tokens: int = 0) -> TurnStopped | None:
    """What the person should know of how an answer ended; None where it just ended, or calls tools.

    `asked`: most tokens of an answer as the person set it, 0 = nobody did.
    """
    called = any(block.kind == "tool_use" for block in blocks)  # our tools, or the provider's own
    said = any(block.kind in ("text", "compaction") and block.text.strip() for block in blocks)
    reason, most = request.stop_reason or "", request.settings.get("max_tokens")
    limit = f"The answer was cut at its limit of {most} tokens. Allow more in the settings, or ask to go on."
    if isinstance(most, int) and most < max_tokens:
        limit = f"The answer was cut at {most} tokens: the window had no room for more. Make room, then ask to go on."
    sentence = {
        "max_tokens": limit,
        "model_context_window_exceeded": "The answer was cut: the model's window was full. Make room, then ask to go on.",
        "refusal": "The model declined to answer. Ask otherwise, or edit the message.",
    }.get(reason, "")
    if not sentence and reason == "tool_use" and not find_tool_calls(blocks):
        sentence = "The model said that it calls a tool, and named none. Ask again."
    if not sentence and not said and not called and reason != "pause_turn":
        sentence = "The answer is empty. Ask again, or otherwise."
    return (
        TurnStopped(reason if sentence and reason not in ("end_turn", "stop_sequence") else "empty", sentence)
        if sentence
        else None
    )


def find_tool_calls(blocks: Sequence[Block]) -> list[Block]:
    """The calls of our tools among blocks; those of the provider's own tools it runs and answers by itself."""
    return [block for block in blocks if block.kind == "tool_use" and block.raw.get("type") in (None, "tool_use")]


def is_loop(earlier: list[str], blocks: Sequence[Block]) -> bool:
    """Whether the calls of an answer are those that were made `REPEATS` times in a row; `made` remembers a turn's answers."""
    earlier.append(dumps([[block.name, block.raw.get("input")] for block in blocks if block.kind == "tool_use"]))
    return len(earlier) >= MAX_REPEATS and len(set(earlier[-MAX_REPEATS:])) == 1


LOOP_STOP = TurnStopped(
    "loop", f"The model made the same call {MAX_REPEATS} times in a row; the turn was ended. Say what it should do instead."
)
TOO_MANY_REQUESTS = "The model made {} requests without an end in this turn; it was ended. Answer, or let it go on."
NO_TOOLS_STOP = TurnStopped("tool_use", "The model called a tool, and no tool may run in this chat.")
TOOL_NOT_RUN = "This tool did not run: the conversation was taken up again after the call."
STOPPED_BY_USER = "The person stopped the turn before this tool ran."
