"""Other forms in which a JSON file may be read when no importer claims it as it is: tools and scripts put sessions into lists.

A log's lines may come as one list, or a list's items line by line; values may follow one another; a session may be in a list.
The module makes the forms. It does not decide who reads them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from msgspec import Raw

from turnscope.reading.source import LazyList, Source
from turnscope.session.content import dumps

SNIFF_VALUES = 20  # values that are looked at to see what a file holds
NO_JSON = (b"NaN", b"Infinity")  # numbers that scripts write and JSON has not
MAX_BYTES = 400_000_000  # a larger file is not turned into another form


def iter_forms(source: Source, most: int | None = None) -> Iterator[Source]:
    """Iterate over the other forms of a file with several values, or one in a list: lines, one list, the only value.

    Args:
        source: The file.
        most: Use so many values alone, to see whether an importer claims them; None = all.
    """
    found, write = list_values(source)[:most], _choose_writer(source)
    if len(found) == 1:
        yield _make_source(source, write(found[0]))
    if found and all(isinstance(value, dict) for value in islice(found, SNIFF_VALUES)):
        if source.document is not None or "apart" in source.cache:
            yield _make_source(source, "\n".join(map(write, found)) + "\n")
        if source.document is None:
            yield _make_source(source, f"[{','.join(map(write, found))}]")


def iter_values(source: Source) -> Iterator[Source]:
    """Iterate over the values of a file, each as a file of its own."""
    write = _choose_writer(source)
    return (_make_source(source, write(value)) for value in list_values(source))


def get_value(source: Source, number: int) -> Source | None:
    """Get one value of a file as a file; None where there is none of that number.

    Args:
        source: The file.
        number: Number of the value, from 0.
    """
    found = list_values(source)
    return _make_source(source, _choose_writer(source)(found[number])) if 0 <= number < len(found) else None


def list_values(source: Source) -> Sequence[Any]:
    """List the items of a list, or the values that follow one another; none for any other file."""
    if "values" not in source.cache:
        source.cache["values"] = _read_values(source) if source.kind == "file" and source.size < MAX_BYTES else []
    found: Sequence[Any] = source.cache["values"]
    return found


def _choose_writer(source: Source) -> Callable[[Any], str]:
    """How values are written again: `dumps` writes NaN as null, which would hide a wrong number."""
    if "odd numbers" not in source.cache:
        source.cache["odd numbers"] = source.kind == "file" and any(word in source.data for word in NO_JSON)
    return json.dumps if source.cache["odd numbers"] else dumps


def _read_values(source: Source) -> Sequence[Any]:
    if source.document is not None:
        return source.document if isinstance(source.document, list) else []
    if any(isinstance(value, (dict, list)) for value in source.first):
        return LazyList([Raw(line) for line in source.data.splitlines() if not line.isspace()])
    return _split_values(source)


def _split_values(source: Source) -> list[Any]:
    """Split values that follow one another, each on any number of lines, as `jq` prints them; none where the text is not like
    that.
    """
    if source.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        return []
    text, decoder, found, at = source.data.decode("utf-8-sig", "replace").strip(), json.JSONDecoder(), [], 0
    try:
        while at < len(text):
            value, at = decoder.raw_decode(text, at)
            found.append(value)
            while at < len(text) and text[at] in " \t\r\n,":
                at += 1
    except (ValueError, RecursionError):
        return []
    source.cache["apart"] = True
    return found


def _make_source(source: Source, text: str) -> Source:
    return Source(source.path, text.encode("utf-8", "surrogatepass"))
