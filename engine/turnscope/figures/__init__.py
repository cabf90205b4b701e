"""Plotly figures, the same in pages, notebooks and reports."""

from turnscope.figures.charts import (
    MAX_COLUMNS,
    ROWS,
    STACK,
    Figure,
    Theme,
    compute_shades,
    draw_heatmap,
    draw_sawtooth,
    list_legend,
    to_html,
)
from turnscope.figures.forecasts import draw_front, draw_turns
from turnscope.figures.policy_charts import draw_fill, draw_losses
from turnscope.figures.shades import STEPS, Scale, Shades
from turnscope.figures.spending import draw_spending, draw_trend
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
    "compute_shades",
    "draw_fill",
    "draw_front",
    "draw_heatmap",
    "draw_losses",
    "draw_sawtooth",
    "draw_spending",
    "draw_trend",
    "draw_turns",
    "list_legend",
    "to_html",
]
