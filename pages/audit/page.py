"""Audit and share: the checklist for the session, the exact messages of any turn, and a report to hand on."""

from __future__ import annotations

from pathlib import Path

from pages.audit import checklist, messages, report
from pages.parts import header, theme

SHEET = Path(__file__).parent / "browser" / "audit.css"


def draw() -> None:
    """Draw the page."""
    shown = header.draw_header()
    theme.add_sheet(SHEET)
    checklist.draw(shown)
    messages.draw(shown)
    report.draw(shown)
