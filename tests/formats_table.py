"""The table of formats in the documentation: `python -m tests.regenerate formats` writes it."""

from __future__ import annotations

from pathlib import Path

from turnscope.views.formats import list_formats

FORMATS = Path(__file__).resolve().parent.parent / "engine" / "turnscope" / "docs" / "formats.md"
BEGIN, END = "<!-- formats: made by `python -m tests.regenerate formats` -->", "<!-- end of formats -->"


def make_page() -> str:
    """The page with the table as it is now. ValueError where it has no place for it."""
    before, rest = FORMATS.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{list_formats(packages=False)}\n\n{END}{after}"
