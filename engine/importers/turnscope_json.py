"""Turnscope's own session files (`engine.dumps` writes them); `portable` says what they hold."""

from __future__ import annotations

from engine.importers import Importer
from engine.reading.source import Source
from engine.session import portable
from engine.session.model import Session


def sniff(source: Source) -> bool:
    return portable.is_portable(source.document)


def read(source: Source) -> tuple[Session, ...]:
    return (portable.loads(source.document, source.path.name),)


IMPORTER = Importer("turnscope-json", "Turnscope session (JSON)", sniff, read)
