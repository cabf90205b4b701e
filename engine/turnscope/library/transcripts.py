"""Finds the log that a tool itself kept of a session that passed a tap, by the id that both name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from turnscope.errors import TurnscopeError
from turnscope.library.loading import entries, find_places, read_thread
from turnscope.library.opening import overview
from turnscope.reading.containers import open_source
from turnscope.session.model import Session
from turnscope.views.wire_report import WireReport, report_wire

TAP = "Tap log"  # the recordings themselves
MIN_ID = 16  # characters of an id; a shorter one stands in other names by chance
DATABASES = (".db", ".sqlite", ".vscdb")  # whose names say nothing of their sessions


def find_transcripts(id: str) -> Iterator[Session]:
    """Find the sessions with an id among those that tools keep on this machine.

    Args:
        id: The id that a session's requests name.
    """
    if len(id) < MIN_ID:
        return
    for importer, place in find_places():
        for path in place.paths() if importer != TAP else ():
            if id in path.stem or path.suffix in DATABASES:
                yield from open_transcript(path, id)


def open_transcript(path: Path, id: str) -> tuple[Session, ...]:
    """Open the sessions of a log that belong to an id: the one that has it, else all of them.

    Args:
        path: The log.
        id: The id that a session's requests name.
    """
    found = []
    with suppress(TurnscopeError):
        listed = [*entries(path)]
        named = [entry for entry in listed if entry.id == id]
        others = listed if id in path.stem or path.suffix not in DATABASES else []
        source = open_source(path)
        found = [read_thread(source, entry.id, alone=True).session for entry in named or others]
    return tuple(found)


def report_unlogged(wire: Session, logs: Iterable[Path] = ()) -> WireReport | None:
    """Report what a tool's own log does not tell of a session that passed a tap; None where no log of it is found.

    Args:
        wire: The session.
        logs: The tool's logs; () = they are looked for on this machine.
    """
    given = [*logs]
    found = [session for path in given for session in open_transcript(path, wire.id)] if given else [*find_transcripts(wire.id)]
    return report_wire(wire, found, overview(wire).bill) if found else None
