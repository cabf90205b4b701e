"""Requests that a transcript does not hold, and a folder of raw bodies does: `OTEL_LOG_RAW_API_BODIES=file:DIR`.

A folder is looked for near the transcript, and where this machine's settings of the tool say. A line of its index names the
answer (`message_id`) that a body was given, which the transcript has, too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from glob import escape
from pathlib import Path, PurePath

from turnscope.importers.claude_code.lines import File
from turnscope.reading.content_blocks import as_mapping
from turnscope.reading.raw_bodies import INDEX, read_request, restore_thinking
from turnscope.reading.source import Source
from turnscope.settings import Machine, detect_machine

CONFIG = "CLAUDE_CONFIG_DIR"  # the tool's own variable: folders, separated by commas
BODIES = "OTEL_LOG_RAW_API_BODIES"
SETTINGS = ("settings.json", "settings.local.json")
LOOK_SECONDS = 2  # how long a folder is not looked through again: every file of a project asks
NEAR = ("", "../", "../../", "../../../")  # whose subfolders are looked at: up to the one that holds `.claude/projects/NAME`


@dataclass(frozen=True, slots=True)
class _Index:
    """The index of a folder, as it was when it was looked at."""

    path: Path
    version: str
    source: Source = field(compare=False)


@dataclass(frozen=True, slots=True)
class _Row:
    """What a line of an index says of an answer."""

    session: str
    requester: str
    body: str  # name of its file


def find_config_folders(machine: Machine) -> list[Path]:
    """Folders in which the tool keeps its settings and sessions."""
    folders = [Path(part.strip()) for part in machine.variables.get(CONFIG, "").split(",") if part.strip()]
    return folders or [machine.home / ".claude", machine.home / ".config" / "claude"]


def find_body_files(transcript: Source) -> Iterator[Source]:
    """The recorded bodies of a session. The index is none of them: it grows with every other session, too."""
    if transcript.path.suffix != ".jsonl" or transcript.path.name == INDEX:
        return
    for index in _find_indexes(transcript):
        own = (row.body for row in _read_rows(index).values() if row.session == transcript.path.stem)
        for name in own:
            if name == PurePath(name).name:
                yield from index.source.find_siblings(escape(name))  # opens it without reading it


def add_raw_bodies(transcript: Source, file: File) -> None:
    """Add the bodies of those answers of a file of which it has no record itself.

    Args:
        transcript: The session's file.
        file: Its lines, or those of a subagent of it.
    """
    missing: dict[str, int] = {}  # answers, each with its first line
    for entry in file.entries.values():
        record = file.api.requests.get(file.refs.get(entry.id, ""))
        if entry.type == "assistant" and entry.id and not (record and record.messages):
            missing.setdefault(entry.id, entry.line)
    if not missing:
        return
    thoughts = _collect_thoughts(file)
    for index in _find_indexes(transcript):
        rows = _read_rows(index)
        for id in [id for id in missing if id in rows]:
            if body := read_request(index.source, rows[id].body):
                body = {**body, "messages": [restore_thinking(message, thoughts) for message in body["messages"]]}
                file.refs[id] = rows[id].body
                file.api.add_body(rows[id].body, body, missing.pop(id), rows[id].requester)


def _find_indexes(transcript: Source) -> Iterator[_Index]:
    if type(transcript) is Source:
        near = [*map(Source, _list_near(transcript.path.parent, int(time.monotonic() / LOOK_SECONDS)))]
    else:
        near = _find_near(transcript)
    configured = [Source(path) for folder in _find_set_folders(detect_machine()) if (path := folder / INDEX).is_file()]
    yield from dict.fromkeys(_Index(found.path, found.version, found) for found in (*near, *configured))


@lru_cache(maxsize=64)
def _list_near(folder: Path, _now: int) -> tuple[Path, ...]:
    """The indexes near the files of a folder; `_now` makes them looked for again."""
    return tuple(found.path for found in _find_near(Source(folder / "-")))


def _find_near(transcript: Source) -> list[Source]:
    return [found for up in NEAR for found in transcript.find_siblings(f"{up}*/{INDEX}")]


def _find_set_folders(machine: Machine) -> Iterator[Path]:
    """Folders that the tool's environment on this machine names, or its settings."""
    values = [machine.variables.get(BODIES)]
    for folder in find_config_folders(machine):
        for name in SETTINGS:
            settings = Source(folder / "-").open_sibling(name)
            values.append(as_mapping(as_mapping(settings.document if settings else None).get("env")).get(BODIES))
    for value in values:
        if isinstance(value, str) and value.startswith("file:"):
            yield Path(value.removeprefix("file:")).expanduser()


@lru_cache(maxsize=8)
def _read_rows(index: _Index) -> Mapping[str, _Row]:
    """The lines of an index, by the answer that they name."""
    rows: dict[str, _Row] = {}
    for record, _ in index.source.iter_records():
        names = [as_mapping(record).get(key) for key in ("message_id", "session_id", "query_source", "request_file")]
        id, session, requester, body = (name if isinstance(name, str) else "" for name in names)
        if id and body:
            rows[id] = _Row(session, requester, body)
    return rows


def _collect_thoughts(file: File) -> dict[str, str]:
    """The texts of thinking that a transcript holds, by signature: a raw body has none."""
    blocks = (part for message in file.api.answers.values() for part in map(as_mapping, message["content"]))
    return {
        str(part["signature"]): str(part.get("thinking")) for part in blocks if part.get("signature") and part.get("thinking")
    }
