"""Importers: one file per format, found by sniffing content. Each module defines `IMPORTER`.

Holds discovery and the choice of the one importer that claims a `Source`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from engine.errors import BrokenFile, UnknownFormat
from engine.reading.source import DEEP, Source, open_source
from engine.session.model import Session


@dataclass(frozen=True, slots=True)
class Importer:
    """One format. `sniff` recognises content; `read` gives every session of the file, the main one first.

    `version` is counted up by hand when `read` gives something else for the same file: what was read before is read again.
    """

    name: str
    title: str
    sniff: Callable[[Source], bool]
    read: Callable[[Source], tuple[Session, ...]]
    version: int = 1


@cache
def importers() -> tuple[Importer, ...]:
    """Every importer, by name."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__))
    return tuple(importlib.import_module(f"{__name__}.{name}").IMPORTER for name in names)


def claim(source: Source) -> Importer:
    """The one importer that recognises the content. UnknownFormat where none does."""
    claims = [importer for importer in importers() if importer.sniff(source)]
    if len(claims) == 1:
        return claims[0]
    known = ", ".join(importer.title for importer in importers())
    if claims:
        raise UnknownFormat(
            f"{source.path.name} looks like {' and like '.join(c.title for c in claims)}",
            hint="Please report this file's shape.",
        )
    raise UnknownFormat(f"{source.path.name} is in no format that Turnscope knows", hint=f"It reads: {known}.")


def read(path: Path | str) -> tuple[Session, ...]:
    """Every session of a file, the main one first. Raises `TurnscopeError`s only."""
    return read_source(open_source(Path(path)))


def read_source(source: Source) -> tuple[Session, ...]:
    """Every session of a file that was opened."""
    try:
        importer = claim(source)
        sessions = importer.read(source)
    except RecursionError as error:
        raise BrokenFile(
            f"{source.path.name} is {DEEP}", hint="No chat tool writes such a file; check where it comes from."
        ) from error
    if not any(session.blocks for session in sessions):
        raise BrokenFile(
            f"{source.path.name} is {importer.title}, but holds no message", hint="Open a session in which something was said."
        )
    return sessions
