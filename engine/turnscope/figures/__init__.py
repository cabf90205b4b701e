"""Figures in Plotly, the same in pages, notebooks and reports."""

from turnscope.figures.ahead import front, turns
from turnscope.figures.charts import (
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
from turnscope.figures.comparing import fills, missing
from turnscope.figures.shades import STEPS, Scale, Shades
from turnscope.figures.spending import spending, trend
from turnscope.palette import PALETTES, choose_ink
from turnscope.views.columns import Measure, Unit

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
    "choose_ink",
    "fills",
    "front",
    "heatmap",
    "html",
    "legend",
    "missing",
    "sawtooth",
    "shades",
    "spending",
    "trend",
    "turns",
]
