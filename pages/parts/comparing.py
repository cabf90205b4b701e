"""The parts of the compare page: choosing policies, model and budget, their replays on the shelf, the table and the chart.

`?policies=a,b&model=m&window=n&limit=n`, beside what `state` reads. Replays are those of `replays`; what one came to is kept as
a row, so that a policy whose replay left the shelf is not replayed again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic

import streamlit as st
from turnscope import Policy, Trace, TurnscopeError, figures, library
from turnscope.views import Plan, comparison

from pages.parts import replays, state, theme
from pages.parts.formats import esc

POLL = 0.5  # seconds
ANEW = 2.0  # seconds after which the page shows the rows that were made meanwhile
_KEPT = 256  # rows
_PLANS = 20_000  # requests of all replays that are held
_JOBS = 8  # that are remembered
Key = tuple[str, int, int, str]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is compared: policies by name, with the budget that was chosen; `model`: as if it had been asked, "" = as it was.

    `answered`: how many answers of models replays take over; with more of them they come out otherwise.
    """

    policies: Mapping[str, Policy]
    model: str = ""
    answered: int = field(default_factory=lambda: len(replays.answers()))


def choose() -> Chosen:
    """Which policies, on which model, in which window and budget; all of it stands in the URL."""
    known = replays.shelf().policies
    asked = st.query_params
    named = [name for name in asked.get("policies", "").split(",") if name in known]
    models = list(library.list_models())
    if (told := asked.get("model", "")[:80]) and told not in models:
        models.insert(0, told)
    picked = st.multiselect(
        "Policies", [*known], named or [name for name in library.COMPARED_POLICIES if name in known], key="compare.policies",
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
    return Chosen({name: library.resize_budget(known[name], window, int(limit)) for name in picked}, model or "")


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
    return all(key(shown, policy, chosen) in _rows() for policy in chosen.policies.values())


def replayed(shown: state.Shown, chosen: Chosen, place: str = "compare") -> tuple[comparison.Row, ...]:
    """The rows of the policies that are replayed; for the others how far they are, and the page is drawn again.

    `place`: for what, where a page replays for several.
    """
    keys = {key(shown, policy, chosen): policy for policy in chosen.policies.values()}

    def take(name: Key, trace: Trace) -> None:
        _keep_trace(name, trace)
        _rows()[name] = comparison.build_row(trace, shared(shown), sent=not chosen.model)
        while len(_rows()) > _KEPT:
            _rows().pop(next(iter(_rows())))

    one_by_one(shown, chosen.model, keys, _rows(), take, place)
    return tuple(_rows()[name] for name in keys if name in _rows())


def one_by_one(
    shown: state.Shown,
    model: str,
    wanted: Mapping[Key, Policy],
    made: Mapping[Key, object],
    take: Callable[[Key, Trace], object],
    place: str,
) -> None:
    """Replay those policies that are not in `made` yet, one after another, in a thread; how far that is, with one button for
    all. `take` gets each whole replay. Raises what went wrong in one, after which asking again begins anew."""
    if all(name in made for name in wanted):
        return
    name = (place, *wanted)
    job = _jobs().get(name)
    if job is None or job.state == "done":
        recorded, answers = library.replace_model(shown.trace, model), replays.answers()

        def begin(name: Key, policy: Policy) -> tuple[Trace, Iterable[Plan]]:
            if kept := _traces().get(name):
                return kept, kept.plans
            if recorded.policy == policy and not model:
                return recorded, recorded.plans
            return library.begin_replay(recorded, policy, answers if policy.name != replays.RECORDED else {})

        tasks = [
            library.ReplayTask(partial(begin, each, policy), partial(take, each), partial(made.__contains__, each))
            for each, policy in wanted.items()
        ]
        while len(_jobs()) >= _JOBS:
            _jobs().pop(next(iter(_jobs()))).cancel()
        job = _jobs()[name] = library.ComparisonJob(tasks, len(shown.view))
    try:
        job.poll()
        job.wait(replays.PATIENCE)
        job.poll()
    except Exception:
        _jobs().pop(name, None)
        raise
    if job.state != "done":
        _progress(job, place)
    else:
        _jobs().pop(name, None)


@st.cache_resource(show_spinner=False)
def _jobs() -> dict[tuple[object, ...], library.ComparisonJob]:
    """Replays under way, by what they are for; several tabs watch them. From then on threads take turns more often."""
    sys.setswitchinterval(replays.SWITCH)
    return {}


def key(shown: state.Shown, policy: Policy, chosen: Chosen) -> Key:
    """What a row is kept by: the session as it is, the policy with all its parameters, the model that is asked, and answers."""
    told = f"{policy.name}\n{chosen.model}\n{chosen.answered}\n{policy.to_toml()}"
    return shown.key, shown.part, len(shown.view), told


@st.cache_resource(show_spinner=False)
def _rows() -> dict[Key, comparison.Row]:
    return {}


@st.cache_resource(show_spinner=False)
def _traces() -> dict[Key, Trace]:
    """The newest whole replays, for those parts of the page that look at single blocks."""
    return {}


def _keep_trace(name: Key, trace: Trace) -> None:
    held = _traces()
    held.pop(name, None)
    held[name] = trace
    while len(held) > 2 and sum(len(each.plans) for each in held.values()) > _PLANS:
        held.pop(next(iter(held)))


def traces(shown: state.Shown, chosen: Chosen, names: Iterable[str], place: str) -> dict[str, Trace]:
    """Whole replays under two policies, replayed again where they are not held any more; how far that is until then.

    More may not be held of a long session: whoever needs many takes what it wants of each (`one_by_one`).
    """
    wanted = {key(shown, chosen.policies[name], chosen): chosen.policies[name] for name in names}
    for name in wanted:
        if name in _traces():
            _keep_trace(name, _traces()[name])  # so that it is not the next to go
    one_by_one(shown, chosen.model, wanted, _traces(), _keep_trace, place)
    return {policy.name: _traces()[each] for each, policy in wanted.items() if each in _traces()}


def shared(shown: state.Shown) -> comparison.SharedFacts:
    """What all replays of a session share; read once."""
    return _shared(shown.key, shown.part, len(shown.view), shown.trace)


@st.cache_resource(max_entries=4, show_spinner=False)
def _shared(key: str, part: int, many: int, _trace: Trace) -> comparison.SharedFacts:  # noqa: ARG001  what the cache goes by
    return comparison.SharedFacts.from_trace(_trace)


def _progress(job: library.ComparisonJob, place: str) -> None:
    """How far the replays are, with one button for all. The page is drawn anew when they are at their end, and now and then."""
    began, before, running = monotonic(), job.made, job.state == "running"

    def draw() -> None:
        with suppress(TurnscopeError):  # told where the whole page is drawn
            job.poll()
        if running and (job.state != "running" or (job.made > before and monotonic() - began > ANEW)):
            st.rerun()
        with st.container(key=f"replay-bar-{place}", horizontal=True, vertical_alignment="center", gap="small"):
            said = "under way" if job.state == "running" else "stopped"
            many = f"{job.made:,} of {len(job.tasks):,} replays, {job.done:,} of {job.count:,} requests"
            st.progress(job.done / max(1, job.count), f"Replays {said}: {many}")
            if job.state == "running":
                st.button("Cancel", icon=":material/stop_circle:", key=f"{place}.cancel", on_click=job.cancel)
            elif st.button("Go on", icon=":material/play_arrow:", key=f"{place}.on"):
                job.resume()
                st.rerun()

    st.fragment(draw, run_every=POLL if running else None)()


def table(shown: state.Shown, rows: Sequence[comparison.Row]) -> None:
    """A row per policy, sortable, and the same as CSV."""
    best = comparison.find_pareto_optimal(rows)
    st.dataframe(
        {
            "policy": [row.title for row in rows],
            "best": ["★" if row.policy in best else "" for row in rows],
            "USD": [None if row.usd is None else float(row.usd) for row in rows],
            "summaries, USD": [float(sum(row.cost.summary_usd)) for row in rows],
            "from cache": [100 * row.cost.cache_share for row in rows],
            "saved": [100 * max(0.0, 1 - row.kept_share) for row in rows],
            **(
                {"published": [row.published_saving.partition(" (")[0] for row in rows]}
                if any(row.published_saving for row in rows)
                else {}
            ),
            "peak fill": [100 * row.peak[0] for row in rows],
            "lost references": [len(row.losses.hits) for row in rows],
            "of all used": [100 * row.losses.rate for row in rows],
            "refused": [row.refusals for row in rows],
            "over its limit": [row.overflows for row in rows],
            "over the window": [row.over_window for row in rows],
            "rejected": [row.rejected_count for row in rows],
            "decisions": [", ".join(f"{many:,} {kind}" for kind, many in row.decisions.items()) or "none" for row in rows],
        },
        hide_index=True,
        key="compare.table",
        column_config={
            "best": st.column_config.TextColumn(
                help="of those whose every request could be sent, no other one is cheaper and loses no more"
            ),
            "USD": st.column_config.NumberColumn(format="%.2f", help="prompt with its simulated cache, answers, summaries"),
            "summaries, USD": st.column_config.NumberColumn(format="%.2f", help="part of it: what condensing asked of a model"),
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
            "over its limit": st.column_config.NumberColumn(
                help="requests larger than the policy means them to be, or than the window"
            ),
            "over the window": st.column_config.NumberColumn(
                help="requests that no provider takes: larger than the model's window"
            ),
            "refused": st.column_config.NumberColumn(help="requests that the policy itself does not send"),
            "rejected": st.column_config.NumberColumn(
                help="requests whose body the provider's API would reject; none where its rules are not known here"
            ),
        },
    )
    checked = " ".join(row.calibration for row in rows)
    st.html(f'<div class="ts-empty">{esc(f"{comparison.ASSUMPTIONS} {checked}")}</div>')
    made = comparison.rows_to_csv(rows)
    st.download_button("Table as CSV", made, f"{shown.entry.id}-policies.csv", "text/csv", icon=":material/download:")


def chart(rows: Sequence[comparison.Row]) -> None:
    """How full each policy's prompts are."""
    st.plotly_chart(
        figures.draw_fill(rows, theme.name()), key="compare-chart", theme=None, config={"displayModeBar": False},
        alt="prompt tokens of every request under each policy",
    )  # fmt: skip
