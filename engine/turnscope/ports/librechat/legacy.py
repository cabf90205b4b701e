"""LibreChat's legacy clients: the path through a conversation's tree, and how much of it fits.

Pure functions, ported from `getMessagesForConversation` and `getMessagesWithinTokenLimit` (danny-avila/LibreChat,
api/app/clients/BaseClient.js, 0012cbfb). The rules that discard or summarise act on their results.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

from turnscope.envelope.rule import Ctx
from turnscope.session.index import count_before

PRIMER = 3  # tokens that prime the reply
NO_PARENT = "00000000-0000-0000-0000-000000000000"  # Constants.NO_PARENT

Stored = Mapping[str, Any]
"""A message as LibreChat stores it: `messageId` or `id`, `parentMessageId`, and whatever else."""


def find_path(messages: Iterable[Stored], head: str | None, stop_at_summary: bool = False) -> list[Stored]:
    """Return the messages from the root to `head`, oldest first. A missing parent, or one that was met before, ends the walk.

    Args:
        messages: The messages of the conversation.
        head: The id of the newest message.
        stop_at_summary: Begin at the newest message with a stored summary, which becomes a system message with that text.
    """
    known: dict[Any, Stored] = {}
    for message in messages:
        known.setdefault(_get_id(message), message)  # of several messages with one id the first counts
    path: list[Stored] = []
    met: set[str] = set()
    while head and head not in met and head in known:
        met.add(head)
        message = known[head]
        summary = get_summary(message) if stop_at_summary else ""
        if summary:
            message = {**message, "role": "system", "text": summary}
        if stop_at_summary and message.get("summaryTokenCount"):
            message = {**message, "tokenCount": message["summaryTokenCount"]}
        path.append(message)
        parent = message.get("parentMessageId")
        head = None if summary or parent == NO_PARENT else parent
    return path[::-1]


def _get_id(message: Stored) -> Any:
    known = message.get("messageId")
    return message.get("id") if known is None else known


def get_summary(message: Stored) -> str:
    """Return the summary that a message carries: its last summary part with a text, or else its `summary`; "" = none."""
    parts = message.get("content")
    for part in reversed(parts) if isinstance(parts, list) else ():
        if isinstance(part, Mapping) and part.get("type") == "summary":
            content = part.get("content")
            texts = [p.get("text", "") for p in content if isinstance(p, Mapping)] if isinstance(content, list) else []
            if text := "".join(texts) or part.get("text"):
                return str(text)
    summary = message.get("summary")
    return summary if isinstance(summary, str) else ""


def find_begin(ctx: Ctx, first: int, room: int) -> int:
    """Return the number of the oldest message that stays. If none fits, it is the number of messages of the request.

    Newest first: a message is looked at while less than `room` is used, and stays if everything fits. The first that does
    not fit ends it.

    Args:
        ctx: The context of the request.
        first: The oldest message that may stay.
        room: Tokens for the messages.
    """
    starts, there = ctx.index.messages, count_before(ctx.index.messages, ctx.request.cut)
    if room <= 0:
        return there
    numbers = range(first, there)
    fits = bisect_left(numbers, -room, key=lambda i: -count_conversation_tokens(ctx, starts[i]))
    # ... and the newer ones must leave some room, or the loop ended before
    open_ = bisect_right(
        numbers, -room, key=lambda i: -count_conversation_tokens(ctx, starts[i + 1] if i + 1 < there else ctx.request.cut)
    )
    return first + max(fits, open_)


def count_conversation_tokens(ctx: Ctx, start: int) -> int:
    """Return the tokens of the conversation from address `start` on, without system prompt and tools.

    Args:
        ctx: The context of the request, whose cut ends the conversation.
        start: The first block that counts.
    """
    total, system, tools, cut = ctx.own.total, ctx.own.sums[0], ctx.own.sums[1], ctx.request.cut
    return total[cut] - total[start] - (system[cut] - system[start]) - (tools[cut] - tools[start])


def count_instructions(ctx: Ctx) -> int | None:
    """Return the tokens of the system prompt; None if there is none."""
    cut = ctx.request.cut
    present = any(ctx.session.blocks[at].role == "system" for at in ctx.index.static[: count_before(ctx.index.static, cut)])
    return ctx.own.sums[0][cut] if present else None
