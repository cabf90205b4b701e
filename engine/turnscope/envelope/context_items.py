"""Context items: web results, documents, files, trees, pages, issues, project rules, the workspace, what MCP servers say.

An item is injected into the prompt with a question. This module holds the values, how they are worded, and how a log records
them. `live.context_sources` finds the items of a live chat; a rule decides where they go and how many tokens they may have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from turnscope.envelope.rule import Ctx

Kind = Literal["web", "document", "file", "tree", "search", "url", "issue", "rules", "workspace", "mcp"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SLOTS: Mapping[Kind, str] = {
    "web": "web_results",
    "document": "documents",
    "file": "files",
    "tree": "folder_tree",
    "search": "search_results",
    "url": "pages",
    "issue": "issues",
    "rules": "project_rules",
    "workspace": "workspace",
    "mcp": "mcp_instructions",
}
LONGEST = 60_000  # characters of one text
RECORDED = "context"  # key of `Session.about`: a list of tables with kind, name, text, turn
RULE_FILES = ("CLAUDE.md", "AGENTS.md", ".clinerules", ".cursorrules", ".windsurfrules", "GEMINI.md")
MARK = "\n[cut: no room for the rest]"


class ContextItem(Struct, frozen=True):
    """One injected text: its kind, its name (a path, an address or a title), and the text itself."""

    kind: Kind
    name: str
    text: str


def decode_item(item: str) -> ContextItem | None:
    """Return the item that a JSON text encodes; None where it encodes no item, or an item without text."""
    try:
        found = msgspec.json.decode(item, type=ContextItem)
    except msgspec.DecodeError:
        return None
    return found if found.text.strip() else None


def read_recorded_items(ctx: Ctx, at: int) -> Iterator[ContextItem]:
    """Yield the items that the log records for a question, and those that it records without naming a question.

    A row names its question by the turn, or by the id of the message.

    Args:
        ctx: What the rule may read.
        at: Address of the question.
    """
    rows, block = ctx.session.about.get(RECORDED), ctx.session.blocks[at]
    turn, message = block.turn, ctx.session.messages[block.message].id
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, Mapping) and row.get("kind") in KINDS and row.get("turn", turn) == turn:
            if row.get("message", message) != message:
                continue
            text = row.get("text")
            if isinstance(text, str) and text.strip():
                yield ContextItem(row["kind"], str(row.get("name") or ""), text[:LONGEST])


def _format_sources(found: Sequence[ContextItem], first: int) -> str:
    """Open WebUI: each item as a source with its number, which goes on from kind to kind."""
    return "\n".join(f'<source id="{n}" name="{escape(one.name)}">{one.text}</source>' for n, one in enumerate(found, first))


def _format_tags(found: Sequence[ContextItem], _first: int) -> str:
    """Each item in a tag of its kind."""
    return "\n\n".join(f'<{one.kind} name="{escape(one.name)}">\n{one.text}\n</{one.kind}>' for one in found)


def _format_fences(found: Sequence[ContextItem], _first: int) -> str:
    """Continue: each item as a fenced block under its name. The fence is longer than any fence inside."""

    def fence(text: str) -> str:
        return "`" * (max((len(run) for run in re.findall("`{3,}", text)), default=2) + 1)

    return "\n\n".join(f"{(mark := fence(one.text))}{one.name}\n{one.text}\n{mark}" for one in found)


def _format_instructions(found: Sequence[ContextItem], _first: int) -> str:
    """LibreChat: one section with a heading for each MCP server."""
    return "\n\n".join(("# MCP Server Instructions", *(f"## {one.name}\n{one.text}" for one in found)))


FORMS: Mapping[str, Callable[[Sequence[ContextItem], int], str]] = {
    "sources": _format_sources,
    "tagged": _format_tags,
    "fenced": _format_fences,
    "instructions": _format_instructions,
}
"""How items are worded, by the name that a policy gives: `(items, number of the first) -> text`."""


def fit_items(
    found: Sequence[ContextItem], form: str, room: int, count: Callable[[str], int], first: int = 1
) -> tuple[str, int]:
    """Return the text of the first items that fit, and how many these are. If not even the first fits, its text is cut.

    Args:
        found: The items, the most important first.
        form: How they are worded: a key of `FORMS`.
        room: The most tokens of the text.
        count: Counts the tokens of a text.
        first: Number of the first item, in forms that number them.
    """
    chosen = [*found]
    while chosen and (tokens := count(FORMS[form](chosen, first))) > room:
        if len(chosen) > 1:
            chosen.pop()
            continue
        only = chosen[0]
        text = only.text.removesuffix(MARK)
        kept = text[: min(len(text) - 1, int(len(text) * room / tokens * 0.95))] if room > 0 else ""
        if not kept.strip():
            return "", 0
        chosen = [ContextItem(only.kind, only.name, kept + MARK)]
    return (FORMS[form](chosen, first), len(chosen)) if chosen else ("", 0)


def describe_items(found: Sequence[ContextItem], most: int = 8) -> list[dict[str, Any]]:
    """Return names and sizes (characters) of the first `most` items, for the decision log.

    Args:
        found: The items.
        most: How many are named.
    """
    return [{"name": one.name, "characters": len(one.text)} for one in found[:most]]
