"""Figures in Plotly, the same in pages, notebooks and reports."""

from engine.figures.charts import (
    MAX_COLUMNS,
    ROWS,
    STACK,
    STEPS,
    Figure,
    Scale,
    Theme,
    heatmap,
    html,
    legend,
    sawtooth,
)
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
    "Theme",
    "Unit",
    "heatmap",
    "html",
    "ink",
    "legend",
    "sawtooth",
]
