"""Where a text appears in all indexed sessions; a hit leads to its block in its session."""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from turnscope import TurnscopeError
from turnscope.library import index_queries
from turnscope.numbering import format_request

from pages.parts import cache, marked, shell, widgets
from pages.parts.formats import escape, shorten


def draw(text: str) -> None:
    """A page of the hits.

    Args:
        text: what is searched for.
    """
    index = cache.open_store().index_path
    sessions = len(index_queries.list_sessions(index))
    if not text or not sessions:
        hint = 'Type words, parts of identifiers, or "words together" above.' if sessions else "Nothing is indexed yet."
        st.html(f'<div class="ts-empty">{escape(hint)}</div>')
        st.page_link(shell.find_page("library"), label="Sessions of the library", icon=":material/folder_open:")
        return
    key = f"search.hits.{text}"
    try:
        count, hits, is_all = index_queries.search(index, text, int(st.session_state.get(key, 0)))
    except TurnscopeError as error:
        widgets.draw_notice(error.what[:1].upper() + error.what[1:] + ".", error.hint)
        return
    least = "" if is_all else " at least"
    found = f"{count:,} block{'' if count == 1 else 's'}{least} of {sessions:,} indexed sessions."
    st.html(f'<div class="ts-small ts-faint" role="status">{found if count else "Nothing was found."}</div>')
    with st.container(gap=None, key="search-hits"):
        for n, hit in enumerate(hits):
            _draw_hit(n, hit, text)
    if count:
        size = index_queries.PAGE_HITS
        widgets.draw_pager(key, count, size, widgets.find_page_start(key, count, size), "blocks")


def _draw_hit(n: int, hit: index_queries.Hit, text: str) -> None:
    part = " · branch or subagent" if hit.part else ""
    where = f"{shorten(hit.title or Path(hit.path).name, 60)} · request {format_request(hit.request)} · block {hit.at:,}{part}"
    with st.container(gap=None, key=f"search.hit.{n}.line"):
        if st.button(where, key=f"search.hit.{n}", type="tertiary", icon=":material/arrow_forward:"):
            _show_block(hit, text)
        st.html(f'<div class="ts-hit">{marked.render_hit(hit)}</div>')


def _show_block(hit: index_queries.Hit, text: str) -> None:
    """This page again, for the session of the hit with its block chosen."""
    file = cache.find_entry_at(hit.path)
    if file is None:
        widgets.draw_notice("This file is not known here any more.", "Index its folder again.")
        return
    entry = file.select(hit.entry) if hit.entry else file
    where = {"session": entry.id, "request": str(hit.request)} | ({"part": str(hit.part)} if hit.part else {})
    st.switch_page(shell.find_page("search"), query_params={**where, "q": text, "block": str(hit.at)})
