"""Every session that is known, in one list: found by its metadata, opened before, or indexed. Filters, order, a page of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

import streamlit as st

if TYPE_CHECKING:
    from streamlit.elements.lib.column_types import ColumnConfig

from turnscope import TurnscopeError
from turnscope.library import CatalogueRow, get_chat_source, get_tool_title, index_queries, is_current

from pages.parts import cache, url, widgets
from pages.parts.formats import to_datetime
from pages.parts.registry import Entry

PAGE = 50
CHOICES = 200  # tools, models or projects in one list; the others are found by typing
TABLE = "library.sessions"
ORDERS: Mapping[str, Callable[[Row], object]] = {
    "Newest": lambda row: -(row.at or 0),
    "Oldest": lambda row: row.at or 0,
    "Dearest": lambda row: -(row.usd if row.usd is not None else -1),
    "Most requests": lambda row: -row.requests,
    "Fullest": lambda row: -row.fill,
    "Most truncations": lambda row: -row.cuts,
    "Largest file": lambda row: -row.size,
    "Title": lambda row: row.title.casefold(),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A session in the list. What is not `read` yet is known by its metadata alone: no model, cost, or count of requests."""

    id: str
    path: str
    name: str
    title: str
    tool: str
    project: str
    size: int
    at: float | None
    read: bool = False
    models: str = ""
    requests: int = 0
    fill: float = 0.0
    usd: float | None = None
    cuts: int = 0

    @property
    def words(self) -> str:
        """What a filter looks through."""
        return f"{self.title} {self.name} {self.tool} {self.project} {self.models}".casefold()


def list_rows() -> tuple[Row, ...]:
    """All of them. StorageError where what is remembered cannot be read."""
    store, entries = cache.open_store(), cache.list_entries()
    version = index_queries.read_version(store.index_path)
    opened = store.list_recent(url.NEWEST)
    return _build_rows(
        entries, cache.list_index_rows(str(store.index_path), version), opened, (tuple(entries), version, opened)
    )


@st.cache_resource(max_entries=2, show_spinner=False)
def _build_rows(
    _entries: Mapping[str, Entry],
    _lines: Sequence[index_queries.IndexRow],
    _opened: Sequence[CatalogueRow],
    version: object,  # noqa: ARG001
) -> tuple[Row, ...]:
    files = {_get_index_path(entry): entry for entry in _entries.values() if entry.origin != "recent"}
    recent = {entry.key: entry for entry in _entries.values() if entry.origin == "recent"}
    found: dict[tuple[str, str], Row] = {}
    for line in _lines:
        if entry := files.get(line.path):
            found[line.path, line.entry] = _build_indexed_row(entry.select(line.entry) if line.entry else entry, line)
    for one in _opened:
        entry = files.get(one.path) or recent.get(one.key)
        if entry and (one.path, one.entry) not in found:
            found[one.path, one.entry] = _build_recent_row(entry.select(one.entry) if one.path in files else entry, one)
    taken = {path for path, _ in found}
    rest = (entry for path, entry in files.items() if path not in taken and entry.origin not in ("sample", "chat"))
    return (*found.values(), *map(_build_found_row, rest))


def _get_index_path(entry: Entry) -> str:
    """As the index knows it."""
    return get_chat_source(entry.key) if entry.origin == "chat" else str(entry.path)


def _build_indexed_row(entry: Entry, line: index_queries.IndexRow) -> Row:
    fill = line.peak / line.window if line.window else 0.0
    return Row(
        entry.id,
        line.path,
        line.name,
        line.title or line.name or entry.name,
        line.tool,
        line.project,
        line.size,
        line.ended,
        True,
        line.models,
        line.requests,
        fill,
        line.usd,
        line.cuts,
    )


def _build_recent_row(entry: Entry, one: CatalogueRow) -> Row:
    if not is_current(one):  # what was found by another reading, or at other prices, is not shown as if it were so now
        return replace(_build_found_row(entry), path=one.path, title=one.title, size=one.size, at=one.started or one.opened)
    usd = float(one.usd) if one.usd is not None else None
    fill = one.peak / one.window if one.window else 0.0
    return Row(
        entry.id,
        one.path,
        one.name,
        one.title or one.name,
        entry.tool or get_tool_title(one.source),
        entry.folder,
        one.size,
        one.started or one.opened,
        True,
        one.models,
        one.requests,
        fill,
        usd,
        one.cuts,
    )


def _build_found_row(entry: Entry) -> Row:
    return Row(entry.id, str(entry.path), entry.name, "", entry.tool, entry.folder, entry.size, entry.modified)


def draw(show: Callable[[str], object]) -> tuple[Row, ...]:
    """The list; `show` is called with the id of a row that is chosen. Gives the rows that the filters leave."""
    try:
        every = list_rows()
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return ()
    st.html('<h2 class="ts-section">Sessions</h2>')
    if not every:
        st.html(
            '<div class="ts-empty">None yet: no tool that is known keeps sessions on this machine where it usually does. '
            "Open a file or a folder above.</div>"
        )
        return ()
    left = _filter_rows(every)
    key = "library.start"
    begin = widgets.find_page_start(key, len(left), PAGE)
    ids = [row.id for row in left[begin : begin + PAGE]]
    picked = st.dataframe(
        _build_table(left[begin : begin + PAGE]),
        key=f"{TABLE}.{begin}",
        column_config=_build_columns(),
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        height="auto",
        placeholder="",
    )["selection"]["rows"]
    unread = sum(not row.read for row in left)
    widgets.draw_pager(key, len(left), PAGE, begin, "sessions" + (f"; {unread:,} not read yet" if unread else ""))
    if picked and 0 <= picked[0] < len(ids):
        show(ids[picked[0]])
    return left


def _filter_rows(every: Sequence[Row]) -> tuple[Row, ...]:
    """The rows that the filters leave, in the order that is chosen."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="library.filters"):
        text = st.text_input("Filter", key="library.filter", placeholder="Title, file, project", width=200)
        tool = _draw_choice("Tool", "library.tool", (row.tool for row in every))
        model = _draw_choice("Model", "library.model", (model for row in every for model in row.models.split(", ")))
        project = _draw_choice("Project", "library.project", (row.project for row in every))
        days = st.date_input("From, to", [], key="library.days", format="YYYY-MM-DD", width=240)
        least = st.number_input("Cost from $", 0.0, None, None, key="library.least", placeholder="any", width=110)
        most = st.number_input("to $", 0.0, None, None, key="library.most", placeholder="any", width=110)
        order = st.selectbox("Sort", list(ORDERS), key="library.order", width=150)
        cut = st.toggle("Truncated", key="library.cut", help="Only sessions in which something was taken out of the window")
    words = (text or "").casefold().split()
    first, last = _split_dates(days)
    found = [
        row
        for row in every
        if (not tool or row.tool == tool)
        and (not project or row.project == project)
        and (not model or model in row.models.split(", "))
        and (least is None or (row.usd is not None and row.usd >= least))
        and (most is None or (row.usd is not None and row.usd <= most))
        and (not cut or row.cuts > 0)
        and (first is None or first <= _get_day(row) <= last)
        and all(word in row.words for word in words)
    ]
    return tuple(sorted(found, key=ORDERS[order or "Newest"]))  # type: ignore[arg-type]


def _draw_choice(label: str, key: str, names: Iterable[str]) -> str:
    """One of the names that occur, the most frequent first; "" = any."""
    many: dict[str, int] = {}
    for name in names:
        if name:
            many[name] = many.get(name, 0) + 1
    listed = sorted(many, key=lambda name: -many[name])[:CHOICES]
    return st.selectbox(label, listed, index=None, key=key, placeholder="Any", width=170) or ""


def _split_dates(days: object) -> tuple[date | None, date]:
    """From a date to a date, both included; the second is today until it is chosen."""
    chosen = [day for day in days if isinstance(day, date)] if isinstance(days, tuple) else []
    return (chosen[0] if chosen else None), (chosen[1] if len(chosen) > 1 else date.max)


def _get_day(row: Row) -> date:
    at = to_datetime(row.at)
    return at.date() if at else date.min


def _build_table(listed: Sequence[Row]) -> dict[str, Sequence[object]]:
    return {
        "Title": [row.title or row.name for row in listed],
        "Tool": [row.tool for row in listed],
        "Project": [row.project for row in listed],
        "Model": [row.models for row in listed],
        "Requests": [row.requests or None for row in listed],
        "Peak fill": [100 * row.fill if row.read and row.fill else None for row in listed],
        "Cost": [row.usd for row in listed],
        "Truncated": [row.cuts if row.read else None for row in listed],
        "Time": [to_datetime(row.at) for row in listed],
        "Size": [row.size / 1e6 for row in listed],
        "File": [row.name for row in listed],
    }


def _build_columns() -> dict[str, ColumnConfig]:
    return {
        "Title": st.column_config.TextColumn(width="large"),
        "Peak fill": st.column_config.ProgressColumn(format="%.0f%%", min_value=0, max_value=100),
        "Cost": st.column_config.NumberColumn(format="$%.2f"),
        "Time": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm"),
        "Size": st.column_config.NumberColumn(format="%.2f MB"),
    }
