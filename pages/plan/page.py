"""Plan ahead: what policies do to a conversation that is only planned, and which parameters past sessions speak for."""

from __future__ import annotations

from pages.parts import header
from pages.plan import advice, budget


def draw() -> None:
    """Draw the page."""
    shown = header.draw_optional_header(middle=False)
    if budget.choose_tool() == "advise":
        advice.draw(shown)
    else:
        budget.draw(shown)
