"""What each policy would have cost and lost over all replayed sessions, with the interval of its cost."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from turnscope.fleet import queries
from turnscope.fleet.queries import PolicyCost
from turnscope.fleet.warehouse import Selection, Warehouse
from turnscope.library.policy_table import find_best, table_to_csv

from pages.parts import policy_table
from pages.parts.formats import escape, format_usd

HEADS = {
    "Policy": policy_table.HINTS["Policy"],
    "Cost": "USD under the policy, with the prompt cache simulated and scaled to the bill",
    "Factor": "that over what the records of the same sessions cost",
    "95 %": policy_table.HINTS["95 %"],
    "Saved": "USD less than the records; a minus sign is more",
    **{name: policy_table.HINTS[name] for name in ("Lost", "Refused", "Calls")},
}


def draw(warehouse: Warehouse, chosen: Selection) -> None:
    """The chart and the table.

    Args:
        warehouse: the tables.
        chosen: what is looked at.
    """
    found = _measure(str(warehouse.fleet.storage.root), warehouse.fleet.number, chosen, warehouse)
    if not found:
        st.html(
            '<div class="ts-card" role="status"><b>No session of these was replayed.</b><p>Replay them with '
            "<code>turnscope fleet … --policies keep-everything,balanced,clear-tool-results</code>.</p></div>"
        )
        return
    table = [each.row for each in found]
    best = find_best(table)
    policy_table.draw_chart(table, best, "fleet.policies")
    st.html(_render(found, best))
    st.download_button(
        "Policies as CSV",
        lambda: table_to_csv(table),
        "fleet-policies.csv",
        "text/csv",
        key="fleet.policies.csv",
        icon=":material/download:",
        type="tertiary",
        on_click="ignore",
    )


@st.cache_resource(max_entries=16, show_spinner="Drawing sessions")
def _measure(root: str, number: int, chosen: Selection, _warehouse: Warehouse) -> tuple[PolicyCost, ...]:  # noqa: ARG001
    return queries.list_policies(_warehouse, chosen)


def _render(found: Sequence[PolicyCost], best: frozenset[str]) -> str:
    body = ""
    for each in found:
        row = each.row
        saved = format_usd(abs(each.record_usd - each.usd))
        cells = (
            *(format_usd(each.usd), f"×{row.cost:.3f}", f"{row.low:.3f} to {row.high:.3f}"),
            f"−{saved}" if each.usd > each.record_usd else saved,
            *(f"{row.lost:.1%}", f"{row.unsent:.1%}" if row.unsent else "0", f"{row.calls:.1f}"),
        )
        name = policy_table.render_name(row.policy, best)
        body += f"<tr><td>{name}</td>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
    head = "".join(f'<th title="{escape(hint)}">{name}</th>' for name, hint in HEADS.items())
    many = max(each.row.sessions for each in found)
    return (
        f'<div class="fleet-table"><table class="ts-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        f'<p class="fleet-hint">{many:,} replayed session{"" if many == 1 else "s"}; those without a price are left out. '
        "Answers are recorded, not made again: a lost reference says that what a later answer used had left.</p>"
    )
