"""Following a session that is being written: the switch, a line with what was added, and alerts at limits that one sets."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st
from turnscope import TurnscopeError
from turnscope.views.phrases import format_duration

from pages.parts import cache, opening, registry, theme, url, widgets
from pages.parts.components import define_component
from pages.parts.formats import escape, format_usd, shorten

POLL_SECONDS = 2
SWITCH = "header-live"
QUIET_SECONDS = 60  # without a write after which the line says that nothing is written
FILL, USD = "live.fill", "live.usd"
_STARTED, _VERSION, _SEEN, _ALERTED, _ALERTS, _DRAWING = (
    f"live.{name}" for name in ("started", "version", "seen", "alerted", "alerts", "drawing")
)
_BROWSER = Path(__file__).parent / "browser"
_alerts = define_component("turnscope_alerts", html="", js=theme.read_files(_BROWSER, "alerts.js"))
_permission = define_component(
    "turnscope_permission",
    html='<button type="button"></button><p></p>',
    css=theme.read_files(_BROWSER, "permission.css"),
    js=theme.read_files(_BROWSER, "permission.js"),
)


@dataclass(frozen=True, slots=True)
class _Start:
    """What stood in the session when following began."""

    entry: str
    requests: int
    usd: float


def is_on() -> bool:
    """Whether the session on the page is followed."""
    return bool(st.session_state.get(SWITCH))


def turn_on() -> None:
    """Follow the session that is opened next. For a button's `on_click`: the switch is not drawn yet then."""
    st.session_state[SWITCH] = True


def draw_switch(shown: opening.ShownSession) -> None:
    """The switch of the header. Once it is on, only what is added to the file has to be read."""
    if st.toggle("Live", key=SWITCH, persist_state="session", help="Read on while its file grows, and show the newest request"):
        if shown.entry.origin != "chat":
            with suppress(TurnscopeError):  # shown when it is opened
                opening.follow_session(shown.entry).read_session()
    else:  # what stood here when following begins: a file may have grown since
        st.session_state[_VERSION] = (shown.entry.id, cache.read_version(shown.entry))
        st.session_state.pop(_STARTED, None)


def draw_line(shown: opening.ShownSession) -> None:
    """Where the session is followed: what was added since, when the file was written last, and the limits of alerts."""
    if not is_on():
        return
    usd = float(shown.view.total or 0)
    if st.session_state.get(_STARTED, _Start("", 0, 0)).entry != shown.entry.id:
        st.session_state[_STARTED] = _Start(shown.entry.id, len(shown.view), usd)
    with st.container(key="live-line", horizontal=True, vertical_alignment="center", gap="small"):
        st.session_state[_DRAWING] = True
        _follow_file(shown)
        del st.session_state[_DRAWING]
        with st.popover(_name_limits(), icon=":material/notifications:", key="live-limits"):
            st.html('<div class="ts-small">Notify me each time this session reaches</div>')
            kept: dict[str, Any] = {"placeholder": "none", "persist_state": "session"}
            st.number_input("Fill of the window, in percent", 1, 100, None, 5, key=FILL, **kept)
            st.number_input("Cost in $", 0.01, 1e6, None, 1.0, format="%.2f", key=USD, **kept)
            _permission(key="live.permission")
    _draw_alerts(shown, usd)


def _name_limits() -> str:
    fill, usd = st.session_state.get(FILL), st.session_state.get(USD)
    limits = [f"{fill}%"] if fill else []
    limits += [f"\\${usd:,.2f}"] if usd else []
    return f"Alert at {' or '.join(limits)}" if limits else "Alert me"


@st.fragment(run_every=POLL_SECONDS)
def _follow_file(shown: opening.ShownSession) -> None:
    """The line, drawn anew by itself; the whole page is when the file has changed.

    A page that is being drawn is drawn to its end first: a file that grows all the time would stop it each time.
    """
    now = cache.read_version(shown.entry)
    before = st.session_state.get(_VERSION, (shown.entry.id, now))
    has_grown = before != (shown.entry.id, now) and before[0] == shown.entry.id
    if not has_grown or not st.session_state.get(_DRAWING):
        st.session_state[_VERSION] = (shown.entry.id, now)
    if has_grown and not st.session_state.get(_DRAWING):
        url.go_to_request(url.NEWEST)
        widgets.rerun_page()
    st.html(render_line(shown, st.session_state[_STARTED], _find_written(shown), time.time()), width="stretch")


def _find_written(shown: opening.ShownSession) -> float:
    """When the file was written last, in seconds since the epoch; 0 = it is gone."""
    with suppress(OSError):
        return registry.read_state(shown.entry.path)[0] / 1e9
    return 0.0


def render_line(shown: opening.ShownSession, start: _Start, written: float, now: float) -> str:
    """What following the session has shown so far, as HTML.

    Args:
        shown: the session.
        start: what stood in it when following began.
        written: when its file was written last, in seconds since the epoch; 0 = it is gone.
        now: the time now.
    """
    since = now - written
    quiet = since > QUIET_SECONDS
    if not written:
        state = "its file is gone"
    elif quiet:
        state = f"nothing written for {format_duration(since)}; the next request appears here by itself"
    else:
        state = "written just now" if since < 2 * POLL_SECONDS else f"last written {since:.0f} s ago"
    more, usd = len(shown.view) - start.requests, float(shown.view.total or 0) - start.usd
    added = f"+{more:,} {'request' if more == 1 else 'requests'}, +{format_usd(usd)} since you follow it" if more else ""
    parts = "".join(f"<span>{escape(part)}</span>" for part in (f"{len(shown.view):,} requests", added, state) if part)
    return f'<div class="ts-live{" quiet" if quiet else ""}" role="status"><i></i><b>Following</b>{parts}</div>'


def _find_fill(shown: opening.ShownSession) -> float:
    """The fullest of the requests that came since the last look, at least the newest: several may come at once."""
    entry, seen = st.session_state.get(_SEEN, ("", 0))
    count = len(shown.view)
    st.session_state[_SEEN] = (shown.entry.id, count)
    first = seen if entry == shown.entry.id and seen < count else count - 1
    return max((float(fill) for fill in shown.view.fill[max(0, first) :] if fill >= 0), default=0.0)  # NaN: no window is known


def _draw_alerts(shown: opening.ShownSession, usd: float) -> None:
    """Report each limit once, when it is reached: on the page, and on the desktop where that is allowed."""
    fill = _find_fill(shown)
    reached = {
        (shown.entry.id, kind, limit): (value >= limit, text)
        for kind, limit, value, text in (
            (FILL, st.session_state.get(FILL), 100 * fill, f"The window is {fill:.0%} full."),
            (USD, st.session_state.get(USD), usd, f"The session has cost {format_usd(usd)}."),
        )
        if limit
    }
    alerted: set[tuple[str, str, float]] = st.session_state.setdefault(_ALERTED, set())
    new = [key for key, (over, _) in reached.items() if over and key not in alerted]
    alerted -= {key for key, (over, _) in reached.items() if not over}
    alerted |= set(new)
    if new:
        text = " ".join(reached[key][1] for key in new)
        st.toast(text.replace("$", "\\$"), icon=":material/notifications:", duration="long")
        title = shorten(shown.view.title or shown.entry.name, 80)
        st.session_state[_ALERTS] = {"id": time.time_ns(), "title": title, "text": text}
    with st.container(key="quiet-alerts"):
        _alerts(key="live.alerts.component", data=st.session_state.get(_ALERTS))
