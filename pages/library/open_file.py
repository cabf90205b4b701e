"""The file that is open: the conversations in it, and what the import met in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import streamlit as st
from turnscope.library.transcripts import report_unlogged
from turnscope.views.log_facts import list_log_facts

from pages.library import upload
from pages.parts import cache, cards, opening
from pages.parts.formats import escape, to_datetime

if TYPE_CHECKING:
    from streamlit.elements.lib.column_types import ColumnConfig
    from turnscope import Session
    from turnscope.views.wire_report import WireReport

MOST_NOTES = 100
TAP = "tap"  # source of sessions that passed the tap
REPORT_SECONDS = 60  # after which the tool's log is looked for again: it grows, too
T = TypeVar("T")


def draw_conversations(shown: opening.ShownSession) -> None:
    """The conversations of the file that is open, where it holds several; none is read before it is chosen."""
    conversations = cache.list_conversations(shown.entry)
    if len(conversations.listed) < 2:
        return
    rows = _filter_rows(
        f"In {shown.entry.name}"[:80], "library.inside", [*conversations.listed], lambda entry: f"{entry.title} {entry.id}"
    )
    table: dict[str, Sequence[object]] = {
        "Title": [entry.title or entry.id for entry in rows],
        "Requests": [entry.requests or None for entry in rows],
        "Time": [to_datetime(entry.at) for entry in rows],
    }
    columns = {
        "Title": st.column_config.TextColumn(width="large"),
        "Time": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm"),
    }
    _draw_table("library.conversations", table, columns, [shown.entry.select(entry.id).id for entry in rows])
    if conversations.rest:
        st.html(f'<div class="ts-empty">The first {len(conversations.listed):,} are listed, {conversations.rest}.</div>')


def _filter_rows(title: str, key: str, rows: list[T], text: Callable[[T], str]) -> list[T]:
    """A heading with a filter next to it; the rows that hold every word of the filter."""
    with st.container(horizontal=True, vertical_alignment="bottom", key=f"{key}.head"):
        st.html(f'<h2 class="ts-section">{title}</h2>', width="stretch")
        wanted = st.text_input("Filter", key=key, placeholder="Filter", label_visibility="collapsed", width=220)
    words = (wanted or "").casefold().split()
    return [row for row in rows if all(word in text(row).casefold() for word in words)]


def _draw_table(
    key: str, table: Mapping[str, Sequence[object]], columns: Mapping[str, ColumnConfig], ids: Sequence[str]
) -> None:
    """A sortable table; choosing a row opens that session."""
    chosen = st.dataframe(
        table,
        key=key,
        column_config=columns,
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        height="auto",
    )
    picked = chosen["selection"]["rows"]
    if picked and 0 <= picked[0] < len(ids):
        upload.show_session(ids[picked[0]])


def draw_log_facts(shown: opening.ShownSession) -> None:
    """What the log says of the session that is open besides its messages, as it names it; nothing where it says nothing."""
    facts = list_log_facts(shown.opened.session)
    if not facts:
        return
    body = "".join(
        f'<div class="ts-note ts-fact"><span class="ts-faint">{escape(name)}</span><span>{escape(value)}</span></div>'
        for name, value in facts
    )
    st.html(cards.render_panel("What the log says of the session", body, f"{len(facts):,} entries"))


def draw_unlogged(shown: opening.ShownSession) -> None:
    """What the tool's own log does not tell of a session that passed the tap; nothing where that log is not found."""
    session = shown.opened.session
    if session.source != TAP:
        return
    report = _report_unlogged(session.id, cache.read_version(shown.entry), session)
    if report is None:
        return
    body = "".join(
        f'<div class="ts-note ts-fact"><span class="ts-faint">{escape(report.tool)}</span><span>{escape(text)}</span></div>'
        for text in report.sentences
    )
    title = "What the tool's own log does not tell of this session"
    count = f"{report.logged:,} of {report.requests:,} requests in it"
    st.html(cards.render_panel(title, body or '<div class="ts-empty">It tells all that was sent.</div>', count))


@st.cache_data(max_entries=8, ttl=REPORT_SECONDS, show_spinner=False)
def _report_unlogged(id: str, version: str, _session: Session) -> WireReport | None:  # noqa: ARG001  what the cache goes by
    return report_unlogged(_session)


def draw_notes(shown: opening.ShownSession) -> None:
    """What the import met in the session that is open, by severity."""
    order = ("error", "warning", "info")
    listed = sorted(shown.opened.session.notes, key=lambda note: order.index(note.severity))
    body = "".join(
        f'<div class="ts-note"><span class="{note.severity}">{note.severity}</span>'
        f'<span class="ts-num ts-faint">{f"line {note.line:,}" if note.line else "file"}</span>'
        f"<span>{escape(note.what)}</span></div>"
        for note in listed[:MOST_NOTES]
    )
    more = f"{len(listed):,} note{'' if len(listed) == 1 else 's'}" + (
        f", the first {MOST_NOTES} shown" if len(listed) > MOST_NOTES else ""
    )
    name = f"Import notes of {shown.view.title or shown.entry.name}"
    st.html(cards.render_panel(name[:120], body or '<div class="ts-empty">Everything in the file was understood.</div>', more))
