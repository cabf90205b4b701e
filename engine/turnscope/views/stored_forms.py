"""A block as the log stores it, where another form of it was sent: the input of a tool call, or a whole result.

Reads `Session.about`, and the file next to the log that holds a result of which only a preview was sent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from turnscope.reading.source import Source
from turnscope.session.model import STORED_INPUTS, STORED_RESULTS, Block, Session


@dataclass(frozen=True, slots=True)
class StoredForm:
    """`text`: the block as stored; `where`: the name of the file that holds it, "" = the log itself.

    `missing`: that file is not there, so there is no text.
    """

    text: str
    where: str = ""
    missing: bool = False


def find_stored_form(session: Session, block: Block, log: Path | None = None) -> StoredForm | None:
    """Find the stored form of a block; None where it was sent as it is stored.

    Args:
        session: the session.
        block: one of its blocks.
        log: the file that the session was read from; None = it came from none.
    """
    if not isinstance(block.raw, dict) or block.kind not in ("tool_use", "tool_result"):
        return None
    key, id = (STORED_INPUTS, "id") if block.kind == "tool_use" else (STORED_RESULTS, "tool_use_id")
    stored = session.about.get(key)
    found = stored.get(block.raw.get(id)) if isinstance(stored, dict) else None
    if found is None:
        return None
    if block.kind == "tool_use":
        return StoredForm(json.dumps(found, ensure_ascii=False, indent=2))
    if isinstance(found, dict) and isinstance(found.get("text"), str):
        return StoredForm(found["text"])
    named = found.get("file") if isinstance(found, dict) else None
    return _read_file(named, log) if isinstance(named, str) else None


def _read_file(named: str, log: Path | None) -> StoredForm:
    """The file of a result, named from the folder of the session's log; a subagent's log lies two folders below that."""
    name, path = PurePosixPath(named), PurePosixPath(named).parts
    inside = len(path) == 3 and path[1] == "tool-results" and ".." not in path and not name.is_absolute()
    folders = (log.parent, log.parent.parent.parent) if log is not None and inside else ()
    found = (Source(folder / "log").open_sibling(named) for folder in folders)
    source = next(filter(None, found), None)
    return StoredForm(source.data.decode("utf-8", "replace") if source else "", name.name, source is None)
