"""Claude Code session files: JSON lines under `~/.claude/projects/<folder>/<session>.jsonl`.

The format has no public description; what is done here follows what real files of versions 1.0 to 2.1 hold. One API message
is several lines (one per content block) that share `message.id` and need not be neighbours; `parentUuid` chains run through
lines of any type; nothing is removed from the file when the tool compacts.

`lines` reads, `attachments` and `wordings` say what the tool injected, `tree` finds the paths, `paths` builds
messages and requests, `edits` finds what left the window, `agents` finds subagents, `body_folders` finds raw bodies,
`following` goes on where a file grew.
A folder, and longer than a mapping, for the tree of lines, the tool's own wordings, and files that grow.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.importers.claude_code.agents import find_agent_files
from turnscope.importers.claude_code.body_folders import find_body_files, find_config_folders
from turnscope.importers.claude_code.following import SessionFollower, SessionReading
from turnscope.importers.claude_code.lines import scan
from turnscope.importers.claude_code.paths import NAME
from turnscope.reading.source import Entry, Source
from turnscope.session.thread import Thread
from turnscope.settings import Machine

ASIDE = {"summary": "leafUuid", "file-history-snapshot": "messageId", "queue-operation": "sessionId"}  # lines without a message


def sniff(source: Source) -> int:
    return 0 if any(map(_is_foreign, source.first)) else max(map(_score, source.first), default=0)


def _is_foreign(record: Any) -> bool:
    """Whether a record is one of a tool that took over the frame and writes other messages in it: its own have content."""
    if not isinstance(record, dict) or "parentUuid" not in record:
        return False
    message = record.get("message")
    return "systemPayload" in record or (isinstance(message, dict) and "content" not in message and "parts" in message)


def _score(record: Any) -> int:
    if not isinstance(record, dict) or not isinstance(record.get("type"), str):
        return 0
    if "parentUuid" in record and "sessionId" in record:
        return 95
    key = ASIDE.get(record["type"])
    aside = key is not None and isinstance(record.get(key), str) and {"summary", "snapshot", "operation"} & record.keys()
    return 60 if aside else 0


def find_places(machine: Machine) -> Iterator[Place]:
    for root in find_config_folders(machine):
        yield Place(root / "projects", "*/*.jsonl", find_main_path)


def find_related(source: Source) -> Iterator[Source]:
    """Files of subagents, and recorded bodies."""
    yield from find_agent_files(source)
    yield from find_body_files(source)


def find_main_path(path: Path) -> Path:
    """A subagent's file opens with its session, where that is there."""
    if path.parent.name != "subagents" or not path.stem.startswith("agent-"):
        return path
    whole = path.parent.parent.with_suffix(".jsonl")
    return whole if whole.is_file() else path


def read(source: Source, _entry: Entry) -> Thread:
    return SessionReading(source).build_thread(scan(source))


IMPORTER = Importer(
    NAME,
    "Claude Code session (JSON lines)",
    sniff,
    read,
    finds=find_places,
    related=find_related,
    part_of=find_main_path,
    suffixes=(".jsonl",),
    follow=SessionFollower,
    version=11,
    wants="record with `parentUuid` and `sessionId`",
    right="fragments of a message merged, usage counted once, compaction and microcompaction kept apart from the timeline, "
    "retries, rewinds as branches, subagents",
)
