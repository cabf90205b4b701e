"""Attachments whose wording the log does not hold, put together from their fields: the same facts, lists in full.

The sentences around them are ours, about as long as what is sent; where a line holds nothing but flags, so is all of it. Each
function takes a line's fields, of whatever shapes, and gives "" where they hold nothing to send.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from turnscope.session.content import extract_text

Fields = Mapping[str, Any]


def _word_agents(fields: Fields) -> str:
    lines = _get_lines(fields, "addedLines") or _get_names(fields, "addedTypes")
    note = "Start several at once where their work does not depend on each other." if fields.get("showConcurrencyNote") else ""
    gone = _get_names(fields, "removedTypes")
    return _join(
        _format_list("Agent types that the Agent tool can start:", lines, note if lines else ""),
        _format_list("Agent types that are no longer there:", gone),
    )


def _word_skills(fields: Fields) -> str:
    """Names alone, where the listing itself is not there; what was called in full, after a compaction."""
    if extract_text(fields.get("content")):
        return ""
    called = _get_rows(fields, "skills")
    full = (
        f"### Skill: {_find_text(skill, 'name')}\nPath: {_find_text(skill, 'path')}\n\n{_find_text(skill, 'content')}"
        for skill in called
    )
    return _join(
        _format_list("Skills for the Skill tool:", _get_names(fields, "names", "skillNames")),
        _format_list("Skills that were called in this session:", list(full)),
    )


def _word_deferred(fields: Fields) -> str:
    """The names stand in the line twice and are sent once."""
    new, gone = _get_lines(fields, "addedLines") or _get_lines(fields, "addedNames"), _get_lines(fields, "removedNames")
    again = [name for name in _get_lines(fields, "readdedNames") if name not in new]
    return _join(
        _format_list("Deferred tools, whose definitions ToolSearch loads:", new),
        _format_list("Deferred tools that are there again:", again),
        _format_list("Deferred tools that are gone, not to be searched for:", gone),
        _format_list("MCP servers that are still connecting:", _get_lines(fields, "pendingMcpServers")),
    )


def _word_servers(fields: Fields) -> str:
    blocks = _get_lines(fields, "addedBlocks") or _get_names(fields, "addedNames")
    return _join(
        "\n\n".join(("# MCP server instructions", *blocks)) if blocks else "",
        _format_list("MCP servers that are gone, with their instructions:", _get_names(fields, "removedNames")),
    )


def _word_memory(fields: Fields) -> str:
    rows = [*_get_rows(fields, "files"), *_get_rows(fields, "memories")] or [fields]
    return _join(
        *(f"Contents of {path}:\n\n{text}" for file in rows if (path := _get_path(file)) and (text := _get_text(file)))
    )


def _word_file(fields: Fields) -> str:
    """A file as the Read tool shows it, or what a folder holds."""
    path, text = _get_path(fields), _get_text(fields)
    if not path or not text:
        return ""
    start = get_nested(fields, "content", "file", "startLine")
    first = start if isinstance(start, int) else 1
    numbered = "\n".join(f"{n}\t{line}" for n, line in enumerate(text.split("\n"), first)) if start is not None else text
    return f"Read by the tool itself: {path}\n{numbered}"


def _word_plan(fields: Fields) -> str:
    path, text = _get_path(fields), _find_text(fields, "planContent")
    return f"The plan in {path}:\n\n{text}" if text else ""


def _word_selection(fields: Fields) -> str:
    where, text = (
        f"{_find_text(fields, 'lineStart')}-{_find_text(fields, 'lineEnd')} of {_get_path(fields)}",
        _get_text(fields),
    )
    return f"The user selected lines {where} in {_find_text(fields, 'ideName') or 'the IDE'}:\n{text}" if text else ""


def _word_tasks(fields: Fields) -> str:
    """A nudge, and the list as it is."""
    lines = []
    for row in _get_rows(fields, "content"):
        id = _find_text(row, "id")
        number = f"#{id}. " if id else ""
        lines.append(f"{number}[{_find_text(row, 'status')}] {_find_text(row, 'subject', 'content')}")
    nudge = "The task tools have not been used lately. Use them where they help; say nothing of this to the user."
    return _join(nudge, _format_list("Tasks:", lines) or _find_text(fields, "content").replace("[]", ""))


def _make_sentence(before: str, key: str, behind: str = "") -> Callable[[Fields], str]:
    """A sentence around a field; nothing without it."""

    def word(fields: Fields) -> str:
        reported = _get_path(fields) if key == "path" else _find_text(fields, key)
        return f"{before}{reported}{behind}" if reported else ""

    return word


def _make_plan_mode(what: str) -> Callable[[Fields], str]:
    def word(fields: Fields) -> str:
        how, path = _find_text(fields, "reminderType"), _get_path(fields)
        return f"{what}{f' ({how} reminder)' if how else ''}.{f' The plan is in {path}.' if path else ''}"

    return word


def _word_edit(fields: Fields) -> str:
    snippet = _find_text(fields, "snippet")
    what = f"Note: {_get_path(fields)} was changed since it was read, by the user or by a tool."
    return f"{what} The lines that changed:\n{snippet}" if snippet else what if _get_path(fields) else ""


def _word_block(fields: Fields) -> str:
    error = get_nested(fields, "blockingError", "blockingError")
    return f"{_find_text(fields, 'hookName')} hook blocked: {extract_text(error)}" if error else ""


WORDED: dict[str, Callable[[Fields], str]] = {
    "agent_listing_delta": _word_agents,
    "compact_file_reference": _make_sentence(
        "Note: ", "path", " was read before the conversation was summarized, and is too long to be put back."
    ),
    "date_change": _make_sentence("The date has changed. Today is ", "newDate", ". Say nothing of this to the user."),
    "deferred_tools_delta": _word_deferred,
    "directory": _word_file,
    "edited_text_file": _word_edit,
    "file": _word_file,
    "hook_blocking_error": _word_block,
    "instructions": _word_memory,
    "invoked_skills": _word_skills,
    "mcp_instructions_delta": _word_servers,
    "nested_memory": _word_memory,
    "opened_file_in_ide": _make_sentence("The user opened ", "path", " in the IDE. It may have nothing to do with the task."),
    "output_style": _make_sentence("Output style: ", "style", ". Keep to its guidelines."),
    "plan_file_reference": _word_plan,
    "plan_mode": _make_plan_mode("Plan mode is on: change nothing yet, but for the plan"),
    "plan_mode_exit": _make_plan_mode("Plan mode is off: changes may be made"),
    "plan_mode_reentry": _make_plan_mode("Plan mode is on again: look at the earlier plan first"),
    "relevant_memories": _word_memory,
    "selected_lines_in_ide": _word_selection,
    "skill_listing": _word_skills,
    "task_reminder": _word_tasks,
    "todo_reminder": _word_tasks,
    "ultrathink_effort": _make_sentence("The user requested this effort of reasoning: ", "level"),
}


def _format_list(title: str, lines: list[str], note: str = "") -> str:
    return "\n".join(filter(None, (title, *lines, note))) if lines else ""


def _join(*texts: str) -> str:
    return "\n\n".join(filter(None, texts))


def _get_lines(fields: Fields, key: str) -> list[str]:
    """A list of texts, in whatever shape it is written."""
    value = fields.get(key)
    rows = value if isinstance(value, list) else [value]
    return [text for row in rows if (text := extract_text(row))]


def _get_rows(fields: Fields, key: str) -> list[Fields]:
    """The objects of a list."""
    value = fields.get(key)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _get_names(fields: Fields, *keys: str) -> list[str]:
    return [f"- {name}" for key in keys for name in _get_lines(fields, key)]


def _find_text(fields: Fields, *keys: str) -> str:
    return next((text for key in keys if (text := extract_text(fields.get(key)))), "")


def _get_path(fields: Fields) -> str:
    return next((p for key in ("filename", "path", "planFilePath", "displayPath") if isinstance(p := fields.get(key), str)), "")


def _get_text(fields: Fields) -> str:
    """The text of a file that stands in `content`, however deep."""
    for keys in (("content", "file", "content"), ("content", "content"), ("content",)):
        found = get_nested(fields, *keys)
        if isinstance(found, str):
            return found
    return ""


def get_nested(fields: Fields, *keys: str) -> Any:
    """What stands at the end of a path of keys; None where there is nothing.

    Args:
        fields: The object to begin with.
        *keys: The keys, the outermost first.
    """
    found: Any = fields
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found
