"""The cost heatmap: requests or turns by buckets, below the saw-tooth on the same axis, and the request under the cursor."""

from __future__ import annotations

import streamlit as st

from pages.heatmap import chart, scales, top_cells, zoom
from pages.parts import cards, exports, header, opening, request, theme, url

CHART = "heatmap-chart"


def draw() -> None:
    """Draw the page."""
    shown = header.draw_header()
    slots = chart.find_slots(shown, shown.key) is not None
    chosen = chart.choose(bool(shown.view.usd.any()), slots)._replace(span=zoom.get(shown))
    st.html(cards.render_legend(shown.view, heat=True) + scales.render(shown, chosen))
    zoom.draw_reset(shown)
    figure = chart.build_figure(shown, shown.key, chosen, theme.get_theme())
    st.plotly_chart(
        figure,
        key=CHART,
        theme=None,
        config={"displayModeBar": False},
        alt=f"{chosen.measure} of every bucket over {chosen.by}; a click goes to that request",
    )
    _draw_request(shown, chosen)
    exports.draw_chart_buttons("heatmap", figure, shown.view, chosen.by, lambda: scales.describe(shown, chosen))


@st.fragment
def _draw_request(shown: opening.ShownSession, chosen: chart.Choices) -> None:
    """Draw everything that depends on the request; the chart above is not drawn again."""
    at = url.read_request(shown)
    url.remember_request(shown, at)
    now = request.summarize(shown, at)
    request.draw_navigator(shown, CHART, at, lambda span: zoom.draw_buttons(shown, span))
    links = {
        "What is in this request": url.make_link(shown, "envelope", request=at),
        "What was lost": request.find_lost_link(shown, at),
    }
    headline = cards.render_headline(now, request.find_next_cut(shown, at), links)
    st.html(f'{headline}<div class="ts-chips">{cards.render_price(now)}</div>')
    top_cells.draw(shown, chosen)
