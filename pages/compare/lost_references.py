"""What answers take up again and a policy no longer sends, with links to the places where that can be seen."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from turnscope import figures
from turnscope.views import comparison

from pages.compare import table
from pages.parts import opening, theme, url


def draw(shown: opening.ShownSession, rows: Sequence[comparison.Row]) -> None:
    """What answers take up again and a policy no longer says, each with the place in the debugger where that can be seen.

    Args:
        shown: the session that is shown.
        rows: a row per policy.
    """
    losing = {row.policy: row for row in rows if row.losses.hits}
    if not losing:
        return
    st.subheader("Lost references", anchor=False)
    name = st.selectbox("Policy", [*losing], key="compare.lost", format_func=lambda each: losing[each].title, width=360)
    row = losing[name]
    st.text(f"{len(row.losses.hits):,} of {sum(row.losses.uses):,} that answers take up again, {row.losses.rate:.1%}.")
    st.plotly_chart(
        figures.draw_losses(row, theme.get_theme()),
        key="compare-missing",
        theme=None,
        config={"displayModeBar": False},
        alt="how many of them each request lacked",
    )
    _draw_hits(shown, row)


def _draw_hits(shown: opening.ShownSession, row: comparison.Row) -> None:
    """A line per lost reference, with links to where it was said, used and dropped."""
    hits, decisions = row.losses.hits[: table.ROWS], row.losses.decisions

    def link_block(request: int, block: int) -> str:
        return url.make_link(shown, "envelope", request=request, block=block)

    def link_request(request: int) -> str:
        return url.make_link(shown, "debugger", policy=row.policy, request=request)

    def link_decision(number: int) -> str:
        request, step = decisions[number]
        return url.make_link(shown, "debugger", policy=row.policy, request=request, step=step, decision=number)

    st.dataframe(
        {
            "request": [hit.request for hit in hits],
            "said before": [hit.text for hit in hits],
            "in block": [link_block(shown.trace.find_first_request(hit.block), hit.block) for hit in hits],
            "used in block": [link_block(hit.request, hit.answer) for hit in hits],
            "put out by decision": [link_decision(hit.by) if hit.by in decisions else None for hit in hits],
            "the request": [link_request(hit.request) for hit in hits],
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
    table.draw_row_limit(len(row.losses.hits))
