"""The sessions of a team: what they cost by owner and day, how full windows were, and what policies would have cost."""

from __future__ import annotations

from pathlib import Path

from turnscope.fleet import queries

from pages.fleet import anomalies, choices, costs, distributions, policies, sessions, source, sql
from pages.parts import header, theme, widgets

SHEET = Path(__file__).parent / "browser" / "fleet.css"
DRAW = {
    "costs": costs.draw,
    "distributions": distributions.draw,
    "anomalies": anomalies.draw,
    "sessions": sessions.draw,
    "policies": policies.draw,
    "sql": sql.draw,
}


def draw() -> None:
    """Draw the page."""
    choices.read_address()
    header.draw_optional_header(middle=False, title=_TITLE)
    theme.add_sheet(SHEET)
    warehouse = source.open_warehouse()
    if warehouse is None:
        return
    chosen = choices.draw_filters(warehouse)
    whole = queries.sum_costs(warehouse, chosen)
    costs.draw_totals(whole)
    view = choices.draw_choice("view", "Show", choices.VIEWS, "costs")
    if whole.requests or whole.sessions:
        DRAW[view](warehouse, chosen)
    else:
        widgets.draw_notice("No request and no session is left.", "Clear a filter.")
    source.draw(warehouse)


_TITLE = '<div class="ts-title"><h1>Fleet</h1><span class="ts-faint">the sessions of a team</span></div>'
