"""Importers, rules and policies that do not come with Turnscope: those of installed packages, and the user's own files.

A package names what it brings as entry points of the groups `turnscope.importers`, `turnscope.rules` and `turnscope.policies`.
A file of the user lies in the folder `importers` or `rules` of the data folder. Either runs with all rights of the user, as any
installed package does. Extensions are looked for when one is first needed. One that fails is reported once and left out.
"""

from __future__ import annotations

import importlib.util
import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from turnscope.errors import ExtensionError
from turnscope.settings import find_data_folder

if TYPE_CHECKING:  # takes longer to load than a small session takes to be read
    from importlib.metadata import Distribution, EntryPoint

T = TypeVar("T")
Kind = Literal["importers", "rules", "policies"]
PREFIX = "turnscope."  # of the groups of entry points
NAMES = {"importers": "IMPORTER", "rules": "RULE"}  # what a file of the user defines
LONG = 300  # characters of an error's words

_problems: dict[str, str] = {}  # the first sentence by what it is about


@dataclass(frozen=True, slots=True)
class Extension:
    """Something that does not come with Turnscope.

    `name`: the entry point's name, or the file's without its end. `source`: the package with its version, or the file's path.
    `load` imports it and may raise anything.
    """

    name: str
    source: str
    load: Callable[[], Any]


@cache
def find_extensions(kind: Kind) -> tuple[Extension, ...]:
    """Every extension of a kind: those of packages by package and name, then the user's files by name. None is imported."""
    packaged = (
        Extension(point.name, source, partial(_import_module, point) if kind == "policies" else point.load)
        for source, point in _find_entry_points()
        if point.group == PREFIX + kind
    )
    files = (Extension(path.stem, str(path), partial(_load_file, kind, path)) for path in _find_files(kind))
    return (*packaged, *files)


@cache
def _find_entry_points() -> tuple[tuple[str, EntryPoint], ...]:
    """Entry points of the project's groups, each with its package and version."""
    from importlib.metadata import distributions

    found: dict[str, list[EntryPoint]] = {}
    versions: dict[str, str] = {}
    for distribution in distributions():
        try:
            points = list(_read_entry_points(distribution))
            name = str(distribution.name) if points else ""
            if points and name not in found:  # the first one on the path is the one that is imported
                found[name], versions[name] = points, distribution.version
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a stranger's metadata
            report_problem("metadata", f"The metadata of an installed package cannot be read: {describe(error)}")
    ordered = ((name, point) for name in sorted(found) for point in sorted(found[name], key=_sort_key))
    return tuple((f"{name} {versions[name]}", point) for name, point in ordered)


def _read_entry_points(distribution: Distribution) -> Iterator[EntryPoint]:
    if f"[{PREFIX}" in (distribution.read_text("entry_points.txt") or ""):  # most packages have none of ours
        yield from (point for point in distribution.entry_points if point.group.startswith(PREFIX))


def _sort_key(point: EntryPoint) -> tuple[str, str]:
    return point.group, point.name


def _import_module(point: EntryPoint) -> Any:
    return importlib.import_module(point.module)


def _find_files(kind: Kind) -> Iterator[Path]:
    """The user's Python files of a kind. One that somebody else could have written is reported and left out."""
    if kind not in NAMES:
        return
    folder = find_data_folder() / kind
    try:
        for path in sorted(folder.glob("*.py")):
            if path.name.startswith((".", "_")):
                continue
            if _is_private(folder) and _is_private(path):
                yield path
            else:
                report_problem(str(path), f"{path} is not loaded: other users of this machine can change it.")
    except OSError as error:
        report_problem(str(folder), f"{folder} cannot be listed, so nothing in it is loaded: {describe(error)}")


def _is_private(path: Path) -> bool:
    """Whether nobody but the user (and the administrator) can change a path. Windows keeps that elsewhere: not checked."""
    if sys.platform == "win32":
        return True
    state = path.stat()
    return state.st_uid in (0, os.getuid()) and not state.st_mode & stat.S_IWOTH


def _load_file(kind: Kind, path: Path) -> Any:
    name = f"turnscope_user_{kind}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their own module up
    try:
        spec.loader.exec_module(module)
        return getattr(module, NAMES[kind])
    except BaseException:
        del sys.modules[name]
        raise


def load_extension(extension: Extension, what: str, check: Callable[[Any], T]) -> T:
    """What an extension brings, after `check`, which raises where it is of no use. ExtensionError, reported, where it fails.

    Args:
        extension: the extension.
        what: names it in the report, such as "importer".
        check: raises where what it brings is of no use.
    """
    try:
        return check(extension.load())
    except (Exception, SystemExit) as error:
        sentence = f"the {what} {extension.name!r} of {extension.source} cannot be loaded: {describe(error)}"
        report_problem(f"{what} {extension.name} {extension.source}", f"T{sentence[1:]}")
        hint = f"Update or remove {extension.source}, or report it to its authors."
        raise ExtensionError(sentence, hint=hint, source=extension.source) from error


def check_type(value: Any, wanted: type[T]) -> T:
    """The value. TypeError where it is of another type: nobody may have checked a stranger's code.

    Args:
        value: the value.
        wanted: the type that it has to be of.
    """
    if not isinstance(value, wanted):
        raise TypeError(f"{type(value).__name__!r} stands where {wanted.__name__!r} belongs")
    return value


def describe(error: BaseException) -> str:
    """An exception in one short line: its type and its words."""
    words = " ".join(str(error).split())[:LONG]
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def report_problem(about: str, sentence: str) -> None:
    """Say once what is wrong with an extension: in the log, which goes to standard error, and in `list_problems`.

    Args:
        about: what the sentence is about; only the first sentence about a thing is kept.
        sentence: what is wrong with it.
    """
    if about not in _problems:
        _problems[about] = sentence
        from logging import getLogger

        getLogger("turnscope").warning("%s", sentence)


def list_problems() -> tuple[str, ...]:
    """What is wrong with extensions, a sentence each, as far as they were needed until now."""
    return tuple(_problems.values())
