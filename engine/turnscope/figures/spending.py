"""The cost of all sessions by day, and the cuts of their windows by week."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import plotly.graph_objects as go

from turnscope.figures.charts import FONT, Theme, escape_label
from turnscope.library.index_queries import PICO_PER_USD, Spending
from turnscope.palette import PALETTES

MODELS = (
    "messages",
    "tool_results",
    "thinking",
    "tools",
    "system",
)  # colours of the most expensive models; all others share one
DAYS = 120  # newest days that are shown; more would be too narrow to point at


def draw_spending(rows: Iterable[Spending], theme: Theme = "dark", height: int = 200) -> go.Figure:
    """Draw the cost per day as bars, stacked by model. The most expensive models have colours of their own.

    Args:
        rows: what the index holds.
        theme: dark or light.
        height: pixels.
    """
    palette, cost = PALETTES[theme], dict[str, dict[str, float]]()
    for row in rows:
        if row.day and row.pico:
            days = cost.setdefault(row.model or "unnamed model", {})
            days[row.day] = days.get(row.day, 0) + row.pico / PICO_PER_USD
    ordered = sorted(cost, key=lambda model: -sum(cost[model].values()))
    shown = set(sorted({day for days in cost.values() for day in days})[-DAYS:])
    figure = go.Figure()
    for n, model in enumerate(ordered):
        days = {day: usd for day, usd in sorted(cost[model].items()) if day in shown}
        colour = palette[MODELS[n]] if n < len(MODELS) else palette["unattributed"]
        name = escape_label(model)
        figure.add_bar(
            x=list(days),
            y=list(days.values()),
            name=name,
            marker={"color": colour, "line": {"width": 0}},
            hovertemplate=f"%{{x}}<br>{name} $%{{y:,.2f}}<extra></extra>",
        )
    _style_figure(figure, theme, height, "$,.2~f")
    return figure.update_layout(barmode="stack", bargap=0.25)


def draw_trend(weeks: Sequence[tuple[str, int]], theme: Theme = "dark", height: int = 200) -> go.Figure:
    """Draw how often something was cut from a window, by week.

    Args:
        weeks: Monday and count of each week.
        theme: dark or light.
        height: pixels.
    """
    palette = PALETTES[theme]
    figure = go.Figure()
    figure.add_scatter(
        x=[week for week, _ in weeks],
        y=[number for _, number in weeks],
        mode="lines+markers",
        name="truncations",
        line={"color": palette["warn"], "width": 2},
        hovertemplate="week of %{x}<br>%{y:,} truncations<extra></extra>",
    )
    _style_figure(figure, theme, height, ",d")
    return figure.update_yaxes(rangemode="tozero").update_xaxes(nticks=4)


def _style_figure(figure: go.Figure, theme: Theme, height: int, ticks: str) -> None:
    palette = PALETTES[theme]
    figure.update_layout(
        height=height,
        margin={"l": 52, "r": 10, "t": 8, "b": 28},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        dragmode=False,
        showlegend=False,
        font={"family": FONT, "size": 12, "color": palette["faint"]},
        hoverlabel={"bgcolor": palette["panel"], "bordercolor": palette["border"], "font": {"color": palette["text"]}},
    )
    figure.update_xaxes(showgrid=False, zeroline=False, fixedrange=True, type="date", nticks=6, tickangle=0)
    figure.update_yaxes(gridcolor=palette["free"], zeroline=False, fixedrange=True, nticks=4, tickformat=ticks)
