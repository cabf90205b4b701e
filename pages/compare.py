"""Policies side by side: what each would have cost, filled, refused and lost on this session."""

from pages.parts import shell

shell.ensure()

import streamlit as st  # noqa: E402

from engine import TurnscopeError  # noqa: E402
from pages.parts import comparing, controls  # noqa: E402

shown = controls.header()
chosen = comparing.choose()
try:
    rows = comparing.replayed(shown, chosen)
except TurnscopeError as error:
    controls.notice(error.what, error.hint)
    st.stop()
if rows:
    comparing.table(shown, rows)
    comparing.chart(rows)
    comparing.two(shown, rows, chosen)
    comparing.lost(shown, rows)
    comparing.left(shown, chosen)
    comparing.sweep(shown, chosen)
