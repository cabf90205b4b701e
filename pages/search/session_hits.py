"""Where a text appears in the session: one strip over all requests per block, when it left, and why."""

from __future__ import annotations

from typing import Literal

import streamlit as st
from turnscope import TurnscopeError
from turnscope.numbering import format_request
from turnscope.views import text_search
from turnscope.views.events import EVENTS, classify_action
from turnscope.views.text_search import PAGE_SIZE, Query

from pages.parts import opening, search, theme, url, widgets
from pages.parts.formats import escape, shorten


def draw(shown: opening.ShownSession, text: str) -> None:
    """The filters, and a page of the blocks that hold the text.

    Args:
        shown: the session that is shown.
        text: what is searched for.
    """
    at = url.read_request(shown)
    query = _read_query(shown, text, at)
    if not text:
        st.html('<div class="ts-empty">Type a text, a path or a pattern above: each block that holds it is listed.</div>')
        return
    key = f"found.start.{shown.key}.{query}"
    try:
        result = _search_session(shown, shown.key, query, int(st.session_state.get(key, 0)))
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return
    hold = "block holds" if result.match_count == 1 else "blocks hold"
    strip = " Each strip shows which requests carried it. Choose a block to see when each policy removes it."
    more = strip if result.hits else ""
    st.html(f'<div class="ts-small ts-faint" role="status">{result.match_count:,} {hold} “{escape(text)}”.{more}</div>')
    if result.hits:
        colours = theme.get_palette()
        items = [_build_item(hit, colours[hit.bucket]) for hit in result.hits]
        chosen = url.get_block(len(shown.trace.session.blocks))
        widgets.draw_rows(
            "found-rows", items, at=at, count=len(shown.view), go=_choose, chosen=-1 if chosen is None else chosen
        )
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
    """What is searched for, with its choices."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="found-choices"):
        role, tool = search.draw_filters("found", shown)
        pattern = _draw_toggle("Regex", "regex", "found.regex")
        only = _draw_toggle(f"Only what request {format_request(at)} saw", "seen", "found.only")
    which: Literal["", "in"] = "in" if only else ""
    return Query(text, pattern, role, tool, at if only else -1, which)


def _draw_toggle(label: str, name: str, key: str) -> bool:
    wanted = url.get_view(name) == "1"
    return st.toggle(label, wanted, key=key, on_change=url.bind(name, key, wanted, default=False))


def _choose(at: int) -> None:
    url.set_view("block", str(at))


def _describe_end(hit: text_search.Hit) -> str:
    """Whether and how it left, in as few words as possible: the list says it for every block."""
    if not hit.spans:
        return "never sent"
    made = hit.out.decision if hit.out else None
    word = f", {EVENTS[classify_action(made.action)].word}" if made else ""
    return f"left at request {format_request(hit.out.since)}{word}" if hit.out else "in the window to the end"


def _build_item(hit: text_search.Hit, colour: str) -> dict[str, object]:
    return {
        "title": shorten(hit.label, 48),
        "full": hit.label,
        "text": hit.before,
        "match": hit.match,
        "after": hit.after,
        "spans": hit.spans,
        "colour": colour,
        "to": hit.at,
        "end": _describe_end(hit),
        "why": hit.reason,
    }
