"""Finds every importer: the modules of `turnscope.importers`, and extensions. Answers questions about all of them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from turnscope.errors import ExtensionError, TurnscopeError
from turnscope.extensions import find_extensions, load_extension, report_problem
from turnscope.reading.guards import guard_importer, guard_own
from turnscope.reading.importer import Importer, Place, repeat_nothing
from turnscope.reading.recordings import find_recordings
from turnscope.reading.source import Source
from turnscope.settings import Machine

PACKAGE = "turnscope.importers"  # each of its modules defines `IMPORTER`


@cache
def find_importers() -> tuple[Importer, ...]:
    """Find every importer: Turnscope's own by the names of their modules, then those of packages and of the user's folder."""
    modules = sorted(module.name for module in pkgutil.iter_modules(importlib.import_module(PACKAGE).__path__))
    own = [importlib.import_module(f"{PACKAGE}.{name}").IMPORTER for name in modules]
    found: dict[str, Importer] = {importer.name: importer for importer in own}
    for extension in find_extensions("importers"):
        try:
            importer = load_extension(extension, "importer", partial(guard_importer, package=extension.source))
        except ExtensionError:  # it is reported
            continue
        if (known := found.get(importer.name)) is not None:
            first = known.package or "Turnscope itself"
            sentence = f"The importer {importer.name!r} of {extension.source} is left out: {first} has one of that name."
            report_problem(f"importer {importer.name} {extension.source}", sentence)
            continue
        found[importer.name] = importer
    return tuple(found.values())


def find_suffixes() -> frozenset[str]:
    """Find the endings of file names that are worth a look inside a folder."""
    return frozenset((".zip", ".gz", *(suffix for importer in find_importers() for suffix in importer.suffixes)))


def find_related(source: Source) -> list[Source]:
    """Find the files that belong to the sessions of a source and are read with it, recordings of a tap among them."""
    related = [file for importer in find_importers() for file in guard_own(importer).related(source)]
    return [*related, *(Source(found.path) for found in find_recordings(source))]


def find_session_path(path: Path) -> Path:
    """Find the path under which a file's session opens; the path itself where the file is part of none."""
    for importer in find_importers():
        whole = importer.part_of(path)
        if whole != path:
            return whole
    return path


def find_session_paths(files: Iterable[Path]) -> Iterator[Path]:
    """Yield the paths under which files open, each once; files whose names no tool uses are left out.

    So is a file whose sessions all stand in other ones of these. Only a file that may be such a one is read.
    """
    plain = {".zip", ".gz"}.union(*(importer.suffixes for importer in find_importers() if not importer.names))
    patterns = [name for importer in find_importers() for name in importer.names]
    repeating = [importer for importer in find_importers() if importer.repeats is not repeat_nothing]
    seen, held = set[Path](), dict[Path, set[str]]()
    for file in files:
        if file.suffix in plain or any(file.match(pattern) for pattern in patterns):
            path = find_session_path(file)
            if path in seen:
                continue
            seen.add(path)
            if whole := {*_list_repeated(path, repeating)}:
                held[path] = whole
            else:
                yield path
    names = {path.name for path in seen}
    yield from (path for path, whole in held.items() if not whole <= names)


def _list_repeated(path: Path, importers: Iterable[Importer]) -> Iterable[str]:
    """The names of the files that hold the sessions of a path as well; none where it has sessions of its own."""
    for importer in importers:
        with suppress(OSError, TurnscopeError, RecursionError):
            if found := guard_own(importer).repeats(Source(path)):
                return found.values()
    return ()


def find_places(machine: Machine) -> Iterator[tuple[Importer, Place]]:
    """Find where the known tools keep their sessions on this machine."""
    return ((importer, place) for importer in find_importers() for place in importer.finds(machine) if place.folder.is_dir())
