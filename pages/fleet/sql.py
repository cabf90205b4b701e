"""A query in SQL that somebody types, over the tables: read only, for some seconds, with a limited number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import streamlit as st
from turnscope import TurnscopeError
from turnscope.fleet.dataset import Fleet
from turnscope.fleet.sandbox import MOST_ROWS, ROOM, SECONDS, Result, Sandbox
from turnscope.fleet.tables import format_dictionary
from turnscope.fleet.warehouse import Selection, Warehouse

from pages.parts import widgets
from pages.parts.formats import make_unique

TEXT, DONE = "fleet.sql.text", "fleet.sql.done"
EXAMPLE = """SELECT team, model, count(*) AS requests, sum(usd) AS usd, avg(fill) AS fill
FROM requests
WHERE counted
GROUP BY ALL
ORDER BY usd DESC NULLS LAST"""
LARGEST = 2**63 - 1


def draw(warehouse: Warehouse, _chosen: Selection) -> None:
    """The box, and what the query gave that was run last.

    Args:
        warehouse: the tables.
    """
    st.html(
        '<p class="fleet-hint">Tables: sessions, requests, decisions, findings, losses, tools, sources, in SQL of DuckDB. '
        f"One SELECT, which is stopped after {SECONDS:g} seconds or at {ROOM >> 30} GB of memory, and gives up to "
        f"{MOST_ROWS:,} rows. The filters above do not apply, and sums of requests need <code>WHERE counted</code>.</p>"
    )
    st.session_state.setdefault(TEXT, EXAMPLE)
    text = st.text_area("SQL", key=TEXT, height=160)
    fleet = warehouse.fleet
    if st.button("Run", key="fleet.sql.run", type="primary", icon=":material/play_arrow:"):
        st.session_state.pop(DONE, None)
        with st.spinner("Running the query"):
            try:
                sandbox = _connect(fleet.storage.make_url(fleet.storage.root), fleet.number, fleet)
                st.session_state[DONE] = sandbox.run(text)
            except TurnscopeError as error:
                widgets.draw_notice(error.what, error.hint)
    if result := st.session_state.get(DONE):
        _draw_result(result)
    with st.expander("Tables and columns", icon=":material/table:"):
        st.markdown(format_dictionary())


def _draw_result(result: Result) -> None:
    many = f"{len(result.rows):,} row{'' if len(result.rows) == 1 else 's'} in {result.seconds:.2f} s"
    with st.container(horizontal=True, vertical_alignment="center"):
        left = "" if result.whole else f"; there are more than {MOST_ROWS:,}, the others are left out"
        st.html(f'<p class="ts-empty" role="status">{many}{left}.</p>', width="stretch")
        st.download_button(
            "Rows as CSV",
            result.to_csv,
            "fleet-query.csv",
            "text/csv",
            key="fleet.sql.csv",
            icon=":material/download:",
            type="tertiary",
            on_click="ignore",
        )
    names = make_unique(dict(enumerate(result.columns)))
    table: dict[str, Sequence[object]] = {
        name: [_to_cell(row[number]) for row in result.rows] for number, name in names.items()
    }
    st.dataframe(table, key="fleet.sql.rows", hide_index=True, height="auto")


def _to_cell(value: Any) -> object:
    """A value as tables of the page take it."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, int) and abs(value) > LARGEST:
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str, date, datetime)) else str(value)


@st.cache_resource(max_entries=2, show_spinner=False)
def _connect(url: str, number: int, _fleet: Fleet) -> Sandbox:  # noqa: ARG001  what the cache goes by
    return Sandbox(_fleet)
