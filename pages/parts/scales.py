"""How to read the heatmap: one sentence, and what the brightness of its cells stands for."""

from __future__ import annotations

from turnscope import figures
from turnscope.views.columns import Measure, Unit

from pages.parts import state, theme
from pages.parts.formats import esc, k, percent, usd

BRIGHT: dict[Measure, str] = {"cost": "more dollars", "tokens": "more tokens", "share": "more of the window"}
SCALES: dict[figures.Scale, str] = {
    "rank": "by rank, so that half of the cells are brighter than the middle of the scale",
    "log": "on a logarithmic scale",
    "linear": "on a linear scale",
}


def draw(shown: state.Shown, by: Unit, measure: Measure, scale: figures.Scale, each: bool, parted: bool = False) -> str:
    """HTML of both, for the choices that the heatmap is drawn with."""
    rows = _rows(shown, by, measure, scale, each, parted)
    told = f"{' '.join(_told(by, measure, scale, parted))} Click a cell to go there, drag to sum up a range."
    if each:
        strips = "".join(_one(row, measure) for row in rows)
    else:
        lines = "".join(f'<i class="strip" style="{_fade(name)}"></i>' for name in dict.fromkeys(row.name for row in rows))
        cold = '<i class="strip" style="background:linear-gradient(90deg,var(--ts-panel),var(--ts-cold))"></i>'
        strips = f'<div class="ts-shades all">{lines}{cold}{_ends(rows[0], measure)}</div>' if rows else ""
    return f'<div class="ts-scales"><p>{told}</p>{strips}</div>'


def lines(shown: state.Shown, by: Unit, measure: Measure, scale: figures.Scale, each: bool, parted: bool = False) -> list[str]:
    """The same as text, for a chart that is taken away."""
    rows = _rows(shown, by, measure, scale, each, parted)
    spans = [(row.label if each else "All rows", [_value(row.values[place], measure) for place in (0, 2, -1)]) for row in rows]
    return [
        *(told := _told(by, measure, scale, parted)),
        *(f"{label}: darkest {low}, middle of the scale {middle}, brightest {high}." for label, (low, middle, high) in spans),
    ][: None if each else len(told) + 1]


def _rows(
    shown: state.Shown, by: Unit, measure: Measure, scale: figures.Scale, each: bool, parted: bool
) -> tuple[figures.Shades, ...]:
    return figures.compute_shades(shown.view, by, measure, scale, each, state.slots_of(shown, shown.key) if parted else None)


def _told(by: Unit, measure: Measure, scale: figures.Scale, parted: bool) -> tuple[str, ...]:
    one = "request" if by == "requests" else "turn"
    return (
        f"Each column is a {one}, each row a part of it; brighter = {BRIGHT[measure]}, {SCALES[scale]}.",
        "A bright column from top to bottom: the cache was lost.",
        *(["› stands for what was put in: a part of the bucket above it, at that bucket's price."] if parted else ()),
    )


def _one(row: figures.Shades, measure: Measure) -> str:
    strip = f'<i class="strip" style="{_fade(row.name)}"></i>'
    ends = _ends(row, measure, (0, -1))
    return f'<div class="ts-shades one"><span>{esc(row.label)}</span>{strip}{ends}</div>'


def _fade(name: str) -> str:
    return f"background:linear-gradient(90deg,var(--ts-panel),{theme.palette()[name]})"


def _ends(row: figures.Shades, measure: Measure, places: tuple[int, ...] = (0, 2, -1)) -> str:
    texts = "".join(f"<span>{_value(row.values[place], measure)}</span>" for place in places)
    return f'<div class="ends">{texts}</div>'


def _value(value: float, measure: Measure) -> str:
    if measure == "cost":
        return usd(value) if value >= 0.0005 or not value else "<$0.001"
    return percent(value) if measure == "share" else k(round(value))
