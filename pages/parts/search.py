"""The search of the header: a text or a pattern, by role and tool, in the whole session or in what one request saw."""

from __future__ import annotations

from typing import Literal

import streamlit as st
from turnscope import TurnscopeError
from turnscope.views import text_search
from turnscope.views.events import EVENTS, classify_action
from turnscope.views.text_search import PAGE_SIZE, Query

from pages.parts import opening, theme, url, widgets
from pages.parts.formats import escape, shorten

ROLES = {"": "Any role", "user": "User", "assistant": "Assistant", "tool": "Tool results", "system": "System"}


def draw_box() -> None:
    """Where the text is typed."""
    st.text_input(
        "Search this session",
        key="header-search",
        placeholder="Search  /",
        label_visibility="collapsed",
        width=140,
        persist_state="session",
    )


def draw_results(shown: opening.ShownSession) -> None:
    """Where the text appears, if one is typed: one strip over all requests per block, and why it left."""
    text = (st.session_state.get("header-search") or "").strip()
    if not text:
        return
    at = url.read_request(shown)
    with st.container(border=True, key="found"):
        query = _read_query(shown, text, at)
        key = f"found.start.{shown.key}.{query}"
        try:
            result = _search_session(shown, shown.key, query, int(st.session_state.get(key, 0)))
        except TurnscopeError as error:
            st.html(f'<div class="ts-notice" role="alert"><b>{escape(error.what)}</b> {escape(error.hint)}</div>')
            return
        hold = "block holds" if result.match_count == 1 else "blocks hold"
        count = f"{result.match_count:,} {hold} “{escape(text)}”."
        strip = " Each strip shows over which requests the model could see it." if result.hits else ""
        st.html(f'<div class="ts-small ts-faint">{count}{strip}</div>')
        if result.hits:
            colours = theme.get_palette()
            items = [_build_item(hit, colours[hit.bucket]) for hit in result.hits]
            widgets.draw_rows("found-rows", items, at=at, count=len(shown.view), go=url.go_to_request)
        if result.match_count > PAGE_SIZE:
            widgets.draw_pager(key, result.match_count, PAGE_SIZE, result.start, "blocks")


@st.cache_resource(max_entries=64, show_spinner=False)
def _search_session(
    _shown: opening.ShownSession,
    key: str,  # noqa: ARG001  what the cache goes by
    query: text_search.Query,
    start: int = 0,
) -> text_search.SearchResult:
    """Where a text appears in a session, a page of it. QueryError: the pattern is wrong, or takes too long."""
    return text_search.search(_shown.trace, query, start)


def _read_query(shown: opening.ShownSession, text: str, at: int) -> Query:
    """What is asked for, with the choices beside it."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="found-choices"):
        role, tool = draw_filters("found", shown)
        pattern = st.toggle("Regex", key="found.regex", persist_state="session")
        only = st.toggle(f"Only what request {at} saw", key="found.only", persist_state="session")
    which: Literal["", "in"] = "in" if only else ""
    return Query(text, pattern, role, tool, at if only else -1, which)


def draw_filters(name: str, shown: opening.ShownSession) -> tuple[str, str]:
    """A role and a tool, "" = any.

    Args:
        name: begins the keys of the widgets.
        shown: the session that is shown.
    """
    role = st.selectbox(
        "Role",
        list(ROLES),
        format_func=ROLES.__getitem__,
        key=f"{name}.role",
        label_visibility="collapsed",
        width=150,
        persist_state="session",
    )
    names = ["", *text_search.list_tools(shown.trace)]
    if st.session_state.get(f"{name}.tool") not in names:  # of another session
        st.session_state.pop(f"{name}.tool", None)
    tool = st.selectbox(
        "Tool",
        names,
        format_func=lambda name: name or "Any tool",
        key=f"{name}.tool",
        label_visibility="collapsed",
        width=180,
        persist_state="session",
    )
    return role or "", tool or ""


def _describe_end(hit: text_search.Hit) -> str:
    """Whether and how it left, in as few words as possible: the list says it for every block."""
    if not hit.spans:
        return "never sent"
    made = hit.out.decision if hit.out else None
    word = f", {EVENTS[classify_action(made.action)].word}" if made else ""
    return f"left at request {hit.out.since:,}{word}" if hit.out else "there to the end"


def _build_item(hit: text_search.Hit, colour: str) -> dict[str, object]:
    return {
        "title": shorten(hit.label, 48),
        "full": hit.label,
        "text": hit.before,
        "match": hit.match,
        "after": hit.after,
        "spans": hit.spans,
        "colour": colour,
        "request": hit.spans[0][0] if hit.spans else 0,
        "end": _describe_end(hit),
        "why": hit.reason,
    }
