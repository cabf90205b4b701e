"""Each policy on windows of several sizes."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st
from turnscope import Trace, library
from turnscope.views import comparison

from pages.parts import opening, policies, replays
from pages.parts.replays import PolicyChoice


class WindowResult(NamedTuple):
    """What a policy comes to on a window."""

    usd: float | None
    lost: int
    overflows: int
    over_window: int
    refusals: int


@st.cache_resource(max_entries=8, show_spinner=False)
def _get_results(key: str, part: int, many: int) -> dict[replays.Key, WindowResult]:  # noqa: ARG001  what the cache goes by
    return {}


def draw(shown: opening.ShownSession, chosen: PolicyChoice) -> None:
    """Each policy on windows of several sizes, when somebody asks: that is a replay for each.

    Args:
        shown: the session that is shown.
        chosen: the policies, model and budget that are chosen.
    """
    if not st.toggle("Sweep over windows, 8K to 1M", key="compare.sweep"):
        return
    pairs = [(policy, window) for policy in chosen.policies.values() for window in library.WINDOWS]
    sized = {
        replays.make_key(shown, made, chosen): (made, window)
        for policy, window in pairs
        if policy.name != policies.RECORDED
        for made in (library.resize_budget(policy, window),)
    }
    made = _get_results(shown.key, shown.part, len(shown.view))

    def take(name: replays.Key, trace: Trace) -> None:
        row = comparison.build_row(trace, replays.get_shared_facts(shown), sent=not chosen.model)
        usd = None if row.usd is None else float(row.usd)
        made[name] = WindowResult(usd, len(row.losses.hits), row.overflows, row.over_window, row.refusals)

    replays.replay_each(shown, chosen.model, {name: policy for name, (policy, _) in sized.items()}, made, take, "sweep")
    lines = [(policy.title or policy.name, window, made[name]) for name, (policy, window) in sized.items() if name in made]
    if not lines:
        return
    st.dataframe(
        {
            "policy": [title for title, _, _ in lines],
            "window": [window for _, window, _ in lines],
            "USD": [each.usd for _, _, each in lines],
            "lost references": [each.lost for _, _, each in lines],
            "over its limit": [each.overflows for _, _, each in lines],
            "over the window": [each.over_window for _, _, each in lines],
            "refused": [each.refusals for _, _, each in lines],
        },
        hide_index=True,
        key="compare.windows",
        column_config={
            "USD": st.column_config.NumberColumn(format="%.2f"),
            "window": st.column_config.NumberColumn(format="localized"),
        },
    )
