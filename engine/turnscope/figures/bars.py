"""How often each of some values occurs, as bars."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from turnscope.figures.charts import Theme, escape_label, style_ground
from turnscope.palette import PALETTES


def draw_bars(
    names: Sequence[str], counts: Sequence[float], unit: str, theme: Theme = "dark", *, height: int = 220, ticks: str = ",d"
) -> go.Figure:
    """Draw a bar for each value.

    Args:
        names: the values, from left to right.
        counts: how high the bars are.
        unit: what is counted, for who points at a bar.
        theme: dark or light.
        height: pixels.
        ticks: how Plotly writes the numbers.
    """
    palette, figure = PALETTES[theme], go.Figure()
    figure.add_bar(
        x=[escape_label(name) for name in names],
        y=list(counts),
        marker={"color": palette["accent"], "line": {"width": 0}},
        hovertemplate=f"%{{x}}<br>%{{y:{ticks}}} {escape_label(unit)}<extra></extra>",
    )
    style_ground(figure, theme, height, "faint")
    figure.update_layout(bargap=0.18, margin={"l": 58, "r": 10, "t": 8, "b": 40}, showlegend=False)
    figure.update_xaxes(showgrid=False, zeroline=False, fixedrange=True, type="category", tickangle=0, automargin=True)
    return figure.update_yaxes(
        gridcolor=palette["free"], zeroline=False, fixedrange=True, nticks=4, tickformat=ticks, rangemode="tozero"
    )
