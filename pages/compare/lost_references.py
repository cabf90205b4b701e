"""Lost references: what answers reuse and a policy no longer sends, with links to the places where that can be seen."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from turnscope import figures
from turnscope.numbering import format_request, number_request
from turnscope.views import comparison, losses

from pages.compare import charts, table
from pages.parts import opening, policies, theme, url
from pages.parts.formats import escape, shorten

FIRST = 8  # lost references that are shown at once
SHOWN = 30  # characters of one; a path differs at its end


def draw(shown: opening.ShownSession, rows: Sequence[comparison.Row]) -> None:
    """What answers reuse and a policy no longer sends: when it was dropped, when it was needed, and where that can be seen.

    Args:
        shown: the session that is shown.
        rows: a row per policy.
    """
    charts.draw_heading("What was lost")
    losing = {row.policy: row for row in rows if row.losses.hits}
    if not losing:
        st.text("No answer reuses anything that its request no longer holds.")
        return
    first = min(losing, key=lambda name: (name == policies.RECORDED, len(losing[name].losses.hits)))
    name = st.selectbox(
        "Policy",
        [*losing],
        [*losing].index(first),
        key="compare.lost",
        format_func=lambda each: f"{losing[each].title}: {len(losing[each].losses.hits):,} lost",
        label_visibility="collapsed",
    )
    row = losing[name]
    st.html(_render_first(shown, row))
    if len(row.losses.hits) > FIRST and st.toggle(f"All {len(row.losses.hits):,}", key="compare.all-lost"):
        st.plotly_chart(
            figures.draw_losses(row, theme.get_theme()),
            key="compare-missing",
            theme=None,
            config={"displayModeBar": False},
            alt="lost references of each request",
        )
        _draw_hits(shown, row)


def _render_first(shown: opening.ShownSession, row: comparison.Row) -> str:
    """The first lost references as lines: from where each was dropped to where it was needed, on the axis of the session."""
    lines, seen = list[str](), set[str]()
    for hit in row.losses.hits:
        if hit.text not in seen and len(lines) < FIRST:
            seen.add(hit.text)
            lines.append(_render_line(shown, row, hit))
    head = "<th>identifier</th><th class=n>dropped at</th><th class=n>needed at</th><th>○ dropped ● needed</th><th>see it</th>"
    return f'<table class="cmp-lost"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'


def _render_line(shown: opening.ShownSession, row: comparison.Row, hit: losses.LostReference) -> str:
    out = row.losses.decisions.get(hit.by)
    link = url.make_link(shown, "debugger", policy=row.policy, request=hit.request)
    dropped = "by the server"
    if out is not None:
        link = url.make_link(shown, "debugger", policy=row.policy, request=out[0], step=out[1], decision=hit.by)
        dropped = format_request(out[0])
    last = max(1, len(row.sizes) - 1)
    to = 100 * hit.request / last
    since = to if out is None else 100 * out[0] / last
    strip = (
        f'<span class="strip"><i style="left:{since:.1f}%;width:{to - since:.1f}%"></i>'
        f'<i class="out" style="left:{since:.1f}%"></i><i class="again" style="left:{to:.1f}%"></i></span>'
    )
    return (
        f'<tr><td title="{escape(shorten(hit.text, 300))}">{escape(shorten(hit.text, SHOWN, "tail"))}</td>'
        f"<td class=n>{dropped}</td>"
        f"<td class=n>{format_request(hit.request)}</td><td>{strip}</td>"
        f'<td><a href="{escape(link)}" target="_self">debugger</a></td></tr>'
    )


def _draw_hits(shown: opening.ShownSession, row: comparison.Row) -> None:
    """A line per lost reference, with links to where it occurred, was used and was dropped."""
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
            "request": [number_request(hit.request) for hit in hits],
            "identifier": [hit.text for hit in hits],
            "in block": [link_block(shown.trace.find_first_request(hit.block), hit.block) for hit in hits],
            "reused in block": [link_block(hit.request, hit.answer) for hit in hits],
            "removed by": [link_decision(hit.by) if hit.by in decisions else None for hit in hits],
            "the request": [link_request(hit.request) for hit in hits],
        },
        hide_index=True,
        height=280,
        key="compare.hits",
        column_config={
            "identifier": st.column_config.TextColumn(width="medium"),
            "in block": st.column_config.LinkColumn(
                display_text=r"block=(\d+)", help="the last block that holds it, at the request where it came in"
            ),
            "reused in block": st.column_config.LinkColumn(display_text=r"block=(\d+)", help="the answer that reuses it"),
            "removed by": st.column_config.LinkColumn(
                display_text=r"decision=(\d+)", help="the decision of this policy; none where the provider itself leaves it out"
            ),
            "the request": st.column_config.LinkColumn(display_text="in the debugger"),
        },
    )
    table.draw_row_limit(len(row.losses.hits))
