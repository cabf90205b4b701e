"""The demo: seven stops on the real pages, each with one sentence; it is left and resumed at any of them.

`?demo=<stop>` names a stop, from 1, on any page; `&play=1` lets the demo play by itself. The bar above the page is drawn in the
browser (`browser/demo.js`): what somebody does on the page stops the playing there and then.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import streamlit as st
from turnscope import TurnscopeError, settings

from pages.parts import cache, demo_stops, opening, registry, theme, url, widgets
from pages.parts.components import define_component
from pages.parts.demo_stops import STOPS

STOP, LEFT = url.DEMO, "demo.left"  # in the session state: the stop that is shown; the one at which the demo was left
CHAT = "demo.chat"  # in the session state: the chat that the demo shows
_GO, _AT, _PLAY, _OFFERED = "demo.go", "demo.at", "demo.play", "demo.offered"
_BROWSER = Path(__file__).parent / "browser"
_bar = define_component(
    "turnscope_demo",
    html=theme.read_files(_BROWSER, "demo.html"),
    css=theme.read_files(_BROWSER, "demo.css"),
    js=theme.read_files(_BROWSER, "demo.js"),
)


def get_stop() -> int:
    """The stop that is shown, from 1; 0 = the demo is not on."""
    return int(st.session_state.get(STOP, 0))


def is_at(page: str) -> bool:
    """Whether the demo is at the stop of a page."""
    return bool(get_stop()) and STOPS[get_stop() - 1].page == page


def draw(page: str, find_page: Callable[[str], str]) -> None:
    """Draw the bar above a page where the demo is on; go to its next stop where somebody requested that.

    Args:
        page: name of the page; "" = the one that the app opens with.
        find_page: the path of a page by its name.
    """
    page, wanted = page or "envelope", st.session_state.pop(_GO, None)
    if wanted is None:
        _read_address(page)
    elif wanted:
        st.session_state[STOP] = wanted
    else:
        _leave()
    if not get_stop():
        return
    stop = STOPS[get_stop() - 1]
    try:
        shown = opening.open_session(cache.list_entries()[registry.FIRST], 0)
        arrives, st.session_state[_AT] = st.session_state.get(_AT) != get_stop(), get_stop()
        if wanted or (arrives and (page != stop.page or ("session" not in st.query_params and page != "chat"))):
            st.switch_page(find_page(stop.page), query_params=_build_query(shown))
        sentence = demo_stops.get_sentence(shown, get_stop())
    except TurnscopeError as error:
        sentence = f"{error.what}. {error.hint}"
    with st.container(key="demo"):
        _draw_bar(sentence, here=page == stop.page)


def _read_address(page: str) -> None:
    """Take the stop from the address, or from the command line when nobody has gone anywhere yet."""
    named = st.query_params.get("demo", "")
    offered = settings.read_demo() if page == "envelope" and not st.query_params and _OFFERED not in st.session_state else ""
    st.session_state[_OFFERED] = True
    if named.isdecimal() and 1 <= int(named) <= len(STOPS):
        st.session_state[STOP] = int(named)
    elif offered:
        st.session_state[STOP] = 1
    if st.query_params.get("play") or offered == "play":
        st.session_state[_PLAY] = True


def _build_query(shown: opening.ShownSession) -> dict[str, str]:
    """What the address of the stop says."""
    stop = STOPS[get_stop() - 1]
    session = {} if stop.page == "chat" else {"session": registry.FIRST}
    return {**session, **{name: str(value) for name, value in stop.query(shown).items()}, "demo": str(get_stop())}


def _draw_bar(sentence: str, *, here: bool) -> None:
    stop = STOPS[get_stop() - 1]
    _bar(
        key="demo-bar",
        data={
            "stop": get_stop(),
            "titles": [each.title for each in STOPS],
            "sentence": sentence,
            "focus": stop.focus,
            "seconds": stop.seconds,
            "here": here,
            "waits": here and stop.page == "chat" and not demo_stops.is_done(),
            "play": bool(st.session_state.get(_PLAY)),
        },
        on_go_change=_go,
    )


def _go() -> None:
    """The bar asks for another stop, for this one again, or to leave (0)."""
    sent = widgets.read_report("demo-bar", "go")
    if not sent:
        return
    wanted = int(sent.get("stop") or 0)
    st.session_state[_GO] = wanted if wanted <= len(STOPS) else 0
    for name in (CHAT, demo_stops.CHAT_SENTENCE):
        st.session_state.pop(name, None)


def _leave() -> None:
    st.session_state[LEFT] = st.session_state.pop(STOP, 1)
    st.session_state.pop(_AT, None)
    st.query_params.pop("demo", None)


def draw_link(find_page: Callable[[str], str]) -> None:
    """A link that begins the demo, or goes on where it was left; nothing while it is on.

    Args:
        find_page: the path of a page by its name.
    """
    if get_stop():
        return
    left = int(st.session_state.get(LEFT, 1))
    label = "Two-minute demo" if left == 1 else f"Go on with the demo, stop {left} of {len(STOPS)}"
    with st.container(key="demo-link", width="content"):
        st.page_link(find_page("envelope"), label=label, icon=":material/play_circle:", query_params={"demo": str(left)})
