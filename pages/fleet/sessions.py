"""The sessions that are worth opening, each with its reason; a row opens its session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st
from turnscope import TurnscopeError
from turnscope.fleet.notable_sessions import TITLES, NotableSession, find_sessions
from turnscope.fleet.source_files import fetch_source
from turnscope.fleet.warehouse import Selection, Warehouse

from pages.parts import cache, registry, shell, url, widgets
from pages.parts.formats import shorten

if TYPE_CHECKING:
    from streamlit.elements.lib.column_types import ColumnConfig

MOST = 8  # of a kind
OPENED = "fleet.opened"  # in the session state: key of the table and row that was opened last
COLUMNS: dict[str, ColumnConfig] = {
    "Reason": st.column_config.TextColumn(width="large"),
    "Cost": st.column_config.NumberColumn(format="$%,.2f"),
    "Requests": st.column_config.NumberColumn(format="localized"),
    "Day": st.column_config.DateColumn(format="YYYY-MM-DD"),
}


def draw(warehouse: Warehouse, chosen: Selection) -> None:
    """The table.

    Args:
        warehouse: the tables.
        chosen: what is looked at.
    """
    found = [one for kind in find_sessions(warehouse, chosen, MOST).values() for one in kind]
    if not found:
        st.html('<p class="ts-empty">No session began on these days.</p>')
        return
    st.html(
        '<p class="ts-empty">Sessions that stand out, the strongest of each kind first. Choose a row to open the session; '
        "one that lies in object storage is copied to this machine first.</p>"
    )
    table: dict[str, Sequence[object]] = {
        "Why": [TITLES[one.kind] for one in found],
        "Reason": [one.reason for one in found],
        "Cost": [None if one.usd is None else float(one.usd) for one in found],
        "Requests": [one.requests for one in found],
        "Day": [one.day for one in found],
        "Team": [one.team for one in found],
        "Project": [one.project for one in found],
        "Person": [one.person for one in found],
        "Tool": [one.tool for one in found],
        "Model": [one.models for one in found],
        "Session": [one.title or shorten(one.source, 60, "tail") for one in found],
    }
    key = f"fleet.sessions.{hash(tuple(one.session for one in found))}"
    picked = st.dataframe(
        table, key=key, column_config=COLUMNS, hide_index=True, on_select="rerun", selection_mode="single-row", height="content"
    )["selection"]["rows"]
    if not picked:
        st.session_state.pop(OPENED, None)
    elif picked[0] < len(found) and st.session_state.get(OPENED) != (key, picked[0]):
        st.session_state[OPENED] = key, picked[0]
        _open(found[picked[0]])


def _open(one: NotableSession) -> None:
    """Go to the envelope of a session; a notice where its file cannot be had."""
    bar = st.progress(0.0, "Opening")
    try:
        path = fetch_source(one.source, lambda share: bar.progress(share, "Copying"))
        opened = cache.open_store().open(
            path, name=path.name, entry=one.entry, progress=lambda what, share: bar.progress(min(1.0, share), what)
        )
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return
    finally:
        bar.empty()
    file = next((entry.file for entry in cache.list_entries().values() if entry.path == path), opened.key[:16])
    wanted = f"{file}{registry.BETWEEN}{one.entry}" if one.entry else file
    request = one.request if one.kind == "full" and one.request >= 0 else None
    url.choose_session(wanted, request=request)
    more = {} if request is None else {"request": str(request)}
    st.switch_page(shell.find_page("envelope"), query_params={"session": wanted} | more)
