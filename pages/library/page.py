"""The library: open a file, a sample, or any session that a tool keeps; search them all; what they cost and filled."""

from __future__ import annotations

from turnscope.extensions import list_problems

from pages.library import deletion, indexing, memory, open_file, search, sessions, totals, upload
from pages.parts import header, widgets


def draw() -> None:
    """Draw the page."""
    shown = header.draw_optional_header()
    indexing.index_chats()
    for problem in list_problems():
        widgets.draw_notice(problem)
    upload.draw()
    if shown:
        open_file.draw_conversations(shown)
    indexing.draw()  # under the folder whose button starts it
    search.draw()
    rows = sessions.draw(upload.show_session)
    totals.draw()
    if shown:
        open_file.draw_notes(shown)
    deletion.draw(rows)
    memory.draw()
