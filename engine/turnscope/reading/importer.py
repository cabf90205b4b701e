"""What a format is (`Importer`), and where its tool keeps files (`Place`). `registry` finds the importers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from turnscope.reading.source import Entry, Source
from turnscope.session.thread import Thread
from turnscope.settings import Machine


def _open_itself(path: Path) -> Path:
    return path


def _accept_all(_path: Path) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Place:
    """A folder in which a tool keeps its sessions, and the pattern of their files.

    `part_of`: as in `Importer`, where the files that match are parts of sessions. `holds_session`: whether a file that matches
    is one, where it may lie there and be none yet.
    """

    folder: Path
    pattern: str
    part_of: Callable[[Path], Path] = _open_itself
    holds_session: Callable[[Path], bool] = _accept_all

    def paths(self) -> Iterator[Path]:
        """List the paths under which its sessions open. None is parsed."""
        return iter(dict.fromkeys(map(self.part_of, filter(self.holds_session, self.folder.glob(self.pattern)))))


def _list_one(source: Source) -> Iterator[Entry]:
    """List the only conversation of a source."""
    yield Entry(at=source.modified_at, size=source.size)


def _find_nowhere(_machine: Machine) -> Iterable[Place]:
    return ()


def _find_none(_source: Source) -> Iterable[Source]:
    return ()


def repeat_nothing(_source: Source) -> Mapping[str, str]:
    """Give no conversation: what a format's files hold stands nowhere else."""
    return {}


class Follower(Protocol):
    """A source that may grow, and what was read of it so far."""

    def thread(self) -> Thread:
        """Read what the source holds now, as `Importer.read` would. `TurnscopeError`s where it cannot be read any more."""


@dataclass(frozen=True, slots=True)
class Importer:
    """One format. The defaults suit a format of single files with one conversation each.

    Attributes:
        name: The format's name in stored data.
        title: Its name for people.
        sniff: Scores how well a source's content fits, 0 (not at all) to 100. The best score reads it.
        read: Reads one conversation: `(source, entry)`, where `entry` is one of those that `entries` lists.
        entries: Lists a source's conversations without reading them, the main one first.
        finds: Lists where the tool keeps its files on a machine.
        related: Lists the other files that belong to a source's sessions.
        part_of: Gives the path that opens instead of a file that is part of a session.
        repeats: Gives the conversations of a source that another file holds as well, and more of them: by id ("" = all
            of them), that file's name. Where both are listed, that file stands for both.
        suffixes: Endings of the files that are read inside an archive or a folder that is opened.
        names: Patterns of the paths that are listed from a folder without being read, as `PurePath.match` takes them; () =
            every file with one of the endings.
        follow: Reads a growing file on; None = it is read again.
        version: Counted up by hand when `read` gives something else for the same file: what was read before is then read again.
        wants: For people: what its content holds, after "no".
        right: For people: what is right about the reading.
        sample: Whether it was checked on real files, not only against the tool's own schema.
        package: The package that provides it, "" = Turnscope. It is filled in when the importer is found.
    """

    name: str
    title: str
    sniff: Callable[[Source], int]
    read: Callable[[Source, Entry], Thread]
    entries: Callable[[Source], Iterator[Entry]] = _list_one
    finds: Callable[[Machine], Iterable[Place]] = _find_nowhere
    related: Callable[[Source], Iterable[Source]] = _find_none
    part_of: Callable[[Path], Path] = _open_itself
    repeats: Callable[[Source], Mapping[str, str]] = repeat_nothing
    suffixes: tuple[str, ...] = (".json", ".jsonl")
    names: tuple[str, ...] = ()
    follow: Callable[[Path], Follower] | None = None
    version: int = 1
    wants: str = ""
    right: str = ""
    sample: bool = True
    package: str = ""

    @property
    def label(self) -> str:
        """Its title, with the package that provides it where that is not Turnscope."""
        return f"{self.title}, of {self.package}" if self.package else self.title
