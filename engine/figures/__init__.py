"""Figures in Plotly, the same in pages, notebooks and reports."""

from engine.figures.charts import (
    MAX_COLUMNS,
    ROWS,
    STACK,
    STEPS,
    Theme,
    heatmap,
    html,
    legend,
    sawtooth,
)
from engine.figures.palette import PALETTES, ink

__all__ = [
    "MAX_COLUMNS",
    "PALETTES",
    "ROWS",
    "STACK",
    "STEPS",
    "Theme",
    "heatmap",
    "html",
    "ink",
    "legend",
    "sawtooth",
]
