"""Plotly figures of an overview: the saw-tooth of the session, and the heatmap over its five buckets.

They are the same in pages, notebooks and reports, and need no network. `views` has the numbers; this module bins, colours and
labels them. Plotly renders a little HTML, so session text becomes a label through `escape_label` only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Literal, NamedTuple

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from turnscope.counting.reconciliation import HIDDEN_CELLS
from turnscope.library import opening
from turnscope.numbering import FIRST, format_request, index_request, number_request
from turnscope.palette import PALETTES, choose_ink, mix_colours
from turnscope.planning.trace import Trace
from turnscope.session.model import Session
from turnscope.views import columns, request_summary
from turnscope.views import overview as views
from turnscope.views.columns import Grid, Measure, Outline, Requests, Unit
from turnscope.views.events import CUT_KINDS, EVENTS, SIGNS
from turnscope.views.overview import CELLS, LABELS, Overview
from turnscope.views.shades import STEPS, Ramp, Scale, Shades
from turnscope.views.slots import Slots, split_by_slot

__all__ = [
    "PALETTES",
    "STACK",
    "SYMBOLS",
    "RowStyle",
    "Theme",
    "choose_ink",
    "compute_shades",
    "draw_heatmap",
    "draw_sawtooth",
    "list_legend",
    "number_axis",
    "style_ground",
    "to_html",
]

Figure = go.Figure
Theme = Literal["dark", "light"]

ROWS = ("system", "tools", "messages", "tool_results", "thinking")
STACK = request_summary.SEGMENT_ORDER  # from the bottom of the saw-tooth; what the log does not hold comes first
MAX_COLUMNS = 480  # columns narrower than a pixel or two are slow and not visible
_SYMBOLS = {
    "compact": "triangle-down",
    "cut": "square",
    "clear": "triangle-down-open",
    "unlogged": "triangle-left-open",
    "back": "triangle-up",
    "break": "diamond",
    "overflow": "x",
    "retry": "x-thin-open",
    "subagent": "circle",
    "side": "circle-open",
}
SYMBOLS: Mapping[str, tuple[str, str]] = {  # kind of marker: Plotly symbol, palette colour; `EVENTS` has the words
    kind: (_SYMBOLS[kind], colour) for kind, (_, colour) in SIGNS.items()
}
MAX_NUMBERED = 12  # numbers below an axis, at most
_STEPS = [width * 10**power for power in range(9) for width in (1, 2, 5)]  # distances between the numbers of an axis
HATCHES = {"prefix": "/", "earlier": "\\", "reinjected": "-", "unattributed": "x"}  # patterns of cells that no block belongs to
PREFIX_ROW = 0.5  # the height of the row of the prefix, in rows
HEIGHT = 486  # pixels of the heatmap with its saw-tooth
SLOT_ROW = 20  # pixels that a row of a slot adds
SLOT_MARGIN = 128  # pixels for the names of slots, at the rows
FONT = "Source Sans, Source Sans Pro, system-ui, sans-serif"  # the app's own font, if it is there
MANY_MARKERS = 60  # markers of one kind from which on they are drawn smaller
SHORT = {"earlier": "Earlier", "reinjected": "Injected", "prefix": "Not in the log"}  # short names at the rows
WINDOW_EVENTS = (*CUT_KINDS, "back", "overflow")  # events of the window are drawn above events of the request


class RowStyle(NamedTuple):
    """How the rows of the heatmap are drawn.

    Attributes:
        each: each row on a scale of its own, see `compute_shades`.
        parts: inserts by slot, each in a row of its own below its bucket, which is shown without them.
    """

    each: bool = True
    parts: Slots | None = None


def draw_sawtooth(of: Overview | Session, by: Unit = "requests", theme: Theme = "dark", height: int = 246) -> go.Figure:
    """Draw the prompt tokens of a session, stacked by bucket, with the window, a warning line and markers.

    Args:
        of: an overview, or a session.
        by: requests or turns.
        theme: dark or light.
        height: pixels.
    """
    view, palette = _load_overview(of)[0], PALETTES[theme]
    figure = make_subplots(rows=1, cols=1)
    _add_areas(figure, view, by, palette)
    _style_figure(figure, view, by=by, palette=palette, height=height, row=1)
    return figure


def draw_heatmap(
    of: Overview | Session,
    by: Unit = "requests",
    measure: Measure = "cost",
    scale: Scale = "log",
    theme: Theme = "dark",
    trace: Trace | None = None,
    rows: RowStyle | None = None,
    span: Requests | None = None,
) -> go.Figure:
    """Draw requests or turns (columns) by buckets (rows), below the saw-tooth on the same axis.

    The custom data of a cell begins with the request that a click leads to: in a binned column, the one with the largest value
    of that row. Cells that were mostly read from the cache have a colour of their own.

    Args:
        of: an overview, or a session.
        by: requests or turns.
        measure: tokens, USD, or share of the window.
        scale: brightness by rank among all cells, or by value.
        theme: dark or light.
        trace: with an overview, so that hovering shows what a bucket consists of; a session needs none.
        rows: how the rows are drawn; None = each on a scale of its own, and inserts in their buckets.
        span: requests `[start, stop)` to show; None = all.
    """
    (view, trace), palette = _load_overview(of, trace), PALETTES[theme]
    each, parts = rows or RowStyle()
    grid = columns.build_grid(split_by_slot(view, parts) if parts else view, by, measure, MAX_COLUMNS, span)
    more = SLOT_ROW * len(parts.names) if parts else 0
    share = 0.58 if not more else (0.58 * HEIGHT + more) / (HEIGHT + more)
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.045, row_heights=[1 - share, share])
    _add_areas(figure, view, by, palette, span)
    drawn = _build_rows(grid, parts)
    _add_heatmap(
        figure,
        grid,
        rows=drawn,
        ramps=_choose_ramps(grid, drawn, scale, each),
        palette=palette,
        kinds=_describe_cells(trace, grid),
    )
    _style_figure(figure, view, by=by, palette=palette, height=HEIGHT + more, row=2, span=span)
    if parts:
        figure.update_layout(margin_l=SLOT_MARGIN)
    return figure


def to_html(figure: go.Figure, ground: str = "", captions: Sequence[str] = ()) -> str:
    """Write a figure as one HTML page that needs nothing else. Plotly's script is inside (5 MB).

    Args:
        figure: the figure.
        ground: colour of the background.
        captions: lines of text below the figure.
    """
    if captions:
        bottom, height = figure.layout.margin.b, figure.layout.height
        room = 16 * len(captions)
        figure = go.Figure(figure).update_layout(margin={"b": bottom + room}, height=height + room)
        place = {"x": 0, "y": 0, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "top", "yshift": -bottom}
        figure.add_annotation(
            text="<br>".join(escape(line, quote=False) for line in captions), align="left", showarrow=False, **place
        )
    if ground:
        figure = go.Figure(figure).update_layout(paper_bgcolor=ground)
    return str(figure.to_html(include_plotlyjs=True, full_html=True, config={"displaylogo": False}))


def _load_overview(of: Overview | Session, trace: Trace | None = None) -> tuple[Overview, Trace | None]:
    if not isinstance(of, Session):
        return of, trace
    trace = trace or opening.replay(of)
    return request_summary.annotate(trace, views.build_overview(trace))[0], trace


def _add_areas(figure: go.Figure, view: Overview, by: Unit, palette: Mapping[str, str], span: Requests | None = None) -> None:
    """Add the stacked areas, an invisible line that answers the mouse, the window's lines and the markers."""
    rows = columns.build_outline(view, by, MAX_COLUMNS, span)
    stack = view.cells[rows.request]
    x = rows.x.astype(np.int16 if len(view) <= 32_767 else np.int32)
    present = [name for name in STACK if view.cells[:, CELLS.index(name)].any()]
    for name in present:
        hatch = HATCHES.get(name)
        area = go.Scatter(
            x=x,
            y=stack[:, CELLS.index(name)].astype(np.int32),
            stackgroup="tokens",
            mode="none",
            name=LABELS[name],
            fillcolor=palette[name],
            fillpattern={"shape": hatch, "fgcolor": palette[name], "bgcolor": palette["panel"], "size": 6} if hatch else None,
            hoverinfo="skip",
        )
        figure.add_trace(area, row=1, col=1)
    figure.add_trace(_build_outline(view, rows, x=x, present=present, palette=palette), row=1, col=1)
    _add_window_lines(figure, view, by, palette)
    _add_markers(figure, view, by, palette)


def _build_outline(view: Overview, rows: Outline, x: Any, present: Sequence[str], palette: Mapping[str, str]) -> go.Scatter:
    """The upper edge of the areas. Only this line answers the mouse, with all numbers of the request."""
    n = rows.request
    fill = np.nan_to_num(view.fill[n])
    usd = view.usd[n].sum(axis=1) + view.answer_usd[n]
    facts = [n, n + FIRST, view.turns[n] + FIRST, fill, usd, *(view.cells[n, CELLS.index(name)] for name in present)]
    parts = "".join(f"<br>{LABELS[name]} %{{customdata[{5 + i}]:,}}" for i, name in enumerate(present))
    return go.Scatter(
        x=x,
        y=view.prompts[n].astype(np.int32),
        mode="lines",
        line={"width": 1.2, "color": palette["edge"]},
        customdata=np.stack(facts, axis=1).astype(np.float32),
        hovertemplate="<b>request %{customdata[1]:,}</b> · turn %{customdata[2]:,}<br>%{y:,} tokens"
        f" · %{{customdata[3]:.0%}} of the window · $%{{customdata[4]:.4f}}{parts}<extra></extra>",
        name="prompt",
    )


def _add_window_lines(figure: go.Figure, view: Overview, by: Unit, palette: Mapping[str, str]) -> None:
    """Add the window and 90 % of it, where the window is known. Both step where the model changes."""
    top = columns.find_top(view)
    x = columns.list_positions(view, by)
    change = np.flatnonzero(np.diff(view.windows)) + 1
    starts = [0, *change.tolist()]
    stops = [*change.tolist(), len(view)]
    for start, stop in zip(starts, stops, strict=True):
        window = int(view.windows[start]) if len(view) else 0
        if not window or window > top:
            continue
        span = [int(x[start]) - 0.5, int(x[stop - 1]) + 0.5]
        for share, colour, dash in ((1.0, "bad", "solid"), (columns.WARN_AT, "warn", "dash")):
            line = {"color": palette[colour], "width": 1, "dash": dash}
            shape = {"type": "line", "x0": span[0], "x1": span[1], "y0": window * share, "y1": window * share, "line": line}
            figure.add_shape(shape, row=1, col=1)


def _add_markers(figure: go.Figure, view: Overview, by: Unit, palette: Mapping[str, str]) -> None:
    """Add one trace per kind of marker, on a line above the areas; at most one marker of a kind per column."""
    x, top = columns.list_positions(view, by), columns.find_top(view)
    width = max(1, -(-(int(x[-1]) + 1 if len(x) else 1) // MAX_COLUMNS))
    for kind, (symbol, colour) in reversed(list(SYMBOLS.items())):
        word = EVENTS[kind].word
        marks = {int(x[m.request]) // width: m for m in view.markers if m.kind == kind}
        if not marks:
            continue
        figure.add_trace(
            go.Scatter(
                x=[int(x[m.request]) for m in marks.values()],
                y=[top * (1.15 if kind in WINDOW_EVENTS else 1.06)] * len(marks),
                mode="markers",
                marker={
                    "symbol": symbol,
                    "size": 10 if len(marks) <= MANY_MARKERS else 6,
                    "color": palette[colour],
                    "line": {"color": palette[colour], "width": 2 if "open" in symbol else 0},
                },
                customdata=[[m.request, format_request(m.request)] for m in marks.values()],
                text=[escape_label(m.what) for m in marks.values()],
                hovertemplate=f"<b>{word}</b> at request %{{customdata[1]}}<br>%{{text}}<extra></extra>",
                name=word,
                cliponaxis=False,
            ),
            row=1,
            col=1,
        )


def _describe_cells(trace: Trace | None, grid: Grid) -> list[list[str]]:
    """By bucket and column, the content of the request that a click leads to."""
    if trace is None:
        return [[""] * len(grid.values) for _ in ROWS]
    wanted = grid.facts[:, :5, 0].astype(np.int64)
    shown = np.unique(wanted).tolist()
    texts = dict(zip(shown, request_summary.describe_buckets(trace, shown), strict=True))
    return [
        [escape_label(texts[int(n)][i]) + "<br>" if texts[int(n)][i] else "" for n in wanted[:, i]] for i in range(len(ROWS))
    ]


class _Row(NamedTuple):
    name: str  # names its colour
    cell: int
    y: float  # its middle
    tall: float
    title: str
    label: str  # the text next to it


def _build_rows(grid: Grid, parts: Slots | None = None) -> list[_Row]:
    """Rows from the top: what the log does not hold, then the buckets, each with its slots below it.

    Where the log holds neither system prompt nor tools, the prefix stands for both. It hardly changes, so its row is narrow.
    """
    hidden = [name for name in HIDDEN_CELLS if grid.tokens[:, CELLS.index(name)].any()]
    static = bool(grid.tokens[:, :2].any()) or bool(parts and {*ROWS[:2]} & {*parts.buckets})
    merged = "prefix" in hidden and not static
    above = [name for name in hidden if not (merged and name == "prefix")]
    shown = [*above, *(["prefix"] if merged else ROWS[:2] if static or not hidden else []), *ROWS[2:]]
    rows, top = list[_Row](), -0.5
    for name in reversed(shown):
        tall = PREFIX_ROW if name == "prefix" else 1.0
        for i, title in reversed([*enumerate(parts.labels)] if parts else []):
            if parts and parts.buckets[i] == name:
                rows.append(_Row(name=name, cell=len(CELLS) + i, y=top + 0.5, tall=1, title=title, label=f"› {title}"))
                top += 1
        label = "System + tools" if merged and name == "prefix" else SHORT.get(name, LABELS[name])
        rows.append(_Row(name=name, cell=CELLS.index(name), y=top + tall / 2, tall=tall, title=LABELS[name], label=label))
        top += tall
    return rows[::-1]


def _choose_ramps(grid: Grid, rows: Sequence[_Row], scale: Scale, each: bool) -> dict[int, Ramp]:
    """The ramp of each row's cell: over its own values, or over those of all rows."""
    cells = [row.cell for row in rows]
    return {cell: Ramp.from_values(grid.values[:, [cell] if each else cells], scale) for cell in cells}


def compute_shades(
    view: Overview,
    by: Unit = "requests",
    measure: Measure = "cost",
    scale: Scale = "log",
    each: bool = True,
    parts: Slots | None = None,
    span: Requests | None = None,
) -> tuple[Shades, ...]:
    """Compute what the brightness in `draw_heatmap` means, row by row from the top. Rows on one scale have the same values.

    Args:
        view: the session.
        by: requests or turns.
        measure: tokens, USD, or share of the window.
        scale: brightness by rank among all cells, or by value.
        each: each row on a scale of its own.
        parts: inserts by slot, each in a row of its own.
        span: requests `[start, stop)` to show; None = all.
    """
    grid = columns.build_grid(split_by_slot(view, parts) if parts else view, by, measure, MAX_COLUMNS, span)
    rows = _build_rows(grid, parts)
    ramps = _choose_ramps(grid, rows, scale, each)
    return tuple(Shades(row.name, row.label, ramps[row.cell].list_ticks()) for row in rows)


def _add_heatmap(
    figure: go.Figure,
    grid: Grid,
    rows: Sequence[_Row],
    ramps: Mapping[int, Ramp],
    palette: Mapping[str, str],
    kinds: list[list[str]],
) -> None:
    """Add one heatmap trace per row, each in its own colours."""
    template = (
        "<b>request %{customdata[10]:,}</b> · turn %{customdata[11]:,}<br>%{fullData.name}: %{customdata[2]:,} tokens"
        " (%{customdata[3]:.1%})<br>%{text}$%{customdata[4]:.4f}<br>"
        "read from cache %{customdata[5]:,} · written %{customdata[6]:,} · uncached %{customdata[7]:,}<br>"
        "the answer: %{customdata[8]:,} tokens, $%{customdata[9]:.4f}<extra></extra>"
    )
    for name, cell, y, tall, title, _ in rows:
        figure.add_trace(
            go.Heatmap(
                z=ramps[cell].to_bytes(grid.values[:, cell], grid.cached[:, cell])[None, :],
                x0=grid.first + (grid.width - 1) / 2,
                dx=grid.width,
                y0=y,
                dy=tall,
                zmin=0,
                zmax=2 * STEPS + 1,
                colorscale=_build_colorscale(palette[name], palette),
                showscale=False,
                ygap=3,
                xgap=0 if len(grid.values) > 160 else 1,
                customdata=np.hstack([facts := grid.facts[:, cell], facts[:, :2] + FIRST]).astype(np.float32)[None],
                text=[kinds[cell] if cell < len(ROWS) else [""] * len(grid.values)],
                hovertemplate=template,
                name=title,
            ),
            row=2,
            col=1,
        )
    names = [row.label for row in rows]
    top = rows[0].y + rows[0].tall / 2
    figure.update_yaxes(range=[-0.5, top], tickvals=[row.y for row in rows], ticktext=names, row=2, col=1)


def _build_colorscale(colour: str, palette: Mapping[str, str]) -> list[list[Any]]:
    """Two ramps on one scale: from the panel to the bucket's colour, and from the panel to the colour of cached cells."""
    half, ground = STEPS / (2 * STEPS + 1), palette["panel"]
    faint = mix_colours(ground, colour, 0.10)
    cold = mix_colours(ground, mix_colours(palette["cold"], colour, 0.4), 0.72)
    warm = [[0, ground], [1 / (2 * STEPS + 1), faint], [half, colour]]
    return [*warm, [half + 1e-6, mix_colours(ground, cold, 0.12)], [1, cold]]


def _style_figure(
    figure: go.Figure,
    view: Overview,
    by: Unit,
    palette: Mapping[str, str],
    height: int,
    row: int,
    span: Requests | None = None,
) -> None:
    first, stop = columns.find_places(view, by, span)
    figure.update_layout(
        height=height,
        margin={"l": 92, "r": 14, "t": 22, "b": 44},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        hovermode="x",
        dragmode=False,
        showlegend=False,
        font={"family": FONT, "size": 12, "color": palette["faint"]},
        hoverlabel={
            "bgcolor": palette["panel"],
            "bordercolor": palette["border"],
            "align": "left",
            "font": {"color": palette["text"], "size": 12},
        },
        meta={"starts": [turn.start for turn in views.list_turns(view)] if by == "turns" else None},
    )
    figure.update_xaxes(showgrid=False, zeroline=False, fixedrange=True, range=[first - 0.5, max(stop, first + 1) - 0.5])
    number_axis(figure, first, stop)
    figure.update_yaxes(showgrid=False, zeroline=False, fixedrange=True)
    for axis in (figure.update_xaxes, figure.update_yaxes):  # invisible ticks keep the two zeros of the corner apart
        axis(ticks="outside", ticklen=5, tickcolor="rgba(0,0,0,0)")
    figure.update_yaxes(range=[0, columns.find_top(view) * 1.22], nticks=4, tickformat="~s", row=1, col=1)
    title = {"text": "request" if by == "requests" else "turn", "standoff": 8, "font": {"size": 12}}
    figure.update_xaxes(title=title, row=row, col=1)


def style_ground(figure: go.Figure, theme: Theme, height: int, ink: str = "text") -> None:
    """Style what all figures of one panel share: a ground that lets the page through, the font, the labels, no dragging.

    Args:
        figure: the figure.
        theme: dark or light.
        height: pixels.
        ink: the colour of the font, by its name in the palette.
    """
    palette = PALETTES[theme]
    figure.update_layout(
        height=height,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        dragmode=False,
        font={"family": FONT, "size": 12, "color": palette[ink]},
        hoverlabel={"bgcolor": palette["panel"], "bordercolor": palette["border"], "font": {"color": palette["text"]}},
    )


def number_axis(figure: go.Figure, first: int, stop: int) -> None:
    """Number an axis of requests or turns, whose positions count from 0, as people count them.

    Args:
        figure: the figure.
        first: the first position on the axis.
        stop: the position after the last one.
    """
    step = next(width for width in _STEPS if stop - first <= MAX_NUMBERED * width)
    even = range(index_request(step * -(-number_request(first) // step)), stop, step)
    places = [first, *(place for place in even if place - first >= step / 2)] if stop > first else []
    figure.update_xaxes(tickvals=places, ticktext=[format_request(place) for place in places])


def escape_label(text: str) -> str:
    """Escape session text for Plotly, which would render tags and links."""
    return escape(" ".join(text.split())[:160], quote=False)


def list_legend(view: Overview) -> Sequence[tuple[str, str, str]]:
    """List the kinds of markers that a session has, in the order of `SYMBOLS`: kind, palette colour, word."""
    kinds = {marker.kind for marker in view.markers}
    return [(kind, colour, EVENTS[kind].word) for kind, (_, colour) in SYMBOLS.items() if kind in kinds]
