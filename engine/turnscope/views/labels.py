"""Short names for blocks: the speaker, or the tool and what it worked on."""

from __future__ import annotations

from collections.abc import Mapping

from turnscope.session.content import INJECTED_KINDS
from turnscope.session.model import JSON, Block, Session

RANGE_KEYS = ("offset", "limit", "view_range", "start_line", "end_line")


def label_block(session: Session, block: Block) -> str:
    """A short name for a block: the speaker, or the tool and what it worked on.

    Args:
        session: the session, for the call of a result.
        block: the block.
    """
    if block.kind in ("tool_use", "tool_result"):
        call = block if block.kind == "tool_use" else session.blocks[block.pair] if block.pair >= 0 else block
        return f"{block.name or 'tool'} {find_subject(call)}".strip()
    if block.kind in ("text", "summary", "notice"):
        return {"summary": "summary", "notice": "notice"}.get(block.kind, "you" if block.role == "user" else block.role)
    if block.kind in INJECTED_KINDS:
        mark = " (inferred wording)" if session.messages[block.message].origin == "inferred" else ""
        return INJECTED_KINDS[block.kind] + mark
    return block.name or block.kind.replace("_", " ")


def _describe_range(arguments: Mapping[str, JSON]) -> str:
    """The part of a file that a call requested; "" = the whole file. Reads of two parts are different reads."""
    bounds = [f"{arguments[key]}" for key in RANGE_KEYS if isinstance(arguments.get(key), int | list)]
    return f" [{' '.join(bounds)}]"[:40] if bounds else ""


def find_subject(call: Block) -> str:
    """What a tool call worked on: the path, command or query of its input, at most 60 characters."""
    arguments = call.raw.get("input") if isinstance(call.raw, dict) else None
    if isinstance(arguments, dict):
        for key in ("file_path", "path", "notebook_path", "command", "pattern", "query", "url", "description", "prompt"):
            if isinstance(arguments.get(key), str) and arguments[key]:
                text = " ".join(arguments[key].split())
                if len(text) > 60:
                    text = f"…{text[-59:]}" if "path" in key else f"{text[:59]}…"
                return text + (_describe_range(arguments) if "path" in key else "")
    return ""
