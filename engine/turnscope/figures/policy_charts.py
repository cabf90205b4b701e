"""Policies side by side as figures: their prompts over a session, cost against losses, and what each request lost."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import floor, log10
from typing import Any, NamedTuple

import plotly.graph_objects as go

from turnscope.figures.charts import Theme, escape_label, style_ground
from turnscope.library.policy_table import PolicyRow
from turnscope.numbering import format_request, number_request
from turnscope.palette import PALETTES
from turnscope.planning.assemble import AS_RECORDED
from turnscope.views.comparison import Row
from turnscope.views.phrases import format_usd

COLUMNS = 480  # points of a line, at most; each shows the fullest of its requests
SHAPES = (  # of policies, in turn: Plotly's name, and the character that text has for it
    ("circle", "●"),
    ("square", "■"),
    ("triangle-up", "▲"),
    ("diamond", "◆"),
    ("triangle-down", "▼"),
    ("triangle-right", "▶"),
    ("triangle-left", "◀"),
    ("circle-open", "○"),
    ("square-open", "□"),
    ("diamond-open", "◇"),
)
COLOURS = 6  # of policies in a palette, in turn
ABOVE = 1 / 3  # height of what is above the limit, as a share of what is below
NEAR_LIMIT = 0.6  # share of the limit from which on it is drawn, too
FACTORS: tuple[tuple[float, ...], ...] = (  # that an axis of costs may name: the first that has three inside is taken
    tuple(2.0**power for power in range(-9, 10)),
    (0.5, 0.7, 1, 1.4, 2),
    (0.6, 0.8, 1, 1.2, 1.5),
    (0.9, 0.95, 1, 1.05, 1.1),
)
MAX_LABELS = 12  # lines that end in their label; of more, a legend says which is which
LABEL_HEIGHT = 15  # pixels
NEAR_POINT = 40  # pixels from a point to the foot of its label
SAME = 6  # pixels: points that are nearer stand at one place


class Mark(NamedTuple):
    """How a policy is marked in charts, cards and tables: a colour and a shape of its own."""

    colour: str
    symbol: str
    text: str


def mark_policies(rows: Sequence[Row], theme: Theme = "dark") -> tuple[Mark, ...]:
    """Choose a mark for each policy: the record has a cross in the colour of text; red is for those that do not fit alone.

    Args:
        rows: rows of a comparison.
        theme: dark or light.
    """
    palette, found, number = PALETTES[theme], list[Mark](), 0
    for row in rows:
        if row.policy == AS_RECORDED:
            found.append(Mark(palette["text"], "cross", "✚"))
            continue
        symbol, text = SHAPES[number % len(SHAPES)]
        colour = palette[f"policy_{number % COLOURS + 1}"] if row.sendable else palette["bad"]
        found.append(Mark(colour, symbol, text))
        number += 1
    return tuple(found)


class _Scale:
    """The axis of prompt tokens: linear up to the window; what is larger stands above it, compressed."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.limit = max((max(row.windows) for row in rows if row.windows), default=0)
        self.largest = max((max(row.sizes) for row in rows if row.sizes), default=0)
        self.is_over = self.largest > self.limit > 0
        self.has_limit = self.is_over or self.largest > NEAR_LIMIT * self.limit > 0
        self.top = self.limit * (1 + ABOVE) if self.is_over else max(self.largest, self.limit * self.has_limit, 1)

    def place(self, tokens: float) -> float:
        """Where so many tokens stand on the axis."""
        if not self.is_over or tokens <= self.limit:
            return tokens
        return self.limit * (1 + ABOVE * (tokens - self.limit) / (self.largest - self.limit))

    def list_ticks(self) -> list[int]:
        """Round numbers of tokens, about four, the limit, and the largest prompt where it is above."""
        end = self.limit if self.is_over else self.top
        rough = end / 4
        power = 10 ** floor(log10(rough)) if rough >= 1 else 1
        step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= rough)
        ticks = [round(step * number) for number in range(int(end / step) + 1)]
        if not self.has_limit:
            return ticks
        below = [tick for tick in ticks if tick < 0.93 * self.limit]
        return [*below, self.limit, *([self.largest] if self.is_over else [])]

    def label(self, tokens: int, colour: str) -> str:
        """A tick's label; the limit is named."""
        text = _shorten_tokens(tokens)
        return f'<span style="color:{colour}">window {text}</span>' if self.has_limit and tokens == self.limit else text


def draw_fill(rows: Sequence[Row], theme: Theme = "dark", height: int = 350) -> go.Figure:
    """Draw prompt tokens over requests: a line per policy that ends in its name, and the limit of the window.

    The axis is linear up to the limit. What would not fit stands above it, compressed and hatched.

    Args:
        rows: rows of a comparison.
        theme: dark or light.
        height: pixels.
    """
    palette, scale, figure = PALETTES[theme], _Scale(rows), go.Figure()
    marks = mark_policies(rows, theme)
    for row, mark in zip(rows, marks, strict=True):
        if scale.is_over and max(row.sizes, default=0) > scale.limit:
            _add_overflow(figure, row, scale, palette)
        _add_line(figure, row, mark, scale)
    if scale.has_limit:
        figure.add_hline(y=scale.limit, line={"color": palette["bad"], "width": 1.3, "dash": "dot"})
    _style_figure(figure, theme, height, bottom=44)
    few = len(rows) <= MAX_LABELS
    if few:
        _add_labels(figure, rows, marks, scale, height - 52)
    figure.update_layout(showlegend=not few, margin={"r": 172 if few else 10, "t": 14, "l": 88 if scale.has_limit else 52})
    count = max((len(row.sizes) for row in rows), default=0)
    figure.update_xaxes(range=[0.5, count + 0.5])
    ticks = scale.list_ticks()
    return figure.update_yaxes(
        range=[0, scale.top * 1.03],
        tickvals=[scale.place(tick) for tick in ticks],
        ticktext=[scale.label(tick, palette["bad"]) for tick in ticks],
    )


def _add_line(figure: go.Figure, row: Row, mark: Mark, scale: _Scale) -> None:
    """Add the line of one policy."""
    at = _choose_requests(row.sizes)
    figure.add_scatter(
        x=[number_request(n) for n in at],
        y=[scale.place(row.sizes[n]) for n in at],
        mode="lines",
        name=escape_label(f"{mark.text} {row.title}"),
        line={"color": mark.colour, "width": 1.8, "dash": "solid" if row.sendable else "dot"},
        customdata=[row.sizes[n] for n in at],
        hovertemplate=f"request %{{x:,}}<br>{escape_label(row.title)}: %{{customdata:,}} tokens<extra></extra>",
    )


def _add_overflow(figure: go.Figure, row: Row, scale: _Scale, palette: Mapping[str, str]) -> None:
    """Hatch what is above the limit, and say from which request on a prompt is."""
    at = _choose_requests(row.sizes)
    over = [scale.place(max(row.sizes[n], scale.limit)) for n in at]
    xs = [number_request(n) for n in at]
    figure.add_scatter(
        x=[*xs, *reversed(xs)],
        y=[*over, *(scale.limit for _ in xs)],
        fill="toself",
        mode="none",
        fillpattern={"shape": "/", "fgcolor": palette["bad"], "size": 7, "solidity": 0.14, "fillmode": "overlay"},
        fillcolor="rgba(0,0,0,0)",
        hoverinfo="skip",
        showlegend=False,
    )
    first = next(n for n, size in enumerate(row.sizes) if size > scale.limit)
    figure.add_scatter(
        x=[number_request(first)],
        y=[scale.limit],
        mode="markers",
        marker={"symbol": "circle-open", "size": 9, "color": palette["bad"], "line": {"width": 2}},
        hovertemplate=f"{escape_label(row.title)} does not fit from request {format_request(first)} on<extra></extra>",
        showlegend=False,
    )


def _add_labels(figure: go.Figure, rows: Sequence[Row], marks: Sequence[Mark], scale: _Scale, pixels: int) -> None:
    """Put the name of each policy where its line ends, moved apart where they would overlap."""
    ends = sorted((scale.place(row.sizes[-1]) if row.sizes else 0.0, number) for number, row in enumerate(rows))
    gap, low = LABEL_HEIGHT * scale.top / pixels, 0.0
    heights = []
    for end, _ in ends:
        low = max(low, end)
        heights.append(low)
        low += gap
    shift = max(0.0, heights[-1] - scale.top) if heights else 0.0
    for (_, number), height in zip(ends, heights, strict=True):
        figure.add_annotation(
            x=1,
            xref="paper",
            xanchor="left",
            xshift=4,
            y=height - shift,
            text=escape_label(f"{marks[number].text} {_shorten_title(rows[number].title)}"),
            showarrow=False,
            font={"color": marks[number].colour, "size": 11.5},
        )


def draw_pareto(rows: Sequence[Row], best: Collection[str], theme: Theme = "dark", height: int = 350) -> go.Figure:
    """Draw what each policy costs against what it loses: lower left is better, the area of a bubble is its peak fill.

    Args:
        rows: rows of a comparison that have a factor.
        best: names of those that are Pareto-optimal.
        theme: dark or light.
        height: pixels.
    """
    palette, figure = PALETTES[theme], go.Figure()
    priced = [(row, mark) for row, mark in zip(rows, mark_policies(rows, theme), strict=True) if row.factor]
    record = next((row for row, _ in priced if row.policy == AS_RECORDED), None)
    top = max([1, *(len(row.losses.hits) for row, _ in priced)])
    factors = [row.factor or 1.0 for row, _ in priced]
    low, high = log10(min([*factors, 1.0])) - 0.12, log10(max([*factors, 1.0])) + 0.2
    if record is not None:
        _add_cross_hairs(figure, record, palette, low)
    _add_front(figure, [row for row, _ in priced if row.policy in best], palette, high=high, top=1.18 * top)
    for row, mark in priced:
        open_ = {} if row.sendable else {"symbol": f"{mark.symbol.removesuffix('-open')}-open"}
        figure.add_scatter(
            x=[row.factor],
            y=[len(row.losses.hits)],
            mode="markers",
            marker={"symbol": mark.symbol, "color": mark.colour, "size": 9 + 9 * min(row.peak[0], 1.5), **open_},
            showlegend=False,
            hovertemplate=(
                f"{escape_label(row.title)}<br>{format_usd(row.usd)}, ×{row.factor:.2f}<br>%{{y:,}} lost references"
                f"<br>peak fill {row.peak[0]:.0%}<extra></extra>"
            ),
        )
    _style_figure(figure, theme, height, bottom=52)
    _label_points(figure, priced, palette, (low, high), top)
    ticks = _choose_factors(low, high)
    ticked = {"dtick": 1} if top < 5 else {"nticks": 5}
    base = next((row.record_usd for row, _ in priced if row.record_usd), None)
    figure.update_xaxes(
        type="log",
        range=[low, high],
        title="",
        tickvals=ticks,
        tickangle=0,
        ticktext=[f"×{each:g}" + (f"<br>{format_usd(float(base) * each)}" if base else "") for each in ticks],
    )
    return figure.update_yaxes(title="lost references", range=[-0.08 * top, 1.18 * top], rangemode="normal", **ticked)


def draw_policy_table(table: Sequence[PolicyRow], best: Collection[str], theme: Theme = "dark", height: int = 420) -> go.Figure:
    """Draw what policies cost over many sessions against what they lose: lower left is better, a line is the interval.

    Args:
        table: the rows.
        best: names of those that no other one beats; they are named in the chart, as the record is.
        theme: dark or light.
        height: pixels.
    """
    palette, figure = PALETTES[theme], go.Figure()
    figure.add_vline(x=1, line={"color": palette["border"], "width": 1})
    others = [row for row in table if row.policy != AS_RECORDED]
    groups = (
        ("would be refused somewhere", palette["bad"], "x-thin-open", [row for row in others if row.unsent]),
        ("fits", palette["faint"], "circle", [row for row in others if not row.unsent and row.policy not in best]),
        ("no other one beats it", palette["accent"], "circle", [row for row in others if row.policy in best]),
        ("as recorded", palette["text"], "cross", [row for row in table if row.policy == AS_RECORDED]),
    )
    for name, colour, symbol, rows in groups:
        figure.add_scatter(
            **_place_rows(rows, colour, named=name in ("no other one beats it", "as recorded")),
            name=name,
            textfont={"color": palette["text"], "size": 11},
            marker={"color": colour, "symbol": symbol, "size": 9, "line": {"color": colour, "width": 1.5}},
            hovertemplate="%{customdata[0]}<br>cost ×%{x:.2f} (%{customdata[1]})<br>%{y:.1%} lost<extra></extra>",
        )
    _style_figure(figure, theme, height, bottom=52)
    low, high = min([0.5, *(row.low for row in table)]), max([2.0, *(row.high for row in table)])
    ticks = _choose_factors(log10(low), log10(high))
    figure.update_layout(showlegend=True, legend={"orientation": "h", "y": -0.16})
    figure.update_xaxes(
        type="log", tickvals=ticks, ticktext=[f"×{each:g}" for each in ticks], title="cost, the record being ×1", tickangle=0
    )
    most = max([0.01, *(row.lost for row in table)])
    below = [-0.1 * most, 1.08 * most]  # room for the record, which loses nothing, above the factors
    return figure.update_yaxes(title="lost references", tickformat=".0%", range=below, zeroline=False)


def _place_rows(rows: Sequence[PolicyRow], colour: str, *, named: bool) -> dict[str, Any]:
    """Points of a table with their intervals; with their names where `named`."""
    bars = {
        "array": [row.high - row.cost for row in rows],
        "arrayminus": [row.cost - row.low for row in rows],
        "type": "data",
        "symmetric": False,
    }
    return {
        "x": [row.cost for row in rows],
        "y": [row.lost for row in rows],
        "error_x": {**bars, "color": colour, "thickness": 1, "width": 0},
        "mode": "markers+text" if named else "markers",
        "text": [escape_label(row.policy) if named else "" for row in rows],
        "textposition": ["top right" if number % 2 else "bottom right" for number in range(len(rows))],  # neighbours stay apart
        "opacity": 1 if named else 0.65,
        "cliponaxis": False,
        "customdata": [(escape_label(row.policy), f"{row.low:.2f} to {row.high:.2f}") for row in rows],
    }


def _choose_factors(low: float, high: float) -> list[float]:
    """Three to five round factors between two ends, which are logarithms."""
    grids = ([each for each in ticks if low <= log10(each) <= high] for ticks in FACTORS)
    inside = next((grid for grid in grids if len(grid) > 2), [1.0])
    step = -(-len(inside) // 5)
    first = inside.index(1) % step if 1 in inside else 0
    return inside[first::step]


def _add_cross_hairs(figure: go.Figure, record: Row, palette: Mapping[str, str], low: float) -> None:
    """Lines through the record, and the quadrant of what is cheaper and loses less."""
    factor, lost = record.factor or 1.0, len(record.losses.hits)
    line = {"color": palette["faint"], "width": 1, "dash": "dot"}
    figure.add_vline(x=factor, line=line)
    figure.add_hline(y=lost, line=line)
    shade = {"fillcolor": palette["good"], "opacity": 0.1, "line": {"width": 0}, "layer": "below"}
    figure.add_shape(type="rect", x0=10**low, x1=factor, y0=-1e9, y1=lost, **shade)


def _add_front(figure: go.Figure, best: Sequence[Row], palette: Mapping[str, str], *, high: float, top: float) -> None:
    """The staircase through the Pareto-optimal policies."""
    points = sorted((row.factor or 0.0, len(row.losses.hits)) for row in best)
    if not points:
        return
    xs, ys = [points[0][0]], [top]
    for factor, lost in points:
        xs += [factor, factor]
        ys += [ys[-1], lost]
    xs.append(10**high)
    ys.append(ys[-1])
    line = {"color": palette["accent"], "width": 1.6}
    figure.add_scatter(x=xs, y=ys, mode="lines", line=line, hoverinfo="skip", showlegend=False)


def _label_points(
    figure: go.Figure,
    priced: Sequence[tuple[Row, Mark]],
    palette: Mapping[str, str],
    span: tuple[float, float],
    top: int,
) -> None:
    """Write name, dollars and losses at each point, in the first place that no other label takes."""
    wide, tall = 300 / (span[1] - span[0]), 270 / (1.26 * top)  # pixels for a unit, in a chart of usual size
    taken: list[tuple[float, float, float, float]] = [
        (log10(row.factor or 1) * wide - 9, len(row.losses.hits) * tall - 9, 18, 18) for row, _ in priced
    ]
    for points in _group_points(priced, wide, tall):
        row, mark = points[0]
        if len(priced) > MAX_LABELS and row.policy != AS_RECORDED:
            continue
        x, y = log10(row.factor or 1) * wide, len(row.losses.hits) * tall
        lines = _name_points(points)
        width = 5.4 * max(map(len, lines))
        places = [
            (x + 12, y + up, "left") if right else (x - 12 - width, y + up, "right")
            for up in (2, -14, -30, 22, -50, 42, -70, 62, 82, 102, 122, -95, -120, -145)
            for right in (True, False)
        ]
        low, high = -0.08 * top * tall, 1.18 * top * tall - 32
        inside = [p for p in places if span[0] * wide <= p[0] and p[0] + width <= span[1] * wide and low < p[1] < high]
        free = (p for p in inside if not any(_overlap((p[0], p[1], width, 32), other) for other in taken))
        left, bottom, side = next(free, (inside or places)[0])
        taken.append((left, bottom, width, 32))
        figure.add_annotation(
            x=log10(row.factor or 1),
            y=len(row.losses.hits),
            xanchor=side,
            yanchor="bottom",
            align=side,
            **_shift_label(12 if side == "left" else -12, bottom - y, palette),
            text=f"<b>{escape_label(lines[0])}</b><br>{escape_label(lines[1])}",
            bgcolor=palette["ground"],
            opacity=0.85,
            font={"size": 11, "color": mark.colour if not row.sendable else palette["text"]},
        )


def _shift_label(right: float, up: float, palette: Mapping[str, str]) -> dict[str, Any]:
    """Where a label stands, in pixels from its point; a line leads to one that is far from it."""
    if -NEAR_POINT <= up <= NEAR_POINT:
        return {"showarrow": False, "xshift": right, "yshift": up}
    return {"showarrow": True, "ax": right, "ay": -up, "arrowhead": 0, "arrowwidth": 1, "arrowcolor": palette["faint"]}


def _group_points(priced: Sequence[tuple[Row, Mark]], wide: float, tall: float) -> list[list[tuple[Row, Mark]]]:
    """Points that one place is marked with, the record's first; each place gets one label."""
    found: dict[tuple[int, int, bool], list[tuple[Row, Mark]]] = {}
    for pair in sorted(priced, key=lambda pair: (pair[0].policy != AS_RECORDED, -len(pair[0].losses.hits))):
        row = pair[0]
        place = round(log10(row.factor or 1) * wide / SAME), round(len(row.losses.hits) * tall / SAME), row.sendable
        found.setdefault(place, []).append(pair)
    return list(found.values())


def _name_points(points: Sequence[tuple[Row, Mark]]) -> tuple[str, str]:
    """The label at a place: its first policy and how many more there are, then dollars and losses."""
    row, mark = points[0]
    more = f" + {len(points) - 1} more" if len(points) > 1 else ""
    under = f"{format_usd(row.usd)} · {len(row.losses.hits):,} lost" if row.sendable else "does not fit"
    return f"{mark.text} {_shorten_title(row.title)}{more}", under


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return (
        one[0] < other[0] + other[2]
        and other[0] < one[0] + one[2]
        and one[1] < other[1] + other[3]
        and other[1] < one[1] + one[3]
    )


def _shorten_title(title: str) -> str:
    return title if len(title) <= 24 else title[:23] + "…"


def _shorten_tokens(tokens: int) -> str:
    if tokens < 1_000:
        return f"{tokens}"
    if tokens >= 999_500:
        return f"{tokens / 1_000_000:.1f}M".replace(".0M", "M")
    return f"{tokens / 1_000:g}k" if tokens % 100 == 0 else f"{tokens / 1_000:,.0f}k"


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
        x=[number_request(n) for n in at],
        y=[lost[n] for n in at],
        width=max(1.0, len(lost) / 240),
        marker={"color": PALETTES[theme]["bad"], "line": {"width": 0}},
        customdata=[(uses[n], lost[n] / uses[n]) for n in at],
        hovertemplate="request %{x:,}<br>%{y:,} of %{customdata[0]:,} missing, %{customdata[1]:.0%}<extra></extra>",
    )
    _style_figure(figure, theme, height, bottom=36)
    figure.update_xaxes(range=[0.5, len(lost) + 0.5])
    return figure.update_yaxes(title="missing", nticks=4)


def _style_figure(figure: go.Figure, theme: Theme, height: int, bottom: int) -> None:
    """Colours, margins and axes of both figures. `bottom`: pixels below the axis."""
    style_ground(figure, theme, height)
    figure.update_layout(margin={"l": 64, "r": 10, "t": 8, "b": bottom})
    figure.update_xaxes(showgrid=False, zeroline=False, fixedrange=True, title="request", tickformat=",d")
    figure.update_yaxes(gridcolor=PALETTES[theme]["free"], zeroline=False, fixedrange=True, rangemode="tozero")


def _choose_requests(sizes: Sequence[int]) -> list[int]:
    """The requests that are drawn: all, or the fullest one of each of `COLUMNS` bins."""
    step = max(1, -(-len(sizes) // COLUMNS))
    return [max(range(start, min(start + step, len(sizes))), key=sizes.__getitem__) for start in range(0, len(sizes), step)]
