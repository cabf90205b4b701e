"""Figures in notebooks that are handed on."""

from __future__ import annotations

import plotly.io as pio

RENDERER = "notebook"  # writes a figure as HTML, with Plotly's script once in the notebook


def keep_in_exports() -> None:
    """Keep figures in what nbconvert makes of a notebook. Call it once, before the first figure.

    Plotly writes a figure as data of its own kind, which a notebook draws and an HTML page does not. From this call on it is
    HTML, too. The script of Plotly goes into the notebook, about 5 MB, so nothing is loaded from afar.
    """
    renderers = [name for name in (pio.renderers.default or "").split("+") if name]
    if RENDERER not in renderers:
        pio.renderers.default = "+".join((*renderers, RENDERER))
