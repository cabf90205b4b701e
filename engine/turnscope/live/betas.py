"""The beta headers that a request body needs for Anthropic's context management (platform.claude.com, as of 2026-11).

They are derived from the body itself, so that a body and its headers cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

CONTEXT_EDITS = "context-management-2025-06-27"
COMPACT_AT_THRESHOLD = "compact-2026-01-12"  # for the edit `compact_20260112`, and for sending its block back
COMPACT_ON_DEMAND = "compact-2026-09-04"  # for the parameter `compaction`, and for sending its signed block back
COMPACT_EDIT = "compact_20260112"


def list_betas(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the beta features that a body uses, in order, each once."""
    kinds = [str(edit.get("type")) for edit in _list_edits(body)]
    signed = [bool(block.get("signature")) for block in find_compactions(body)]
    needed = {
        CONTEXT_EDITS: any(kind != COMPACT_EDIT for kind in kinds),
        COMPACT_AT_THRESHOLD: COMPACT_EDIT in kinds or not all(signed),
        COMPACT_ON_DEMAND: bool(body.get("compaction")) or any(signed),
    }
    return tuple(name for name, needs in needed.items() if needs)


def find_compactions(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the compaction blocks that a body sends back, in order."""
    for message in _as_list(body.get("messages")):
        for block in _as_list(message.get("content")) if isinstance(message, Mapping) else ():
            if isinstance(block, Mapping) and block.get("type") == "compaction":
                yield block


def _list_edits(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    management = body.get("context_management")
    edits = _as_list(management.get("edits")) if isinstance(management, Mapping) else []
    return (edit for edit in edits if isinstance(edit, Mapping))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
