"""Importers: one file per format, found by sniffing content. Each module defines `IMPORTER`.

Holds discovery, the choice of the one importer that claims a source, and reading its conversations one by one. A folder or an
archive that no importer claims as a whole holds what the importers claim inside it, and so does a file that is a list of them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path, PurePath
from typing import Protocol

from msgspec import structs

from turnscope.errors import BrokenFile, UnknownEntry, UnknownFormat, UnreadableFile
from turnscope.reading import forms
from turnscope.reading.holders import open_source
from turnscope.reading.looks import looks
from turnscope.reading.source import DEEP, Entry, Source
from turnscope.session.model import Session
from turnscope.session.thread import Thread
from turnscope.settings import Machine

HOLDERS = ("folder", "zip")  # kinds of sources whose files may be claimed one by one
INSIDE = "#"  # between the name of a file in a folder or archive, and the id of a conversation in that file


@dataclass(frozen=True, slots=True)
class Place:
    """A folder in which a tool keeps its sessions, and the pattern of the files that make them up."""

    folder: Path
    pattern: str

    def paths(self) -> Iterator[Path]:
        """The paths under which its sessions open. None is read."""
        return iter(dict.fromkeys(map(part_of, self.folder.glob(self.pattern))))


def _one(source: Source) -> Iterator[Entry]:
    """The only conversation of a source."""
    yield Entry(at=source.at, size=source.size)


def _nowhere(_machine: Machine) -> Iterable[Place]:
    return ()


def _alone(_source: Source) -> Iterable[Source]:
    return ()


def _itself(path: Path) -> Path:
    return path


class Follower(Protocol):
    """A source that may grow, and what is known of it so far."""

    def thread(self) -> Thread:
        """What it holds now, as `Importer.read` would give it. `TurnscopeError`s where it cannot be read any more."""


@dataclass(frozen=True, slots=True)
class Importer:
    """One format. What has a default holds for a format of single files with one conversation each.

    `sniff` says how well a source's content fits, 0 (not at all) to 100: the best one reads it. `entries` lists its
    conversations without reading them, the main one first; `read` reads one. `finds` says where the tool keeps its files,
    `related` which other files belong to a source's sessions, `part_of` the path that opens in place of a file that is part
    of a session, `suffixes` which names are looked at in a folder. `follow` goes on reading a file that grows. `version` is
    counted up by hand when `read` gives something else for the same file: what was read before is read again.

    For people: `wants` says what its content holds, after "no"; `right` what is right about the reading. `sample`: it was
    checked on real files, and not on the tool's own schema alone.
    """

    name: str
    title: str
    sniff: Callable[[Source], int]
    read: Callable[[Source, Entry], Thread]
    entries: Callable[[Source], Iterator[Entry]] = _one
    finds: Callable[[Machine], Iterable[Place]] = _nowhere
    related: Callable[[Source], Iterable[Source]] = _alone
    part_of: Callable[[Path], Path] = _itself
    suffixes: tuple[str, ...] = (".json", ".jsonl")
    follow: Callable[[Path], Follower] | None = None
    version: int = 1
    wants: str = ""
    right: str = ""
    sample: bool = True


@cache
def importers() -> tuple[Importer, ...]:
    """Every importer, by name."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__))
    return tuple(importlib.import_module(f"{__name__}.{name}").IMPORTER for name in names)


def suffixes() -> frozenset[str]:
    """How the names of files end that are worth a look inside a folder."""
    return frozenset((".zip", ".gz", *(suffix for importer in importers() for suffix in importer.suffixes)))


def claim(source: Source) -> Importer:
    """The one importer that recognises the content best. UnknownFormat where none does, or where two do as well."""
    found = _best(source)
    if found is None:
        tried = declined(source, importers())
        hint = f"It is {looks(source)}. These were tried:\n{told(tried)}"
        raise UnknownFormat(f"{source.path.name} is in no format that Turnscope knows", hint=hint, tried=tried)
    return found


def _best(source: Source) -> Importer | None:
    scores = {importer: importer.sniff(source) for importer in importers()}
    best = max(scores.values())
    claims = [importer for importer, score in scores.items() if score == best > 0]
    if len(claims) > 1:
        others = declined(source, [importer for importer in importers() if importer not in claims])
        raise UnknownFormat(
            f"{source.path.name} looks like {' and like '.join(c.title for c in claims)}",
            hint=f"Please report this file's shape. The others fit less:\n{told(others)}",
            tried=others,
        )
    return claims[0] if claims else None


def understood(source: Source) -> tuple[Source, Importer | None]:
    """A source and the importer that claims it: as it stands, or a file in another form (`forms`); None where none does."""
    importer = _best(source)
    if importer is None and source.kind == "file":
        if "understood" not in source.kept:
            wanted = len(forms.values(source)) <= forms.FEW or any(_claimed(forms.others(source, forms.FEW)))
            source.kept["understood"] = next(_claimed(forms.others(source)), (source, None)) if wanted else (source, None)
        source, importer = source.kept["understood"]
    return source, importer


def _claimed(files: Iterable[Source]) -> Iterator[tuple[Source, Importer]]:
    """Those of some files that are claimed, with their importers."""
    for file in files:
        with suppress(RecursionError, UnknownFormat, UnreadableFile):
            if importer := _best(file):
                yield file, importer


def _holds(source: Source) -> bool:
    """Whether conversations may stand one by one in a source that nobody claims as a whole."""
    if source.kind != "file":
        return source.kind in HOLDERS
    return any(True for _ in _claimed(islice(forms.each(source), forms.FEW)))


def declined(source: Source, tried: Sequence[Importer]) -> tuple[tuple[str, str], ...]:
    """Formats that were tried on a source, each with why it is not that one."""
    end = source.path.suffix
    return tuple((importer.title, _why(importer, end if source.kind == "file" else "")) for importer in tried)


def _why(importer: Importer, end: str) -> str:
    usual = (
        ""
        if not end or not importer.suffixes or end in importer.suffixes
        else f"; its files end in {' or '.join(importer.suffixes)}"
    )
    return f"no {importer.wants}{usual}" if importer.wants else f"its content does not fit{usual}"


def told(tried: Iterable[tuple[str, str]]) -> str:
    """A line for each format that was tried."""
    return "\n".join(f"{title}: {why}." for title, why in tried)


def related(source: Source) -> list[Source]:
    """Files that belong to the sessions of a source, and are read with it."""
    return [file for importer in importers() for file in importer.related(source)]


def part_of(path: Path) -> Path:
    """The path under which the session opens that a file is part of; the path itself where it is part of none."""
    for importer in importers():
        whole = importer.part_of(path)
        if whole != path:
            return whole
    return path


def places(machine: Machine) -> Iterator[tuple[Importer, Place]]:
    """Where the tools that are known keep their sessions on this machine."""
    return ((importer, place) for importer in importers() for place in importer.finds(machine) if place.folder.is_dir())


def entries(source: Source) -> Iterator[Entry]:
    """The conversations of a source, the main one first; none is read for it. Raises `TurnscopeError`s only."""
    whole, importer = understood(source)
    if importer is not None:
        yield from importer.entries(whole)
        return
    if not _holds(source):
        claim(source)  # says what would be read
    empty = True
    for name, file, inner in _inside(source):
        for entry in inner.entries(file):
            empty = False
            id = f"{name}{INSIDE}{entry.id}" if entry.id else name
            yield structs.replace(entry, id=id, title=entry.title or name)
    if empty and source.kind == "zip":
        claim(source)
    elif empty:
        raise UnreadableFile(
            f"{source.path.name or source.path} is a folder without a session that Turnscope knows",
            hint="Choose another one, or one of the files inside it.",
        )


def _inside(source: Source) -> Iterator[tuple[str, Source, Importer]]:
    """The files of a folder or archive that are claimed, or the values of a file; what is read with another one is left out."""
    if source.kind == "file":
        for number, file in enumerate(forms.each(source)):
            yield from ((str(number), *found) for found in _claimed([file]))
        return
    taken: set[Path] = set()
    wanted = suffixes()
    for file in source.files():
        if file.path in taken or file.path.suffix not in wanted:
            continue
        try:
            opened, importer = understood(open_source(file.path) if source.kind == "folder" else file)
        except (RecursionError, UnknownFormat, UnreadableFile):  # a file that is of no use does not hide the others
            continue
        if importer is not None:
            taken.update(other.path for other in importer.related(opened))
            yield file.path.relative_to(source.path).as_posix(), opened, importer


def read_entry(source: Source, id: str = "") -> Thread:
    """One conversation of a source, by the id of its entry; "" = the main one. Raises `TurnscopeError`s only."""
    try:
        file, importer, inner = located(source, id)
        entry = next((entry for entry in importer.entries(file) if inner in ("", entry.id)), None)
        thread = importer.read(file, entry) if entry else None
    except RecursionError as error:
        raise _too_deep(source) from error
    if entry is None and inner:
        raise _unknown(source, id)
    if thread is None or not thread.session.blocks:
        raise _silent(source, importer)
    return thread


class _Rereading:
    """A source whose format cannot be read on: it is read again when it changed."""

    def __init__(self, path: Path, id: str) -> None:
        self.path, self.id = path, id
        self.version = ""
        self.read: Thread | None = None

    def thread(self) -> Thread:
        source = open_source(self.path)
        if self.read is None or source.version != self.version:
            self.version, self.read = source.version, read_entry(source, self.id)
        return self.read


def follow(path: Path, id: str = "") -> Follower:
    """A conversation that may grow: read on where its format can be, else read again. Raises `TurnscopeError`s only."""
    source = open_source(path)
    importer = _best(source)
    can = (
        importer is not None
        and importer.follow is not None
        and source.kind == "file"
        and not id
        and "data" not in source.__dict__
    )
    return importer.follow(path) if can and importer and importer.follow else _Rereading(path, id)


def located(source: Source, id: str) -> tuple[Source, Importer, str]:
    """The file that an entry stands in, its importer, and the entry's id there."""
    whole, importer = understood(source)
    if importer is not None:
        whole.hear = source.hear
        return whole, importer, id
    if not _holds(source):
        claim(source)
    id = id or next(entries(source)).id
    at = len(id)
    while at > 0:  # a file's name may hold the mark as well
        name = id[:at]
        file = _near(source, name) if ".." not in PurePath(name).parts and not PurePath(name).is_absolute() else None
        if file is not None:
            opened, importer = understood(open_source(file.path) if source.kind == "folder" else file)
            return opened, importer or claim(opened), id[at + 1 :]
        at = id.rfind(INSIDE, 0, at)
    raise _unknown(source, id)


def _near(source: Source, name: str) -> Source | None:
    """A file inside. That of an archive is kept while its conversations are read one after the other: it is parsed once."""
    if source.kind == "file":
        return forms.one(source, int(name)) if name.isdecimal() and len(name) < 9 else None
    if source.kind != "zip":
        return source.near(name)
    if name not in source.kept and (file := source.near(name)):
        source.kept = {name: file}
    return source.kept.get(name)


def _unknown(source: Source, id: str) -> UnknownEntry:
    return UnknownEntry(
        f"{source.path.name} holds no conversation {id!r}", hint="It may have been removed since; choose another from its list."
    )


def _silent(source: Source, importer: Importer) -> BrokenFile:
    return BrokenFile(
        f"{source.path.name} is {importer.title}, but holds no message", hint="Open a session in which something was said."
    )


def _too_deep(source: Source) -> BrokenFile:
    return BrokenFile(f"{source.path.name} is {DEEP}", hint="No chat tool writes such a file; check where it comes from.")


def read(path: Path | str) -> tuple[Session, ...]:
    """Every session of a path, the main one first. Raises `TurnscopeError`s only."""
    return read_source(open_source(Path(path)))


def read_source(source: Source) -> tuple[Session, ...]:
    """Every session of a source that was opened, those without a message left out where there are others."""
    try:
        ids = [entry.id for entry in entries(source)]
    except RecursionError as error:
        raise _too_deep(source) from error
    if len(ids) < 2:
        return (read_entry(source).session,)
    found: list[Session] = []
    for id in ids:
        with suppress(BrokenFile):
            found.append(read_entry(source, id).session)
    return tuple(found) or (read_entry(source).session,)
