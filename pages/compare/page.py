"""Policies side by side: what each would have cost, filled, refused and lost on this session; and two sessions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import streamlit as st
from turnscope import TurnscopeError, figures
from turnscope.views import comparison, recommendation

from pages.compare import cards, charts, choices, lost_references, lost_text, sessions, table, two_policies, windows
from pages.parts import header, opening, policies, replays, savings, theme, url, widgets
from pages.parts.formats import escape
from pages.parts.replays import PolicyChoice

SHEET = Path(__file__).parent / "browser" / "compare.css"


def draw() -> None:
    """Draw the page."""
    shown = header.draw_header(middle=False)
    theme.add_sheet(SHEET)
    answer = st.empty()
    chosen = choices.choose()
    try:
        answer.html('<h2 class="ts-section">Comparing policies</h2>')  # until the first row is there
        rows = replays.replay_rows(shown, chosen)
        if rows:
            answer.empty()
            whole = len(rows) == len(chosen.policies)
            _draw_answer(rows, answer if whole else None, chosen.model)
            _draw_rows(shown, rows, comparison.find_pareto_optimal(rows) if whole else ())
            savings.draw(shown)
            _draw_details(shown, rows, chosen)
    except TurnscopeError as error:  # of a replay, whichever part of the page it was for
        widgets.draw_notice(error.what, error.hint)
    sessions.draw(shown)
    _link_plans(shown, [name for name in chosen.policies if name != policies.RECORDED])


def _draw_answer(rows: Sequence[comparison.Row], place: st.delta_generator.DeltaGenerator | None, model: str) -> None:
    """Which policy to take, above all figures, once every replay is done; below the choices, how the figures are made."""
    if place and (found := recommendation.recommend(rows, model)):
        more = f"<p>{escape(found.more)}</p>" if found.more else ""
        place.html(f'<div class="cmp-verdict" role="status"><h2>{_emphasize(found.text)}</h2>{more}</div>')
    record = next((row for row in rows if row.calibration), None)
    calibration = ""
    if record:
        word, _, rest = record.calibration.partition(": ")
        brief = rest.partition("; ")[0].partition(" (")[0]
        calibration = f'<b class="{"" if record.is_calibrated else "warn"}">{word}</b>: {escape(brief)}.'
    hint = f"{comparison.ASSUMPTIONS} {record.calibration if record else ''}"
    star = '<span class="star">★</span> Pareto-optimal: nothing that fits is both cheaper and loses less' if place else ""
    st.html(
        f'<div class="cmp-key"><span>{calibration}</span><span>{star}<i></i>the record<i class="limit"></i>window</span>'
        f"<details><summary>How this is simulated</summary><p>{escape(hint)}</p></details></div>"
    )


def _emphasize(text: str) -> str:
    """A sentence as HTML, with its dollars and its saving in bold."""
    return re.sub(r"\$[\d.,]*\d|\d+% less", r"<b>\g<0></b>", escape(text))


def _draw_rows(shown: opening.ShownSession, rows: Sequence[comparison.Row], best: Sequence[str]) -> None:
    """The cards, the charts, and below them all figures next to what was lost."""
    if len(rows) <= cards.MAX_CARDS:
        st.html(cards.render_cards(rows, figures.mark_policies(rows, theme.get_theme()), best))
    charts.draw(rows, best)
    with st.container(key="compare-below"):
        left, right = st.columns([1, 1], gap="medium")
    with left:
        table.draw(shown, rows, best)
    with right:
        lost_references.draw(shown, rows)


def _draw_details(shown: opening.ShownSession, rows: Sequence[comparison.Row], chosen: PolicyChoice) -> None:
    """Single requests, single texts, other windows."""
    two_policies.draw(shown, rows, chosen)
    lost_text.draw(shown, chosen)
    windows.draw(shown, chosen)


def _link_plans(shown: opening.ShownSession, names: Sequence[str]) -> None:
    """Link to the plans of a conversation under these policies, and of the first one's parameters."""
    budget = url.make_link(shown, "plan", what="budget", policies=",".join(names))
    advise = url.make_link(shown, "plan", what="advise", **({"policy": names[0]} if names else {}))
    st.html(
        f'<div class="ts-empty">Plan ahead: <a href="{escape(budget)}" target="_self">try these policies on a planned '
        f'conversation</a>, or <a href="{escape(advise)}" target="_self">tune their parameters on this session</a>.</div>'
    )
