"""Advice on the page: which policy's parameters are searched over which sessions, the search under way, and what it found.

`?what=advise&policy=name&trials=n&over=path`, besides what `state` reads. A search goes on in a process of its own; stopped, or
begun again after the app was, it goes on where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

import streamlit as st
from turnscope import TurnscopeError, figures, library
from turnscope.library import AdviceJob
from turnscope.views import advice
from turnscope.views.advice import Advice

from pages.parts import opening, policies, theme, widgets
from pages.parts.formats import escape, format_factor, format_usd
from pages.plan import links

POLL = 0.5  # seconds
POLICY = "clear-tool-results"  # whose parameters make a difference to most sessions
HERE = ""  # the session that is shown
JOBS = 16  # that are remembered


@st.cache_resource(show_spinner=False)
def _get_jobs() -> dict[tuple[library.AdviceTask, str], AdviceJob]:
    """The searches of this app, by their question; several tabs watch them."""
    return {}


def draw(shown: opening.ShownSession | None) -> None:
    """What to search, and what came of it."""
    st.html(
        '<div class="ts-empty">Tries parameters of one policy on sessions that were recorded, and shows which ones cost least '
        "for what is lost. Answers are taken as recorded; lost references are exact matches, so a lower bound.</div>"
    )
    key = _read_task(shown)
    if key is None:
        return
    links.link_comparison(shown, [key[0].policy])
    job = _get_jobs().get(key)
    if job is None or job.state == "failed":
        again = "Search" if job is None else "Search again"
        st.button(again, icon=":material/search:", type="primary", key="advise.go", on_click=_start_job, args=(key, shown))
    if job is None:
        return
    if job.state == "failed":
        widgets.draw_notice(str(job.error), getattr(job.error, "hint", ""))
    elif job.advice is None:
        note = "What was tried is kept."
        widgets.draw_progress(job, key="advise", doing="Trying", unit="settings", note=note, interval=POLL)
    else:
        _draw_advice(job.advice)


def _start_job(key: tuple[library.AdviceTask, str], shown: opening.ShownSession | None) -> None:
    jobs = _get_jobs()
    jobs[key] = AdviceJob(key[0], shown.trace.session if shown and not key[0].path else None)
    while len(jobs) > JOBS:
        jobs.pop(next(iter(jobs))).cancel()


def _read_task(shown: opening.ShownSession | None) -> tuple[library.AdviceTask, str] | None:
    """What the fields ask for, and of which session; None, with a notice, where that cannot be searched."""
    known = policies.load_policies().policies
    names = [name for name, policy in known.items() if any(axis.usual for axis in advice.list_axes(policy))]
    wanted = st.query_params.get("policy", POLICY)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="advise-fields"):
        name = st.selectbox(
            "Policy",
            names,
            names.index(wanted) if wanted in names else 0,
            key="advise.policy",
            width=300,
            format_func=lambda each: known[each].title or each,
            filter_mode="fuzzy",
        )
        over = _draw_sessions(shown)
        trials = int(
            st.number_input(
                "Settings to try", 4, 1_000, _read_trials(), 10, key="advise.trials", width=150, help="more find better ones"
            )
        )
    keys = _draw_parameters(name, advice.list_axes(known[name]))
    st.query_params.update({"policy": name, "trials": str(trials)} | ({"over": over} if over else {}))
    if not over:
        st.query_params.pop("over", None)
    if not over and shown is None:
        return None
    try:
        path = library.parse_path(over) if over else None
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return None
    if path and not path.exists():
        widgets.draw_notice(f"{over} is not there.", "Type the path of a file, or of a folder with session files.")
        return None
    task = library.AdviceTask(
        path=str(path) if path else "",
        policy=name,
        text=known[name].to_toml(),
        folder=str(library.find_advice_folder()),
        trials=trials,
        keys=keys,
    )
    return task, f"{shown.key}:{shown.part}:{len(shown.view)}" if shown and not path else ""


def _draw_parameters(name: str, found: Sequence[advice.Axis]) -> tuple[str, ...]:
    """The keys of the parameters to search; () = the usual ones."""
    axes = {axis.key: axis for axis in found}
    usual = [key for key, axis in axes.items() if axis.usual]
    with st.expander("Search space", key=f"advise.turned.{name}"):
        keys = st.multiselect(
            "Parameters",
            [*axes],
            usual,
            key=f"advise.turn.{name}",
            label_visibility="collapsed",
            format_func=lambda each: _describe_axis(axes[each]),
        )
    return () if keys == usual else tuple(keys)


def _describe_axis(axis: advice.Axis) -> str:
    span = ", ".join(map(str, axis.values)) if axis.values else f"{axis.low:,} to {axis.high:,}"
    return f"{axis.words}: {span}"


def _read_trials() -> int:
    text = st.query_params.get("trials", "")
    return min(1_000, max(4, int(text))) if text.isdecimal() and len(text) < 7 else library.TRIALS


def _draw_sessions(shown: opening.ShownSession | None) -> str:
    """The path of the sessions; "" = the one that is shown."""
    wanted = st.query_params.get("over", "")
    folder = str(shown.entry.path.parent) if shown and shown.entry.origin != "chat" and shown.entry.path.exists() else ""
    choices = [each for each in dict.fromkeys((wanted, HERE if shown else wanted, folder)) if each or shown]
    picked = st.selectbox(
        "Sessions",
        choices,
        key="advise.over",
        width=420,
        accept_new_options=True,
        placeholder="path of a file or a folder",
        format_func=lambda each: "this session" if each == HERE else f"all in {each}" if each == folder else each,
        help="With three or more sessions, some are held out to test the result. Type any path.",
    )
    return picked or ""


# What was found


def _draw_advice(found: Advice) -> None:
    if found.too_few:
        widgets.draw_notice("These sessions are too few to advise by.", found.too_few)
    else:
        st.html(
            f'<div class="ts-headline">{escape(found.because)}</div>' + _render_generalization(found) + _render_other(found)
        )
    if not found.points:
        return
    number = _find_point(found)
    st.plotly_chart(
        figures.draw_front(found, number, theme.get_theme()),
        key=f"advise-front-{found.policy}",
        theme=None,
        on_select=lambda: _keep_point(found),
        selection_mode="points",
        config={"displayModeBar": False},
        alt="every setting that was tried, dollars across and lost references up",
    )
    st.html(f'<div class="ts-empty">{escape(_describe_search(found))} A click on a point shows it.</div>')
    if number is not None:
        _draw_point(found, number)


def _render_generalization(found: Advice) -> str:
    tone = "tone-good" if "It holds" in found.holdout_result else "tone-warn"
    return f'<p class="{tone}">{escape(found.holdout_result)}</p>' if found.holdout_result else ""


def _render_other(found: Advice) -> str:
    return f"<p>{escape(found.other_result)}</p>" if found.other_result else ""


def _describe_search(found: Advice) -> str:
    how = "all of a grid" if found.method == "grid" else "chosen by optuna's multi-objective TPE sampler"
    left = "".join(f", {many:,} left out: {why}" for why, many in found.left_out.items())
    sessions = f"{len(found.searched):,} sessions searched" if len(found.searched) != 1 else "1 session searched"
    bad = f", {found.impossible:,} could not be done" if found.impossible else ""
    return f"{sessions}, {len(found.held):,} held out{left}; {len(found.points):,} settings, {how}, seed {found.seed}{bad}."


def _find_point(found: Advice) -> int | None:
    """The point that was clicked last, else the advised one, else the cheapest of the front."""
    of, number = st.session_state.get("advise.picked", (None, 0))
    if of == _identify(found) and number < len(found.points):
        return int(number)
    return found.chosen if found.chosen is not None else found.front[0] if found.front else None


def _identify(found: Advice) -> tuple[object, ...]:
    return found.text, found.trials, found.searched, found.axes, len(found.points)


def _keep_point(found: Advice) -> None:
    """Keep what was clicked: the chart itself forgets it when it is drawn anew."""
    points = (widgets.read_report(f"advise-front-{found.policy}", "selection") or {}).get("points", [])
    data = points[-1].get("customdata") if points else None
    if data and 0 <= int(data[0]) < len(found.points):
        st.session_state["advise.picked"] = _identify(found), int(data[0])


def _draw_point(found: Advice, number: int) -> None:
    """One setting: what it came to, what differs from the file, its text, and a way to keep it."""
    point = found.points[number]
    kind = "Advised" if number == found.chosen else "Pareto-optimal" if number in found.front else "Tried"
    kind = kind if number else "Defaults"
    at, base = point.searched, found.points[0].searched
    words = {axis.key: axis.words for axis in found.axes}
    changes = "".join(
        f'<span class="ts-chip">{escape(words.get(key, key))}: <b>{value:,}</b></span>'
        if type(value) in (int, float)
        else f'<span class="ts-chip">{escape(words.get(key, key))}: <b>{escape(value)}</b></span>'
        for key, value in point.changes.items()
    )
    factor = "" if at.factor is None else f"{format_factor(at.factor)} of what it cost; "
    holdout = f"{format_usd(point.held.usd)}, {point.held.lost:,} lost" if point.held else "not looked at"
    rows = {
        "Cost": (format_usd(at.usd), f"{factor}{format_usd(base.usd)} with defaults"),
        "Lost references": (f"{at.lost:,}", f"of {at.uses:,}; {base.lost:,} with defaults"),
        "On held-out sessions": (holdout, f"{len(found.held):,} of them"),
        "Over the limit": (f"{at.unsent:,}", f"of {at.requests:,} requests"),
        "Fullest prompt": (f"{at.peak:.0%}", "of its window"),
    }
    body = "".join(
        f'<div class="ts-card"><h3>{escape(name)}</h3><div class="value">{escape(value)}</div><p>{escape(more)}</p></div>'
        for name, (value, more) in rows.items()
    )
    st.html(f'<h2 class="ts-section">{kind}</h2><div class="ts-cards">{body}</div><div class="ts-chips">{changes}</div>')
    text = found.to_toml(number)
    with st.expander("The policy as TOML", key="advise.text"):
        st.code(text, "toml")
    if point.changes:
        _draw_save(found, text)


def _draw_save(found: Advice, text: str) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="advise-keep"):
        name = st.text_input("Name", f"{found.policy}-advised"[:60], key=f"advise.name.{found.policy}", width=300).strip()
        saved = st.button("Save to my policies", type="primary", icon=":material/save:", key="advise.save")
        st.download_button(
            "Download",
            text,
            f"{name}.toml",
            "application/toml",
            icon=":material/download:",
            type="tertiary",
            on_click="ignore",
            key="advise.download",
        )
    if saved:
        try:
            library.save_policy(name, text, policies.find_folder())
            st.session_state["advise.saved"] = name, text
        except TurnscopeError as error:
            widgets.draw_notice(error.what, error.hint)
        except OSError as error:
            widgets.draw_notice("The policy could not be written.", str(error))
    if st.session_state.get("advise.saved") == (name, text):
        link = {"policies": f"{found.policy},{name}"} | (
            {"session": session} if (session := st.query_params.get("session")) else {}
        )
        st.html(
            f'<div class="ts-empty">Saved. <a href="/compare?{escape(urlencode(link))}" target="_self">Compare it with '
            f"{escape(found.title)}</a>, or choose it in a live chat.</div>"
        )
