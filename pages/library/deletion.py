"""Deletes what is remembered of sessions."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from turnscope import TurnscopeError, library

from pages.library import indexing
from pages.library.rows import Row
from pages.parts import cache, url, widgets
from pages.parts.formats import escape


def draw(rows: Sequence[Row]) -> None:
    """Delete what is remembered: of all sessions, or of those that the filters leave."""
    store = cache.open_store()
    read = [row for row in rows if row.read and not library.get_chat_thread(row.path)]
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.popover("Forget sessions", icon=":material/delete:", key="library.forgetting"):
            hint = "What is remembered of them goes: counts, costs, and their words in the search."
            st.html(f'<div class="ts-small">{hint} Chats and session files are never touched.</div>')
            some = st.button(f"Forget the {len(read):,} listed", key="library.forget-listed", disabled=not read)
            every = st.button("Forget all of them", key="library.forget")
        if some or every:
            _forget_sessions(sorted({row.path for row in read}) if some else None)
        st.html(
            f'<div class="ts-empty">{store.measure_size() / 1e6:,.1f} MB remembered of them in {escape(store.path.parent)}. '
            "Chats and session files are never touched.</div>"
        )


def _forget_sessions(sources: Sequence[str] | None) -> None:
    """Of these sources, or of all (None). Nothing is indexed by itself afterwards, or it would all be known again."""
    indexing.stop_job()
    store = cache.open_store()
    try:
        indexing.set_automatic(value=False)
        if sources is None:
            store.delete()
        else:
            opened = {library.get_dropped_source(row.key): row.path for row in store.list_recent(url.NEWEST)}
            store.forget([*sources, *(opened[source] for source in sources if source in opened)])
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return
    st.cache_resource.clear()
    if sources is None:
        url.forget_session()
    st.rerun()
