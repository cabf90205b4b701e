"""The library: open a file, a sample, or any session that a tool keeps; search them all; what they cost and filled."""

from __future__ import annotations

from turnscope.extensions import list_problems

from pages.library import indexing, listing, memory, search, sessions, totals
from pages.parts import header, widgets


def draw() -> None:
    """Draw the page."""
    shown = header.header_if_any()
    indexing.chats()
    for problem in list_problems():
        widgets.notice(problem)
    listing.upload()
    if shown:
        listing.conversations(shown)
    indexing.draw()  # under the folder whose button starts it
    search.draw()
    rows = sessions.draw(listing.show)
    totals.draw()
    if shown:
        listing.notes(shown)
    listing.forget(rows)
    memory.draw()
