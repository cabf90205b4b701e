"""Guards importers, so that an error in one cannot stop anything else: one bad file never stops a folder.

Whatever an importer raises on a file becomes an `ImporterError` that names the importer, its package and the file. A failure
that concerns no single file (where a tool keeps its sessions, which files belong together) is reported once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

from turnscope.errors import ImporterError, TurnscopeError
from turnscope.extensions import check_type, describe, report_problem
from turnscope.reading.importer import Follower, Importer, Place, repeat_nothing
from turnscope.reading.source import Entry, Source
from turnscope.session.thread import Thread
from turnscope.settings import Machine

T = TypeVar("T")
OURS = (TurnscopeError, RecursionError)  # of Turnscope's own importers: `contents` says what each means
FIELDS = {
    "name": str,
    "title": str,
    "wants": str,
    "right": str,
    "suffixes": tuple,
    "names": tuple,
    "version": int,
    "sample": bool,
}


def guard_importer(value: object, package: str) -> Importer:
    """Wrap an importer, so that any call of it is safe.

    Args:
        value: What the package provides.
        package: Name of the package; "" = Turnscope.

    Raises:
        TypeError: `value` is no importer, or one of its fields has another type.
    """
    importer = check_type(value, Importer)
    for name, wanted in FIELDS.items():
        check_type(getattr(importer, name), wanted)
    for text in (*importer.suffixes, *importer.names):
        check_type(text, str)
    guard = _Guard(importer, package)
    return replace(
        importer,
        sniff=guard.sniff,
        read=guard.read,
        entries=guard.entries,
        finds=guard.finds if package else importer.finds,
        related=guard.related,
        part_of=guard.part_of if package else importer.part_of,
        repeats=guard.repeats if importer.repeats is not repeat_nothing else repeat_nothing,
        follow=guard.follow if importer.follow else None,
        package=package,
    )


@cache
def guard_own(importer: Importer) -> Importer:
    """Wrap an importer of Turnscope itself; one of a package is wrapped already."""
    return importer if importer.package else guard_importer(importer, "")


@dataclass(frozen=True, slots=True)
class _Guard:
    importer: Importer
    package: str

    def sniff(self, source: Source) -> int:
        try:
            return max(0, min(100, check_type(self.importer.sniff(source), int)))
        except Exception as error:
            if not self.package and isinstance(error, OURS):
                raise
            raise self.make_error(source.path, error) from error

    def read(self, source: Source, entry: Entry) -> Thread:
        with self.translate(source.path):
            return check_type(self.importer.read(source, entry), Thread)

    def entries(self, source: Source) -> Iterator[Entry]:
        with self.translate(source.path):
            for entry in self.importer.entries(source):
                yield check_type(entry, Entry)

    def finds(self, machine: Machine) -> Iterable[Place]:
        return self.ask("finds", lambda: [self.guard_place(place) for place in self.importer.finds(machine)], [])

    def guard_place(self, place: Place) -> Place:
        return _GuardedPlace(Path(place.folder), str(place.pattern), self.part_of, place.holds_session, self)

    def related(self, source: Source) -> Iterable[Source]:
        return self.ask("related", lambda: [check_type(file, Source) for file in self.importer.related(source)], [])

    def repeats(self, source: Source) -> Mapping[str, str]:
        return self.ask(
            "repeats",
            lambda: {check_type(id, str): check_type(name, str) for id, name in self.importer.repeats(source).items()},
            {},
        )

    def part_of(self, path: Path) -> Path:
        return self.ask("part_of", lambda: check_type(self.importer.part_of(path), Path), path)

    def follow(self, path: Path) -> Follower:
        assert self.importer.follow
        with self.translate(path):
            return _GuardedFollower(self, path, self.importer.follow(path))

    @contextmanager
    def translate(self, path: Path) -> Iterator[None]:
        """Turn whatever is raised on a file into an error of ours. An importer may raise those itself."""
        try:
            yield
        except Exception as error:
            if isinstance(error, TurnscopeError if self.package else OURS):
                raise
            raise self.make_error(path, error) from error

    def make_error(self, path: Path, error: Exception) -> ImporterError:
        name, owner = self.importer.name, self.package or "Turnscope"
        remedy = f"Report it to the authors of {owner}{', or remove that' if self.package else ''}."
        return ImporterError(
            f"{path.name} cannot be read: the importer {name!r} of {owner} failed: {describe(error)}",
            hint=f"{remedy} Other files open as before.",
            importer=name,
            source=owner,
        )

    def ask(self, what: str, answer: Callable[[], T], default: T) -> T:
        """Ask the importer. Gives a default where it fails, which is reported once."""
        try:
            return answer()
        except Exception as error:  # noqa: BLE001 - code of a stranger
            owner = self.package or "Turnscope"
            sentence = f"The importer {self.importer.name!r} of {owner} failed in `{what}`: {describe(error)}"
            report_problem(f"{what} {self.importer.name} {self.package}", sentence)
            return default


@dataclass(frozen=True, slots=True)
class _GuardedPlace(Place):
    guard: _Guard | None = None

    def paths(self) -> Iterator[Path]:
        assert self.guard
        paths = super(_GuardedPlace, self).paths
        none: list[Path] = []
        return iter(self.guard.ask("finds", lambda: [*paths()], none))


@dataclass(frozen=True, slots=True)
class _GuardedFollower:
    guard: _Guard
    path: Path
    follower: Follower

    def thread(self) -> Thread:
        with self.guard.translate(self.path):
            return check_type(self.follower.thread(), Thread)
