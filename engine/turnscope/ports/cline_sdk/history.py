"""A session as the messages that Cline's SDK stores, and what it counts of them; what it sends of long results.

Pure. Read from requests that Cline 3.0.65 sent to a recording server, and from the code of that version: npm @cline/core
0.0.86, `extensions/context/compaction.ts`, `session/services/message-builder.ts`.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from itertools import accumulate
from typing import Any, NamedTuple

from turnscope.envelope.conversation import memoize
from turnscope.envelope.rule import Ctx
from turnscope.ports.cline_sdk import messages as port
from turnscope.ports.cline_sdk.building import RESULT_MOST, cut
from turnscope.ports.cline_sdk.messages import Message
from turnscope.ports.rows import Row, build_raws, read_rows
from turnscope.session.index import Index, count_before
from turnscope.session.model import JSON, Bucket, Session

TOOLS = 6_000  # estimated tokens of the 25 definitions of tools of 3.0.65, which its log does not hold
MOST_SCALE = 4.0  # a prompt that was billed more than estimated lowers the trigger, at most to a quarter
_ID, _TIME = "msg_{:08}", 1_000_000_000_000  # ids and times are stored with each message, and counted


class History(NamedTuple):
    """The stored messages of a session: where each stands, and the estimated tokens before each, whole and as they are sent."""

    rows: tuple[Row, ...]
    messages: tuple[Message, ...]
    whole: tuple[int, ...]
    sent: tuple[int, ...]
    static: tuple[int, ...]  # of system prompt and tools, before each static address
    begins: tuple[int, ...]  # numbers of answers and typed messages: a summary ends before one of them
    prompts: tuple[int, ...]  # numbers of typed messages
    summaries: dict[tuple[int, str], int]  # tokens of each summary, by the messages that it replaced and its text


@memoize
def read_history(session: Session, index: Index) -> History:
    """Return the history of a session. Each result of a tool is a message of its own.

    Args:
        session: The session.
        index: Its index.
    """
    rows = tuple(row for row in read_rows(session).rows if row.role != "system")
    answers = {request.cut: number for number, request in enumerate(session.requests)}
    messages = tuple(_build_message(session, row, number, answers.get(row.start, -1)) for number, row in enumerate(rows))
    whole = [port.count_tokens(message) for message in messages]
    sent = [port.count_tokens({**m, "content": [_cut_block(b) for b in port.list_blocks(m)]}) for m in messages]
    static = [port.estimate_tokens(port.measure(session.blocks[at].raw)) for at in index.static]
    prompts = tuple(number for number, row in enumerate(rows) if row.role == "user")
    return History(
        rows,
        messages,
        tuple(accumulate(whole, initial=0)),
        tuple(accumulate(sent, initial=0)),
        tuple(accumulate(static, initial=0)),
        tuple(number for number, row in enumerate(rows) if row.role in ("user", "assistant")),
        prompts,
        {},
    )


def count_rows(found: History, stop: int) -> int:
    """Return how many messages stand before an address.

    Args:
        found: The history.
        stop: The address.
    """
    return bisect_left(found.rows, stop, key=lambda row: row.start)


def count_overhead(found: History, ctx: Ctx, tools: int) -> int:
    """Return the estimated tokens of system prompt and tools of a request.

    Args:
        found: The history.
        ctx: What the rule may read.
        tools: Tokens of tools' definitions where the log holds none.
    """
    there = count_before(ctx.index.static, ctx.request.cut)
    logged = any(ctx.session.blocks[at].bucket is Bucket.TOOLS for at in ctx.index.static[:there])
    return found.static[there] + (0 if logged else tools)


def compute_trigger(ctx: Ctx, estimate: int) -> float:
    """Return the estimate from which on a request is compacted: lower where the last prompt was billed more than this estimate.

    Args:
        ctx: What the rule may read.
        estimate: The estimated tokens of the request.
    """
    usage = ctx.previous.request.usage if ctx.previous else None
    billed = usage.prompt_tokens if usage and ctx.previous_usage else 0
    return ctx.budget.limit / min(MOST_SCALE, max(1.0, billed / max(1, estimate)))


def _build_message(session: Session, row: Row, number: int, request: int) -> Message:
    content = [_build_block(raw) for raw in build_raws(session.blocks[row.start : row.stop])]
    message: dict[str, Any] = {"id": _ID.format(number), "role": "assistant" if row.role == "assistant" else "user"}
    message |= {"content": content, "ts": _TIME}
    usage = session.requests[request].usage if request >= 0 else None
    if request >= 0:
        message["modelInfo"] = {"id": session.requests[request].model, "provider": str(session.about.get("provider") or "")}
    if usage:
        message["metrics"] = {
            "inputTokens": usage.prompt_tokens,
            "outputTokens": usage.output_tokens,
            "cacheReadTokens": usage.cache_read_input_tokens,
            "cacheWriteTokens": usage.cache_creation_input_tokens,
        }
    return message


def _build_block(raw: JSON) -> dict[str, Any]:
    if isinstance(raw, str):
        return {"type": "text", "text": raw}
    block = dict(raw)
    if block.get("type") == "tool_result":
        block["content"] = parse_result(block.get("content") or "")
    return block


def parse_result(content: JSON) -> Any:
    """Return the content of a result as it is stored: what was written as JSON is a list again."""
    if not isinstance(content, str) or not content.startswith("["):
        return content
    try:
        value = json.loads(content)
    except ValueError:
        return content
    return value if isinstance(value, list) else content


def _cut_block(block: Any) -> Any:
    return {**block, "content": cut_texts(block.get("content"))} if block.get("type") == "tool_result" else block


def cut_texts(value: Any) -> Any:
    """Return what is sent of a result: of each text in it at most 8,000 characters, its beginning and its end."""
    if isinstance(value, str):
        return cut(value, RESULT_MOST)
    if isinstance(value, list):
        return [cut_texts(part) for part in value]
    if isinstance(value, dict) and value.get("type") not in ("image", "media"):
        return {key: cut_texts(part) for key, part in value.items()}
    return value
