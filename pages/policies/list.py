"""The list of policies: a line each with its proof, what is left of a full window under it, and its figures on the samples."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import log
from pathlib import Path
from statistics import median
from typing import Any

import streamlit as st
from turnscope.views import policy_figures, policy_traits

from pages.parts import policies, theme, widgets
from pages.parts.components import define_component
from pages.parts.formats import shorten

_HERE = Path(__file__).parent / "browser"
KEY = "policies.list"
LEAST, MOST = 0.4, 4.0  # factors at the ends of the axis of costs, which is logarithmic
MOST_LOST = 0.4  # share of lost references at the end of its axis
SURE = {
    "wire": "✔ on the wire",
    "verified": "✔ original's outputs",
    "partly": "✔ partly",
    "source": "‹› source",
    "approximate": "approximate",
    "illustrative": "illustrative",
}
_list = define_component(
    "turnscope_policies",
    html='<div class="list" tabindex="-1"></div>',
    css=theme.read_files(_HERE, "list.css"),
    js=theme.REDRAW + theme.read_files(_HERE, "list.js"),
)


def draw(found: Sequence[policy_traits.Traits], opened: str, picked: Sequence[str]) -> None:
    """Draw the list. What is clicked goes into the address.

    Args:
        found: the policies, group by group.
        opened: name of the one whose details are shown; "" = none.
        picked: names of those that are chosen for a comparison.
    """

    def follow() -> None:
        sent = widgets.read_report(KEY, "event")
        if not sent:
            return
        names = [str(name) for name in sent.get("picked", ()) if isinstance(name, str)]
        for key, value in (("picked", ",".join(names)), ("policy", str(sent.get("open") or st.query_params.get("policy", "")))):
            if value:
                st.query_params[key] = value
            else:
                st.query_params.pop(key, None)

    groups = [
        {"title": system, "rows": [_build_row(each) for each in rows]}
        for system, rows in groupby(found, lambda one: one.system)
    ]
    before = _list_segments(policy_figures.load_figures().get("keep-everything"))
    data = {"groups": groups, "open": opened, "picked": list(picked), "base": place_factor(1.0), "before": before}
    _list(key=KEY, data=data, default={"event": None}, on_event_change=follow)


def _build_row(traits: policy_traits.Traits) -> dict[str, Any]:
    figures = traits.figures
    factors, lost = (figures.factors, figures.losses) if figures else ([], [])
    return {
        "name": traits.name,
        "title": traits.title,
        "line": shorten(traits.line, 120),
        "doc": shorten(traits.doc, 600),
        "proof": traits.proof,
        "sure": SURE[traits.proof],
        "strip": _list_segments(figures),
        "cost": "the record" if traits.name == policies.RECORDED else format_factors(figures),
        "costs": [place_factor(each) for each in (factors[0], median(factors), factors[-1])] if factors else None,
        "lost": format_losses(figures),
        "losses": [_place_loss(each) for each in (lost[0], median(lost), lost[-1])] if lost else None,
    }


def _list_segments(figures: policy_figures.PolicyFigures | None) -> list[tuple[str, str, float]]:
    return [(part.bucket, part.state, part.share) for part in figures.strip] if figures else []


def place_factor(factor: float) -> float:
    """Where a factor stands on the axis of costs, in percent of its length."""
    return round(100 * log(min(max(factor, LEAST), MOST) / LEAST) / log(MOST / LEAST), 1)


def _place_loss(share: float) -> float:
    return round(100 * min(share, MOST_LOST) / MOST_LOST, 1)


def format_factors(figures: policy_figures.PolicyFigures | None) -> str:
    """The range of a policy's factors on the samples that it could send."""
    factors = figures.factors if figures else []
    if not factors:
        return "does not fit" if figures else "not measured"
    return f"×{factors[0]:.2f}" if factors[0] == factors[-1] else f"×{factors[0]:.2f}–{factors[-1]:.2f}"


def format_losses(figures: policy_figures.PolicyFigures | None) -> str:
    """The range of a policy's shares of lost references on the same samples."""
    lost = figures.losses if figures else []
    if not lost:
        return ""
    least, most = round(100 * lost[0]), round(100 * lost[-1])
    return "none" if not lost[-1] else f"{least}%" if least == most else f"{least}–{most}%"
