"""The table of formats in the docs, from what the importers say of themselves: `python -m tests.formats_table` writes it."""

from __future__ import annotations

from pathlib import Path

from turnscope.importers import Importer
from turnscope.reading.registry import find_importers

FORMATS = Path(__file__).resolve().parent.parent / "engine" / "turnscope" / "docs" / "formats.md"
BEGIN, END = "<!-- formats: made by `python -m tests.formats_table` -->", "<!-- end of formats -->"


def table() -> str:
    """A line for each format, by title."""
    rows = (f"| {each.title} | {each.right or 'as its schema says'}{_checked(each)} |" for each in _sorted())
    return "\n".join(("| format | what is right about it |", "| --- | --- |", *rows))


def _sorted() -> list[Importer]:
    return sorted(find_importers(), key=lambda importer: importer.title.casefold())


def _checked(importer: Importer) -> str:
    return "" if importer.sample else " (from schema: no real file was at hand)"


def written(page: str) -> str:
    """The page with the table as it is now. ValueError where it has no place for it."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    FORMATS.write_text(written(FORMATS.read_text(encoding="utf-8")), encoding="utf-8")
