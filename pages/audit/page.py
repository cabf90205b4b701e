"""Audit and share: the checklist for the session, the exact messages of any turn, and a report to hand on."""

from __future__ import annotations

from pages.audit import checklist, report
from pages.parts import header


def draw() -> None:
    """Draw the page."""
    shown = header.header()
    checklist.checklist(shown)
    checklist.replay(shown)
    report.draw(shown)
