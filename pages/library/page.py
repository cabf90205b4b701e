"""The library: open a file, a sample, or any session that a tool keeps; search them all; what they cost and filled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from turnscope import TurnscopeError
from turnscope.extensions import list_problems

from pages.library import deletion, filters, indexing, memory, open_file, search, sessions, tap, totals, upload, worth_a_look
from pages.library.rows import Row, list_rows
from pages.parts import header, theme, widgets

SHEET = Path(__file__).parent / "browser" / "library.css"


def draw() -> None:
    """Draw the page."""
    filters.read_address()
    shown = header.draw_optional_header(middle=False, title=_render_title(_list_rows()[0]))
    every, problem = _list_rows()  # the session that was opened just now is among them
    theme.add_sheet(SHEET)
    indexing.index_opened()
    for each in list_problems():
        widgets.draw_notice(each)
    upload.draw()
    tap.draw()
    if problem:
        widgets.draw_notice(problem.what, problem.hint)
    indexing.draw()  # under the folder whose button starts it
    filters.draw_search()
    filters.draw_filters(every)
    filters.draw_views()
    query = filters.write_address()
    left = filters.select_rows(every, query, filters.find_matches(query))
    if query.get("q"):
        sessions.draw(left, len(every), upload.show_session, sessions.FIRST)
        search.draw(query["q"])
    else:
        totals.draw(left)
        worth_a_look.draw(left, upload.show_session)
        sessions.draw(left, len(every), upload.show_session)
    if shown:
        open_file.draw_conversations(shown)
        open_file.draw_unlogged(shown)
        open_file.draw_notes(shown)
        open_file.draw_log_facts(shown)
    deletion.draw(left)
    memory.draw()


def _list_rows() -> tuple[tuple[Row, ...], TurnscopeError | None]:
    try:
        return list_rows(), None
    except TurnscopeError as error:
        return (), error


def _render_title(every: Sequence[Row]) -> str:
    live, tools = sum(row.live for row in every), len({row.tool for row in every if row.tool})
    chips = f'<span class="ts-chip">{len(every):,} {"session" if len(every) == 1 else "sessions"}</span>'
    if tools:
        chips += f'<span class="ts-chip">{tools:,} {"tool" if tools == 1 else "tools"}</span>'
    if live:
        chips += f'<span class="ts-chip good">{live:,} live</span>'
    return f'<div class="ts-title"><h1>Library</h1>{chips}</div>'
