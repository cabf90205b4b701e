"""What answers take up again and a policy no longer sends, with links to the places where that can be seen."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from turnscope import figures
from turnscope.views import comparison

from pages.compare import table
from pages.parts import opening, theme, url


def draw(shown: opening.ShownSession, rows: Sequence[comparison.Row]) -> None:
    """What answers take up again and a policy no longer says, each with the place in the debugger where that can be seen."""
    held = {row.policy: row for row in rows if row.losses.hits}
    if not held:
        return
    st.subheader("Lost references", anchor=False)
    name = st.selectbox("Policy", [*held], key="compare.lost", format_func=lambda each: held[each].title, width=360)
    hits = held[name].losses.hits
    st.text(f"{len(hits):,} of {sum(held[name].losses.uses):,} that answers take up again, {held[name].losses.rate:.1%}.")
    st.plotly_chart(
        figures.draw_losses(held[name], theme.get_theme()),
        key="compare-missing",
        theme=None,
        config={"displayModeBar": False},
        alt="how many of them each request lacked",
    )
    made, seen = held[name].losses.decisions, shown.trace.find_first_request
    asked = {"policy": name}
    st.dataframe(
        {
            "request": [hit.request for hit in hits[: table.ROWS]],
            "said before": [hit.text for hit in hits[: table.ROWS]],
            "in block": [
                url.make_link(shown, "envelope", request=seen(hit.block), block=hit.block) for hit in hits[: table.ROWS]
            ],
            "used in block": [
                url.make_link(shown, "envelope", request=hit.request, block=hit.answer) for hit in hits[: table.ROWS]
            ],
            "put out by decision": [
                url.make_link(shown, "debugger", **asked, request=made[hit.by][0], step=made[hit.by][1], decision=hit.by)
                if hit.by in made
                else None
                for hit in hits[: table.ROWS]
            ],
            "the request": [url.make_link(shown, "debugger", **asked, request=hit.request) for hit in hits[: table.ROWS]],
        },
        hide_index=True,
        height=280,
        key="compare.hits",
        column_config={
            "said before": st.column_config.TextColumn(width="medium"),
            "in block": st.column_config.LinkColumn(
                display_text=r"block=(\d+)", help="the last one that says it; where it came in"
            ),
            "used in block": st.column_config.LinkColumn(display_text=r"block=(\d+)", help="the answer that takes it up again"),
            "put out by decision": st.column_config.LinkColumn(
                display_text=r"decision=(\d+)", help="of this policy; none where the provider itself leaves it out"
            ),
            "the request": st.column_config.LinkColumn(display_text="in the debugger"),
        },
    )
    table.draw_row_limit(len(hits))
