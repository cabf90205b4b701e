"""The parts of the compare page: choosing policies, their replays on the shelf, and what is drawn of them.

`?policies=a,b&window=n`, beside what `state` reads. Replays are those of `replays`; what one came to is kept as a row, so that
a policy whose replay left the shelf is not replayed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlencode

import streamlit as st

from engine import Policy, Trace, figures, library
from engine.views import comparison, knobs, losses
from pages.parts import replays, state, theme
from pages.parts.formats import esc

POLL = 0.5  # seconds
ROWS = 500  # of a table
_KEPT = 64  # rows and what sessions' answers take up


def choose() -> dict[str, Policy]:
    """Which policies, on which window; both stand in the URL. By name, in the order in which they were chosen."""
    known = replays.shelf().policies
    named = [name for name in st.query_params.get("policies", "").split(",") if name in known]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="compare-choices"):
        picked = st.multiselect(
            "Policies", [*known], named or [name for name in library.COMPARED if name in known], key="compare.policies",
            format_func=lambda name: known[name].title or name,
        )  # fmt: skip
        window = st.selectbox(
            "Window", (0, *library.WINDOWS), key="compare.window", width=220, format_func=_window, index=_asked_window()
        )
    st.query_params["policies"] = ",".join(picked)
    if window:
        st.query_params["window"] = str(window)
    else:
        st.query_params.pop("window", None)
    return {name: library.sized(known[name], window) if window else known[name] for name in picked}


def _window(tokens: int) -> str:
    return f"{tokens:,} tokens" if tokens else "as the model's"


def _asked_window() -> int:
    asked = st.query_params.get("window", "")
    sizes = [str(size) for size in library.WINDOWS]
    return 1 + sizes.index(asked) if asked in sizes else 0


def replayed(shown: state.Shown, chosen: Mapping[str, Policy]) -> tuple[comparison.Row, ...]:
    """The rows of the policies whose replay is at its end; for the others how far they are, and the page is drawn again."""
    rows: list[comparison.Row] = []
    waiting: list[library.Replaying] = []
    for policy in chosen.values():
        key = _key(shown, policy)
        row = _rows().get(key)
        if row is None:
            run, made = replays.replayed(shown, policy)
            if made is None or not made.whole:
                waiting.append(run)
                continue
            row = comparison.row(made.trace, _shared(shown.key, shown.part, len(shown.view), made.trace))
            _rows()[key] = row
            while len(_rows()) > _KEPT:
                _rows().pop(next(iter(_rows())))
        rows.append(row)
    if waiting:
        _progress(waiting)
    return tuple(rows)


def _key(shown: state.Shown, policy: Policy) -> tuple[str, int, int, str]:
    return shown.key, shown.part, len(shown.view), f"{policy.name}\n{knobs.as_text(policy)}"


@st.cache_resource(show_spinner=False)
def _rows() -> dict[tuple[str, int, int, str], comparison.Row]:
    return {}


@st.cache_resource(max_entries=4, show_spinner=False)
def _shared(key: str, part: int, many: int, _trace: Trace) -> comparison.Shared:  # noqa: ARG001  what the cache goes by
    return comparison.Shared.of(_trace)


def _progress(waiting: Sequence[library.Replaying]) -> None:
    """How far the replays are, with one button for all."""

    def draw() -> None:
        for run in waiting:
            run.look()
        if any(run.state in ("done", "failed") for run in waiting):
            st.rerun()
        done, whole = sum(run.done for run in waiting), sum(run.count for run in waiting)
        with st.container(key="replay-bar", horizontal=True, vertical_alignment="center", gap="small"):
            st.progress(done / max(1, whole), f"{len(waiting)} replays under way: {done:,} of {whole:,} requests")
            if any(run.state == "running" for run in waiting):
                st.button(
                    "Cancel", icon=":material/stop_circle:", key="compare.cancel", on_click=_all, args=(waiting, "cancel")
                )
            elif any(run.state == "cancelled" for run in waiting):
                st.button("Go on", icon=":material/play_arrow:", key="compare.on", on_click=_all, args=(waiting, "go_on"))

    st.fragment(draw, run_every=POLL)()


def _all(waiting: Sequence[library.Replaying], what: str) -> None:
    for run in waiting:
        run.cancel() if what == "cancel" else run.go_on()


def table(shown: state.Shown, rows: Sequence[comparison.Row]) -> None:
    """A row per policy, sortable, and the same as CSV."""
    best = comparison.better(rows)
    billed = [None if row.billed is None else float(row.billed) for row in rows]
    st.dataframe(
        {
            "policy": [row.title for row in rows],
            "USD": [None if row.usd is None else float(row.usd) for row in rows],
            "of that summaries": [float(sum(row.cost.condensing)) for row in rows],
            **({"billed": billed} if any(billed) else {}),
            "from cache": [100 * row.cost.share for row in rows],
            "kept": [100 * row.kept for row in rows],
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
            "billed": st.column_config.NumberColumn(format="%.2f", help="what was really sent, from its recorded usage"),
            "of that summaries": st.column_config.NumberColumn(format="%.2f"),
            **{
                name: st.column_config.NumberColumn(format="%.0f %%", help=told)
                for name, told in {
                    "from cache": "share of all prompt tokens that a cache would have served",
                    "kept": "tokens sent, of those with everything kept",
                    "peak fill": "of the window, at the fullest request",
                    "of all used": "of what answers take up again",
                }.items()
            },
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


def _trace(shown: state.Shown, policy: Policy) -> Trace | None:
    made = replays.replayed(shown, policy)[1]
    return made.trace if made and made.whole else None


def two(shown: state.Shown, rows: Sequence[comparison.Row], chosen: Mapping[str, Policy]) -> None:
    """Where two policies first part, and what differs between them at a request."""
    if len(rows) < 2:
        return
    st.subheader("Two policies at one request", anchor=False)
    titles = {row.policy: row.title for row in rows}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="compare-two"):
        one = st.selectbox("A", [*titles], key="compare.a", format_func=titles.__getitem__)
        other = st.selectbox("B", [*titles], 1, key="compare.b", format_func=titles.__getitem__)
        a, b = _trace(shown, chosen[one]), _trace(shown, chosen[other])
        first = comparison.parted(a, b) if a and b else None
        at = st.number_input("Request", 0, len(shown.view) - 1, first or 0, key=f"compare.at.{one}.{other}", width=160)
    if a is None or b is None:
        st.text("One of the two is being replayed again.")
        return
    if first is None:
        st.text("Both send the same at every request.")
        return
    found = comparison.difference(a, b, int(at))
    many = "1 block" if len(found) == 1 else f"{len(found):,} blocks"
    st.text(f"They first part at request {first:,}. At request {at:,} they differ in {many}.")
    shapes = {"only in A": titles[one], "only in B": titles[other]}
    st.dataframe(
        {
            "block": [each.at for each in found[:ROWS]],
            "what": [each.label for each in found[:ROWS]],
            "tokens": [each.tokens for each in found[:ROWS]],
            "stands": [f"only in {shapes[each.how]}" if each.how in shapes else "in another form" for each in found[:ROWS]],
            "where": [each.where for each in found[:ROWS]],
        },
        hide_index=True,
        key="compare.difference",
    )


def lost(shown: state.Shown, rows: Sequence[comparison.Row]) -> None:
    """What answers take up again and a policy no longer says, each with the place in the debugger where that can be seen."""
    held = {row.policy: row for row in rows if row.losses.hits}
    if not held:
        return
    st.subheader("Lost references", anchor=False)
    name = st.selectbox("Policy", [*held], key="compare.lost", format_func=lambda each: held[each].title, width=360)
    hits = held[name].losses.hits
    st.text(f"{len(hits):,} of {sum(held[name].losses.uses):,} that answers take up again, {held[name].losses.rate:.1%}.")
    part = {"part": str(shown.part)} if shown.part else {}
    link = {"session": shown.entry.id, "policy": name} | part
    st.dataframe(
        {
            "request": [hit.request for hit in hits[:ROWS]],
            "said before": [hit.text for hit in hits[:ROWS]],
            "in block": [hit.block for hit in hits[:ROWS]],
            "used in block": [hit.answer for hit in hits[:ROWS]],
            "decision": [hit.by if hit.by >= 0 else None for hit in hits[:ROWS]],
            "look": [f"/debugger?{urlencode(link | {'request': str(hit.request)})}" for hit in hits[:ROWS]],
        },
        hide_index=True,
        height=280,
        key="compare.hits",
        column_config={"look": st.column_config.LinkColumn(display_text="debugger")},
    )


def left(shown: state.Shown, chosen: Mapping[str, Policy]) -> None:
    """When a text left the window under each policy."""
    text = st.text_input("When did this text leave the window?", key="compare.text", placeholder="a path, a name, a sentence")
    if not text:
        return
    traces = {name: trace for name, policy in chosen.items() if (trace := _trace(shown, policy))}
    found = losses.left_window(traces.values(), text)
    st.dataframe(
        {
            "policy": [chosen[each.policy].title or each.policy for each in found],
            "in requests": [", ".join(f"{a:,} to {b - 1:,}" for a, b in each.spans) or "none" for each in found],
            "left": [each.out.sentence if each.out else "it still stands" if each.spans else "it is nowhere" for each in found],
        },
        hide_index=True,
        key="compare.left",
    )


def sweep(shown: state.Shown, chosen: Mapping[str, Policy]) -> None:
    """Each policy on windows of several sizes, when somebody asks: that is a replay for each."""
    if not st.toggle("Sweep over windows", key="compare.sweep"):
        return
    asked = {name: policy for name, policy in chosen.items() if name != replays.RECORDED}
    bar = st.progress(0.0, "Replaying …")
    lines: list[tuple[str, int, comparison.Row]] = []
    for number, (name, window) in enumerate((name, window) for name in asked for window in library.WINDOWS):
        key = _key(shown, library.sized(asked[name], window))
        if key not in _rows():
            whole, plans = library.begun(shown.trace, library.sized(asked[name], window))
            trace = replace(whole, plans=tuple(plans))
            _rows()[key] = comparison.row(trace, _shared(shown.key, shown.part, len(shown.view), trace))
        lines.append((name, window, _rows()[key]))
        bar.progress((number + 1) / (len(asked) * len(library.WINDOWS)), f"{chosen[name].title or name} on {window:,} tokens")
    bar.empty()
    st.dataframe(
        {
            "policy": [chosen[name].title or name for name, _, _ in lines],
            "window": [window for _, window, _ in lines],
            "USD": [None if row.usd is None else float(row.usd) for _, _, row in lines],
            "lost references": [len(row.losses.hits) for _, _, row in lines],
            "overflows": [row.overflows for _, _, row in lines],
            "refused": [row.refusals for _, _, row in lines],
        },
        hide_index=True,
        key="compare.windows",
        column_config={"USD": st.column_config.NumberColumn(format="%.2f")},
    )
