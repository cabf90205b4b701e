"""Task folders of Cline and Roo Code: `api_conversation_history.json`, `ui_messages.json` and other files of the folder.

Cline keeps the whole conversation and masks it: the mask stands in the UI messages, rewritten texts in `context_history.json`.
So what was cut is known from the screen alone, where the history is missing.
Roo (from 3.36) tags hidden messages and keeps summaries and markers among them; older versions deleted what they condensed, and
what the UI still shows of it is restored. Tools that are written as XML inside texts become calls and results.

`folder` reads the files, `markup` the XML, `timeline` builds messages and requests, `changes` finds what left the window.
A folder, and longer than a mapping, because two files that do not align hold one conversation, and two tools cut in ways of
their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from turnscope.importers import Importer, Place
from turnscope.importers.task_folder.folder import FILES, MAIN, is_history, is_screen, open_folder
from turnscope.importers.task_folder.timeline import NAME, build_session
from turnscope.reading.source import Entry, Source
from turnscope.session.thread import Thread
from turnscope.settings import Machine

EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
EXTENSIONS = ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline")


def sniff(source: Source) -> int:
    if source.kind == "folder":
        return 90 if any(sniff(file) for name in MAIN if (file := source.open_sibling(name))) else 0
    return 85 if is_screen(source.document) else 80 if is_history(source.document) else 0


def read(source: Source, _entry: Entry) -> Thread:
    return Thread(build_session(open_folder(source)))


def find_places(machine: Machine) -> Iterator[Place]:
    storages = [machine.config / editor / "User" / "globalStorage" for editor in EDITORS]
    storages.append(machine.home / ".vscode-server" / "data" / "User" / "globalStorage")
    for storage in storages:
        yield from (Place(storage / extension / "tasks", "*/*_*.json", find_main_path) for extension in EXTENSIONS)
    yield Place(machine.home / ".cline" / "data" / "tasks", "*/*_*.json", find_main_path)


def find_related(source: Source) -> Iterator[Source]:
    """The other files of the task."""
    if source.kind == "folder" or source.path.name in FILES:
        found = (source.open_sibling(name) for name in FILES if name != source.path.name)
        yield from (file for file in found if file is not None)


def find_main_path(path: Path) -> Path:
    """A task's files open as their folder."""
    return path.parent if path.name in FILES and any((path.parent / name).is_file() for name in MAIN) else path


IMPORTER = Importer(
    NAME,
    "Cline or Roo Code task (api_conversation_history.json, ui_messages.json)",
    sniff,
    read,
    finds=find_places,
    related=find_related,
    part_of=find_main_path,
    version=3,
    wants="history or messages of a task",
    right="masks, edits, tags and markers become decisions; tools written as XML become calls and results",
)
