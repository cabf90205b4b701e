"""Turnscope's own session files (`engine.dumps` writes them); `portable` says what they hold."""

from __future__ import annotations

from engine.importers import Importer
from engine.reading.source import Entry, Source
from engine.session import portable
from engine.session.thread import Thread


def sniff(source: Source) -> int:
    return 100 if portable.is_portable(source.document) or portable.are_lines(next(iter(source.first), None)) else 0


def read(source: Source, _entry: Entry) -> Thread:
    lines = portable.are_lines(next(iter(source.first), None))
    value = portable.of_lines(value for value, _ in source.records()) if lines else source.document
    return Thread(portable.loads(value, source.path.name))


IMPORTER = Importer(
    "turnscope-json",
    "Turnscope session (JSON or JSON lines)",
    sniff,
    read,
    wants="`format` that says turnscope-session",
    right="an exact round trip",
)
