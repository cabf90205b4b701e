"""Plan ahead: what policies do to a conversation that is only planned, and which parameters past sessions speak for."""

from __future__ import annotations

from pages.parts import header
from pages.plan import advice, budget


def draw() -> None:
    """Draw the page."""
    shown = header.header_if_any()
    if budget.which() == "advise":
        advice.draw(shown)
    else:
        budget.draw(shown)
