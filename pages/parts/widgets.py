"""Parts of many pages: a notice, the text of a session, pages of a long list, lines that lead to requests, a job's progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import streamlit as st
from turnscope.library.job import Job

from pages.parts import theme
from pages.parts.components import define_component
from pages.parts.formats import escape

_BROWSER = Path(__file__).parent / "browser"
SHOWN = 20_000  # characters of a text on the page; a download has them all
_rows = define_component(
    "turnscope_rows",
    html='<div class="list"></div>',
    css=theme.read_files(_BROWSER, "rows.css"),
    js=theme.REDRAW + theme.read_files(_BROWSER, "rows.js"),
)


def draw_notice(what: str, hint: str = "") -> None:
    """Something that went wrong, as plain text, with what to do about it.

    Args:
        what: what went wrong.
        hint: what to do about it; "" = nothing.
    """
    st.html(f'<div class="ts-card ts-notice" role="alert"><b>{escape(what)}</b><p>{escape(hint)}</p></div>')


def draw_text(text: str | None, otherwise: str = "", height: int = 300) -> None:
    """Text of a session as text, in a box that scrolls.

    Args:
        text: the text.
        otherwise: what stands there where there is none.
        height: pixels.
    """
    if not text:
        st.html(f'<div class="pane-empty">{escape(otherwise if text is None else "(no text)")}</div>')
        return
    st.code(
        text[:SHOWN], language=None, wrap_lines=True, height=height if len(text) > 600 or text.count("\n") > 10 else "content"
    )
    if len(text) > SHOWN:
        st.html(f'<div class="ts-small ts-faint">The first {SHOWN:,} of {len(text):,} characters.</div>')


def read_report(key: str, name: str) -> Any:
    """What a component reported; None = nothing, or it came late, and the page that is shown by then has no such component.

    Args:
        key: key of the component.
        name: name of what it reports.
    """
    return (st.session_state.get(key) or {}).get(name)


def draw_rows(
    key: str, items: Sequence[dict[str, object]], *, at: int, count: int, go: Callable[[int], None], chosen: int | None = None
) -> None:
    """A list in which each line leads to a request, or to what its number `to` says.

    Args:
        key: key of the widget.
        items: title, text and request of each line; also spans and colour for a strip.
        at: number of the request that is shown.
        count: requests of the session.
        go: goes to the request of a line, or to its `to`.
        chosen: the `to` of the line that is chosen.
    """

    def follow_choice() -> None:
        sent = read_report(key, "go")
        if sent:
            go(int(sent["to"]))

    data = {"items": list(items), "at": at, "count": count, "chosen": at if chosen is None else chosen}
    _rows(key=key, data=data, default={"go": None}, on_go_change=follow_choice)


def find_page_start(key: str, count: int, size: int, otherwise: int = 0) -> int:
    """Where the page of a list that is shown begins.

    Args:
        key: key of the pager.
        count: lines of the list.
        size: lines of a page.
        otherwise: number of the line to show first.
    """
    wanted = int(st.session_state.get(key, otherwise))
    return max(0, min(wanted, count - 1)) // size * size


def draw_pager(key: str, count: int, size: int, begin: int, what: str) -> None:
    """ "1-50 of 1,234 blocks", with buttons where there is more than one page.

    Args:
        key: key of the pager.
        count: lines of the list.
        size: lines of a page.
        begin: number of the page's first line.
        what: what the lines are, in the plural.
    """

    def turn(to: int) -> None:
        st.session_state[key] = to

    stop = min(count, begin + size)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"{key}.pager"):
        span = f"{begin + 1:,}–{stop:,} of {count:,} {what}" if count else f"no {what}"
        st.html(f'<div class="ts-small ts-faint ts-num ts-pages">{span}</div>', width="content")
        if count > size:
            last = (count - 1) // size * size
            for name, label, to, off in (
                ("first", "First", 0, begin == 0),
                ("earlier", "Earlier", begin - size, begin == 0),
                ("later", "Later", stop, stop == count),
                ("last", "Last", last, stop == count),
            ):
                st.button(label, key=f"{key}.{name}", type="tertiary", disabled=off, on_click=turn, args=(to,))


def rerun_page() -> NoReturn:
    """Run the whole page again, from a part that a timer runs.

    What the browser asked for meanwhile goes first. `st.rerun` alone would take its place, with the address of before: a click
    on another page and a step back would be lost.
    """
    st.empty()  # Streamlit looks for what was asked for wherever something is drawn
    st.rerun()


def draw_progress(job: Job, *, key: str, doing: str, unit: str, note: str, interval: float, each: bool = False) -> None:
    """How far a job is, drawn anew by itself, with a button to stop it and one to go on; when it ends the whole page is drawn.

    Args:
        job: the job.
        key: of the buttons.
        doing: what it does, as `Trying`.
        unit: what it counts, as `settings`.
        note: a few words behind the numbers.
        interval: seconds between two looks at it.
        each: draw the whole page with each step.
    """
    began, shown = job.state == "running", job.done

    def draw_job() -> None:
        if began and (job.state != "running" or (each and job.done > shown)):
            rerun_page()
        with st.container(key="index-bar", horizontal=True, vertical_alignment="center", gap="small"):
            state = doing if job.state == "running" else "Stopped after"
            share = job.done / max(1, job.count)
            st.html(
                f'<div class="ts-progress" role="status"><b>{state} {job.done:,} of {job.count:,} {escape(unit)}</b> '
                f'<span>{escape(note)}</span><i><em style="width:{share:.1%}"></em></i></div>',
                width="stretch",
            )
            if job.state == "running":
                st.button("Cancel", icon=":material/stop_circle:", key=f"{key}.cancel", on_click=job.cancel)
            elif st.button("Go on", icon=":material/play_arrow:", key=f"{key}.on"):
                job.resume()
                st.rerun()  # the whole page: what was stopped is not drawn anew by itself

    st.fragment(draw_job, run_every=interval if began else None)()
