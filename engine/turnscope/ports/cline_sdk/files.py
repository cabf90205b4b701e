"""Which files and commands some messages touched, as Cline's SDK reports it; and the messages as a summariser reads them.

Pure. Ported from `sdk/packages/core/src/extensions/context/compaction-shared.ts` (cline/cline 21cb8d2525).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnscope.ports.cline_sdk.messages import READ_MOST, Message, count_units, get_kind, list_blocks, write_json

COMMAND_MOST = 100
SIGNS = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$"  # in the order of the Unicode collation
PATHS = ("path", "file_path", "target_file", "new_file_path", "old_file_path")
_LINE = re.compile(r"(?:^|\n|\\n)[-+](\d+): ")


@dataclass(slots=True)
class Work:
    """What was done, each thing once, in order."""

    read: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.read or self.edited or self.commands)


def list_paths(value: Any) -> list[str]:
    """Return all paths that an input names."""
    if isinstance(value, str):
        return [value] if value.strip() else []
    if isinstance(value, list):
        return [path for part in value for path in list_paths(part)]
    if not isinstance(value, Mapping):
        return []
    found = [path for name in PATHS for path in list_paths(value.get(name))]
    files = value.get("files")
    found += [path for file in files for path in list_paths(file.get("path")) if file] if isinstance(files, list) else []
    listed = value.get("file_paths")
    return found + (list_paths(listed) if isinstance(listed, list) else [])


def find_touched_files(messages: Iterable[Message]) -> dict[str, list[str]]:
    """Return the files that were read and modified, with those of earlier summaries, in alphabetical order."""
    read: set[str] = set()
    modified: set[str] = set()
    for message in messages:
        if get_kind(message) == "compaction_summary":
            details = (message.get("metadata") or {}).get("details") or {}
            read |= {p.strip() for p in details.get("readFiles") or () if isinstance(p, str)}
            modified |= {p.strip() for p in details.get("modifiedFiles") or () if isinstance(p, str)}
            continue
        for block in list_blocks(message):
            if block["type"] == "file":
                read.add(block["path"].strip())
            elif block["type"] == "tool_use":
                into = {"read_files": read, "editor": modified, "apply_patch": modified}.get(block["name"], set())
                into |= {path.strip() for path in list_paths(block.get("input"))}
    return {name: sorted(found - {""}, key=_get_rank) for name, found in (("readFiles", read), ("modifiedFiles", modified))}


def _get_rank(path: str) -> tuple[list[tuple[bool, int, str]], str]:
    """Return what paths are sorted by, as JavaScript's localeCompare does: signs before digits before letters."""
    signs = [(sign.isalnum(), SIGNS.find(sign), sign) for sign in path.lower()]
    return signs, path.swapcase()


def find_work(messages: Iterable[Message]) -> Work:
    """Return what some messages read, edited and ran, with line numbers if they are given."""
    done, editing = Work(), dict[str, str]()
    for message in messages:
        for block in list_blocks(message):
            arguments = block.get("input") or {}
            name = block.get("name")
            if block["type"] == "tool_use" and name == "read_files":
                files = arguments.get("files") if isinstance(arguments, Mapping) else None
                for path in map(_format_file, files) if isinstance(files, list) else list_paths(arguments):
                    _add(done.read, path)
            elif block["type"] == "tool_use" and name in ("editor", "apply_patch"):
                if found := list_paths(arguments):
                    editing[block["id"]] = found[0]
            elif block["type"] == "tool_use" and name == "run_commands":
                for command in arguments.get("commands") or () if isinstance(arguments.get("commands"), list) else ():
                    if isinstance(command, str) and command.strip():
                        text = command.strip()
                        _add(done.commands, text if len(text) <= COMMAND_MOST else text[:COMMAND_MOST] + "...")
            elif block["type"] == "tool_result" and block["tool_use_id"] in editing:
                _add(done.edited, editing.pop(block["tool_use_id"]) + _find_lines(block["content"]))
    for path in editing.values():
        _add(done.edited, path)
    return done


def _add(into: list[str], text: str) -> None:
    if text.strip() and text.strip() not in into:
        into.append(text.strip())


def _format_file(file: Any) -> str:
    if not isinstance(file, Mapping):
        return ""
    path = file.get("path")
    path = path.strip() if isinstance(path, str) else ""
    first, last = file.get("start_line"), file.get("end_line")
    numbers = all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in (first, last))
    return f"{path}:{first}-{last}" if path and numbers else path


def _find_lines(content: Any) -> str:
    """Return the lines that the result of an edit names, as `:first-last`."""
    text = content if isinstance(content, str) else "\n".join(p.get("text") or p.get("content") or "" for p in content)
    try:
        value = json.loads(text)
        text = value["result"] if isinstance(value, dict) and isinstance(value.get("result"), str) else text
    except ValueError:
        pass
    found = [int(match) for match in _LINE.findall(text)]
    return f":{min(found)}-{max(found)}" if found else ""


def render_messages(messages: Sequence[Message]) -> str:
    """Return messages as the summariser reads them."""
    return "\n\n".join("\n".join(_render_message(message)) for message in messages).strip()


def _render_message(message: Message) -> Iterator[str]:
    who = "User" if message["role"] == "user" else "Bot"
    if isinstance(message["content"], str):
        yield f"[{who}]: {message['content']}"
    for block in list_blocks(message):
        what = block["type"]
        if what == "text":
            yield f"[{who}]: {block['text']}"
        elif what == "thinking":
            yield f"[Bot thinking]: {_clip(block['thinking'])}"
        elif what == "redacted_thinking":
            yield "[Bot thinking]: [redacted]"
        elif what == "tool_use":
            arguments = ", ".join(f"{name}={write_json(value)}" for name, value in (block.get("input") or {}).items())
            yield f"[Bot tool calls]: {block['name']}({arguments})"
        elif what == "tool_result":
            yield f"[Tool result]: {_render_result(block['content'])}"
        elif what == "file":
            yield f"[{who} file {block['path']}]: {_clip(block['content'])}"
        elif what == "image":
            yield f"[{who} image]: {block.get('mediaType')}"


def _render_result(content: Any) -> str:
    if isinstance(content, str):
        return _clip(content)
    shown = {
        "text": lambda p: _clip(p["text"]),
        "file": lambda p: f'<file path="{p["path"]}">\n{_clip(p["content"])}\n</file>',
        "image": lambda p: f"[image:{p.get('mediaType')}]",
    }
    return "\n".join(shown[part["type"]](part) if part["type"] in shown else "" for part in content)


def _clip(text: str) -> str:
    return (
        text if count_units(text) <= READ_MOST else f"{text[:READ_MOST]}\n...[truncated {count_units(text) - READ_MOST} chars]"
    )
