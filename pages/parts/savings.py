"""The one change that would have saved most of this session's cost: looked for when somebody asks, and kept.

Its replays stand on the shelf of `replays`, go on in threads of their own, and can be cancelled.
"""

from __future__ import annotations

from urllib.parse import urlencode

import streamlit as st
from turnscope import TurnscopeError
from turnscope.views import savings

from pages.parts import opening, policies, replays, widgets
from pages.parts.formats import escape

REQUESTED = "saving.requested"
_NOTE = "Simulated with the recorded answers; the record costs its bill. A lost reference counts as sent once more."


def draw(shown: opening.ShownSession) -> None:
    """A button; once it was pressed how far the search is, then its sentence and a link to the comparison."""
    of = (shown.key, shown.part, len(shown.view))
    names = (policies.RECORDED, *savings.CANDIDATES)
    known = policies.load_policies().policies
    chosen = replays.PolicyChoice({name: known[name] for name in names if name in known})
    if st.session_state.get(REQUESTED) != of and not replays.has_rows(shown, chosen):
        if not st.button("Which one change would have saved most?", icon=":material/savings:", key="saving.ask"):
            return
        st.session_state[REQUESTED] = of
    try:
        rows = replays.replay_rows(shown, chosen, "saving")
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return
    if len(rows) == len(chosen.policies):
        _draw_saving(shown, savings.find_best_saving(rows))


def _draw_saving(shown: opening.ShownSession, found: savings.Saving | None) -> None:
    if found is None:
        st.html(
            '<div class="ts-empty">No single change of policy would have saved a twentieth of what this session cost.</div>'
        )
        return
    query = {"session": shown.entry.id, "policies": f"{policies.RECORDED},{found.policy}"}
    link = f"/compare?{urlencode(query | ({'part': str(shown.part)} if shown.part else {}))}"
    st.html(
        f'<div class="ts-card" id="saving"><p style="margin:0">{escape(found.sentence)} '
        f'<a href="{escape(link)}" target="_self">Compare the two</a></p><small class="ts-faint">{_NOTE}</small></div>'
    )
