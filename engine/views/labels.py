"""Short names for blocks: who speaks, or the tool and what it worked on."""

from __future__ import annotations

from engine.session.content import PUT_IN
from engine.session.model import Block, Session


def label(session: Session, block: Block) -> str:
    """A short name for a block: who speaks, or the tool and what it worked on."""
    if block.kind in ("tool_use", "tool_result"):
        call = block if block.kind == "tool_use" else session.blocks[block.pair] if block.pair >= 0 else block
        return f"{block.name or 'tool'} {subject(call)}".strip()
    if block.kind in ("text", "summary", "notice"):
        return {"summary": "summary", "notice": "notice"}.get(block.kind, "you" if block.role == "user" else block.role)
    if block.kind in PUT_IN:
        mark = " (inferred wording)" if session.messages[block.message].origin == "inferred" else ""
        return PUT_IN[block.kind] + mark
    return block.name or block.kind.replace("_", " ")


def subject(call: Block) -> str:
    """What a tool call worked on: its path, command or query, as far as its input says; at most 60 characters."""
    given = call.raw.get("input") if isinstance(call.raw, dict) else None
    if isinstance(given, dict):
        for key in ("file_path", "path", "notebook_path", "command", "pattern", "query", "url", "description", "prompt"):
            if isinstance(given.get(key), str) and given[key]:
                return " ".join(given[key].split())[-60:] if "path" in key else " ".join(given[key].split())[:60]
    return ""
