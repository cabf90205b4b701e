"""Guards importers that do not come with Turnscope, so that an error in one cannot stop anything else.

Whatever such an importer raises on a file becomes an `ImporterError` that names the importer, its package and the file. A
failure that concerns no single file (where a tool keeps its sessions, which files belong together) is reported once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from turnscope.errors import ImporterError, TurnscopeError
from turnscope.extensions import check_type, describe, report_problem
from turnscope.reading.importer import Follower, Importer, Place
from turnscope.reading.source import Entry, Source
from turnscope.session.thread import Thread
from turnscope.settings import Machine

T = TypeVar("T")
FIELDS = {"name": str, "title": str, "wants": str, "right": str, "suffixes": tuple, "version": int, "sample": bool}


def guard_importer(value: object, package: str) -> Importer:
    """Wrap an importer of a package, so that any call of it is safe.

    Args:
        value: What the package provides.
        package: Name of the package.

    Raises:
        TypeError: `value` is no importer, or one of its fields has another type.
    """
    importer = check_type(value, Importer)
    for name, wanted in FIELDS.items():
        check_type(getattr(importer, name), wanted)
    for suffix in importer.suffixes:
        check_type(suffix, str)
    guard = _Guard(importer, package)
    return replace(
        importer,
        sniff=guard.sniff,
        read=guard.read,
        entries=guard.entries,
        finds=guard.finds,
        related=guard.related,
        part_of=guard.part_of,
        follow=guard.follow if importer.follow else None,
        package=package,
    )


@dataclass(frozen=True, slots=True)
class _Guard:
    importer: Importer
    package: str

    def sniff(self, source: Source) -> int:
        try:
            return max(0, min(100, check_type(self.importer.sniff(source), int)))
        except Exception as error:
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
        return _GuardedPlace(Path(place.folder), str(place.pattern), self.part_of, self)

    def related(self, source: Source) -> Iterable[Source]:
        return self.ask("related", lambda: [check_type(file, Source) for file in self.importer.related(source)], [])

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
        except TurnscopeError:
            raise
        except Exception as error:
            raise self.make_error(path, error) from error

    def make_error(self, path: Path, error: Exception) -> ImporterError:
        name = self.importer.name
        return ImporterError(
            f"{path.name} cannot be read: the importer {name!r} of {self.package} failed: {describe(error)}",
            hint=f"Report it to the authors of {self.package}, or remove that. Files of other formats open as before.",
            importer=name,
            source=self.package,
        )

    def ask(self, what: str, answer: Callable[[], T], default: T) -> T:
        """Ask the importer. Gives a default where it fails, which is reported once."""
        try:
            return answer()
        except Exception as error:  # noqa: BLE001 - code of a stranger
            sentence = f"The importer {self.importer.name!r} of {self.package} failed in `{what}`: {describe(error)}"
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
