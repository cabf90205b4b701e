"""How much a provider may have put into prompts by itself, where a log shows that it did and not how much.

A hosted tool's definitions, and what it brought while the answer was being written, are read by the model and billed with the
request; so are the instructions for a compaction that the provider makes, and a summary that it hands back encrypted. None of
them is a text of the log. Holds no numbers of a bill.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from turnscope.counting.reconciliation import TOOL_INSTRUCTIONS
from turnscope.ports.messages_api import edits as api
from turnscope.session.model import Block, Bucket, Request, Session

UNKNOWN = 1 << 40  # tokens; no limit is known
HOSTED = ("server_tool_use", "mcp_tool_use", "mcp_list_tools")  # kinds, and types, of what the provider's own tools leave
COMPACTION = "compaction"


def find_provider_additions(session: Session, requests: Sequence[Request]) -> tuple[int, ...]:
    """Most tokens that the provider may have added to each request; 0 where the log shows no reason for any.

    Args:
        session: The session.
        requests: Its requests, or the first of them.
    """
    encrypted = [block.at for block in session.blocks if block.kind == COMPACTION and not block.text]
    return tuple(_find_addition(session.blocks, request, encrypted) for request in requests)


def _find_addition(blocks: Sequence[Block], request: Request, encrypted: Sequence[int]) -> int:
    answer = blocks[request.cut : request.stop]
    if bisect_right(encrypted, request.cut - 1) or any(map(_is_hosted, answer)):
        return UNKNOWN
    compacts = api.COMPACT in api.get_edits(request.settings) or any(block.kind == COMPACTION for block in answer)
    return TOOL_INSTRUCTIONS if compacts else 0


def _is_hosted(block: Block) -> bool:
    """Whether a block of an answer was left by a tool that runs at the provider: a call, its result, or a list of its tools."""
    kind = block.raw.get("type") if isinstance(block.raw, dict) else ""
    return block.bucket is Bucket.TOOL_RESULTS or block.kind in HOSTED or kind in HOSTED
