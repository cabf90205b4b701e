"""The requests that cost most, each with its cause; a click on one goes there."""

from __future__ import annotations

from decimal import Decimal

import streamlit as st
from turnscope.numbering import format_request
from turnscope.views import expensive_requests
from turnscope.views.expensive_requests import ExpensiveRequest

from pages.parts import cards, opening
from pages.parts.formats import escape, format_percent, format_usd

TONES = {"break": "bad", "compact": "warn"}


def draw(shown: opening.ShownSession) -> None:
    """Draw the panel; nothing where no request has a price."""
    found = _find(shown, shown.key)
    if found:
        share = format_percent(expensive_requests.sum_share(shown.view, found))
        note = f"{share} of {format_usd(shown.view.path_total)}"
        most = max(each.usd for each in found)
        rows = "".join(_render_row(each, most) for each in found)
        st.html(cards.render_panel("Most expensive requests", f'<div class="ts-dear">{rows}</div>', note))


@st.cache_data(max_entries=24, show_spinner="Looking for the most expensive requests")
def _find(_shown: opening.ShownSession, key: str) -> tuple[ExpensiveRequest, ...]:  # noqa: ARG001  what the cache goes by
    return expensive_requests.find_expensive_requests(_shown.trace, _shown.view)


def _render_row(each: ExpensiveRequest, most: Decimal) -> str:
    meter = f'<i class="{TONES.get(each.kind, "")}" style="width:{100 * each.usd / most:.0f}%"></i>'
    words = f"<span>{escape(each.cause)}<small>{escape(each.detail)}</small></span>"
    end = f"<em>request {format_request(each.request)} →</em>"
    return (
        f'<button type="button" class="ts-go row" data-request="{each.request}">'
        f"<b>{format_usd(each.usd)}{meter}</b>{words}{end}</button>"
    )
