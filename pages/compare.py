"""Policies side by side: what each would have cost, filled, refused and lost on this session; and two sessions."""

from pages.parts import shell

shell.ensure()

from turnscope import TurnscopeError  # noqa: E402

from pages.parts import compare_closer, compare_sessions, comparing, controls, leaving, replays, saving  # noqa: E402

shown = controls.header()
chosen = comparing.choose()
try:
    rows = comparing.replayed(shown, chosen)
    if rows:
        comparing.table(shown, rows)
        saving.draw(shown)
        comparing.chart(rows)
        compare_closer.two(shown, rows, chosen)
        compare_closer.lost(shown, rows)
        compare_closer.left(shown, chosen)
        compare_closer.sweep(shown, chosen)
except TurnscopeError as error:  # of a replay, whichever part of the page it was for
    controls.notice(error.what, error.hint)
compare_sessions.draw(shown)
leaving.ahead(shown, [name for name in chosen.policies if name != replays.RECORDED])
