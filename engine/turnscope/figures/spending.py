"""The cost of all sessions by day, week or month, and how often their windows were truncated by week."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta

import plotly.graph_objects as go

from turnscope.figures.charts import Theme, escape_label, style_ground
from turnscope.library.index_queries import PICO_PER_USD, Spending
from turnscope.palette import PALETTES

COLOURS = ("accent", "reinjected", "earlier", "prefix", "policy_3")  # of the most expensive series; all others share one
OTHER = "unattributed"
MAX_BARS = 62  # more would be too narrow to point at: then a bar is a week, or a month
TICKS = 6
LONE_WIDTH = 18 * 3_600_000  # milliseconds of the axis


def draw_spending(
    rows: Iterable[Spending],
    theme: Theme = "dark",
    height: int = 200,
    by: Callable[[Spending], str] = lambda row: row.model or "unnamed model",
) -> go.Figure:
    """Draw the cost as bars over time, without gaps: a bar is a day, of long spans a week or a month.

    Args:
        rows: what the index holds. Rows without a day are left out.
        theme: dark or light.
        height: pixels.
        by: the name of the stack that a row belongs to. The most expensive ones have colours of their own.
    """
    dated = [(date.fromisoformat(row.day), by(row), row.pico / PICO_PER_USD) for row in rows if row.day and row.pico]
    begin = _choose_step([day for day, _, _ in dated])
    days = _fill_days([begin(day) for day, _, _ in dated], begin)
    cost: dict[str, dict[date, float]] = {}
    for day, name, usd in dated:
        series = cost.setdefault(name, {})
        series[begin(day)] = series.get(begin(day), 0) + usd
    ordered = sorted(cost, key=lambda name: -sum(cost[name].values()))
    palette, figure = PALETTES[theme], go.Figure()
    named, rest = ordered[: len(COLOURS)], ordered[len(COLOURS) :]
    stacks = [(name, palette[colour], [cost[name]]) for name, colour in zip(named, COLOURS, strict=False)]
    if rest:
        stacks.append((f"{len(rest)} more", palette[OTHER], [cost[name] for name in rest]))
    for name, colour, parts in stacks:
        label = escape_label(name)
        figure.add_bar(
            x=days,
            y=[sum(part.get(day, 0) for part in parts) for day in days],
            customdata=[_format_span(day, begin) for day in days],
            name=label,
            marker={"color": colour, "line": {"width": 0}},
            hovertemplate=f"%{{customdata}}<br>{label} $%{{y:,.2f}}<extra></extra>",
        )
    _style_figure(figure, theme, height, "$,.2~f")
    _label_days(figure, days)
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "font": {"size": 11}, "itemclick": False}
    legend["traceorder"] = "normal"
    figure.update_layout(barmode="stack", bargap=0.25, showlegend=len(stacks) > 1, legend=legend)
    return figure.update_layout(margin={"t": 34 if len(stacks) > 1 else 8})


def draw_trend(weeks: Sequence[tuple[str, int]], theme: Theme = "dark", height: int = 200) -> go.Figure:
    """Draw how often something was removed from a window, by week.

    Args:
        weeks: Monday and count of each week.
        theme: dark or light.
        height: pixels.
    """
    days = [date.fromisoformat(week) for week, _ in weeks]
    figure = go.Figure()
    figure.add_bar(
        x=days,
        y=[number for _, number in weeks],
        customdata=[_format_day(day) for day in days],
        marker={"color": PALETTES[theme]["warn"], "line": {"width": 0}},
        hovertemplate="week of %{customdata}<br>%{y:,} truncations<extra></extra>",
    )
    _style_figure(figure, theme, height, ",d")
    _label_days(figure, days)
    return figure.update_layout(bargap=0.25).update_yaxes(rangemode="tozero")


def _choose_step(days: Sequence[date]) -> Callable[[date], date]:
    """What gives the first day of the bar that a day belongs to: itself, its Monday, or the first of its month."""
    span = (max(days) - min(days)).days if days else 0
    if span < MAX_BARS:
        return _keep_day
    return _find_monday if span < 7 * MAX_BARS else _find_month


def _keep_day(day: date) -> date:
    return day


def _find_monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _find_month(day: date) -> date:
    return day.replace(day=1)


def _fill_days(days: Sequence[date], begin: Callable[[date], date]) -> list[date]:
    """The first days of all bars from the first to the last."""
    if not days:
        return []
    first, last = min(days), max(days)
    every = (first + timedelta(days=n) for n in range((last - first).days + 1))
    return list(dict.fromkeys(begin(day) for day in every))


def _format_day(day: date) -> str:
    return f"{day.day} {day:%b %Y}"


def _format_span(day: date, begin: Callable[[date], date]) -> str:
    if begin is _find_month:
        return f"{day:%B %Y}"
    return f"week of {_format_day(day)}" if begin is _find_monday else _format_day(day)


def _label_days(figure: go.Figure, days: Sequence[date]) -> None:
    """Name some of the days, and the year where it is another one than before. A lone bar has a width."""
    shown = days[:: -(-len(days) // TICKS)] if days else []
    years = [None, *(day.year for day in shown)]
    texts = [
        f"{day.day} {day:%b}" + (f"<br>{day.year}" if day.year != year else "") for day, year in zip(shown, years, strict=False)
    ]
    figure.update_xaxes(tickmode="array", tickvals=list(shown), ticktext=texts)
    if days:
        room = timedelta(days=max(2.0, (days[-1] - days[0]).days / 30))
        figure.update_xaxes(range=[days[0] - room, days[-1] + room])
    if len(days) == 1:  # Plotly takes the width from the distance to the next one, and draws a lone one without any
        figure.update_traces(width=LONE_WIDTH)


def _style_figure(figure: go.Figure, theme: Theme, height: int, ticks: str) -> None:
    style_ground(figure, theme, height, "faint")
    figure.update_layout(margin={"l": 52, "r": 10, "t": 8, "b": 36}, showlegend=False)
    figure.update_xaxes(showgrid=False, zeroline=False, fixedrange=True, type="date", tickangle=0)
    figure.update_yaxes(gridcolor=PALETTES[theme]["free"], zeroline=False, fixedrange=True, nticks=4, tickformat=ticks)
