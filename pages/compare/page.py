"""Policies side by side: what each would have cost, filled, refused and lost on this session; and two sessions."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from turnscope import TurnscopeError

from pages.compare import choices, departures, lost_references, sessions, table, two_policies, windows
from pages.parts import header, opening, policies, replays, savings, url, widgets
from pages.parts.formats import escape


def draw() -> None:
    """Draw the page."""
    shown = header.draw_header()
    chosen = choices.choose()
    try:
        rows = replays.replay_rows(shown, chosen)
        if rows:
            table.draw(shown, rows)
            savings.draw(shown)
            table.draw_chart(rows)
            two_policies.draw(shown, rows, chosen)
            lost_references.draw(shown, rows)
            departures.draw(shown, chosen)
            windows.draw(shown, chosen)
    except TurnscopeError as error:  # of a replay, whichever part of the page it was for
        widgets.draw_notice(error.what, error.hint)
    sessions.draw(shown)
    _link_plans(shown, [name for name in chosen.policies if name != policies.RECORDED])


def _link_plans(shown: opening.ShownSession, names: Sequence[str]) -> None:
    """Link to the plans of a conversation under these policies, and of the first one's parameters."""
    budget = url.make_link(shown, "plan", what="budget", policies=",".join(names))
    advise = url.make_link(shown, "plan", what="advise", **({"policy": names[0]} if names else {}))
    st.html(
        f'<div class="ts-empty">Plan ahead: <a href="{escape(budget)}" target="_self">these policies in a conversation that is '
        f'only planned</a>, or <a href="{escape(advise)}" target="_self">which parameters this session speaks for</a>.</div>'
    )
