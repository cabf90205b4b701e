"""Attachments whose wording the log does not hold, put together from their fields: the same facts, lists in full.

The sentences around them are ours, about as long as what is sent; where a line holds nothing but flags, so is all of it. Each
function takes a line's fields, of whatever shapes, and gives "" where they hold nothing to send.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from turnscope.session.content import text_of

Fields = Mapping[str, Any]


def _agents(fields: Fields) -> str:
    lines = _lines(fields, "addedLines") or _names(fields, "addedTypes")
    note = "Start several at once where their work does not depend on each other." if fields.get("showConcurrencyNote") else ""
    gone = _names(fields, "removedTypes")
    return _joined(
        _list("Agent types that the Agent tool can start:", lines, note if lines else ""),
        _list("Agent types that are no longer there:", gone),
    )


def _skills(fields: Fields) -> str:
    """Names alone, where the listing itself is not there; what was called in full, after a compaction."""
    if text_of(fields.get("content")):
        return ""
    called = _rows(fields, "skills")
    full = (f"### Skill: {_said(skill, 'name')}\nPath: {_said(skill, 'path')}\n\n{_said(skill, 'content')}" for skill in called)
    return _joined(
        _list("Skills for the Skill tool:", _names(fields, "names", "skillNames")),
        _list("Skills that were called in this session:", list(full)),
    )


def _deferred(fields: Fields) -> str:
    """The names stand in the line twice and are sent once."""
    new, gone = _lines(fields, "addedLines") or _lines(fields, "addedNames"), _lines(fields, "removedNames")
    again = [name for name in _lines(fields, "readdedNames") if name not in new]
    return _joined(
        _list("Deferred tools, whose definitions ToolSearch loads:", new),
        _list("Deferred tools that are there again:", again),
        _list("Deferred tools that are gone, not to be searched for:", gone),
        _list("MCP servers that are still connecting:", _lines(fields, "pendingMcpServers")),
    )


def _servers(fields: Fields) -> str:
    blocks = _lines(fields, "addedBlocks") or _names(fields, "addedNames")
    return _joined(
        "\n\n".join(("# MCP server instructions", *blocks)) if blocks else "",
        _list("MCP servers that are gone, with their instructions:", _names(fields, "removedNames")),
    )


def _memory(fields: Fields) -> str:
    rows = [*_rows(fields, "files"), *_rows(fields, "memories")] or [fields]
    return _joined(*(f"Contents of {path}:\n\n{text}" for file in rows if (path := _path(file)) and (text := _text(file))))


def _file(fields: Fields) -> str:
    """A file as the Read tool shows it, or what a folder holds."""
    path, text = _path(fields), _text(fields)
    if not path or not text:
        return ""
    start = dig(fields, "content", "file", "startLine")
    first = start if isinstance(start, int) else 1
    numbered = "\n".join(f"{n}\t{line}" for n, line in enumerate(text.split("\n"), first)) if start is not None else text
    return f"Read by the tool itself: {path}\n{numbered}"


def _plan(fields: Fields) -> str:
    path, text = _path(fields), _said(fields, "planContent")
    return f"The plan in {path}:\n\n{text}" if text else ""


def _selected(fields: Fields) -> str:
    where, text = f"{_said(fields, 'lineStart')}-{_said(fields, 'lineEnd')} of {_path(fields)}", _text(fields)
    return f"The user selected lines {where} in {_said(fields, 'ideName') or 'the IDE'}:\n{text}" if text else ""


def _tasks(fields: Fields) -> str:
    """A nudge, and the list as it is."""
    lines = [
        f"{_said(row, 'id') and '#' + _said(row, 'id') + '. '}[{_said(row, 'status')}] {_said(row, 'subject', 'content')}"
        for row in _rows(fields, "content")
    ]
    nudge = "The task tools have not been used lately. Use them where they help; say nothing of this to the user."
    return _joined(nudge, _list("Tasks:", lines) or _said(fields, "content").replace("[]", ""))


def _named(before: str, key: str, behind: str = "") -> Callable[[Fields], str]:
    """A sentence around a field; nothing without it."""

    def worded(fields: Fields) -> str:
        told = _path(fields) if key == "path" else _said(fields, key)
        return f"{before}{told}{behind}" if told else ""

    return worded


def _plan_mode(what: str) -> Callable[[Fields], str]:
    def worded(fields: Fields) -> str:
        how, path = _said(fields, "reminderType"), _path(fields)
        return f"{what}{f' ({how} reminder)' if how else ''}.{f' The plan is in {path}.' if path else ''}"

    return worded


def _edited(fields: Fields) -> str:
    snippet = _said(fields, "snippet")
    what = f"Note: {_path(fields)} was changed since it was read, by the user or by a tool."
    return f"{what} The lines that changed:\n{snippet}" if snippet else what if _path(fields) else ""


def _blocked(fields: Fields) -> str:
    error = dig(fields, "blockingError", "blockingError")
    return f"{_said(fields, 'hookName')} hook blocked: {text_of(error)}" if error else ""


WORDED: dict[str, Callable[[Fields], str]] = {
    "agent_listing_delta": _agents,
    "compact_file_reference": _named(
        "Note: ", "path", " was read before the conversation was summarized, and is too long to be put back."
    ),
    "date_change": _named("The date has changed. Today is ", "newDate", ". Say nothing of this to the user."),
    "deferred_tools_delta": _deferred,
    "directory": _file,
    "edited_text_file": _edited,
    "file": _file,
    "hook_blocking_error": _blocked,
    "instructions": _memory,
    "invoked_skills": _skills,
    "mcp_instructions_delta": _servers,
    "nested_memory": _memory,
    "opened_file_in_ide": _named("The user opened ", "path", " in the IDE. It may have nothing to do with the task."),
    "output_style": _named("Output style: ", "style", ". Keep to its guidelines."),
    "plan_file_reference": _plan,
    "plan_mode": _plan_mode("Plan mode is on: change nothing yet, but for the plan"),
    "plan_mode_exit": _plan_mode("Plan mode is off: changes may be made"),
    "plan_mode_reentry": _plan_mode("Plan mode is on again: look at the earlier plan first"),
    "relevant_memories": _memory,
    "selected_lines_in_ide": _selected,
    "skill_listing": _skills,
    "task_reminder": _tasks,
    "todo_reminder": _tasks,
    "ultrathink_effort": _named("The user asked for this effort of reasoning: ", "level"),
}


def _list(title: str, lines: list[str], note: str = "") -> str:
    return "\n".join(filter(None, (title, *lines, note))) if lines else ""


def _joined(*texts: str) -> str:
    return "\n\n".join(filter(None, texts))


def _lines(fields: Fields, key: str) -> list[str]:
    """A list of texts, in whatever shape it is written."""
    value = fields.get(key)
    rows = value if isinstance(value, list) else [value]
    return [text for row in rows if (text := text_of(row))]


def _rows(fields: Fields, key: str) -> list[Fields]:
    """The objects of a list."""
    value = fields.get(key)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _names(fields: Fields, *keys: str) -> list[str]:
    return [f"- {name}" for key in keys for name in _lines(fields, key)]


def _said(fields: Fields, *keys: str) -> str:
    return next((text for key in keys if (text := text_of(fields.get(key)))), "")


def _path(fields: Fields) -> str:
    return next((p for key in ("filename", "path", "planFilePath", "displayPath") if isinstance(p := fields.get(key), str)), "")


def _text(fields: Fields) -> str:
    """The text of a file that stands in `content`, however deep."""
    for keys in (("content", "file", "content"), ("content", "content"), ("content",)):
        found = dig(fields, *keys)
        if isinstance(found, str):
            return found
    return ""


def dig(fields: Fields, *keys: str) -> Any:
    """What stands at the end of a path of keys."""
    found: Any = fields
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found
