"""The library: open a file, a sample, or any session that a tool keeps; search them all; what they cost and filled."""

from __future__ import annotations

from turnscope.extensions import list_problems

from pages.library import forgetting, indexing, memory, open_file, search, sessions, totals, upload
from pages.parts import header, widgets


def draw() -> None:
    """Draw the page."""
    shown = header.header_if_any()
    indexing.chats()
    for problem in list_problems():
        widgets.notice(problem)
    upload.upload()
    if shown:
        open_file.conversations(shown)
    indexing.draw()  # under the folder whose button starts it
    search.draw()
    rows = sessions.draw(upload.show)
    totals.draw()
    if shown:
        open_file.notes(shown)
    forgetting.forget(rows)
    memory.draw()
