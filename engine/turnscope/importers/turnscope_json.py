"""Turnscope's own session files (`turnscope.dumps` writes them); `portable` says what they hold."""

from __future__ import annotations

from turnscope.importers import Importer
from turnscope.reading.source import Entry, Source
from turnscope.session import portable
from turnscope.session.thread import Thread


def sniff(source: Source) -> int:
    return 100 if portable.is_portable(source.document) or portable.is_portable_lines(next(iter(source.first), None)) else 0


def read(source: Source, _entry: Entry) -> Thread:
    lines = portable.is_portable_lines(next(iter(source.first), None))
    value = portable.join_lines(value for value, _ in source.iter_records()) if lines else source.document
    return Thread(portable.loads(value, source.path.name))


IMPORTER = Importer(
    "turnscope-json",
    "Turnscope session (JSON or JSON lines)",
    sniff,
    read,
    wants="`format` that says turnscope-session",
    right="an exact round trip",
)
