"""What the chosen requests cost: in all, over time, and by team, project, person, tool, model or day."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import streamlit as st
from turnscope import figures
from turnscope.fleet import queries
from turnscope.fleet.queries import Cost, Group
from turnscope.fleet.warehouse import Selection, Warehouse

from pages.fleet import choices
from pages.parts import theme
from pages.parts.formats import escape, format_cost, format_percent, format_usd, shorten

if TYPE_CHECKING:
    from streamlit.elements.lib.column_types import ColumnConfig

MOST_ROWS = 2_000
COLUMNS: dict[str, ColumnConfig] = {
    "Cost": st.column_config.NumberColumn(format="$%,.2f", help="USD of all requests, each once"),
    "Share": st.column_config.ProgressColumn(format="percent", min_value=0, max_value=1, help="of the cost of all rows"),
    "Requests": st.column_config.NumberColumn(format="localized"),
    "Sessions": st.column_config.NumberColumn(format="localized", help="that began on these days"),
    "Cached": st.column_config.NumberColumn(format="percent", help="share of the input that was read from the cache"),
    "Cache misses": st.column_config.NumberColumn(format="$%,.2f", help="USD beyond what reading the cache would have cost"),
    "Output": st.column_config.NumberColumn(format="compact", help="tokens"),
    "Without a price": st.column_config.NumberColumn(format="localized", help="requests of models without a known price"),
}


def draw_totals(whole: Cost) -> None:
    """Cards with the sums of what is chosen.

    Args:
        whole: the sums.
    """
    per = format_usd(whole.usd / whole.sessions) if whole.usd is not None and whole.sessions else "–"
    missed = f"{whole.misses:,} miss{'' if whole.misses == 1 else 'es'}, beyond reading the cache"
    cards = (
        (
            "Cost",
            format_usd(whole.usd),
            f"{whole.unpriced:,} requests have no price" if whole.unpriced else "each request once",
        ),
        ("Requests", f"{whole.requests:,}", f"{format_percent(_share_cached(whole))} of the input from the cache"),
        ("Sessions", f"{whole.sessions:,}", f"{per} each"),
        ("Cache misses", format_usd(whole.miss_usd) if whole.misses else "0", missed if whole.misses else "none"),
        ("Truncation events", f"{whole.cuts:,}", "compactions, cuts, clearings"),
    )
    body = "".join(
        f'<div class="ts-card"><h3>{name}</h3><div class="value">{escape(value)}</div><p>{escape(more)}</p></div>'
        for name, value, more in cards
    )
    head = '<h2 class="ts-section">Totals <small class="ts-small ts-faint">of what is chosen, each request once</small></h2>'
    st.html(f'{head}<div class="ts-cards fleet-totals">{body}</div>')


def _share_cached(cost: Cost) -> float:
    whole = cost.uncached + cost.cache_write_5m + cost.cache_write_1h + cost.cache_read
    return cost.cache_read / whole if whole else 0.0


def draw(warehouse: Warehouse, chosen: Selection) -> None:
    """The chart over time, and the table, in which a row leads to what lies below it.

    Args:
        warehouse: the tables.
        chosen: what is looked at.
    """
    by = choices.draw_group(warehouse, "Costs by")
    stack: Group = "model" if by == "day" else by
    spent = queries.list_spending(warehouse, chosen, stack)
    rows = queries.list_costs(warehouse, chosen, by)
    st.html(f'<h2 class="ts-small fleet-chart">Cost over time, by {stack}</h2>')
    if any(row.pico for row in spent):
        figure = figures.draw_spending(
            spent, theme.get_theme(), 260, lambda row: shorten(row.project, 40, "tail") or choices.UNKNOWN
        )
        st.plotly_chart(
            figure,
            key="fleet.spending",
            theme=None,
            config={"displayModeBar": False},
            alt=f"Cost over time, stacked by {stack}: {format_cost(_sum(rows), 0, simulated=False)}",
        )
    else:
        st.html('<p class="ts-empty">No price is known for the models of these requests.</p>')
    _draw_table(rows, by)


def _draw_table(rows: Sequence[Cost], by: Group) -> None:
    head, whole = choices.GROUPS[by], float(_sum(rows) or 0)
    shown = rows[:MOST_ROWS]
    table: dict[str, Sequence[object]] = {
        head: [row.name or choices.UNKNOWN for row in shown],
        "Cost": [None if row.usd is None else float(row.usd) for row in shown],
        "Share": [float(row.usd or 0) / whole if whole else 0.0 for row in shown],
        "Requests": [row.requests for row in shown],
        "Sessions": [row.sessions for row in shown],
        "Cached": [_share_cached(row) for row in shown],
        "Cache misses": [None if row.miss_usd is None else float(row.miss_usd) for row in shown],
        "Output": [row.output for row in shown],
        "Without a price": [row.unpriced for row in shown],
    }
    with st.container(horizontal=True, vertical_alignment="center"):
        many = f"{len(rows):,} {head.lower()}{'' if len(rows) == 1 else 's'}"
        left = f", the first {MOST_ROWS:,} shown" if len(rows) > MOST_ROWS else ""
        st.html(f'<p class="ts-empty">{many}{left}. Choose a row to look at it alone.</p>', width="stretch")
        st.download_button(
            "Costs as CSV",
            lambda: queries.costs_to_csv(rows),
            f"fleet-costs-by-{by}.csv",
            "text/csv",
            key="fleet.costs.csv",
            icon=":material/download:",
            type="tertiary",
            on_click="ignore",
        )
    key = f"fleet.costs.{hash(tuple(st.query_params.to_dict().items()))}"  # another table has no row chosen
    picked = st.dataframe(
        table, key=key, column_config=COLUMNS, hide_index=True, on_select="rerun", selection_mode="single-row", height="auto"
    )["selection"]["rows"]
    if picked and 0 <= picked[0] < len(shown):
        choices.go_down(by, shown[picked[0]].name)
        st.rerun()


def _sum(rows: Sequence[Cost]) -> Decimal | None:
    known = [row.usd for row in rows if row.usd is not None]
    return sum(known[1:], known[0]) if known else None
