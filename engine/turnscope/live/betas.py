"""Which beta headers a request body needs: of the Messages API's context management (platform.claude.com, as of 2026-11).

Read off the body itself, so that what is sent and what it is sent under cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

EDITS = "context-management-2025-06-27"
AT_A_THRESHOLD = "compact-2026-01-12"  # the edit `compact_20260112`, and every request that carries such a block back
ON_DEMAND = "compact-2026-09-04"  # the parameter `compaction`, and every request that carries its signed block back
COMPACT = "compact_20260112"


def betas(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The betas of a body, in order, each once."""
    kinds = [str(edit.get("type")) for edit in _edits(body)]
    signed = [bool(block.get("signature")) for block in compactions(body)]
    needed = {
        EDITS: any(kind != COMPACT for kind in kinds),
        AT_A_THRESHOLD: COMPACT in kinds or not all(signed),
        ON_DEMAND: bool(body.get("compaction")) or any(signed),
    }
    return tuple(name for name, needs in needed.items() if needs)


def compactions(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The compaction blocks that a body carries back, in order."""
    for message in _list(body.get("messages")):
        for block in _list(message.get("content")) if isinstance(message, Mapping) else ():
            if isinstance(block, Mapping) and block.get("type") == "compaction":
                yield block


def _edits(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    held = body.get("context_management")
    listed = _list(held.get("edits")) if isinstance(held, Mapping) else []
    return (edit for edit in listed if isinstance(edit, Mapping))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
