"""What the address of a page says: which session, which part of it, which request, and how it is looked at.

`?session=<id>&part=<k>&request=<n>`; in a file with several conversations, `<id>:<conversation>` names one that is not the main
one. A session is looked up among those that are known; what an address says is never joined into a path.

How it is looked at stands behind that: `pane=<tab>`, `range=<start>-<stop>` and what else `VIEW` lists, each where it is not
the default. It is read from the address once per run of a whole page: a fragment's run may bring an older address.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import urlencode

import streamlit as st
from turnscope.views import request_summary

from pages.parts import cache, registry
from pages.parts.opening import ShownSession
from pages.parts.registry import Entry

DEMO = "demo.stop"  # in the session state: the stop at which the demo is
NEWEST = 10**9  # a request beyond every session's end: the last one
# Of a page; they stay when another session is shown.
MODES = (
    *("pane", "by", "measure", "scale", "rows", "inserts", "stops"),
    *("q", "scope", "role", "tool", "regex", "seen"),
    *("policies", "model", "window", "limit", "what", "which"),
)
# Of one session: requests as `<start>-<stop>`, from 0 and without the last; a block; a text; the session it is held against.
PLACES = ("range", "zoom", "block", "text", "with")
VIEW = (*MODES, *PLACES)
MOST = 3_000  # characters of each
ALL_PAGES = ("range",)  # what is the same on every page
PAGE = "shell.page"  # in the session state: name of the page that is drawn
BEFORE = "shell.before"  # in the session state: name of the page that was drawn before; the same one where nothing was switched
_VIEW = "state.view"  # in the session state: what the address says of `VIEW`
_VIEWS = "state.views"  # in the session state: the same of the pages before, by page
C = TypeVar("C", bound=str)


def read_entry() -> Entry | None:
    """The session that the URL names, else the one last looked at, else a given file, else the first sample."""
    known = cache.list_entries()
    wanted = st.query_params.get("session") or st.session_state.get("state.session")
    if wanted:
        return registry.find_entry(known, wanted)
    preferred = next((entry for entry in known.values() if entry.origin == "given"), None)
    return preferred or known.get(registry.FIRST) or next(iter(known.values()), None)


def read_session() -> str:
    """Id and part of the session that the URL names, else of the one last looked at."""
    return f"{st.query_params.get('session') or st.session_state.get('state.session')}:{read_part()}"


def read_part() -> int:
    """Which session of the file the URL names."""
    return _read_number("part", 0)


def read_request(shown: ShownSession) -> int:
    """The request that the URL names, inside the session; where it names none, the one to show first."""
    last = max(0, len(shown.view) - 1)
    return max(0, min(last, _read_number("request", request_summary.find_opening_request(shown.view))))


def go_to_request(request: int) -> None:
    """Show another request."""
    st.query_params["request"] = str(request)


def choose_session(entry_id: str, part: int = 0, request: int | None = None) -> None:
    """Show another session, or another part of it.

    Args:
        entry_id: id of the session.
        part: number of a branch or subagent; 0 = the session itself.
        request: number of the request; None = the one that the session opens with.
    """
    st.session_state["state.session"] = entry_id
    st.session_state.pop("state.query", None)
    for view in (_get_view(), *st.session_state.get(_VIEWS, {}).values()):
        for name in PLACES:
            view.pop(name, None)
    more = ({"part": str(part)} if part else {}) | ({} if request is None else {"request": str(request)})
    st.query_params.from_dict({"session": entry_id} | more | _get_view() | get_demo())


def remember_request(shown: ShownSession, request: int) -> None:
    """Keep URL and memory equal: a switch of pages drops the query, a reload drops the memory.

    Args:
        shown: the session that is shown.
        request: number of the request.
    """
    wanted = note_request(shown, request)
    if st.query_params.to_dict() != wanted:
        st.query_params.from_dict(wanted)


def note_request(shown: ShownSession, request: int) -> dict[str, str]:
    """Keep in memory what is shown, for the next page; gives it as the query of an address.

    Args:
        shown: the session that is shown.
        request: number of the request.
    """
    st.session_state["state.session"] = shown.entry.id
    wanted = {"session": shown.entry.id, "request": str(request)} | ({"part": str(shown.part)} if shown.part else {})
    view = _get_view()
    st.session_state["state.query"] = wanted | {name: view[name] for name in ALL_PAGES if name in view}
    st.session_state.setdefault(_VIEWS, {})[st.session_state.get(PAGE, "")] = view
    return wanted | view | get_demo()


def get_demo() -> dict[str, str]:
    """What the address says of the demo, on every page while it is on."""
    return {"demo": str(st.session_state[DEMO])} if st.session_state.get(DEMO) else {}


def get_noted() -> dict[str, str]:
    """What was shown last, as the query of an address; empty where nothing was."""
    known: dict[str, str] = st.session_state.get("state.query") or {}
    return {"session": st.session_state.get("state.session", "")} | known


def recall_session() -> None:
    """Read how the page is looked at; after a switch of pages, restore what the URL holds."""
    if "session" not in st.query_params and "state.query" in st.session_state:
        before = st.session_state.get(_VIEWS, {}).get(st.session_state.get(PAGE, ""), {})
        kept = {name: value for name, value in before.items() if name not in ALL_PAGES}
        st.query_params.from_dict(kept | st.session_state["state.query"] | st.query_params.to_dict() | get_demo())
    st.session_state[_VIEW] = {name: st.query_params[name][:MOST] for name in VIEW if st.query_params.get(name)}


def drop_view() -> None:
    """Have nothing of how a session is looked at: for a page about many, whose address has words of its own."""
    st.session_state[_VIEW] = {}


def _get_view() -> dict[str, str]:
    view: dict[str, str] = st.session_state.setdefault(_VIEW, {})
    return view


def get_view(name: str) -> str:
    """What the address says of one of `VIEW`; "" = nothing, so the default."""
    return _get_view().get(name, "")


def set_view(name: str, value: str) -> None:
    """Write one of `VIEW` into the address.

    Args:
        name: one of `VIEW`.
        value: what it says; "" = the default, which no address says.
    """
    if value:
        _get_view()[name] = value
        if st.query_params.get(name) != value:
            st.query_params[name] = value
    else:
        _get_view().pop(name, None)
        st.query_params.pop(name, None)


def get_span(name: str, count: int) -> tuple[int, int] | None:
    """The requests [start, stop) that the address says; None = none, or not inside the session.

    Args:
        name: `range` or `zoom`.
        count: requests of the session.
    """
    start, _, stop = get_view(name).partition("-")
    if not (start.isdecimal() and stop.isdecimal() and len(start + stop) < 20):
        return None
    return (int(start), int(stop)) if int(start) < int(stop) <= count else None


def get_block(count: int) -> int | None:
    """The block that the address names; None = none of the session.

    Args:
        count: blocks of the session.
    """
    text = get_view("block")
    return int(text) if text.isdecimal() and len(text) < 10 and int(text) < count else None


def set_span(name: str, span: tuple[int, int] | None) -> None:
    """Write a range of requests into the address.

    Args:
        name: `range` or `zoom`.
        span: requests [start, stop); None = none.
    """
    set_view(name, f"{span[0]}-{span[1]}" if span else "")


def draw_choice(label: str, options: Mapping[C, str], name: str, key: str, default: C | None = None) -> C:
    """One of several, as buttons; the address says which.

    Args:
        label: what is chosen, for who cannot see it.
        options: the words of each.
        name: one of `MODES`.
        key: key of the widget.
        default: the one that the address does not name; None = the first.
    """
    first = default or next(iter(options))
    wanted = next((option for option in options if option == get_view(name)), first)
    st.segmented_control(
        label,
        list(options),
        default=wanted,  # a busy browser may show the widget without having seen the run that set its value
        required=True,
        format_func=options.__getitem__,
        key=key,
        label_visibility="collapsed",
        on_change=bind(name, key, wanted, first),
    )
    return wanted


def bind(name: str, key: str, wanted: str | bool, default: str | bool = "") -> Callable[[], None]:
    """Let a widget show what the address says; gives what it has to do when it changes.

    Args:
        name: one of `VIEW`.
        key: key of the widget, which is drawn next.
        wanted: what the address says, as the widget's value.
        default: the value that no address says.
    """
    if st.session_state.get(key) != wanted:
        st.session_state[key] = wanted

    def write() -> None:
        if key not in st.session_state:
            return  # said late, of a widget that the page shown by then does not have
        value = st.session_state[key]
        set_view(name, "" if value in (default, None, False) else "1" if value is True else str(value).strip()[:MOST])

    return write


def follow(name: str, key: str, value: object) -> Callable[[], None]:
    """Set a widget to what the address says, where somebody else than the widget wrote that: "Back", or a link.

    Args:
        name: one of `VIEW`.
        key: key of the widget, which is drawn next.
        value: what the address says, as the widget's value.

    Returns:
        What the widget has to do when it changes: what was just chosen is never taken back.
    """
    changed = st.session_state.pop(f"{key}.changed", False)
    if key in st.session_state and not changed and st.session_state.get(f"{key}.written", "") != get_view(name):
        st.session_state[key] = value

    def note() -> None:
        st.session_state[f"{key}.changed"] = True

    return note


def write(name: str, key: str, text: str) -> None:
    """Write what a widget that follows the address says.

    Args:
        name: one of `VIEW`.
        key: key of the widget.
        text: its value; "" = the default, which no address says.
    """
    st.session_state[f"{key}.written"] = text
    set_view(name, text)


def forget_session() -> None:
    """Drop the session last looked at, so that the next page begins anew."""
    for key in ("state.session", "state.query", _VIEW, _VIEWS):
        st.session_state.pop(key, None)
    st.query_params.clear()


def make_link(shown: ShownSession, page: str, **query: object) -> str:
    """The address of a page that shows the same session.

    Args:
        shown: the session that is shown.
        page: name of the page.
        query: what else stands in the address.
    """
    return f"/{page}?{urlencode(make_query(shown) | query)}"


def make_query(shown: ShownSession) -> dict[str, object]:
    return {"session": shown.entry.id, **({"part": str(shown.part)} if shown.part else {})}


def _read_number(name: str, otherwise: int) -> int:
    try:
        return int(st.query_params.get(name, ""))
    except ValueError:
        return otherwise
