"""How to read the heatmap: one sentence, and what the brightness of its cells stands for."""

from __future__ import annotations

from turnscope import figures
from turnscope.views.columns import Measure

from pages.heatmap import chart
from pages.heatmap.chart import Choices
from pages.parts import opening, theme
from pages.parts.formats import escape, format_percent, format_tokens, format_usd

BRIGHT: dict[Measure, str] = {"cost": "more dollars", "tokens": "more tokens", "share": "more of the window"}
SCALES: dict[figures.Scale, str] = {
    "rank": "by percentile, so that half of the cells are stronger than the middle of the scale",
    "log": "on a logarithmic scale",
    "linear": "on a linear scale",
}


def render(shown: opening.ShownSession, chosen: Choices) -> str:
    """HTML of both, for the choices that the heatmap is drawn with.

    Args:
        shown: the session that is shown.
        chosen: what the heatmap shows.
    """
    rows = _compute_shades(shown, chosen)
    hint = f"{' '.join(_describe_cells(chosen))} Click a cell to go there, drag to select a range."
    measure = chosen.measure
    if chosen.each:
        strips = "".join(_render_row(row, measure) for row in rows)
    else:
        lines = "".join(
            f'<i class="strip" style="{_fade_style(name)}"></i>' for name in dict.fromkeys(row.name for row in rows)
        )
        cold = '<i class="strip" style="background:linear-gradient(90deg,var(--ts-panel),var(--ts-cold))"></i>'
        strips = f'<div class="ts-shades all">{lines}{cold}{_render_ends(rows[0], measure)}</div>' if rows else ""
    return f'<div class="ts-scales"><p>{hint}</p>{strips}</div>'


def describe(shown: opening.ShownSession, chosen: Choices) -> list[str]:
    """The same as text, for a chart that is taken away.

    Args:
        shown: the session that is shown.
        chosen: what the heatmap shows.
    """
    rows = _compute_shades(shown, chosen)
    spans = [
        (row.label if chosen.each else "All rows", [_format_value(row.values[place], chosen.measure) for place in (0, 2, -1)])
        for row in rows
    ]
    return [
        *(cells := _describe_cells(chosen)),
        *(f"{label}: faintest {low}, middle of the scale {middle}, strongest {high}." for label, (low, middle, high) in spans),
    ][: None if chosen.each else len(cells) + 1]


def _compute_shades(shown: opening.ShownSession, chosen: Choices) -> tuple[figures.Shades, ...]:
    parts = chart.find_slots(shown, shown.key) if chosen.parted else None
    return figures.compute_shades(shown.view, chosen.by, chosen.measure, chosen.scale, chosen.each, parts, chosen.span)


def _describe_cells(chosen: Choices) -> tuple[str, ...]:
    one = "request" if chosen.by == "requests" else "turn"
    return (
        f"Each column is a {one}, each row a part of it; stronger = {BRIGHT[chosen.measure]}, {SCALES[chosen.scale]}.",
        "A strong column from top to bottom: a cache miss.",
        *(["› is what was inserted: a part of the bucket above it, at that bucket's price."] if chosen.parted else ()),
    )


def _render_row(row: figures.Shades, measure: Measure) -> str:
    strip = f'<i class="strip" style="{_fade_style(row.name)}"></i>'
    ends = _render_ends(row, measure, (0, -1))
    return f'<div class="ts-shades one"><span>{escape(row.label)}</span>{strip}{ends}</div>'


def _fade_style(name: str) -> str:
    return f"background:linear-gradient(90deg,var(--ts-panel),{theme.get_palette()[name]})"


def _render_ends(row: figures.Shades, measure: Measure, places: tuple[int, ...] = (0, 2, -1)) -> str:
    texts = "".join(f"<span>{_format_value(row.values[place], measure)}</span>" for place in places)
    return f'<div class="ends">{texts}</div>'


def _format_value(value: float, measure: Measure) -> str:
    if measure == "cost":
        return format_usd(value) if value >= 0.0005 or not value else "<$0.001"
    return format_percent(value) if measure == "share" else format_tokens(round(value))
