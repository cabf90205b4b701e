"""Policies side by side: how full their prompts are over a session, with limits and what was taken out, on one axis; and at
which requests what was missing."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from turnscope.figures.charts import FONT, Theme, escape_label
from turnscope.palette import PALETTES
from turnscope.views.comparison import Row, find_drops

LINES = ("messages", "tool_results", "tools", "thinking", "system", "warn", "accent", "faint")  # colours in turn
DASHES = ("solid", "dash", "dot", "dashdot")  # and so, where those are used up
LIMITS = 4  # lines of limits; policies seldom have more
COLUMNS = 480  # points of a line; of several requests the fullest is shown


def draw_fill(rows: Sequence[Row], theme: Theme = "dark", height: int = 350) -> go.Figure:
    """Prompt tokens over requests, a line per policy; where it fell by more than a tenth a mark; their limits dashed."""
    palette = PALETTES[theme]
    figure = go.Figure()
    for number, row in enumerate(rows):
        colour, dash = palette[LINES[number % len(LINES)]], DASHES[number // len(LINES) % len(DASHES)]
        name = escape_label(row.title)
        at = _choose_requests(row.sizes)
        figure.add_scatter(
            x=at, y=[row.sizes[n] for n in at], mode="lines", name=name, line={"color": colour, "width": 2, "dash": dash},
            hovertemplate=f"request %{{x}}<br>{name}: %{{y:,}} tokens<extra></extra>",
        )  # fmt: skip
        if fell := find_drops(row):
            figure.add_scatter(
                x=[n for n, _ in fell], y=[row.sizes[n] for n, _ in fell], mode="markers", showlegend=False,
                marker={"color": colour, "size": 7, "symbol": "triangle-down"}, customdata=[gone for _, gone in fell],
                hovertemplate=f"request %{{x}}<br>{name}: %{{customdata:,}} tokens went<extra></extra>",
            )  # fmt: skip
    for limit in sorted({min(row.limits) for row in rows if row.limits})[:LIMITS]:
        figure.add_hline(y=limit, line={"color": palette["bad"], "width": 1, "dash": "dash"})
        figure.add_annotation(
            x=0, xref="paper", y=limit, text=f"limit {limit:,}", showarrow=False, xanchor="left", yanchor="bottom",
            font={"color": palette["bad"]},
        )  # fmt: skip
    figure.update_layout(
        height=height, margin={"l": 64, "r": 10, "t": 8, "b": 76}, paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)",
        dragmode=False, legend={"orientation": "h", "y": 0, "yref": "container", "yanchor": "bottom"},
        font={"family": FONT, "size": 12, "color": palette["text"]},
        hoverlabel={"bgcolor": palette["panel"], "bordercolor": palette["border"], "font": {"color": palette["text"]}},
    )  # fmt: skip
    figure.update_xaxes(showgrid=False, zeroline=False, fixedrange=True, title="request")
    return figure.update_yaxes(
        gridcolor=palette["free"], zeroline=False, fixedrange=True, tickformat="~s", rangemode="tozero", title="prompt tokens"
    )


def draw_losses(row: Row, theme: Theme = "dark", height: int = 150) -> go.Figure:
    """How much of what its answer takes up again each request of a policy lacked: a bar per request."""
    palette, lost, uses = PALETTES[theme], row.losses.per_request, row.losses.uses
    at = [n for n, many in enumerate(lost) if many]
    figure = go.Figure()
    figure.add_bar(
        x=at, y=[lost[n] for n in at], width=max(1.0, len(lost) / 240), marker={"color": palette["bad"], "line": {"width": 0}},
        customdata=[(uses[n], lost[n] / uses[n]) for n in at],
        hovertemplate="request %{x}<br>%{y:,} of %{customdata[0]:,} missing, %{customdata[1]:.0%}<extra></extra>",
    )  # fmt: skip
    figure.update_layout(
        height=height, margin={"l": 64, "r": 10, "t": 8, "b": 36}, paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)",
        dragmode=False, font={"family": FONT, "size": 12, "color": palette["text"]},
        hoverlabel={"bgcolor": palette["panel"], "bordercolor": palette["border"], "font": {"color": palette["text"]}},
    )  # fmt: skip
    figure.update_xaxes(range=[-0.5, len(lost) - 0.5], showgrid=False, zeroline=False, fixedrange=True, title="request")
    return figure.update_yaxes(
        gridcolor=palette["free"], zeroline=False, fixedrange=True, rangemode="tozero", title="missing", nticks=4
    )


def _choose_requests(sizes: Sequence[int]) -> list[int]:
    """The requests that are drawn: all, or the fullest of each of `COLUMNS` stretches."""
    step = max(1, -(-len(sizes) // COLUMNS))
    return [max(range(start, min(start + step, len(sizes))), key=sizes.__getitem__) for start in range(0, len(sizes), step)]
