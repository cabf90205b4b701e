"""All policies on one's own sessions: what each would have cost and lost over many, with the interval of its cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import streamlit as st
from turnscope import TurnscopeError
from turnscope.library import PolicyCatalog, index_queries
from turnscope.library.policy_table import LEAST, MOST, PolicyRow, build_table, find_best, table_to_csv
from turnscope.library.policy_table_job import PolicyTableJob, TableTask

from pages.parts import cache, policies, policy_table, registry, widgets
from pages.parts.formats import escape, format_usd, shorten

NEWEST, MOST_LISTED, JOBS = 8, 400, 4
POLL = 0.5  # seconds
FIRST = (
    *("keep-everything", "extracts", "balanced", "condense-oldest", "server-compaction", "claude-code-2.1.330"),
    "clear-tool-results",
)
HEADS = {
    "Policy": policy_table.HINTS["Policy"],
    "Cost": "USD under the policy as a factor of what the records cost, with the prompt cache simulated",
    "95 %": policy_table.HINTS["95 %"],
    "No cache": "the same factor if nothing were cached",
    "Lost": policy_table.HINTS["Lost"],
    "Peak": "the fullest window at the median session",
    **{name: policy_table.HINTS[name] for name in ("Refused", "Calls")},
    "Growth": "the factor on longer sessions over that on shorter ones",
}

Key = tuple[str, str]


@st.cache_resource(show_spinner=False)
def _get_jobs() -> dict[TableTask, PolicyTableJob]:
    return {}


def draw(known: PolicyCatalog) -> None:
    """Draw the choices and the table.

    Args:
        known: every policy.
    """
    try:
        listed = _list_sessions()
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return
    task = _choose(listed, known)
    jobs = _get_jobs()
    job = jobs.get(task)
    if job is None or job.state == "failed":
        st.button(
            "Measure",
            icon=":material/play_arrow:",
            type="primary",
            key="table.go",
            on_click=_start,
            args=(task,),
            disabled=not task.sessions,
        )
    if job is None:
        return
    if job.state == "failed":
        widgets.draw_notice(str(job.error), getattr(job.error, "hint", ""))
    elif job.state != "done":
        note = f"{len(task.policies):,} policies"
        widgets.draw_progress(job, key="table", doing="Measured", unit="sessions", note=note, interval=POLL, each=True)
    _draw_table(job)


def _list_sessions() -> dict[Key, str]:
    """Indexed sessions that can be measured, the newest first, by path and conversation; samples where there is none."""
    rows = index_queries.list_sessions(cache.open_store().index_path)
    found = {
        (
            row.path,
            row.entry,
        ): f"{shorten(row.title or row.name, 60)} · {row.tool} · {row.requests:,} requests · {format_usd(row.usd)}"
        for row in rows
        if LEAST <= row.requests <= MOST and row.pico and Path(row.path).exists()
    }
    own = {key: text for key, text in found.items() if Path(key[0]).parent != registry.SAMPLES}
    samples = {(str(file), ""): f"{file.stem} · sample" for file in sorted(registry.SAMPLES.glob("*.jsonl"))}
    return dict([*own.items()][:MOST_LISTED]) or samples


def _choose(listed: dict[Key, str], known: PolicyCatalog) -> TableTask:
    """The sessions and the policies to measure."""
    every = [name for name in known.policies if name != policies.RECORDED]
    with st.container(key="table-choices", horizontal=True, vertical_alignment="bottom", gap="small"):
        picked = st.multiselect(
            "Sessions",
            [*listed],
            [*listed][:NEWEST],
            key="table.sessions",
            format_func=lambda key: listed.get(key, key[0]),
            placeholder="choose sessions",
            help=f"Indexed sessions of {LEAST} to {MOST:,} requests with a price; the newest are chosen.",
        )
        chosen = st.multiselect(
            "Policies",
            every,
            [name for name in FIRST if name in every],
            key="table.policies",
            format_func=lambda name: known.policies[name].title or name,
            placeholder="all policies",
            help="None chosen = all of them, which takes about a second for each policy and thousand requests.",
        )
    return TableTask(tuple(picked), (policies.RECORDED, *(chosen or every)))


def _start(task: TableTask) -> None:
    jobs = _get_jobs()
    jobs[task] = PolicyTableJob(task)
    while len(jobs) > JOBS:
        jobs.pop(next(iter(jobs))).cancel()


def _draw_table(job: PolicyTableJob) -> None:
    table = build_table(job.rows)
    if table:
        best = find_best(table)
        policy_table.draw_chart(table, best, "table-chart")
        st.html(_render_table(table, best))
        made = table_to_csv(table)
        st.download_button("Table as CSV", made, "policies.csv", "text/csv", icon=":material/download:", type="tertiary")
    if job.problems:
        names = "; ".join(f"{Path(path).name}: {why}" for path, why in [*job.problems.items()][:5])
        widgets.draw_notice(f"{len(job.problems):,} sessions are left out. {names}")


def _render_table(table: Sequence[PolicyRow], best: frozenset[str]) -> str:
    body = ""
    for row in table:
        growth = "" if math.isnan(row.growth) else f"{row.growth:.2f}"
        refused = f"{row.unsent:.1%}" if row.unsent else "0"
        cells = (
            *(f"×{row.cost:.2f}", f"{row.low:.2f} to {row.high:.2f}", f"×{row.uncached:.2f}", f"{row.lost:.1%}"),
            *(f"{row.peak:.0%}", refused, f"{row.calls:.1f}", growth),
        )
        chosen = ' class="ts-chosen"' if row.policy == policies.RECORDED else ""
        name = policy_table.render_name(row.policy, best)
        body += f"<tr{chosen}><td>{name}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    head = "".join(f'<th title="{escape(hint)}">{name}</th>' for name, hint in HEADS.items())
    many = f"{table[0].sessions:,} session{'' if table[0].sessions == 1 else 's'}"
    return (
        f'<div class="policy-table"><table class="ts-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        f'<p class="ts-faint policy-hint">{many}. Answers are recorded, not made again: a lost reference '
        "says that what a later answer used had left, not that the answer would have been worse.</p>"
    )
