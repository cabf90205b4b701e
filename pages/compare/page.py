"""Policies side by side: what each would have cost, filled, refused and lost on this session; and two sessions."""

from __future__ import annotations

from turnscope import TurnscopeError

from pages.compare import closer, sessions
from pages.parts import comparing, controls, leaving, replays, saving


def draw() -> None:
    """Draw the page."""
    shown = controls.header()
    chosen = comparing.choose()
    try:
        rows = comparing.replayed(shown, chosen)
        if rows:
            comparing.table(shown, rows)
            saving.draw(shown)
            comparing.chart(rows)
            closer.two(shown, rows, chosen)
            closer.lost(shown, rows)
            closer.left(shown, chosen)
            closer.sweep(shown, chosen)
    except TurnscopeError as error:  # of a replay, whichever part of the page it was for
        controls.notice(error.what, error.hint)
    sessions.draw(shown)
    leaving.ahead(shown, [name for name in chosen.policies if name != replays.RECORDED])
