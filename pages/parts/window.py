"""The window of the session on the page: how it is known, and a click for another one."""

from __future__ import annotations

import streamlit as st
from turnscope import TurnscopeError, library

from pages.parts import cache, opening, widgets
from pages.parts.formats import escape, format_tokens

FAILED = "window.failed"  # in the session state: why a choice could not be kept


def draw_choice(shown: opening.ShownSession) -> None:
    """A box with the evidence for each model's window, and a button for every other window.

    Args:
        shown: the session.
    """
    now = int(shown.view.windows.max(initial=0))
    with st.popover(f"Window {format_tokens(now)}" if now else "Window", icon=":material/straighten:", key="header-window"):
        rows = "".join(
            f"<li>{escape(each.model or 'no model named')}: {escape(each.sentence)}</li>" for each in shown.view.evidence
        )
        st.html(f'<ul class="ts-small">{rows}</ul>' if rows else '<div class="ts-small">Nothing shows the window.</div>')
        if failed := st.session_state.pop(FAILED, None):
            widgets.draw_notice(*failed)
        with st.container(horizontal=True):
            for size in library.list_sizes(shown.view):
                if size != now:
                    st.button(f"{size:,}", key=f"window.{size}", on_click=_choose, args=(shown, size))
            if any(each.kind == "chosen" for each in shown.view.evidence):
                st.button("By its evidence", key="window.evidence", on_click=_choose, args=(shown, 0))
        own = st.number_input("Another size, in tokens", 0, 10_000_000, step=1_000, key=f"window.own.{shown.key}")
        if own and own != now:
            st.button(f"Use {own:,}", key="window.use", on_click=_choose, args=(shown, int(own)))
        st.html('<div class="ts-small ts-faint">Fill, checks, replays and the library follow.</div>')


def _choose(shown: opening.ShownSession, window: int) -> None:
    """Keep the choice (0 = by evidence): sessions are opened anew with it, and the library reads this one anew."""
    try:
        library.choose_window(shown.opened.session, window)
        if shown.entry.origin != "chat":
            library.refresh(cache.open_store().index_path, shown.entry.path)
    except TurnscopeError as error:
        st.session_state[FAILED] = (error.what, error.hint)
