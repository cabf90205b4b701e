"""Charts and tables as HTML and SVG that need nothing else. Colours are variables of the style; texts are escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape, unescape
from itertools import groupby

import numpy as np

from turnscope.numbering import format_request
from turnscope.views import columns
from turnscope.views.events import CUT_KINDS, EVENTS, SIGNS
from turnscope.views.overview import CELLS, LABELS, Marker, Overview
from turnscope.views.phrases import format_tokens, format_usd
from turnscope.views.request_summary import SEGMENT_ORDER
from turnscope.views.shades import STEPS, Ramp

WIDTH, HEIGHT = 1_000, 220  # of the stacked chart, in its own units
POINTS = 480  # columns of the charts, at most
HEADROOM = 1.22  # of the axis; events stand above the areas
NUMBERS = 5  # requests that an axis names
SHORT = {"earlier": "Earlier", "reinjected": "Injected", "prefix": "System + tools"}  # names at the rows of the heatmap
STYLE = """
body{margin:0;background:var(--ground);color:var(--text);font:14px/1.5 system-ui,sans-serif}
main{max-width:1080px;margin:0 auto;padding:24px 20px 40px}h1{font-size:24px;margin:0 0 8px;overflow-wrap:anywhere}
h2{font-size:17px;margin:28px 0 6px}p{margin:6px 0}
.chips span{display:inline-block;background:var(--panel);border:1px solid var(--border);border-radius:12px;padding:1px 10px;
margin:0 6px 6px 0;font-size:13px}.found{background:var(--panel);border-left:3px solid var(--accent);padding:6px 12px}
.note{color:var(--faint);font-size:13px}
.scroll{overflow-x:auto}.tall{max-height:600px;overflow-y:auto}table{border-collapse:collapse;width:100%;font-size:13px}
th{text-align:left;font-weight:400;color:var(--faint);white-space:nowrap}
.tall th{position:sticky;top:0;background:var(--ground)}
th,td{padding:4px 14px 4px 0;border-bottom:1px solid var(--border);vertical-align:top;overflow-wrap:break-word}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere;font:12px/1.45 ui-monospace,monospace}
td>b{white-space:nowrap}b.pass{color:var(--good)}b.fail{color:var(--bad)}b.warning{color:var(--warn)}b.unknown{color:var(--faint)}
.legend{font-size:13px;line-height:1.9}.legend span{margin-right:14px;white-space:nowrap;display:inline-block}
.legend i{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:5px}
.legend i.line{height:0;border-top:2px solid var(--bad);width:16px;border-radius:0;vertical-align:middle}
.legend i.dash{border-top:2px dashed var(--warn)}.legend b{margin-right:5px;font-weight:400}
.plot{display:grid;grid-template-columns:108px minmax(0,1fr);gap:2px 8px;font-size:12px;color:var(--faint)}
.plot>.y{text-align:right;line-height:22px;white-space:nowrap}.plot>.axis{position:relative;height:220px}
.axis>span{position:absolute;right:0;transform:translateY(-50%)}.plot svg{display:block;width:100%}
.area{position:relative}.area b{position:absolute;transform:translateX(-50%);font-size:12px;line-height:1;font-weight:400}
.ends{display:flex;justify-content:space-between}
details{border:1px solid var(--border);border-radius:8px;margin:10px 0;padding:8px 14px}
summary{cursor:pointer;font-weight:600}summary em{font-style:normal;font-weight:400;color:var(--faint);margin-left:8px}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
.heat{display:grid;gap:1px;font-size:11px;font-variant-numeric:tabular-nums}
.heat div{padding:0 6px;height:16px;line-height:16px;text-align:right;overflow:hidden;white-space:nowrap}
.heat>.h{color:var(--faint);height:auto;text-align:right}footer{margin-top:30px;color:var(--faint);font-size:12px}
@media(max-width:600px){.plot{grid-template-columns:76px minmax(0,1fr)}.plot>.y{overflow:hidden;text-overflow:ellipsis}}
@media print{*{print-color-adjust:exact;-webkit-print-color-adjust:exact}main{max-width:none;padding:0}
.tall{max-height:none;overflow:visible}h2{break-after:avoid}.plot,.legend,tr,.found{break-inside:avoid}
details:not([open]),.more:not(:has([open])){display:none}}
"""


def strip_tags(html: str) -> str:
    """The text of HTML, without its tags."""
    return unescape(re.sub(r"<[^>]*>", "\n", html))


def draw_table(head: Sequence[str], rows: Iterable[Sequence[str]], tall: str = "") -> str:
    """Draw a table. Numbers are aligned to the right.

    Args:
        head: names of the columns.
        rows: cells, which are HTML already.
        tall: what a long table holds, which then scrolls by itself; "" = a short one.
    """
    listed = list(rows)
    numbers = [bool(listed) and all(map(_is_number, column)) for column in zip(*listed, strict=True)] or [False] * len(head)
    names = "".join(f"<th{' class=n' if n else ''}>{escape(name)}</th>" for name, n in zip(head, numbers, strict=True))
    body = "".join(f"<tr>{''.join(map(_draw_cell, row))}</tr>" for row in listed)
    return f"{_open_box(tall)}<table><tr>{names}</tr>{body}</table></div>"


def _is_number(value: str) -> bool:
    return not value or bool(re.fullmatch(r"[<$]*[0-9][0-9.,%]*|&lt;[$][0-9.]+", value))


def _draw_cell(value: str) -> str:
    return f"<td{' class=n' if value and _is_number(value) else ''}>{value}</td>"


def _open_box(tall: str) -> str:
    """The start of a box that scrolls; a tall one is reached by keyboard."""
    return f'<div class="scroll tall" tabindex=0 role=region aria-label="{escape(tall)}">' if tall else "<div class=scroll>"


def fold(title: str, size: str, body: str) -> str:
    """What is folded away until somebody opens it.

    Args:
        title: what it is.
        size: how much of it there is.
        body: HTML.
    """
    return f"<details><summary>{escape(title)}<em>{escape(size)}</em></summary>{body}</details>"


def draw_legend(view: Overview, *, heat: bool = False) -> str:
    """Draw the colours of the cells that occur, in the order of the stack, and the signs of the events.

    Args:
        view: the session, with its cache misses among the markers.
        heat: whether the legend is that of the heatmap, which shades what is read from the cache.
    """
    parts = [f'<span><i style="background:{_get_colour(name)}"></i>{escape(LABELS[name])}</span>' for name in _list_cells(view)]
    if heat:
        return '<p class=legend><span><i style="background:var(--cold)"></i>mostly read from cache</span></p>'
    if view.windows.any():
        share = f"{columns.WARN_AT:.0%}"
        parts += ["<span><i class=line></i>window</span>", f'<span><i class="line dash"></i>{share} of it</span>']
    parts += [
        f'<span title="{escape(EVENTS[kind].meaning)}"><b style="color:var(--{colour})">{sign}</b>'
        f"{EVENTS[kind].format_count(count)}</span>"
        for kind, (sign, colour) in SIGNS.items()
        if (count := sum(marker.kind == kind for marker in view.markers))
    ]
    return f"<p class=legend>{''.join(parts)}</p>"


def _list_cells(view: Overview) -> list[str]:
    """The cells that occur, from the bottom of the stack."""
    return [name for name in SEGMENT_ORDER if len(view) and view.cells[:, CELLS.index(name)].any()]


def draw_fill(view: Overview) -> str:
    """Draw the tokens of every request by bucket, stacked as in the app, with the window, 90 % of it, and the events."""
    if not len(view):
        return "<p>No requests.</p>"
    shown = columns.build_outline(view, "requests", POINTS).request
    cells = view.cells[shown][:, [CELLS.index(name) for name in _list_cells(view)]]
    sums, top = np.cumsum(cells, axis=1), columns.find_top(view) * HEADROOM
    xs = np.append(shown, len(view)) * WIDTH / len(view)
    lower: np.ndarray = np.zeros(len(shown))
    parts = []
    for number, name in enumerate(_list_cells(view)):
        up, down = (_build_steps(xs, HEIGHT - line * HEIGHT / top) for line in (sums[:, number], lower))
        parts.append(f'<polygon fill="{_get_colour(name)}" points="{" ".join((*up, *reversed(down)))}"/>')
        lower = sums[:, number]
    parts += _draw_window_lines(view, top)
    drawn = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" height={HEIGHT} preserveAspectRatio=none role=img '
        f'aria-label="Prompt tokens by bucket">{"".join(parts)}</svg>'
    )
    window = int(view.windows.max(initial=0))
    named = sorted({0, window if window <= columns.find_top(view) else 0, int(view.prompts.max())})
    numbers = [value for n, value in enumerate(named) if n in (0, len(named) - 1) or value > 0.1 * top]
    if len(numbers) > 2 and numbers[-1] - numbers[-2] < 0.08 * top:
        numbers = [0, window]
    axis = "".join(f'<span style="top:{100 - 100 * value / top:.1f}%">{format_tokens(value)}</span>' for value in numbers)
    area = f"<div class=area>{drawn}{''.join(_draw_events(view))}</div>"
    return f"<div class=plot><div class=axis>{axis}</div>{area}{_draw_numbers(view)}</div>"


def _build_steps(xs: np.ndarray, ys: np.ndarray) -> list[str]:
    return [f"{x:.1f},{y:.1f}" for n, y in enumerate(ys) for x in (xs[n], xs[n + 1])]


def _draw_window_lines(view: Overview, top: float) -> Iterator[str]:
    """The window and 90 % of it, both with a step where the model changes."""
    for window, requests in groupby(range(len(view)), key=lambda n: int(view.windows[n])):
        span = list(requests)
        if not window or window * HEADROOM > top * 1.001:
            continue
        x = [place * WIDTH / len(view) for place in (span[0], span[-1] + 1)]
        for share, colour, dash in ((1.0, "bad", ""), (columns.WARN_AT, "warn", ' stroke-dasharray="6 4"')):
            y = HEIGHT - window * share * HEIGHT / top
            yield (
                f'<line x1="{x[0]:.1f}" x2="{x[1]:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--{colour})"{dash} '
                'vector-effect="non-scaling-stroke"/>'
            )


def _draw_events(view: Overview) -> Iterator[str]:
    """Signs above the areas, those of the window above the others; at most one of a kind per column."""
    width = -(-len(view) // POINTS)
    marks: dict[tuple[str, int], Marker] = {(mark.kind, mark.request // width): mark for mark in view.markers}
    for mark in marks.values():
        sign, colour = SIGNS[mark.kind]
        style = f"left:{100 * (mark.request + 0.5) / len(view):.2f}%;top:{1 if mark.kind in CUT_KINDS else 15}px"
        hint = escape(f"request {format_request(mark.request)}: {mark.what}")
        yield f'<b style="{style};color:var(--{colour})" title="{hint}">{sign}</b>'


def _draw_numbers(view: Overview) -> str:
    places = sorted({round(i * (len(view) - 1) / (NUMBERS - 1)) for i in range(NUMBERS)})
    names = "".join(f"<span>{'request ' if not n else ''}{format_request(n)}</span>" for n in places)
    return f"<span></span><div class=ends>{names}</div>"


def draw_heatmap(view: Overview) -> str:
    """Draw requests across and buckets down, as in the app: the stronger a cell, the more it cost, each row by itself."""
    measure: columns.Measure = "cost" if view.usd.any() else "tokens"
    rows = [name for name in _list_cells(view) if name != "unattributed"]
    if not rows:
        return "<p>No requests.</p>"
    grid = columns.build_grid(view, "requests", measure, POINTS)
    drawn = []
    for name in rows:
        cell = CELLS.index(name)
        values = grid.values[:, cell]
        shades = Ramp.from_values(values[:, None], "log").to_bytes(values, grid.cached[:, cell]).tolist()
        parts, at = [], 0
        for shade, run in groupby(shades):
            many = len(list(run))
            if shade:
                cold, level = divmod(shade, STEPS + 1)
                colour = "var(--cold)" if cold else _get_colour(name)
                opacity = 0.1 + 0.9 * level / STEPS
                parts.append(f'<rect x="{at}" width="{many}" height="1" fill="{colour}" fill-opacity="{opacity:.2f}"/>')
            at += many
        strip = f'<svg viewBox="0 0 {at} 1" height=22 preserveAspectRatio=none role=img aria-label="{escape(LABELS[name])}">'
        label = SHORT.get(name, LABELS[name])
        drawn.append(f"<div class=y>{escape(label)}</div>{strip}{''.join(parts)}</svg>")
    return f"<div class=plot>{''.join(drawn)}{_draw_numbers(view)}</div>"


def draw_numbers(view: Overview) -> str:
    """Draw every request and bucket as a coloured cell with its number: USD where prices are known, else tokens."""
    priced = bool(view.usd.any())
    values = view.usd if priced else view.cells.astype(np.float64)
    shown = [CELLS.index(name) for name in _list_cells(view) if values[:, CELLS.index(name)].any()]
    if not shown:
        return "<p>No requests.</p>"
    strong = np.sqrt(np.maximum(values, 0) / values[:, shown].max())
    head = "".join(f"<div class=h>{escape(SHORT.get(CELLS[number], LABELS[CELLS[number]]))}</div>" for number in shown)
    rows = []
    for n in range(len(view)):
        row = [f"<div class=h>{format_request(n)}</div>"]
        for number in shown:
            share, value = float(strong[n, number]), float(values[n, number])
            text = (f"{value:.4f}" if priced else f"{value:,.0f}") if value else ""
            colour = f"color-mix(in srgb,{_get_colour(CELLS[number])} {60 * share:.0f}%,var(--panel))"
            row.append(f'<div style="background:{colour}">{text}</div>')
        total = view.totals[n]
        row.append(f"<div>{format_usd(total) if total is not None else f'{view.get_prompt(n):,}'}</div>")
        rows.append("".join(row))
    unit = "USD" if priced else "tokens"
    grid = f"grid-template-columns:60px repeat({len(shown)},minmax(70px,1fr)) minmax(70px,1fr)"
    last = "<div class=h>with its answer</div>" if priced else "<div class=h>prompt</div>"
    box = _open_box("Every request by bucket")
    return f'{box}<div class=heat style="{grid}"><div class=h>{unit}</div>{head}{last}{"".join(rows)}</div></div>'


def _get_colour(name: str) -> str:
    return f"var(--{name.replace('_', '-')})"
