"""Forecasts as figures: the settings of a parameter search, and how policies fill the window of a planned conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from turnscope.figures.charts import Theme, escape_label, style_ground
from turnscope.figures.policy_charts import COLOURS
from turnscope.library.calculating import Outlook
from turnscope.palette import PALETTES
from turnscope.views.advice import Advice, Point

DASHES = ("solid", "dash", "dot", "dashdot")  # styles of the lines, once the colours are used up


def draw_front(found: Advice, shown: int | None = None, theme: Theme = "dark", height: int = 360) -> go.Figure:
    """Draw every tried setting, USD to the right and lost references upwards, with the Pareto front as a line.

    The `customdata` of a point begins with its number.

    Args:
        found: the result of the search.
        shown: number of the point with a ring; None = the advised one.
        theme: dark or light.
        height: pixels.
    """
    palette = PALETTES[theme]
    shown = found.chosen if shown is None else shown
    figure = go.Figure()
    _add_tried(figure, found, palette)
    figure.add_scatter(
        x=[float(point.searched.usd) for _, point in found.front_points],
        y=[point.searched.lost for _, point in found.front_points],
        mode="lines",
        line={"color": palette["accent"], "width": 1.5, "shape": "hv"},
        hoverinfo="skip",
        showlegend=False,
    )
    _add_points(
        figure,
        found,
        points=found.front_points,
        name="Pareto-optimal",
        marker={"color": palette["accent"], "size": 11},
    )
    if found.points:
        own = {"color": palette["warn"], "size": 13, "symbol": "diamond"}
        _add_points(figure, found, points=[(0, found.points[0])], name="as its file says", marker=own)
    if found.chosen:
        advised = {"color": palette["good"], "size": 18, "symbol": "star"}
        _add_points(figure, found, points=[(found.chosen, found.points[found.chosen])], name="advised", marker=advised)
    if shown is not None and found.points:
        _add_ring(figure, found.points[shown], palette["text"])
    _style_figure(figure, theme, height)
    figure.update_layout(clickmode="event+select")
    figure.update_xaxes(title="USD over all searched sessions", tickprefix="$", gridcolor=palette["free"])
    return figure.update_yaxes(title="lost references", rangemode="tozero", tickformat=",d")


def _add_tried(figure: go.Figure, found: Advice, palette: Mapping[str, str]) -> None:
    """Settings that are not on the front; those under which more requests could not be sent have a mark of their own."""
    best = {*found.front}
    fewest = min((point.searched.unsent for point in found.points), default=0)
    rest = [(number, point) for number, point in enumerate(found.points) if number not in best]
    unsent = [(number, point) for number, point in rest if point.searched.unsent > fewest]
    rest = [(number, point) for number, point in rest if point.searched.unsent == fewest]
    _add_points(figure, found, points=rest, name="tried", marker={"color": palette["faint"], "size": 7, "opacity": 0.45})
    if unsent:
        marker = {"color": palette["bad"], "size": 7, "symbol": "x-thin-open"}
        _add_points(figure, found, points=unsent, name="more requests could not be sent", marker=marker)


def _add_ring(figure: go.Figure, point: Point, colour: str) -> None:
    """Add a ring around one point."""
    ring = {"color": "rgba(0,0,0,0)", "size": 22, "symbol": "circle", "line": {"color": colour, "width": 2}}
    x, y = [float(point.searched.usd)], [point.searched.lost]
    figure.add_scatter(x=x, y=y, mode="markers", marker=ring, cliponaxis=False, hoverinfo="skip", showlegend=False)


def _add_points(
    figure: go.Figure, found: Advice, points: Sequence[tuple[int, Point]], name: str, marker: dict[str, object]
) -> None:
    """Add some of the points. A click on one of them leaves the others as they are."""
    seen = {"marker": {"opacity": marker.get("opacity", 1)}}
    figure.add_scatter(
        x=[float(point.searched.usd) for _, point in points],
        y=[point.searched.lost for _, point in points],
        mode="markers",
        name=name,
        marker=marker,
        cliponaxis=False,
        selected=seen,
        unselected=seen,
        customdata=[(number, _wrap(escape_label(found.describe_changes(point.changes)))) for number, point in points],
        hovertemplate="$%{x:,.2f}, %{y:,} lost references<br>%{customdata[1]}<extra></extra>",
    )


def _wrap(text: str) -> str:
    return text.replace("; ", "<br>")


def draw_turns(outlooks: Sequence[Outlook], theme: Theme = "dark", height: int = 340) -> go.Figure:
    """Draw the share of the window at the fullest request of each turn, a line per policy; the window is a dashed line.

    A mark shows the first cut. A line ends where a request does not fit any more, and is red.

    Args:
        outlooks: those of a calculation.
        theme: dark or light.
        height: pixels.
    """
    palette = PALETTES[theme]
    figure = go.Figure()
    for number, each in enumerate(outlooks):
        colour = palette["bad"] if each.ends else palette[f"policy_{number % COLOURS + 1}"]
        dash = DASHES[number // COLOURS % len(DASHES)]
        name = escape_label(each.row.title)
        shown = each.fill[: each.ends] if each.ends else each.fill
        figure.add_scatter(
            x=[*range(1, len(shown) + 1)],
            y=shown,
            mode="lines",
            name=name,
            legendgroup=name,
            line={"color": colour, "width": 2, "dash": dash},
            hovertemplate=f"turn %{{x}}<br>{name}: %{{y:.0%}}<extra></extra>",
        )
        marks = [(each.first, "triangle-down", "is cut first"), (each.ends, "x", "does not fit any more")]
        for turn, symbol, event in marks:
            if turn:
                figure.add_scatter(
                    x=[turn],
                    y=[each.fill[turn - 1]],
                    mode="markers",
                    showlegend=False,
                    legendgroup=name,
                    marker={"color": colour, "size": 10, "symbol": symbol},
                    hovertemplate=f"{name} {event} at turn {turn}<extra></extra>",
                )
    figure.add_hline(y=1, line={"color": palette["bad"], "width": 1, "dash": "dash"})
    _style_figure(figure, theme, height)
    figure.update_xaxes(tickprefix="turn ", showtickprefix="first", showgrid=False)  # a title would stand on the legend
    return figure.update_yaxes(title="share of the window", rangemode="tozero", tickformat=".0%")


def _style_figure(figure: go.Figure, theme: Theme, height: int) -> None:
    style_ground(figure, theme, height)
    figure.update_layout(margin={"l": 64, "r": 10, "t": 8, "b": 40}, legend={"orientation": "h", "y": -0.28})
    figure.update_xaxes(zeroline=False, fixedrange=True)
    figure.update_yaxes(gridcolor=PALETTES[theme]["free"], zeroline=False, fixedrange=True)
