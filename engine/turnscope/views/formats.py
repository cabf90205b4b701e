"""The formats that can be read, as a table in Markdown: for the documentation, and for who has packages installed."""

from __future__ import annotations

from turnscope.reading.importer import Importer
from turnscope.reading.registry import find_importers


def list_formats(*, packages: bool = True) -> str:
    """A row for each format, by title. `packages`: with those that packages bring."""
    importers = sorted(find_importers(), key=lambda importer: importer.title.casefold())
    rows = (_write_row(importer) for importer in importers if packages or not importer.package)
    return "\n".join(("| format | what is right about it |", "| --- | --- |", *rows))


def _write_row(importer: Importer) -> str:
    checked = "" if importer.sample else " (from schema: no real file was at hand)"
    return f"| {importer.label} | {importer.right or 'as its schema says'}{checked} |"
