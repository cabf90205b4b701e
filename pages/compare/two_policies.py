"""Two policies at one request: where they first differ, and how each block stands in the request of either."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

import streamlit as st
from turnscope import Trace
from turnscope.numbering import format_request, index_request, number_request
from turnscope.views import comparison, divergence, policy_differences

from pages.compare import table
from pages.parts import opening, replays
from pages.parts.replays import PolicyChoice

WHICH = {"differ": "That differ", "kept": "All that are kept"}


def draw(shown: opening.ShownSession, rows: Sequence[comparison.Row], chosen: PolicyChoice) -> None:
    """Where two policies first part, and how each block stands in a request of either.

    Args:
        shown: the session that is shown.
        rows: a row per policy.
        chosen: the policies, model and budget that are chosen.
    """
    if len(rows) < 2:
        return
    st.subheader("Two policies at one request", anchor=False)
    by_name = {row.policy: row for row in rows}
    titles = {row.policy: row.title for row in rows}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="compare-two"):
        one = st.selectbox("A", [*titles], key="compare.a", format_func=titles.__getitem__)
        other = st.selectbox("B", [*titles], 1, key="compare.b", format_func=titles.__getitem__)
        found = replays.replay_traces(shown, chosen, (one, other), "two")
        a, b = found.get(one), found.get(other)
        first = divergence.find_divergence(a, b) if a and b else None
        number = int(
            st.number_input(
                "Request",
                1,
                len(shown.view),
                number_request(first or 0),
                key=f"compare.at.{one}.{other}.{first}",
                width=160,
            )
        )
        at = index_request(number)
        which = st.segmented_control(
            "Blocks", ["differ", "kept"], default="differ", required=True, format_func=WHICH.__getitem__, key="compare.which"
        )
    if a is None or b is None:
        return
    _say_first_difference(a, b, first, at)
    if policy_differences.are_versions(a.policy, b.policy):
        _draw_versions(policy_differences.find_differences(a.policy, b.policy, [by_name[one], by_name[other]]))
    if which == "kept":
        _draw_placements(divergence.list_placements(a, b, at), titles[one], titles[other])
    elif first is not None:
        _draw_differences(divergence.list_differences(a, b, at), titles[one], titles[other])


def _say_first_difference(a: Trace, b: Trace, first: int | None, at: int) -> None:
    if first is None:
        st.text("Both send the same at every request.")
        return
    many = len(divergence.list_differences(a, b, at))
    blocks = "1 block or insert" if many == 1 else f"{many:,} blocks and inserts"
    st.text(f"First difference: request {format_request(first)}. At request {format_request(at)} they differ in {blocks}.")


def _draw_versions(found: policy_differences.Differences) -> None:
    """What changed from one version of a tool to another: on this session, in its limits and rules, in its constants."""
    with st.expander(f"What differs between the two: {len(found.rows):,} things", expanded=True, key="compare-versions"):
        st.html(_render_versions(found))


def _render_versions(found: policy_differences.Differences) -> str:
    """A row per difference, its texts whole: those of rules and constants are sentences."""
    names = ("part", "what", f"A, {found.a}", f"B, {found.b}")
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell or policy_differences.NOT_THERE)}</td>' for cell in row)}</tr>" for row in found.rows
    )
    return f'<table class="ts-table words cmp-versions"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _draw_differences(found: Sequence[divergence.BlockDifference], one: str, other: str) -> None:
    shapes = {"only in A": f"only in {one}", "only in B": f"only in {other}", "other form": "in another form"}
    st.dataframe(
        {
            "block": [each.at for each in found[: table.ROWS]],
            "what": [each.label for each in found[: table.ROWS]],
            "tokens": [each.tokens for each in found[: table.ROWS]],
            "present": [shapes[each.how] for each in found[: table.ROWS]],
            "place in the prompt": [each.where for each in found[: table.ROWS]],
        },
        hide_index=True,
        key="compare.difference",
    )
    table.draw_row_limit(len(found))


def _draw_placements(found: Sequence[divergence.Placement], one: str, other: str) -> None:
    """Every block that is kept, and where in the prompt: its first quarter, the middle half, its last quarter."""
    same = one == other
    for name, of in ((one, "a"), (other, "b"))[: 1 if same else 2]:
        sums = Counter[str]()
        for each in found:
            sums[getattr(each, of)] += each.tokens
        parts = ", ".join(f"{sums[where]:,} tokens at the {where}" for where in ("head", "middle", "tail"))
        st.text(f"{name}: of the blocks that it keeps, {parts}.")
    st.dataframe(
        {
            "block": [each.at for each in found[: table.ROWS]],
            "what": [each.label for each in found[: table.ROWS]],
            "tokens": [each.tokens for each in found[: table.ROWS]],
            f"in A, {one}": [each.a or "not kept" for each in found[: table.ROWS]],
            f"in B, {other}": [each.b or "not kept" for each in found[: table.ROWS]],
        },
        hide_index=True,
        height=320,
        key="compare.placed",
    )
    table.draw_row_limit(len(found))
