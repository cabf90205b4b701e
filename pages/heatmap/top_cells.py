"""The largest cells of the heatmap, each a way to its request."""

from __future__ import annotations

import streamlit as st
from turnscope.numbering import format_request, format_requests
from turnscope.views import columns
from turnscope.views import overview as views
from turnscope.views.columns import Measure, TopCell

from pages.heatmap.chart import Choices
from pages.parts import cards, opening
from pages.parts.formats import escape, format_percent, format_tokens, format_usd

SHOWN = 8


def draw(shown: opening.ShownSession, chosen: Choices) -> None:
    """Draw the list: of the range that is zoomed into, else of the whole session.

    Args:
        shown: the session that is shown.
        chosen: what the heatmap shows.
    """
    found = columns.list_top_cells(shown.view, chosen.measure, SHOWN, chosen.span)
    if found:
        where = f"requests {format_requests(*chosen.span)}" if chosen.span else "whole session"
        rows = "".join(_render_cell(cell, chosen.measure, found[0].value) for cell in found)
        st.html(cards.render_panel("Largest cells", f'<div class="ts-top-cells">{rows}</div>', where))


def _render_cell(cell: TopCell, measure: Measure, most: float) -> str:
    format_value = {"cost": format_usd, "tokens": format_tokens, "share": format_percent}[measure]
    meter = f'<i style="width:{100 * cell.value / most:.0f}%;{cards.fill_style(cell.name)}"></i>'
    billed = "read from cache" if cell.cached else "billed in full"
    words = f"<span>{escape(views.LABELS[cell.name])}<small>{cell.tokens:,} tokens, {billed}</small></span>"
    return (
        f'<button type="button" class="ts-go row" data-request="{cell.request}">'
        f"<b>{escape(format_value(cell.value))}{meter}</b>{words}<em>request {format_request(cell.request)} →</em></button>"
    )
