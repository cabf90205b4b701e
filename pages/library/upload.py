"""Ways to open a session: a file that is dropped, a sample, the path of a file or of a folder."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import streamlit as st
from turnscope import TurnscopeError, library

from pages.library import indexing
from pages.parts import cache, opening, registry, shell, url, widgets
from pages.parts.formats import shorten, to_datetime

if TYPE_CHECKING:
    from streamlit.elements.lib.column_types import ColumnConfig

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


def draw() -> None:
    """Open a file that is dropped or chosen, one that a path names, or one of the samples."""
    st.html('<h2 class="ts-section">Open a session</h2>')
    left, middle, right = st.columns(3, gap="medium")
    with left:
        dropped = st.file_uploader("Drop a file of any tool: log, export, trace, zip, database", key="library.file")
        if dropped is not None and st.session_state.get("library.last") != dropped.file_id:
            st.session_state["library.last"] = dropped.file_id
            _open_bytes(dropped.name, dropped.getvalue())
    with middle:
        folder = _draw_path_field()
    with right:
        st.html('<div class="ts-small">Or look at a sample</div>')
        with st.container(gap=None, key="library-stories"):
            for entry in cache.list_entries().values():
                if entry.origin == "sample":
                    label = STORIES.get(entry.id, entry.id.replace("-", " ").capitalize())
                    key = f"library.sample.{entry.id}"
                    if st.button(label, key=key, type="tertiary", icon=":material/play_circle:"):
                        show_session(entry.id)
    if folder:
        _draw_folder(folder)


def _draw_path_field() -> Path | None:
    """Open the file that a path names. Gives a folder, for a list of what can be opened in it."""
    typed = st.text_input("Or type the path of a file or a folder", key="library.path", placeholder="~/logs/session.jsonl")
    text = (typed or "").strip().strip("\"'")
    if not text:
        return None
    try:
        path = library.parse_path(text)
        if path.is_dir() and not registry.is_session(path):
            return path
        if st.session_state.get("library.path.last") != text:
            st.session_state["library.path.last"] = text
            open_path(path)
        else:
            st.button("Open it again", key="library.path.again", type="tertiary", on_click=_forget_path)
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
    except OSError as error:
        widgets.draw_notice(f"{shorten(text, 200)} cannot be read: {error.strerror}.", "Check the path and its permissions.")
    return None


def _forget_path() -> None:
    st.session_state.pop("library.path.last", None)


def open_path(path: Path) -> None:
    """Open a file where it lies; it stays there, and is followed when it grows."""
    bar = st.progress(0.0, "Opening")
    try:
        found = cache.open_store().open(path, name=path.name, progress=lambda what, share: bar.progress(min(1.0, share), what))
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return
    finally:
        bar.empty()
    show_session(next((id for id, entry in cache.list_entries().items() if entry.path == path), found.key[:16]))


def _draw_folder(path: Path) -> None:
    """What can be opened in a folder; a click on a line opens it."""
    entries, whole = registry.list_folder(path)
    if not entries:
        looked = "No session was found in it" if whole else "No session was found in the part of it that was looked through"
        kinds = ", ".join(sorted(library.find_suffixes()))
        widgets.draw_notice(f"{path} holds nothing to open.", f"{looked}; looked for files that end in {kinds}.")
        return
    table: dict[str, Sequence[object]] = {
        "File": [entry.name for entry in entries],
        "Folder": [str(Path(path.name, entry.path.parent.relative_to(path))) for entry in entries],
        "Size": [entry.size / 1e6 for entry in entries],
        "Modified": [to_datetime(entry.modified) for entry in entries],
    }
    picked = st.dataframe(
        table,
        key="library.inside-folder",
        column_config=FILE_COLUMNS,
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        height="auto",
    )["selection"]["rows"]
    indexing.draw_folder_button(path)
    label = f"{len(entries):,} session{'' if len(entries) == 1 else 's'} found" + (
        "" if whole else "; the folder is large, and not all of it was looked through"
    )
    st.html(f'<div class="ts-empty">{label}.</div>')
    if picked and 0 <= picked[0] < len(entries):
        open_path(entries[picked[0]].path)


def show_session(entry_id: str) -> NoReturn:
    """Go to the envelope of a session."""
    url.choose_session(entry_id)
    st.switch_page(shell.find_page("envelope"), query_params={"session": entry_id})


def _open_bytes(name: str, data: bytes) -> None:
    """Open uploaded bytes. The store keeps the session, so the file itself is not kept."""
    bar = st.progress(0.0, "Opening")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"upload{Path(name).suffix[:8]}"
        path.write_bytes(data)
        try:
            opened, left = opening.adopt_file(name, path, lambda what, share: bar.progress(min(1.0, share), what))
        except TurnscopeError as error:
            widgets.draw_notice(error.what.replace(path.name, name), error.hint)
            return
        finally:
            bar.empty()
    if left:
        what = f"{name} holds {left:,} more conversations than are kept of a file that is dropped here."
        widgets.draw_notice(what, f"Those opened are listed below. For the others start `turnscope PATH-OF-{name}`.")
    else:
        show_session(opened)
