"""Describes a source that no format claims, in a few words for a person."""

from __future__ import annotations

from collections.abc import Mapping

from turnscope.reading.source import Source

MAX_KEYS = 8  # keys that are named
KIND_NAMES = {"folder": "a folder", "zip": "an archive", "sqlite": "a database"}


def describe_source(source: Source) -> str:
    """Describe a source: "JSON with the keys a, b", "neither JSON nor JSON lines", and the like."""
    if source.kind != "file":
        return KIND_NAMES[source.kind]
    document = source.document
    first = document if document is not None else next(iter(source.first), None)
    if isinstance(first, Mapping):
        keys = ", ".join(str(key)[:40] for key in [*first][:MAX_KEYS]) or "none"
        return f"{'JSON' if document is not None else 'JSON lines, the first'} with the keys {keys}"
    if isinstance(first, list):
        return f"a JSON list of {len(first):,} values"
    return "neither JSON nor JSON lines" if first is None else "JSON without keys"
