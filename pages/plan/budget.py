"""The budget calculator on the page: fields for a conversation that is only planned, and what policies do to it.

`?what=budget&policies=a,b` and a number by each field's name, where it is not the one that a field begins with.
"""

from __future__ import annotations

from typing import Literal

import streamlit as st
import turnscope
from turnscope import Policy, TurnscopeError, figures, library

from pages.parts import opening, policies, theme, url, widgets
from pages.parts.formats import escape, format_usd
from pages.plan import links

WORDS = {
    "window": "Window",
    "system": "System prompt",
    "tools": "Tools",
    "person": "User tokens per turn",
    "answer": "Answer tokens per turn",
    "results": "Tool results per turn",
    "calls": "Tool rounds per turn",
    "turns": "Turns",
    "pause": "Pause (seconds)",
}
STEPS = {
    "window": 10_000,
    "system": 500,
    "tools": 1_000,
    "person": 50,
    "answer": 100,
    "results": 500,
    "calls": 1,
    "turns": 10,
    "pause": 60,
}
WHAT: dict[Literal["budget", "advise"], str] = {"budget": "Budget", "advise": "Advise"}


def choose_tool() -> Literal["budget", "advise"]:
    """Which of the two this page shows; the URL says it."""
    return url.draw_choice("What to plan", WHAT, "what", "plan.what")


def draw(shown: opening.ShownSession | None = None) -> None:
    """Fields, the answer in a sentence, a line per policy over turns, and all of it as a table."""
    top = st.empty()  # the answer, which stands first and is known last
    st.html(
        '<div class="ts-empty">No session is needed: set the sizes, in tokens, and see how each policy fills the window.</div>'
    )
    known = {name: policy for name, policy in policies.load_policies().policies.items() if name != policies.RECORDED}
    named = [name for name in url.get_view("policies").split(",") if name in known]
    named = named or [name for name in library.CALCULATED_POLICIES if name in known]
    try:
        shape = _draw_fields()
        picked = st.multiselect(
            "Policies",
            [*known],
            named,
            key="plan.policies",
            format_func=lambda name: known[name].title or name,
            on_change=url.follow("policies", "plan.policies", named),
        )
        url.write("policies", "plan.policies", ",".join(picked))
        made = _calculate(shape, {name: known[name].to_toml() for name in picked}, [known[name] for name in picked])
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return
    if not made.outlooks:
        return
    top.html(_render_answer(made))
    figure = figures.draw_turns(made.outlooks, theme.get_theme())
    st.html(_render_legend(made, figure))
    st.plotly_chart(
        figure.update_layout(showlegend=False),
        key="plan-turns",
        theme=None,
        config={"displayModeBar": False},
        alt="share of the window at every turn under each policy",
    )
    _draw_table(made)
    links.link_comparison(shown, picked)


def _draw_fields() -> library.Shape:
    """What is planned; each number stands in the URL where it is not the usual one."""
    usual = {name: value for name, value, _ in library.FIELDS}
    hints = {name: text for name, _, text in library.FIELDS}
    numbers: dict[str, int] = {}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="plan-fields"):
        for name, words in WORDS.items():
            of = (words, 0, None, _read_field(name, usual[name]), STEPS[name])
            numbers[name] = int(st.number_input(*of, key=f"plan.{name}", width=150, help=hints[name].capitalize()))
        models = list(dict.fromkeys((st.query_params.get("model") or usual["model"], usual["model"], *MODELS)))
        model = st.selectbox(
            "Model", models, key="plan.model", width=220, accept_new_options=True, help=hints["model"].capitalize()
        )
    for name, value in (numbers | {"model": model}).items():
        if value == usual[name]:
            st.query_params.pop(name, None)
        else:
            st.query_params[name] = str(value)
    return library.Shape(**numbers, model=str(model))


def _read_field(name: str, usual: int) -> int:
    text = st.query_params.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 10 else usual


STROKES = {"dash": "dashed", "dot": "dotted", "dashdot": "dashed"}  # Plotly's names of strokes -> those of CSS
MODELS = ("claude-opus-4-8", "claude-haiku-4-5", "claude-sonnet-5", "gpt-5", "gpt-5-mini", "gemini-2.5-pro")


@st.cache_data(max_entries=32, show_spinner="Planning …")
def _calculate(shape: library.Shape, texts: dict[str, str], _policies: list[Policy]) -> library.Calculation:  # noqa: ARG001  what the cache goes by
    return turnscope.calculate(shape, _policies)


def _render_answer(made: library.Calculation) -> str:
    """Who gets through at what price, in a sentence."""
    through = [each for each in made.outlooks if each.ends is None and each.row.usd is not None]
    turns = made.shape.turns
    if through:
        best = min(through, key=lambda each: each.row.usd or 0)
        many = f"{len(through)} of {len(made.outlooks)} policies get"
        first = f"; it cuts first at turn {best.first:,}" if best.first else " and cuts nothing"
        sentence = f"{many} through all {turns:,} turns. {best.row.title} is the cheapest: {format_usd(best.row.usd)}{first}."
    elif any(each.ends is None for each in made.outlooks):
        sentence = f"No price is known for {made.shape.model}; how full the window gets is known all the same."
    else:
        sentence = f"None of these policies gets through all {turns:,} turns: a request does not fit any more."
    return f'<div class="ts-headline">{escape(sentence)}</div>'


def _render_legend(made: library.Calculation, figure: figures.Figure) -> str:
    """Which line is whose. It wraps in a narrow window, where a legend inside the chart has to be scrolled."""
    lines = (trace.line for trace in figure.data if trace.mode == "lines")
    keys = "".join(
        f'<span><i style="width:22px;border-top:2px {STROKES.get(line.dash, "solid")} {line.color}"></i>'
        f"{escape(each.row.title)}</span>"
        for each, line in zip(made.outlooks, lines, strict=True)
    )
    return f'<div class="ts-legend">{keys}</div>'


def _draw_table(made: library.Calculation) -> None:
    rows = made.outlooks
    st.dataframe(
        {
            "policy": [each.row.title for each in rows],
            "cost": [None if each.row.usd is None else float(each.row.usd) for each in rows],
            "from cache": [100 * each.row.cost.cache_share for each in rows],
            "kept": [100 * each.row.kept_share for each in rows],
            "peak fill": [100 * each.row.peak[0] for each in rows],
            "first cut, turn": [each.first for each in rows],
            "cuts": [each.cuts for each in rows],
            "overflows at turn": [each.ends for each in rows],
        },
        hide_index=True,
        key="plan.table",
        placeholder="–",
        column_config={
            "cost": st.column_config.NumberColumn(format="$%.2f", help="list prices, simulated prompt cache, with summaries"),
            **{
                name: st.column_config.NumberColumn(format="%.0f %%", help=hint)
                for name, hint in {
                    "from cache": "share of all prompt tokens that a cache would have served",
                    "kept": "tokens sent, of those with everything kept",
                    "peak fill": "of the window, at the fullest request",
                }.items()
            },
            "cuts": st.column_config.NumberColumn(help="requests at which something is cut"),
        },
    )
    st.download_button("Table as CSV", made.to_csv(), "budget.csv", "text/csv", icon=":material/download:", key="plan.csv")
