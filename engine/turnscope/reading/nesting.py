"""Files inside a source that no importer recognises as a whole: files of a folder or archive, values of a JSON file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePath

from turnscope.errors import UnknownFormat, UnreadableFile
from turnscope.reading import json_forms
from turnscope.reading.claims import find_claims, recognize
from turnscope.reading.containers import open_source
from turnscope.reading.guards import guard_own
from turnscope.reading.importer import Importer
from turnscope.reading.registry import find_suffixes
from turnscope.reading.source import Source

HOLDERS = ("folder", "zip")  # kinds of sources whose files may be claimed one by one


def may_hold_files(source: Source) -> bool:
    """Whether a source that no importer recognises as a whole may hold conversations one by one."""
    if source.kind != "file":
        return source.kind in HOLDERS
    return any(True for _ in find_claims(islice(json_forms.iter_values(source), json_forms.SNIFF_VALUES)))


def find_files(source: Source) -> Iterator[tuple[str, Source, Importer]]:
    """Find the files inside that importers recognise, each with its name there.

    A file that is read with another one is left out.
    """
    if source.kind == "file":
        for number, file in enumerate(json_forms.iter_values(source)):
            yield from ((str(number), *found) for found in find_claims([file]))
        return
    taken: set[Path] = set()
    suffixes = find_suffixes()
    for file in source.iter_files():
        if file.path in taken or file.path.suffix not in suffixes:
            continue
        try:
            opened, importer = recognize(open_source(file.path) if source.kind == "folder" else file)
        except (RecursionError, UnknownFormat, UnreadableFile):  # an unusable file must not hide the others
            continue
        if importer is not None and not _is_part(file.path, importer):
            taken.update(other.path for other in importer.related(opened))
            yield file.path.relative_to(source.path).as_posix(), opened, importer


def _is_part(path: Path, importer: Importer) -> bool:
    """Whether another file opens in place of this one."""
    whole = guard_own(importer).part_of(path)
    return whole != path and whole.is_file()


def open_file(source: Source, name: str) -> Source | None:
    """Open the file of that name inside; None where there is none. A name that leads out of the source is none.

    Args:
        source: The source.
        name: The name, or the number of a value.
    """
    if ".." in PurePath(name).parts or PurePath(name).is_absolute():
        return None
    if source.kind == "file":
        return json_forms.get_value(source, int(name)) if name.isdecimal() and len(name) < 9 else None
    if source.kind != "zip":
        file = source.open_sibling(name)
        return open_source(file.path) if file else None
    # a file of an archive is kept while its conversations are read one by one, so that it is parsed once
    if name not in source.cache and (file := source.open_sibling(name)):
        source.cache = {name: file}
    return source.cache.get(name)
