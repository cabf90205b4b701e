"""Plotly figures, the same in pages, notebooks and reports."""

from turnscope.figures.bars import draw_bars
from turnscope.figures.charts import (
    MAX_COLUMNS,
    ROWS,
    STACK,
    Figure,
    RowStyle,
    Theme,
    compute_shades,
    draw_heatmap,
    draw_sawtooth,
    list_legend,
    to_html,
)
from turnscope.figures.exports import keep_in_exports
from turnscope.figures.forecasts import draw_front, draw_turns
from turnscope.figures.policy_charts import Mark, draw_fill, draw_losses, draw_pareto, draw_policy_table, mark_policies
from turnscope.figures.spending import draw_spending, draw_trend
from turnscope.palette import PALETTES, choose_ink
from turnscope.views.columns import Measure, Unit
from turnscope.views.shades import STEPS, Scale, Shades

__all__ = [
    "MAX_COLUMNS",
    "PALETTES",
    "ROWS",
    "STACK",
    "STEPS",
    "Figure",
    "Mark",
    "Measure",
    "RowStyle",
    "Scale",
    "Shades",
    "Theme",
    "Unit",
    "choose_ink",
    "compute_shades",
    "draw_bars",
    "draw_fill",
    "draw_front",
    "draw_heatmap",
    "draw_losses",
    "draw_pareto",
    "draw_policy_table",
    "draw_sawtooth",
    "draw_spending",
    "draw_trend",
    "draw_turns",
    "keep_in_exports",
    "list_legend",
    "mark_policies",
    "to_html",
]
