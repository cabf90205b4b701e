"""Search through all indexed sessions: what was found, its words marked; a click leads to the block in its request."""

from __future__ import annotations

import time
from pathlib import Path

import streamlit as st
from turnscope import TurnscopeError
from turnscope.library import index_queries
from turnscope.numbering import format_request

from pages.parts import cache, marked, opening, request, shell, url, widgets
from pages.parts.formats import shorten


def draw(text: str) -> None:
    """A page of hits.

    Args:
        text: what is searched for.
    """
    index = cache.open_store().index_path
    key = f"library.hits.{text}"
    try:
        count, hits, is_all = index_queries.search(index, text, int(st.session_state.get(key, 0)))
    except TurnscopeError as error:
        widgets.draw_notice(error.what.capitalize() + ".", error.hint)
        return
    if not count:
        many = len(index_queries.list_sessions(index))
        hint = f"{many:,} sessions are indexed." if many else "Nothing is indexed yet: the button above does that."
        st.html(f'<div class="ts-empty">No text holds this. {hint}</div>')
        return
    st.html('<h2 class="ts-section">Found in messages</h2>')
    with st.container(gap=None, key="library-hits"):
        for n, hit in enumerate(hits):
            _draw_hit(n, hit)
    what = "blocks" if is_all else "blocks at least"
    widgets.draw_pager(key, count, index_queries.PAGE_HITS, widgets.find_page_start(key, count, index_queries.PAGE_HITS), what)


def _draw_hit(n: int, hit: index_queries.Hit) -> None:
    part = "" if not hit.part else " · branch or subagent"
    where = f"{shorten(hit.title or Path(hit.path).name, 60)} · request {format_request(hit.request)} · block {hit.at:,}{part}"
    with st.container(gap=None, key=f"library.hit.{n}.line"):
        if st.button(where, key=f"library.hit.{n}", type="tertiary", icon=":material/arrow_forward:"):
            _open_hit(hit)
        st.html(f'<div class="ts-hit">{marked.render_hit(hit)}</div>')


def _open_hit(hit: index_queries.Hit) -> None:
    """Open the session at the request, with the block chosen in its transcript."""
    file = cache.find_entry_at(hit.path)
    if file is None:
        widgets.draw_notice("This file is not known here any more.", "Index its folder again.")
        return
    entry = file.select(hit.entry) if hit.entry else file
    try:
        with st.spinner("Opening"):
            shown = opening.open_session(entry, hit.part)
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return
    url.choose_session(entry.id, hit.part)
    request.choose_block(shown, hit.at, f"hit {time.time_ns()}")
    where = {"session": entry.id, "request": str(hit.request)} | ({"part": str(hit.part)} if hit.part else {})
    where |= {"pane": "transcript", "block": str(hit.at)}
    st.switch_page(shell.find_page("envelope"), query_params=where)
