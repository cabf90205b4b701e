"""The lower half of the compare page: two policies at one request, what was lost, when a text left, windows of many sizes."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

import streamlit as st

from engine import Trace, library
from engine.views import comparison, losses
from pages.parts import comparing, replays, state
from pages.parts.comparing import Chosen

ROWS = 500  # of a table


def _trace(shown: state.Shown, chosen: Chosen, name: str) -> Trace | None:
    made = replays.replayed(shown, chosen.policies[name], chosen.model)[1]
    return made.trace if made and made.whole else None


def two(shown: state.Shown, rows: Sequence[comparison.Row], chosen: Chosen) -> None:
    """Where two policies first part, and what differs between them at a request."""
    if len(rows) < 2:
        return
    st.subheader("Two policies at one request", anchor=False)
    titles = {row.policy: row.title for row in rows}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="compare-two"):
        one = st.selectbox("A", [*titles], key="compare.a", format_func=titles.__getitem__)
        other = st.selectbox("B", [*titles], 1, key="compare.b", format_func=titles.__getitem__)
        a, b = _trace(shown, chosen, one), _trace(shown, chosen, other)
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


def left(shown: state.Shown, chosen: Chosen) -> None:
    """When a text left the window under each policy."""
    text = st.text_input(
        "When did this text leave the window?", st.query_params.get("text", ""), key="compare.text",
        placeholder="a path, a name, a sentence",
    )  # fmt: skip
    if not text:
        st.query_params.pop("text", None)
        return
    st.query_params["text"] = text[:200]
    traces = {name: trace for name in chosen.policies if (trace := _trace(shown, chosen, name))}
    found = losses.left_window(traces.values(), text)
    st.dataframe(
        {
            "policy": [chosen.policies[each.policy].title or each.policy for each in found],
            "in requests": [", ".join(f"{a:,} to {b - 1:,}" for a, b in each.spans) or "none" for each in found],
            "left": [each.out.sentence if each.out else "it still stands" if each.spans else "it is nowhere" for each in found],
        },
        hide_index=True,
        key="compare.left",
        column_config={
            "policy": st.column_config.TextColumn(width="small"),
            "left": st.column_config.TextColumn(width="large"),
        },
    )


def sweep(shown: state.Shown, chosen: Chosen) -> None:
    """Each policy on windows of several sizes, when somebody asks: that is a replay for each."""
    if not st.toggle("Sweep over windows", key="compare.sweep"):
        return
    asked = {name: policy for name, policy in chosen.policies.items() if name != replays.RECORDED}
    bar = st.progress(0.0, "Replaying …")
    lines: list[tuple[str, int, comparison.Row]] = []
    for number, (name, window) in enumerate((name, window) for name in asked for window in library.WINDOWS):
        lines.append((name, window, comparing.swept(shown, library.sized(asked[name], window), chosen.model)))
        bar.progress(
            (number + 1) / (len(asked) * len(library.WINDOWS)), f"{chosen.policies[name].title or name} on {window:,} tokens"
        )
    bar.empty()
    st.dataframe(
        {
            "policy": [chosen.policies[name].title or name for name, _, _ in lines],
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
