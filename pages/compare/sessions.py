"""Two sessions side by side on the compare page: `?with=<id>` names the second, besides what `state` reads."""

from __future__ import annotations

import streamlit as st
from turnscope import TurnscopeError, figures
from turnscope.views import session_comparison

from pages.parts import cache, opening, replays, theme, url, widgets
from pages.parts.formats import escape, shorten


def draw(shown: opening.ShownSession) -> None:
    """Choose another session; then both in numbers, and their prompts on one axis."""
    st.subheader("Compare sessions", anchor=False)
    known = {id: entry for id, entry in cache.list_first_entries(shown.entry.file).items() if id != shown.entry.file}
    wanted = url.get_view("with")
    if wanted and wanted not in known and (found := cache.find_entry(wanted)):
        known[wanted] = found
    names = cache.name_entries(known)
    chosen = st.selectbox(
        "The same task by another model, or after a change",
        [*known],
        [*known].index(wanted) if wanted in known else None,
        key="compare.with",
        format_func=names.__getitem__,
        placeholder="choose a session",
        filter_mode="fuzzy",
        width=520,
        on_change=url.follow("with", "compare.with", wanted if wanted in known else None),
    )
    url.write("with", "compare.with", chosen or "")
    if not chosen:
        return
    try:
        with st.spinner("Opening it"):
            other = opening.open_session(known[chosen])
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return
    if not len(other.view):
        st.text("No model was called in that session.")
        return
    sides = [_build_side(each.key, each.part, len(each.view), each) for each in (shown, other)]
    _draw_table(sides, shown.entry.id)
    st.plotly_chart(
        figures.draw_fill([each.row for each in sides], theme.get_theme()),
        key="compare-sessions-chart",
        theme=None,
        config={"displayModeBar": False},
        alt="prompt tokens of every request of both sessions",
    )


@st.cache_resource(max_entries=8, show_spinner=False)
def _build_side(key: str, part: int, many: int, _shown: opening.ShownSession) -> session_comparison.Side:  # noqa: ARG001  what the cache goes by
    return session_comparison.build_side(_shown.trace, replays.get_shared_facts(_shown))


def _draw_table(sides: list[session_comparison.Side], name: str) -> None:
    head = "".join(f'<th title="{escape(each.name)}">{escape(shorten(each.title, 60))}</th>' for each in sides)
    body = "".join(
        f"<tr><td>{escape(what)}</td>{''.join(f'<td>{escape(value)}</td>' for value in values)}</tr>"
        for what, values in session_comparison.list_measures(sides)
    )
    st.html(f'<table class="ts-table"><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>')
    made = session_comparison.sides_to_csv(sides)
    st.download_button("Both as CSV", made, f"{name}-beside.csv", "text/csv", icon=":material/download:", type="tertiary")
