"""What is put beside a question: web results, documents, files, folder trees, pages, issues, project rules, the workspace.

Values, their wording, and what a log holds of them. `live.context_sources` finds them in a live chat; where they stand in a
prompt, and how much of it they may take, is the rule's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from turnscope.envelope.rule import Ctx

Kind = Literal["web", "document", "file", "tree", "search", "url", "issue", "rules", "workspace"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SLOTS: Mapping[Kind, str] = {
    "web": "web_results", "document": "documents", "file": "files", "tree": "folder_tree", "search": "search_results",
    "url": "pages", "issue": "issues", "rules": "project_rules", "workspace": "workspace",
}  # fmt: skip
LONGEST = 60_000  # characters of one text
RECORDED = "context"  # where a session says what was put beside its questions: a list of tables with kind, name, text, turn
RULE_FILES = ("CLAUDE.md", "AGENTS.md", ".clinerules", ".cursorrules", ".windsurfrules", "GEMINI.md")
MARK = "\n[cut: no room for the rest]"


class ContextItem(Struct, frozen=True):
    """One text put beside a question: what it is, what it is called (a path, an address, a title), and what it says."""

    kind: Kind
    name: str
    text: str


def decode_item(item: str) -> ContextItem | None:
    """One as whoever was asked hands it over; None where it is none."""
    try:
        found = msgspec.json.decode(item, type=ContextItem)
    except msgspec.DecodeError:
        return None
    return found if found.text.strip() else None


def read_recorded_items(ctx: Ctx, at: int) -> Iterator[ContextItem]:
    """What the log says was put beside the question at address `at`, and what it says without naming a question.

    A row names it by its turn, or by the id of its message.
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


def _format_sources(found: Sequence[ContextItem]) -> str:
    """Open WebUI: each as a source with its number."""
    return "\n".join(f'<source id="{n}" name="{escape(one.name)}">{one.text}</source>' for n, one in enumerate(found, 1))


def _format_tags(found: Sequence[ContextItem]) -> str:
    """Each in a tag of its kind."""
    return "\n\n".join(f'<{one.kind} name="{escape(one.name)}">\n{one.text}\n</{one.kind}>' for one in found)


def _format_fences(found: Sequence[ContextItem]) -> str:
    """Continue: each as a fenced block under its name, with a fence longer than any in it."""

    def fence(text: str) -> str:
        return "`" * (max((len(run) for run in re.findall("`{3,}", text)), default=2) + 1)

    return "\n\n".join(f"{(mark := fence(one.text))}{one.name}\n{one.text}\n{mark}" for one in found)


FORMS: Mapping[str, Callable[[Sequence[ContextItem]], str]] = {
    "sources": _format_sources,
    "tagged": _format_tags,
    "fenced": _format_fences,
}
"""How they are worded, by the name that a policy declares."""


def fit_items(found: Sequence[ContextItem], form: str, room: int, count: Callable[[str], int]) -> tuple[str, int]:
    """The text of as many as fit into `room` tokens, the first first, and how many that are; a first one too large is cut."""
    chosen = [*found]
    while chosen and (tokens := count(FORMS[form](chosen))) > room:
        if len(chosen) > 1:
            chosen.pop()
            continue
        only = chosen[0]
        said = only.text.removesuffix(MARK)
        kept = said[: min(len(said) - 1, int(len(said) * room / tokens * 0.95))] if room > 0 else ""
        if not kept.strip():
            return "", 0
        chosen = [ContextItem(only.kind, only.name, kept + MARK)]
    return (FORMS[form](chosen), len(chosen)) if chosen else ("", 0)


def describe_items(found: Sequence[ContextItem], most: int = 8) -> list[dict[str, Any]]:
    """Names and sizes of some of them, for people."""
    return [{"name": one.name, "characters": len(one.text)} for one in found[:most]]
