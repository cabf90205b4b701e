"""Policies side by side as figures: the fill of their prompts over a session, and the references that each request lost."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from turnscope.figures.charts import FONT, Theme, escape_label
from turnscope.palette import PALETTES
from turnscope.views.comparison import Row, find_drops

LINES = ("messages", "tool_results", "tools", "thinking", "system", "warn", "accent", "faint")  # colours of the lines, in turn
DASHES = ("solid", "dash", "dot", "dashdot")  # styles of the lines, once the colours are used up
LIMITS = 4  # lines of limits; policies seldom have more
COLUMNS = 480  # points of a line, at most; each shows the fullest of its requests


def draw_fill(rows: Sequence[Row], theme: Theme = "dark", height: int = 350) -> go.Figure:
    """Draw prompt tokens over requests: a line per policy, marks where it falls by more than a tenth, limits as dashed lines.

    Args:
        rows: rows of a comparison.
        theme: dark or light.
        height: pixels.
    """
    palette = PALETTES[theme]
    figure = go.Figure()
    for number, row in enumerate(rows):
        colour, dash = palette[LINES[number % len(LINES)]], DASHES[number // len(LINES) % len(DASHES)]
        _add_line(figure, row, colour, dash)
    for limit in sorted({min(row.limits) for row in rows if row.limits})[:LIMITS]:
        figure.add_hline(y=limit, line={"color": palette["bad"], "width": 1, "dash": "dash"})
        left = {"x": 0, "xref": "paper", "xanchor": "left", "yanchor": "bottom"}
        figure.add_annotation(y=limit, text=f"limit {limit:,}", showarrow=False, font={"color": palette["bad"]}, **left)
    _style_figure(figure, theme, height, bottom=76)
    figure.update_layout(legend={"orientation": "h", "y": 0, "yref": "container", "yanchor": "bottom"})
    return figure.update_yaxes(tickformat="~s", title="prompt tokens")


def draw_losses(row: Row, theme: Theme = "dark", height: int = 150) -> go.Figure:
    """Draw the lost references of each request of a policy as bars.

    Args:
        row: a row of a comparison.
        theme: dark or light.
        height: pixels.
    """
    lost, uses = row.losses.per_request, row.losses.uses
    at = [n for n, many in enumerate(lost) if many]
    figure = go.Figure()
    figure.add_bar(
        x=at,
        y=[lost[n] for n in at],
        width=max(1.0, len(lost) / 240),
        marker={"color": PALETTES[theme]["bad"], "line": {"width": 0}},
        customdata=[(uses[n], lost[n] / uses[n]) for n in at],
        hovertemplate="request %{x}<br>%{y:,} of %{customdata[0]:,} missing, %{customdata[1]:.0%}<extra></extra>",
    )
    _style_figure(figure, theme, height, bottom=36)
    figure.update_xaxes(range=[-0.5, len(lost) - 0.5])
    return figure.update_yaxes(title="missing", nticks=4)


def _add_line(figure: go.Figure, row: Row, colour: str, dash: str) -> None:
    """Add the line of one policy, and marks where its prompt falls."""
    name, at = escape_label(row.title), _choose_requests(row.sizes)
    figure.add_scatter(
        x=at,
        y=[row.sizes[n] for n in at],
        mode="lines",
        name=name,
        line={"color": colour, "width": 2, "dash": dash},
        hovertemplate=f"request %{{x}}<br>{name}: %{{y:,}} tokens<extra></extra>",
    )
    if drops := find_drops(row):
        figure.add_scatter(
            x=[n for n, _ in drops],
            y=[row.sizes[n] for n, _ in drops],
            mode="markers",
            showlegend=False,
            marker={"color": colour, "size": 7, "symbol": "triangle-down"},
            customdata=[gone for _, gone in drops],
            hovertemplate=f"request %{{x}}<br>{name}: %{{customdata:,}} tokens went<extra></extra>",
        )


def _style_figure(figure: go.Figure, theme: Theme, height: int, bottom: int) -> None:
    """Colours, margins and axes of both figures. `bottom`: pixels below the axis."""
    palette = PALETTES[theme]
    figure.update_layout(
        height=height,
        margin={"l": 64, "r": 10, "t": 8, "b": bottom},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        dragmode=False,
        font={"family": FONT, "size": 12, "color": palette["text"]},
        hoverlabel={"bgcolor": palette["panel"], "bordercolor": palette["border"], "font": {"color": palette["text"]}},
    )
    figure.update_xaxes(showgrid=False, zeroline=False, fixedrange=True, title="request")
    figure.update_yaxes(gridcolor=palette["free"], zeroline=False, fixedrange=True, rangemode="tozero")


def _choose_requests(sizes: Sequence[int]) -> list[int]:
    """The requests that are drawn: all, or the fullest one of each of `COLUMNS` bins."""
    step = max(1, -(-len(sizes) // COLUMNS))
    return [max(range(start, min(start + step, len(sizes))), key=sizes.__getitem__) for start in range(0, len(sizes), step)]
