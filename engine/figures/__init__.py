"""Figures in Plotly, the same in pages, notebooks and reports."""

from engine.figures.ahead import front, turns
from engine.figures.charts import (
    MAX_COLUMNS,
    ROWS,
    STACK,
    Figure,
    Theme,
    heatmap,
    html,
    legend,
    sawtooth,
    shades,
)
from engine.figures.comparing import fills, missing
from engine.figures.shades import STEPS, Scale, Shades
from engine.figures.spending import spending, trend
from engine.palette import PALETTES, ink
from engine.views.columns import Measure, Unit

__all__ = [
    "MAX_COLUMNS",
    "PALETTES",
    "ROWS",
    "STACK",
    "STEPS",
    "Figure",
    "Measure",
    "Scale",
    "Shades",
    "Theme",
    "Unit",
    "fills",
    "front",
    "heatmap",
    "html",
    "ink",
    "legend",
    "missing",
    "sawtooth",
    "shades",
    "spending",
    "trend",
    "turns",
]
