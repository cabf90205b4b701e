"""Where a conversation has more than one end: which of its branches is shown. Requests are numbered along that branch."""

from __future__ import annotations

import streamlit as st

from pages.parts import state
from pages.parts.formats import apart, short

MAIN = 0


def draw(shown: state.Shown) -> None:
    """The picker; nothing where there is one path only. It stays at the request where that is on both."""
    branches = [part for part in shown.parts if part.parted >= 0]
    if not branches:
        return
    names = {MAIN: "Main path"} | {part.number: _label(part) for part in branches}
    if shown.part not in names:  # a subagent is shown
        names[shown.part] = short(shown.parts[shown.part].label, 100)
    names, key = apart(names), f"branch.{shown.entry.id}.{shown.part}"

    def chosen() -> None:
        part = st.session_state[key]
        if part is not None and part != shown.part:
            state.choose(shown.entry.id, part, state.request(shown))

    told = f"{len(branches) + 1:,} paths"
    st.selectbox(
        told, list(names), index=list(names).index(shown.part), format_func=names.__getitem__, key=key, on_change=chosen,
        width=560, help="Where the conversation went on in another way: an edited prompt, an answer made again, a rewind",
    )  # fmt: skip


def _label(part: state.Part) -> str:
    return f"Branch {part.number} at request {part.parted:,}: {short(part.says, 70)}"
