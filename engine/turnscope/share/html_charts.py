"""Charts and tables as HTML and SVG that need nothing else. Colours are variables of the style; texts are escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape, unescape

import numpy as np

from turnscope.counting.reconciliation import Ints
from turnscope.views.overview import CELLS, LABELS, Overview

WIDTH, HEIGHT = 1_000, 220  # of the stacked chart, in its own units
POINTS = 1_000  # requests that the chart shows, at most
STYLE = """
body{margin:0;background:var(--ground);color:var(--text);font:14px/1.5 system-ui,sans-serif}
main{max-width:1080px;margin:0 auto;padding:24px 20px 60px}h1{font-size:24px;margin:0 0 8px;overflow-wrap:anywhere}
h2{font-size:17px;margin:34px 0 8px}h3{font-size:14px;margin:16px 0 4px}p{margin:6px 0}
.chips span{display:inline-block;background:var(--panel);border:1px solid var(--border);border-radius:12px;padding:1px 10px;
margin:0 6px 6px 0;font-size:13px}.found{background:var(--panel);border-left:3px solid var(--accent);padding:6px 12px}
.scroll{overflow-x:auto}.tall{max-height:600px;overflow-y:auto}table{border-collapse:collapse;width:100%;font-size:13px}
th{text-align:left;font-weight:400;color:var(--faint);white-space:nowrap}
th,td{padding:4px 14px 4px 0;border-bottom:1px solid var(--border);vertical-align:top}
td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere;font:12px/1.45 ui-monospace,monospace}
b.pass{color:var(--good)}b.fail{color:var(--bad)}b.warning{color:var(--warn)}b.unknown{color:var(--faint)}
.legend span{margin-right:14px;white-space:nowrap}.legend i{display:inline-block;width:10px;height:10px;border-radius:2px;
margin-right:5px}svg{display:block;width:100%}.heat{display:grid;gap:1px;font-size:11px;font-variant-numeric:tabular-nums}
.heat div{padding:0 6px;height:16px;line-height:16px;text-align:right;overflow:hidden;white-space:nowrap}
.heat>.h{color:var(--faint);height:auto;text-align:right}footer{margin-top:40px;color:var(--faint);font-size:12px}
"""


def strip_tags(html: str) -> str:
    """The text of HTML, without its tags."""
    return unescape(re.sub(r"<[^>]*>", "\n", html))


def draw_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Draw a table. Numbers are aligned to the right.

    Args:
        head: names of the columns.
        rows: cells, which are HTML already.
    """
    body = "".join(f"<tr>{''.join(_draw_cell(value) for value in row)}</tr>" for row in rows)
    return f"<div class=scroll><table><tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>{body}</table></div>"


def _draw_cell(value: str) -> str:
    return f"<td{' class=n' if re.fullmatch(r'[$]?[0-9][0-9.,%]*', value) else ''}>{value}</td>"


def draw_legend(labels: Mapping[str, str], cells: Ints) -> str:
    """Draw the colours of the cells that occur.

    Args:
        labels: names of the cells.
        cells: tokens, `[request, cell]`.
    """
    found = [name for number, name in enumerate(CELLS) if len(cells) and cells[:, number].any()]
    parts = (f'<span><i style="background:{_get_colour(name)}"></i>{escape(labels[name])}</span>' for name in found)
    return f"<p class=legend>{''.join(parts)}</p>"


def draw_fill(cells: Ints, windows: Ints, marks: Sequence[tuple[int, str, str]]) -> str:
    """Draw the tokens of every request by bucket, stacked, with the window as a line and events as marks.

    Args:
        cells: tokens, `[request, cell]`.
        windows: tokens of each request's window; 0 = unknown.
        marks: request, kind and description of each event.
    """
    many = len(cells)
    if not many:
        return "<p>No requests.</p>"
    at = np.unique(np.linspace(0, many - 1, min(many, POINTS)).astype(int))
    sums = np.cumsum(cells[at], axis=1)
    window = int(windows.max(initial=0))
    top = max(int(sums.max(initial=0)), window if window < 2 * int(sums.max(initial=1)) else 0, 1)
    xs = np.append(at, many) * WIDTH / many
    parts = []
    for number, name in enumerate(CELLS):
        lower = sums[:, number - 1] if number else np.zeros(len(at), dtype=int)
        if (sums[:, number] > lower).any():
            up, down = (_build_steps(xs, HEIGHT - line * HEIGHT / top) for line in (sums[:, number], lower))
            parts.append(f'<polygon fill="{_get_colour(name)}" points="{up} {" ".join(reversed(down.split()))}"/>')
    if window and window <= top:
        y = HEIGHT - window * HEIGHT / top
        parts.append(f'<line x1="0" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--bad)" stroke-dasharray="6 4"/>')
    for request, kind, what in marks:
        x = (request + 0.5) * WIDTH / many
        hint = f"<title>request {request:,}: {escape(what)}</title>"
        colour = "var(--warn)" if kind == "break" else "var(--bad)"
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{HEIGHT}" stroke="{colour}" stroke-width="1.5">{hint}</line>')
    drawn = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Prompt tokens by bucket">{"".join(parts)}</svg>'
    return f"{drawn}<p class=legend><span>0 to {top:,} tokens; requests 0 to {many - 1:,}</span></p>"


def _build_steps(xs: np.ndarray, ys: np.ndarray) -> str:
    pairs = ((x, y) for n, y in enumerate(ys) for x in (xs[n], xs[n + 1]))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in pairs)


def draw_heatmap(view: Overview) -> str:
    """Draw every request and bucket as a coloured cell with its number: USD where prices are known, else tokens."""
    priced = bool(view.usd.any())
    values = view.usd if priced else view.cells.astype(np.float64)
    shown = [number for number in range(len(CELLS)) if values[:, number].any()] if len(view) else []
    if not shown:
        return "<p>No requests.</p>"
    strong = np.sqrt(values / values[:, shown].max())
    head = "".join(f"<div class=h>{escape(LABELS[CELLS[number]])}</div>" for number in shown)
    rows = []
    for n in range(len(view)):
        row = [f"<div class=h>{n:,}</div>"]
        for number in shown:
            share, value = float(strong[n, number]), float(values[n, number])
            text = (f"{value:.4f}" if priced else f"{value:,.0f}") if value else ""
            colour = f"color-mix(in srgb,{_get_colour(CELLS[number])} {100 * share:.0f}%,var(--panel))"
            row.append(f'<div style="background:{colour}">{text}</div>')
        rows.append("".join(row))
    unit = "USD" if priced else "tokens"
    grid = f"grid-template-columns:60px repeat({len(shown)},minmax(70px,1fr))"
    return f'<div class="scroll tall"><div class=heat style="{grid}"><div class=h>{unit}</div>{head}{"".join(rows)}</div></div>'


def _get_colour(name: str) -> str:
    return f"var(--{name.replace('_', '-')})"
