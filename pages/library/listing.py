"""Lists of sessions: to drop a file on, samples, those opened before, those found; and the notes of the import."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

import streamlit as st
from turnscope import TurnscopeError, library

from pages.library import indexing, sessions
from pages.parts import cache, cards, opening, registry, shell, url, widgets
from pages.parts.formats import esc, short, when

if TYPE_CHECKING:
    from streamlit.elements.lib.column_types import ColumnConfig

MOST_NOTES = 100
STORIES = {
    "tool-results-eat-the-window": "Tool results eat the window",
    "chat-forgets-first-instruction": "A chat forgets its first instruction",
    "thinking-grows": "Thinking grows until it is half of the prompt",
    "cache-goes-cold": "A cache goes cold, and the bill grows",
}
FILE_COLUMNS: dict[str, ColumnConfig] = {
    "Size": st.column_config.NumberColumn(format="%.2f MB"),
    "Modified": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm"),
}
T = TypeVar("T")


def upload() -> None:
    """Open a file that is dropped or chosen, or one of the samples."""
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.html('<h2 class="ts-section">Open a session</h2>')
        dropped = st.file_uploader(
            "Drop a session file of any tool: a log, an export, a trace, a zip, a database", key="library.file"
        )
        if dropped is not None and st.session_state.get("library.last") != dropped.file_id:
            st.session_state["library.last"] = dropped.file_id
            _open_bytes(dropped.name, dropped.getvalue())
        _by_path()
    with right:
        st.html('<h2 class="ts-section">Samples</h2>')
        with st.container(gap=None):
            for entry in cache.entries().values():
                if entry.origin == "sample":
                    label = STORIES.get(entry.id, entry.id.replace("-", " ").capitalize())
                    key = f"library.sample.{entry.id}"
                    if st.button(label, key=key, type="tertiary", icon=":material/play_circle:"):
                        show(entry.id)


def _by_path() -> None:
    """Open what a path names: a file at once, a folder as a list of what can be opened in it."""
    typed = st.text_input("Or type the path of a file or a folder", key="library.path", placeholder="~/logs/session.jsonl")
    text = (typed or "").strip().strip("\"'")
    if not text:
        return
    path = Path(text).expanduser()
    try:
        path = path.resolve()
        if path.is_dir() and not registry.is_session(path):
            _folder(path)
        elif st.session_state.get("library.path.last") != text:
            st.session_state["library.path.last"] = text
            _open_path(path)
        else:
            st.button("Open it again", key="library.path.again", type="tertiary", on_click=_again)
    except (OSError, RuntimeError, ValueError) as error:
        widgets.notice(f"{short(text, 200)} cannot be read: {error}.", "Check the path and its permissions.")


def _again() -> None:
    st.session_state.pop("library.path.last", None)


def _open_path(path: Path) -> None:
    """Open a file where it lies; it stays there, and is followed when it grows."""
    bar = st.progress(0.0, "Opening")
    try:
        found = cache.store().open(path, name=path.name, progress=lambda what, share: bar.progress(min(1.0, share), what))
    except TurnscopeError as error:
        widgets.notice(error.what, error.hint)
        return
    finally:
        bar.empty()
    show(next((id for id, entry in cache.entries().items() if entry.path == path), found.key[:16]))


def _folder(path: Path) -> None:
    """What can be opened in a folder; a click on a line opens it."""
    entries, whole = registry.inside(path)
    if not entries:
        looked = "No session was found in it" if whole else "No session was found in the part of it that was looked through"
        kinds = ", ".join(sorted(library.find_suffixes()))
        widgets.notice(f"{path} holds nothing to open.", f"{looked}; looked for files that end in {kinds}.")
        return
    table: dict[str, Sequence[object]] = {
        "File": [entry.name for entry in entries],
        "Folder": [str(Path(path.name, entry.path.parent.relative_to(path))) for entry in entries],
        "Size": [entry.size / 1e6 for entry in entries],
        "Modified": [when(entry.modified) for entry in entries],
    }
    picked = st.dataframe(
        table, key="library.inside-folder", column_config=FILE_COLUMNS, hide_index=True, on_select="rerun",
        selection_mode="single-row", height="auto",
    )["selection"]["rows"]  # fmt: skip
    indexing.folder(path)
    told = f"{len(entries):,} to open" + ("" if whole else "; the folder is large, and not all of it was looked through")
    st.html(f'<div class="ts-empty">{told}.</div>')
    if picked and 0 <= picked[0] < len(entries):
        _open_path(entries[picked[0]].path)


def show(entry_id: str) -> NoReturn:
    """Go to the envelope of a session."""
    url.choose(entry_id)
    st.switch_page(shell.page("envelope"), query_params={"session": entry_id})


def _open_bytes(name: str, data: bytes) -> None:
    """Open uploaded bytes. The store keeps the session, so the file itself is not kept."""
    bar = st.progress(0.0, "Opening")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"upload{Path(name).suffix[:8]}"
        path.write_bytes(data)
        try:
            opened, left = opening.adopt(name, path, lambda what, share: bar.progress(min(1.0, share), what))
        except TurnscopeError as error:
            widgets.notice(error.what.replace(path.name, name), error.hint)
            return
        finally:
            bar.empty()
    if left:
        what = f"{name} holds {left:,} more conversations than are kept of a file that is dropped here."
        widgets.notice(what, f"Those opened are listed below. For the others start `turnscope PATH-OF-{name}`.")
    else:
        show(opened)


def conversations(shown: opening.Shown) -> None:
    """The conversations of the file that is open, where it holds several; none is read before it is chosen."""
    held = cache.conversations(shown.entry)
    if len(held.listed) < 2:
        return
    rows = _filtered(f"In {shown.entry.name}"[:80], "library.inside", [*held.listed], lambda entry: f"{entry.title} {entry.id}")
    table: dict[str, Sequence[object]] = {
        "Title": [entry.title or entry.id for entry in rows],
        "Requests": [entry.requests or None for entry in rows],
        "Time": [when(entry.at) for entry in rows],
    }
    columns = {
        "Title": st.column_config.TextColumn(width="large"),
        "Time": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm"),
    }
    _table("library.conversations", table, columns, [shown.entry.of(entry.id).id for entry in rows])
    if held.rest:
        st.html(f'<div class="ts-empty">The first {len(held.listed):,} are listed, {held.rest}.</div>')


def _filtered(title: str, key: str, rows: list[T], text: Callable[[T], str]) -> list[T]:
    """A heading with a filter beside it; the rows that hold every word of the filter."""
    with st.container(horizontal=True, vertical_alignment="bottom", key=f"{key}.head"):
        st.html(f'<h2 class="ts-section">{title}</h2>', width="stretch")
        wanted = st.text_input("Filter", key=key, placeholder="Filter", label_visibility="collapsed", width=220)
    words = (wanted or "").casefold().split()
    return [row for row in rows if all(word in text(row).casefold() for word in words)]


def _table(key: str, table: Mapping[str, Sequence[object]], columns: Mapping[str, ColumnConfig], ids: Sequence[str]) -> None:
    """A sortable table; choosing a row opens that session."""
    chosen = st.dataframe(
        table, key=key, column_config=columns, hide_index=True, on_select="rerun", selection_mode="single-row",
        height="auto",
    )  # fmt: skip
    picked = chosen["selection"]["rows"]
    if picked and 0 <= picked[0] < len(ids):
        show(ids[picked[0]])


def notes(shown: opening.Shown) -> None:
    """What the import met in the session that is open, by severity."""
    order = ("error", "warning", "info")
    listed = sorted(shown.opened.session.notes, key=lambda note: order.index(note.severity))
    body = "".join(
        f'<div class="ts-note"><span class="{note.severity}">{note.severity}</span>'
        f'<span class="ts-num ts-faint">{f"line {note.line:,}" if note.line else "file"}</span>'
        f"<span>{esc(note.what)}</span></div>"
        for note in listed[:MOST_NOTES]
    )
    more = f"{len(listed):,} note{'' if len(listed) == 1 else 's'}" + (
        f", the first {MOST_NOTES} shown" if len(listed) > MOST_NOTES else ""
    )
    name = f"Import notes of {shown.view.title or shown.entry.name}"
    st.html(cards.panel(name[:120], body or '<div class="ts-empty">Everything in the file was understood.</div>', more))


def forget(rows: Sequence[sessions.Row]) -> None:
    """Delete what is remembered: of all sessions, or of those that the filters leave."""
    store = cache.store()
    read = [row for row in rows if row.read and not library.get_chat_thread(row.path)]
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.popover("Forget sessions", icon=":material/delete:", key="library.forgetting"):
            told = "What is remembered of them goes: counts, costs, and their words in the search."
            st.html(f'<div class="ts-small">{told} Chats and session files are never touched.</div>')
            some = st.button(f"Forget the {len(read):,} listed", key="library.forget-listed", disabled=not read)
            every = st.button("Forget all of them", key="library.forget")
        if some or every:
            _forget(sorted({row.path for row in read}) if some else None)
        st.html(
            f'<div class="ts-empty">{store.measure_size() / 1e6:,.1f} MB remembered of them in {esc(store.path.parent)}. '
            "Chats and session files are never touched.</div>"
        )


def _forget(sources: Sequence[str] | None) -> None:
    """Of these sources, or of all (None)."""
    indexing.stop()
    store = cache.store()
    try:
        store.delete() if sources is None else store.forget(sources)
    except TurnscopeError as error:
        widgets.notice(error.what, error.hint)
        return
    st.cache_resource.clear()
    if sources is None:
        url.forget()
    st.rerun()
