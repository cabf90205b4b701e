"""Pages of a long list: which one is shown, and the buttons to the others. Nothing is left out without saying so."""

from __future__ import annotations

import streamlit as st


def start(key: str, count: int, size: int, otherwise: int = 0) -> int:
    """Where the page that is shown begins, for a list of `count`; `otherwise`: the place to show first."""
    wanted = int(st.session_state.get(key, otherwise))
    return max(0, min(wanted, count - 1)) // size * size


def draw(key: str, count: int, size: int, begin: int, what: str) -> None:
    """ "1-50 of 1,234 blocks", with buttons where there is more than one page."""

    def turn(to: int) -> None:
        st.session_state[key] = to

    stop = min(count, begin + size)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"{key}.pager"):
        told = f"{begin + 1:,}–{stop:,} of {count:,} {what}" if count else f"no {what}"
        st.html(f'<div class="ts-small ts-faint ts-num ts-pages">{told}</div>', width="content")
        if count > size:
            last = (count - 1) // size * size
            for name, label, to, off in (
                ("first", "First", 0, begin == 0), ("earlier", "Earlier", begin - size, begin == 0),
                ("later", "Later", stop, stop == count), ("last", "Last", last, stop == count),
            ):  # fmt: skip
                st.button(label, key=f"{key}.{name}", type="tertiary", disabled=off, on_click=turn, args=(to,))
