"""Which tables are shown: those that the address names among the known ones, else those looked at last."""

from __future__ import annotations

import streamlit as st
from turnscope import TurnscopeError
from turnscope.fleet.dataset import Fleet, open_fleet
from turnscope.fleet.known_fleets import list_fleets, remember_fleet
from turnscope.fleet.warehouse import Warehouse

from pages.parts import cache, widgets
from pages.parts.formats import escape

URL, TYPED = "fleet.url", "fleet.typed"
SECONDS = 10  # for how long it is good enough to know which commit is the newest
COMMAND = "turnscope fleet ~/.claude/projects --out ~/fleet"


def open_warehouse() -> Warehouse | None:
    """The tables to show; None, with a word about what to do, where there are none."""
    try:
        known = list_fleets()
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        known = {}
    wanted = known.get(st.query_params.get("fleet", "")) or next(iter(known.values()), "")
    if not wanted:
        _draw_empty("No tables of a fleet are known here.")
        _draw_field("", expanded=True)
        return None
    try:
        fleet = _open(wanted, cache.find_period(SECONDS))
        if fleet.number:
            return _read(wanted, fleet.number, fleet)
        _draw_empty(f"There are no tables in {wanted} yet.")
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
    _draw_field(wanted, expanded=True)
    return None


def draw(warehouse: Warehouse) -> None:
    """Which tables are shown, and a way to others.

    Args:
        warehouse: the tables that are shown.
    """
    storage = warehouse.fleet.storage
    _draw_field(storage.make_url(storage.root), expanded=False)


def _draw_field(shown: str, *, expanded: bool) -> None:
    with st.expander("Which tables", icon=":material/database:", expanded=expanded):
        known = list(list_fleets().values())
        if known:
            picked = st.selectbox(
                "Known tables", known, index=known.index(shown) if shown in known else None, key=f"fleet.known.{shown}"
            )
            if picked and picked != shown:
                _show(picked)
        st.text_input(
            "Folder or URL of other tables",
            key=URL,
            placeholder="~/fleet or s3://bucket/fleet",
            on_change=_take_typed,
            help="The folder that `turnscope fleet` wrote to with `--out`.",
        )
        if typed := st.session_state.pop(TYPED, ""):
            _show(typed)


def _take_typed() -> None:
    """Take what was typed once: a field that keeps it would lead back to those tables later."""
    st.session_state[TYPED] = (st.session_state[URL] or "").strip().strip("\"'")
    st.session_state[URL] = ""


def _show(url: str) -> None:
    """Show other tables, where they can be opened."""
    try:
        fleet = open_fleet(url)
        if not fleet.number:
            widgets.draw_notice(f"There are no tables in {url}.", f"Fill them: `{COMMAND}`.")
            return
        st.query_params.from_dict({"fleet": remember_fleet(fleet)})
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return
    st.rerun()


def _draw_empty(what: str) -> None:
    st.html(
        f'<div class="ts-card" role="status"><b>{escape(what)}</b><p>Tables hold what many sessions cost and filled, '
        "without their text. This command fills them, from this machine or from object storage:</p></div>"
    )
    st.code(COMMAND, language=None)


@st.cache_resource(max_entries=4, show_spinner=False)
def _open(url: str, period: int) -> Fleet:  # noqa: ARG001  what the cache goes by
    return open_fleet(url)


@st.cache_resource(max_entries=2, show_spinner="Reading the tables")
def _read(url: str, number: int, _fleet: Fleet) -> Warehouse:  # noqa: ARG001  what the cache goes by
    return Warehouse(_fleet)
