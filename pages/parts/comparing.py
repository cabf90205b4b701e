"""The parts of the compare page: choosing policies, model and budget, their replays on the shelf, the table and the chart.

`?policies=a,b&model=m&window=n&limit=n`, beside what `state` reads. Replays are those of `replays`; what one came to is kept as
a row, so that a policy whose replay left the shelf is not replayed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import streamlit as st

from engine import Policy, Trace, figures, library
from engine.views import comparison, knobs
from pages.parts import replays, state, theme
from pages.parts.formats import esc

POLL = 0.5  # seconds
_KEPT = 64  # rows
Key = tuple[str, int, int, str]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is compared: policies by name, with the budget that was chosen; `model`: as if it had been asked, "" = as it was."""

    policies: Mapping[str, Policy]
    model: str = ""


def choose() -> Chosen:
    """Which policies, on which model, in which window and budget; all of it stands in the URL."""
    known = replays.shelf().policies
    asked = st.query_params
    named = [name for name in asked.get("policies", "").split(",") if name in known]
    models = list(library.offered())
    if (told := asked.get("model", "")[:80]) and told not in models:
        models.insert(0, told)
    picked = st.multiselect(
        "Policies", [*known], named or [name for name in library.COMPARED if name in known], key="compare.policies",
        format_func=lambda name: known[name].title or name,
    )  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="compare-choices"):
        model = st.selectbox(
            "Model", ("", *models), models.index(told) + 1 if told else 0, key="compare.model", width=230,
            format_func=lambda name: name or "as recorded",
        )  # fmt: skip
        window = st.selectbox(
            "Window", (0, *library.WINDOWS), key="compare.window", width=190, format_func=_window, index=_asked_window()
        )
        limit = st.number_input(
            "Prompt limit, tokens", 0, 2_000_000, _number("limit"), 10_000, key="compare.limit", width=190,
            help="what a prompt may have under every policy; 0 = as each policy says",
        )  # fmt: skip
    for name, value in (("policies", ",".join(picked)), ("model", model), ("window", window), ("limit", limit)):
        if value:
            asked[name] = str(value)
        else:
            asked.pop(name, None)
    return Chosen({name: library.sized(known[name], window, int(limit)) for name in picked}, model or "")


def _window(tokens: int) -> str:
    return f"{tokens:,} tokens" if tokens else "as the model's"


def _asked_window() -> int:
    asked = st.query_params.get("window", "")
    sizes = [str(size) for size in library.WINDOWS]
    return 1 + sizes.index(asked) if asked in sizes else 0


def _number(name: str) -> int:
    text = st.query_params.get(name, "")
    return min(2_000_000, int(text)) if text.isascii() and text.isdigit() and len(text) < 9 else 0


def at_hand(shown: state.Shown, chosen: Chosen) -> bool:
    """Whether the row of every policy was made before."""
    return all(_key(shown, policy, chosen.model) in _rows() for policy in chosen.policies.values())


def replayed(shown: state.Shown, chosen: Chosen, place: str = "compare") -> tuple[comparison.Row, ...]:
    """The rows of the policies whose replay is at its end; for the others how far they are, and the page is drawn again.

    `place`: for what, where a page replays for several.
    """
    rows: list[comparison.Row] = []
    waiting: list[library.Replaying] = []
    for policy in chosen.policies.values():
        made = kept(shown, policy, chosen.model, 0.0 if waiting else replays.PATIENCE)
        if isinstance(made, library.Replaying):
            waiting.append(made)
        else:
            rows.append(made)
    if waiting:
        _progress(waiting, place)
    return tuple(rows)


def kept(shown: state.Shown, policy: Policy, model: str = "", wait: float = 0.0) -> comparison.Row | library.Replaying:
    """The row of a policy, kept where it was made before; its replay while that is under way."""
    key = _key(shown, policy, model)
    if key not in _rows():
        run, made = replays.replayed(shown, policy, model, wait)
        if made is None or not made.whole:
            return run
        keep(key, comparison.row(made.trace, shared(shown), sent=not model))
    return _rows()[key]


def swept(shown: state.Shown, policy: Policy, model: str) -> comparison.Row:
    """The row of a policy, replayed at once where it was not: for those of which nothing else is looked at."""
    key = _key(shown, policy, model)
    if key not in _rows():
        whole, plans = library.begun(library.under(shown.trace, model), policy)
        keep(key, comparison.row(replace(whole, plans=tuple(plans)), shared(shown), sent=not model))
    return _rows()[key]


def keep(key: Key, row: comparison.Row) -> comparison.Row:
    """Keep what a replay came to, while there is room."""
    _rows()[key] = row
    while len(_rows()) > _KEPT:
        _rows().pop(next(iter(_rows())))
    return row


def _key(shown: state.Shown, policy: Policy, model: str = "") -> Key:
    return shown.key, shown.part, len(shown.view), f"{policy.name}\n{model}\n{knobs.as_text(policy)}"


@st.cache_resource(show_spinner=False)
def _rows() -> dict[Key, comparison.Row]:
    return {}


def shared(shown: state.Shown) -> comparison.Shared:
    """What all replays of a session share; read once."""
    return _shared(shown.key, shown.part, len(shown.view), shown.trace)


@st.cache_resource(max_entries=4, show_spinner=False)
def _shared(key: str, part: int, many: int, _trace: Trace) -> comparison.Shared:  # noqa: ARG001  what the cache goes by
    return comparison.Shared.of(_trace)


def _progress(waiting: Sequence[library.Replaying], place: str) -> None:
    """How far the replays are, with one button for all."""

    def draw() -> None:
        for run in waiting:
            run.look()
        if any(run.state in ("done", "failed") for run in waiting):
            st.rerun()
        done, whole = sum(run.done for run in waiting), sum(run.count for run in waiting)
        with st.container(key=f"replay-bar-{place}", horizontal=True, vertical_alignment="center", gap="small"):
            st.progress(done / max(1, whole), f"{len(waiting)} replays under way: {done:,} of {whole:,} requests")
            if any(run.state == "running" for run in waiting):
                st.button(
                    "Cancel", icon=":material/stop_circle:", key=f"{place}.cancel", on_click=_all, args=(waiting, "cancel")
                )
            elif any(run.state == "cancelled" for run in waiting):
                st.button("Go on", icon=":material/play_arrow:", key=f"{place}.on", on_click=_all, args=(waiting, "go_on"))

    st.fragment(draw, run_every=POLL)()


def _all(waiting: Sequence[library.Replaying], what: str) -> None:
    for run in waiting:
        run.cancel() if what == "cancel" else run.go_on()


def table(shown: state.Shown, rows: Sequence[comparison.Row]) -> None:
    """A row per policy, sortable, and the same as CSV."""
    best = comparison.better(rows)
    st.dataframe(
        {
            "policy": [row.title for row in rows],
            "USD": [None if row.usd is None else float(row.usd) for row in rows],
            "of that summaries": [float(sum(row.cost.condensing)) for row in rows],
            "from cache": [100 * row.cost.share for row in rows],
            "saved": [100 * max(0.0, 1 - row.kept) for row in rows],
            **({"published": [row.published.partition(" (")[0] for row in rows]} if any(row.published for row in rows) else {}),
            "peak fill": [100 * row.peak[0] for row in rows],
            "lost references": [len(row.losses.hits) for row in rows],
            "of all used": [100 * row.losses.rate for row in rows],
            "refused": [row.refusals for row in rows],
            "overflows": [row.overflows for row in rows],
            "rejected": [len(row.rejected) for row in rows],
            "decisions": [", ".join(f"{many:,} {kind}" for kind, many in row.decisions.items()) or "none" for row in rows],
            "best": ["none is cheaper and loses less" if row.policy in best else "" for row in rows],
        },
        hide_index=True,
        key="compare.table",
        column_config={
            "USD": st.column_config.NumberColumn(format="%.2f", help="prompt with its simulated cache, answers, summaries"),
            "of that summaries": st.column_config.NumberColumn(format="%.2f"),
            **{
                name: st.column_config.NumberColumn(format="%.0f %%", help=told)
                for name, told in {
                    "from cache": "share of all prompt tokens that a cache would have served",
                    "saved": "tokens that were not sent, of those with everything kept: measured on this session",
                    "peak fill": "of the window, at the fullest request",
                    "of all used": "of what answers take up again",
                }.items()
            },
            "published": st.column_config.TextColumn(
                help="the saving of tokens that is published for such a policy, to hold the measured one against"
            ),
            "rejected": st.column_config.NumberColumn(help="requests whose body the provider's API would reject"),
        },
    )
    checked = " ".join(row.checked for row in rows)
    st.html(f'<div class="ts-empty">{esc(f"{comparison.ASSUMED} {checked}")}</div>')
    made = comparison.rows_csv(rows)
    st.download_button("Table as CSV", made, f"{shown.entry.id}-policies.csv", "text/csv", icon=":material/download:")


def chart(rows: Sequence[comparison.Row]) -> None:
    """How full each policy's prompts are."""
    st.plotly_chart(
        figures.fills(rows, theme.name()), key="compare-chart", theme=None, config={"displayModeBar": False},
        alt="prompt tokens of every request under each policy",
    )  # fmt: skip
