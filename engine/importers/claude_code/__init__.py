"""Claude Code session files: JSON lines under `~/.claude/projects/<folder>/<session>.jsonl`.

The format has no public description; what is done here follows what real files of versions 1.0 to 2.1 hold. One API message
is several lines (one per content block) that share `message.id` and need not be neighbours; `parentUuid` chains run through
lines of any type; nothing is removed from the file when the tool compacts.

`lines` reads, `paths` builds messages and requests, `edits` tells what left the window, `agents` finds subagents.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from engine.importers import Importer
from engine.importers.claude_code.agents import agents_of, placed
from engine.importers.claude_code.lines import scan
from engine.importers.claude_code.paths import NAME, lay_out, told
from engine.reading.source import Source
from engine.session.model import Session

ASIDE = {"summary": "leafUuid", "file-history-snapshot": "messageId", "queue-operation": "sessionId"}  # lines without a message


def sniff(source: Source) -> bool:
    return any(_ours(record) for record in source.first)


def _ours(record: Any) -> bool:
    if not isinstance(record, dict) or not isinstance(record.get("type"), str):
        return False
    if "parentUuid" in record and "sessionId" in record:
        return True
    key = ASIDE.get(record["type"])
    return key is not None and isinstance(record.get(key), str) and bool({"summary", "snapshot", "operation"} & record.keys())


def read(source: Source) -> tuple[Session, ...]:
    file = scan(source)
    entries = list(file.entries.values())
    main = [e for e in entries if not e.side] if any(e.spoken and not e.side for e in entries) else entries
    stem = source.path.stem
    name = stem if stem in file.sessions or main is entries else next(reversed(file.sessions), stem)
    layout = lay_out(main, file, name)
    if layout is None:
        return ()
    first = told(layout, file)
    scanned = len(file.notes)
    known = {e.id for e in main if e.type == "assistant"}
    agents = agents_of(source, file, [e for e in entries if e.side] if main is not entries else [], known)
    first = structs.replace(first, notes=(*first.notes, *file.notes[scanned:]))
    return (placed(first, agents, file.spawned),)


IMPORTER = Importer(NAME, "Claude Code session (JSON lines)", sniff, read)
