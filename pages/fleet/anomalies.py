"""Days, tools and prompts that stand out against earlier ones, with what is compared and how far off it is."""

from __future__ import annotations

from urllib.parse import urlencode

import streamlit as st
from turnscope.fleet.anomalies import LIMIT, WEEKS, Anomaly, find_anomalies
from turnscope.fleet.warehouse import Selection, Warehouse

from pages.fleet import choices
from pages.parts.formats import escape

HEADS = {"day": "Cost of a day", "tool": "Failing calls", "prompt": "Another prompt"}


def draw(warehouse: Warehouse, chosen: Selection) -> None:
    """The list, in which each line leads to the costs of its days.

    Args:
        warehouse: the tables.
        chosen: what is looked at.
    """
    by = choices.draw_group(warehouse, "Days of each", {**choices.GROUPS, "day": "All together"})
    found = find_anomalies(warehouse, chosen, by)
    st.html(
        f'<p class="fleet-hint">A day is held against the same weekday of up to {WEEKS} weeks before, a week of a called tool '
        f"against those before it. Listed is what lies {LIMIT} robust standard deviations (σ: 1.4826 times the median absolute "
        "deviation) or more off the median, and each change of the system prompt that most requests carry.</p>"
    )
    if not found:
        st.html('<p class="ts-empty">Nothing stands out.</p>')
        return
    for kind, title in HEADS.items():
        lines = [_render(one) for one in found if one.kind == kind]
        if lines:
            st.html(f'<h2 class="ts-section">{title}</h2><ul class="fleet-why">{"".join(lines)}</ul>')


def _render(one: Anomaly) -> str:
    known = {name: st.query_params[name] for name in choices.NAMES if name in st.query_params and name not in ("view", "by")}
    query = known | {"from": one.since.isoformat(), "to": one.until.isoformat()}
    if one.group in choices.GROUPS:
        query |= {one.group: one.name}
    if one.kind == "tool":
        query |= {"view": "sessions"}
    days = f"{one.since:%a} {one.since.isoformat()}" + ("" if one.until == one.since else f" to {one.until.isoformat()}")
    name = escape(one.name or ("all together" if not one.group else choices.UNKNOWN))
    side = "up" if one.off > 0 else "down"
    off = f"{one.off:+,.1f}".replace("-", "−")
    return (
        f'<li><b>{name}</b> · <a href="/fleet?{escape(urlencode(query))}" target="_self">{days}</a> · '
        f'<span class="{side}">{off} σ</span><br>{escape(one.text)}</li>'
    )
