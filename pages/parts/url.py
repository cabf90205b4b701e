"""What the address of a page says: which session, which part of it, which request.

`?session=<id>&part=<k>&request=<n>`; in a file with several conversations, `<id>:<conversation>` names one that is not the main
one. A session is looked up among those that are known; what an address says is never joined into a path.
"""

from __future__ import annotations

from urllib.parse import urlencode

import streamlit as st
from turnscope.views import request_summary

from pages.parts import cache, registry
from pages.parts.opening import ShownSession
from pages.parts.registry import Entry

NEWEST = 10**9  # a request beyond every session's end: the last one


def read_entry() -> Entry | None:
    """The session that the URL names, else the one last looked at, else a given file, else the first sample."""
    known = cache.list_entries()
    wanted = st.query_params.get("session") or st.session_state.get("state.session")
    if wanted:
        return registry.find_entry(known, wanted)
    preferred = next((entry for entry in known.values() if entry.origin == "given"), None)
    return preferred or known.get(registry.FIRST) or next(iter(known.values()), None)


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
    more = ({"part": str(part)} if part else {}) | ({} if request is None else {"request": str(request)})
    st.query_params.from_dict({"session": entry_id} | more)


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
    st.session_state["state.query"] = wanted
    return wanted


def get_noted() -> dict[str, str]:
    """What was shown last, as the query of an address; empty where nothing was."""
    known: dict[str, str] = st.session_state.get("state.query") or {}
    return {"session": st.session_state.get("state.session", "")} | known


def recall_session() -> None:
    """After a switch of pages, put back what the URL said."""
    if "session" not in st.query_params and "state.query" in st.session_state:
        st.query_params.from_dict(st.session_state["state.query"])


def forget_session() -> None:
    """Drop the session last looked at, so that the next page begins anew."""
    for key in ("state.session", "state.query"):
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
