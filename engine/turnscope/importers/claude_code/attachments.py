"""What the tool injects: `attachment` lines, as they were sent, each under the kind of thing it is about.

All of it goes out as text in messages of the user, behind tools and system prompt, so that is its bucket; the kind says that
it is about agents, skills or tools. Its wording is the line's own where it has it (`rendered`, from 2.1.266 on), else the text
of its field, else put together from its fields and marked as inferred. Holds no place in the conversation (see `tree`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from turnscope.importers.claude_code.wordings import WORDED, Fields, get_nested
from turnscope.session.content import extract_text
from turnscope.session.model import JSON

UNSENT = frozenset(
    {
        "command_permissions",
        "credential_org",
        "deferred_tools_record",
        "goal_status",
        "hook_cancelled",
        "hook_non_blocking_error",
        "hook_system_message",
        "prompt_snapshot",
        "thinking_drop",
    }
)
HEARD = ("SessionStart", "UserPromptSubmit", "UserPromptExpansion")  # hooks whose output is for the model; all others' is not


@dataclass(frozen=True, slots=True)
class Injection:
    """What was sent of a line. `parts`: texts, or blocks in Anthropic's shape; `call`: the tool call that it names.

    `inside`: it is part of that call's result as sent; `inferred`: the wording is not in the log.
    """

    kind: str
    parts: tuple[JSON, ...]
    inferred: bool = False
    call: str = ""
    inside: bool = False


def parse_injection(record: Fields) -> Injection | None:
    """What was sent of a line; None where nothing was, or its type is not known and it does not say."""
    fields = get_fields(record)
    type = get_name(fields)
    parts, inferred = _make_parts(type, fields, record.get("rendered"))
    call = fields.get("toolUseID")
    call = call if isinstance(call, str) else ""
    return Injection(KINDS.get(type, "reminder"), parts, inferred, call, type == "read_truncation_notice") if parts else None


def _make_parts(type: str, fields: Fields, rendered: Any) -> tuple[tuple[JSON, ...], bool]:
    """What was sent, and whether its wording is inferred."""
    rows = rendered if isinstance(rendered, list) else [rendered]
    if found := tuple(text for row in rows if isinstance(row, dict) and (text := extract_text(row.get("content")))):
        return found, False
    if type in UNSENT or (type == "hook_success" and fields.get("hookEvent") not in HEARD):
        return (), False
    if type in WORDED and (worded := WORDED[type](fields)):
        return (f"<system-reminder>\n{worded}\n</system-reminder>",), True
    texts = (extract_text(fields.get(key)) for key in TEXTS.get(type, ()))
    return _convert_media(fields) or tuple(filter(None, (next(filter(None, texts), ""),))), False


def read_snapshot(record: Fields) -> dict[str, list[JSON]]:
    """The system prompt and the tools that a line says were in force, as blocks in Anthropic's shape, by role.

    A snapshot at the start of a session has no tools yet, and not the first line of the system prompt (`cliPrefix`).
    """
    fields = get_fields(record)
    if get_name(fields) != "prompt_snapshot":
        return {}
    prompt, prefix, tools = fields.get("systemPrompt"), fields.get("cliPrefix"), fields.get("tools")
    texts = [prefix] if isinstance(prefix, str) and prefix else []
    texts += ["\n\n".join(part for part in prompt if isinstance(part, str))] if isinstance(prompt, list) else []
    named = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    found: dict[str, list[JSON]] = {
        "system": [{"type": "text", "text": text} for text in texts],
        "tools": [tool["schema"] if isinstance(tool.get("schema"), dict) else tool for tool in named],  # the tool as sent
    }
    return {role: blocks for role, blocks in found.items() if blocks}


def is_known(record: Fields) -> bool:
    """Whether it is known what is sent of lines of this type."""
    type = get_name(get_fields(record))
    return type in KINDS or type in UNSENT


def get_fields(record: Fields) -> Fields:
    found = record.get("attachment")
    return found if isinstance(found, dict) else {}


def get_name(fields: Fields) -> str:
    type = fields.get("type")
    return type if isinstance(type, str) and type else "no type"


def _convert_media(fields: Fields) -> tuple[JSON, ...]:
    """Content that is not all text: a picture that was put in, a prompt with one."""
    prompt, file = fields.get("prompt"), get_nested(fields, "content", "file")
    if isinstance(prompt, list) and any(isinstance(part, dict) and part.get("type") == "image" for part in prompt):
        return tuple(part for part in prompt if isinstance(part, (str, dict)))
    if isinstance(file, dict) and isinstance(file.get("base64"), str) and get_nested(fields, "content", "type") == "image":
        return ({"type": "image", "source": {"type": "base64", "media_type": file.get("type"), "data": file["base64"]}},)
    return ()


def add_notices(content: str | list[Any], notices: Mapping[str, str]) -> str | list[Any]:
    """A message's content with what was sent as part of its results.

    Args:
        content: A text, or blocks as the log has them.
        notices: Texts to add, by the id of the call whose result they end.
    """
    return [_add_notice(block, notices) for block in content] if notices and isinstance(content, list) else content


def _add_notice(block: Any, notices: Mapping[str, str]) -> Any:
    call = block.get("tool_use_id") if isinstance(block, dict) else None
    if not isinstance(call, str) or call not in notices:
        return block
    content, notice = block.get("content"), notices[call]
    if isinstance(content, list):
        return {**block, "content": [*content, {"type": "text", "text": notice}]}
    return {**block, "content": f"{content}\n\n{notice}" if isinstance(content, str) and content else notice}


TEXTS: dict[str, tuple[str, ...]] = {
    "batching_reminder_sent": ("text",),
    "critical_system_reminder": ("content",),
    "directory": ("content",),
    "edited_text_file": ("content",),
    "file": ("content",),
    "hook_additional_context": ("content",),
    "hook_stopped_continuation": ("message",),
    "hook_success": ("content",),
    "model": ("text",),
    "nested_memory": ("content",),
    "queued_command": ("content", "prompt"),
    "read_truncation_notice": ("banner",),
    "selected_lines_in_ide": ("content",),
    "silent_turn_reminder": ("text",),
    "skill_listing": ("content",),
    "total_tokens_reminder": ("text",),
}

_ABOUT = {
    "agents": ("agent_listing_delta",),
    "skills": ("invoked_skills", "skill_listing"),
    "deferred_tools": ("deferred_tools_delta",),
    "mcp_instructions": ("mcp_instructions_delta",),
    "memory": ("instructions", "nested_memory", "relevant_memories"),
    "files": (
        "compact_file_reference",
        "directory",
        "edited_text_file",
        "file",
        "opened_file_in_ide",
        "plan_file_reference",
        "selected_lines_in_ide",
    ),
    "hooks": ("hook_additional_context", "hook_blocking_error", "hook_stopped_continuation", "hook_success"),
}

KINDS: dict[str, str] = dict.fromkeys((*WORDED, *TEXTS), "reminder") | {
    type: kind for kind, types in _ABOUT.items() for type in types
}
