"""What is looked for in the list of sessions: words, filters, an order, saved views. All of it stands in the address."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from typing import Literal

import streamlit as st
from turnscope import TurnscopeError
from turnscope.library import index_queries, saved_views

from pages.library.rows import Key, Row
from pages.parts import cache, widgets
from pages.parts.formats import get_today, shorten, to_datetime

CHOICES = 200  # names in one list; the others are found by typing
SEARCH = "library.search"
ADDRESS = "library.address"  # what the address was made to say last
CHOSEN = {"tool": "library.tool", "project": "library.project", "model": "library.model", "tag": "library.tag"}
SPANS = {"1": "Today", "7": "Last 7 days", "30": "Last 30 days", "365": "Last year"}
LEAST, MOST, CUT, LAST, ORDER = (f"library.{name}" for name in ("least", "most", "cut", "last", "order"))
FROM, TO = "library.from", "library.to"
NAMES = ("q", *CHOSEN, "least", "most", "cut", "last", "from", "to", "sort")
ORDERS: Mapping[str, tuple[str, Callable[[Row], object]]] = {  # name in the address: words, and what is compared
    "new": ("Newest", lambda row: -(row.at or 0)),
    "old": ("Oldest", lambda row: row.at or 0),
    "cost": ("Most expensive", lambda row: -(row.usd if row.usd is not None else -1)),
    "requests": ("Most requests", lambda row: -row.requests),
    "fill": ("Fullest", lambda row: -row.fill),
    "cuts": ("Most truncations", lambda row: -row.cuts),
    "size": ("Largest file", lambda row: -row.size),
    "title": ("Title", lambda row: (row.title or row.name).casefold()),
    "project": ("Project", lambda row: row.project.casefold()),
    "model": ("Model", lambda row: row.models.casefold()),
}
VIEWS: Mapping[str, Mapping[str, str]] = {  # that everybody has
    "All sessions": {},
    "This week": {"last": "7"},
    "Most expensive": {"sort": "cost"},
    "Truncated": {"cut": "1", "sort": "cuts"},
}
Query = dict[str, str]


def read_address() -> None:
    """Take over what the address asks for, where it was not made by this page: a link, a saved view, Back."""
    parameters = {name: st.query_params[name] for name in NAMES if name in st.query_params}
    if not parameters and "session" in st.query_params and SEARCH not in st.session_state:
        parameters = st.session_state.get(
            ADDRESS, {}
        )  # back from the session that was opened here, whose address took this one's place
    if parameters != st.session_state.get(ADDRESS, {}) or SEARCH not in st.session_state:
        st.session_state[ADDRESS] = parameters
        apply(parameters)


def apply(query: Mapping[str, str]) -> None:
    """Set the widgets to what an address or a saved view says; what makes no sense in it is left out."""
    state = st.session_state
    state[SEARCH] = query.get("q", "")
    for name, key in CHOSEN.items():
        state[key] = query.get(name) or None
    state[LEAST], state[MOST] = _read_usd(query.get("least")), _read_usd(query.get("most"))
    state[CUT] = query.get("cut") == "1"
    state[LAST] = query["last"] if query.get("last") in SPANS else None
    state[FROM], state[TO] = _read_day(query.get("from")), _read_day(query.get("to"))
    state[ORDER] = query["sort"] if query.get("sort") in ORDERS else "new"


def change(**query: str) -> None:
    """Change some of the filters, from a click elsewhere on the page; "" = any."""
    apply({name: value for name, value in (build_query() | query).items() if value})


def build_query() -> Query:
    """What the widgets say, as the address has it."""
    state = st.session_state
    found = {
        "q": (state.get(SEARCH) or "").strip(),
        **{name: state.get(key) or "" for name, key in CHOSEN.items()},
        "least": _format_usd(state.get(LEAST)),
        "most": _format_usd(state.get(MOST)),
        "cut": "1" if state.get(CUT) else "",
        "last": state.get(LAST) or "",
        "from": day.isoformat() if (day := state.get(FROM)) else "",
        "to": day.isoformat() if (day := state.get(TO)) else "",
        "sort": "" if state.get(ORDER, "new") == "new" else state[ORDER],
    }
    return {name: value for name, value in found.items() if value}


def _read_usd(text: str | None) -> float | None:
    with suppress(ValueError, TypeError):
        number = float(text or "")
        return number if 0 <= number < 1e9 else None
    return None


def _format_usd(amount: float | None) -> str:
    return "" if amount is None else f"{amount:g}"


def _read_day(text: str | None) -> date | None:
    with suppress(ValueError, TypeError):
        return date.fromisoformat(text or "")
    return None


def write_address() -> Query:
    """Have the address say what the widgets do. Gives that."""
    query = build_query()
    st.session_state[ADDRESS] = query
    others = {name: value for name, value in st.query_params.to_dict().items() if name not in NAMES}
    if st.query_params.to_dict() != others | query:
        st.query_params.from_dict(others | query)
    return query


def draw_search() -> None:
    """The box: words of titles, and of all messages."""
    st.text_input(
        "Search all sessions",
        st.session_state.get(SEARCH) or "",  # a busy browser may show the box without having seen the run that set it
        key=SEARCH,
        label_visibility="collapsed",
        icon=":material/search:",
        placeholder="Search titles and all messages",
    )


def draw_filters(every: Sequence[Row]) -> None:
    """A button for each filter, which says what it is set to."""
    state = st.session_state
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="library.filters"):
        _draw_choice("Tool", "tool", (row.tool for row in every))
        _draw_choice("Project", "project", (row.project for row in every))
        _draw_choice("Model", "model", (model for row in every for model in row.models.split(", ")))
        tags = [tag for row in every for tag in row.tags]
        if tags or state.get(CHOSEN["tag"]):
            _draw_choice("Tag", "tag", tags)
        days = SPANS.get(state.get(LAST) or "") or _join(
            *(day.isoformat() if (day := state.get(key)) else "" for key in (FROM, TO))
        )
        with st.popover(_name("Date", days), key="library.filter.days"):
            st.pills("Ended", list(SPANS), format_func=SPANS.__getitem__, key=LAST)
            st.date_input("From", None, key=FROM, format="YYYY-MM-DD")
            st.date_input("To", None, key=TO, format="YYYY-MM-DD")
        with st.popover(
            _name("Cost", _join(*(_format_usd(state.get(key)) for key in (LEAST, MOST)))), key="library.filter.usd"
        ):
            st.number_input("Cost from $", 0.0, 1e9, None, key=LEAST, placeholder="any")
            st.number_input("to $", 0.0, 1e9, None, key=MOST, placeholder="any")
        st.toggle(
            "Truncated", bool(state.get(CUT)), key=CUT, help="Only sessions in which something was taken out of the window"
        )
        st.selectbox(
            "Sort",
            list(ORDERS),
            [*ORDERS].index(state.get(ORDER) or "new"),
            format_func=lambda name: ORDERS[name][0],
            key=ORDER,
            label_visibility="collapsed",
            width=170,
        )
        if any(name != "sort" for name in build_query()):
            st.button("Clear", key="library.clear", type="tertiary", on_click=apply, args=({},))


def _join(first: str, last: str) -> str:
    """A span, of which one end may be open; "" = both are."""
    return f"{first}–{last}" if first and last else f"from {first}" if first else f"to {last}" if last else ""


def _name(label: str, value: str) -> str:
    """What a button says: its filter, and what that is set to."""
    return f"{label}: **{plain}**" if (plain := _make_plain(value)) else label


def _make_plain(text: str) -> str:
    """Text of a log for a label, in which nothing is Markdown."""
    return " ".join(shorten(text, 26, "tail").translate(dict.fromkeys(map(ord, "\\`*_{}[]()#!|<>~:$"), " ")).split())


def _draw_choice(label: str, name: str, names: Iterable[str]) -> None:
    """One of the names that occur, the most frequent first."""
    many: dict[str, int] = {}
    for each in names:
        if each:
            many[each] = many.get(each, 0) + 1
    listed, key = sorted(many, key=lambda each: -many[each])[:CHOICES], CHOSEN[name]
    chosen = st.session_state.get(key)
    if chosen and chosen not in listed:  # an address may ask for what is no longer there
        listed.append(chosen)
    with st.popover(_name(label, chosen or ""), key=f"library.filter.{name}"):
        st.selectbox(label, listed, index=None, key=key, placeholder="Any")


def draw_views() -> None:
    """Views that everybody has, those that were saved, and a way to save what is shown now."""
    try:
        saved = saved_views.read_views()
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return
    now = build_query()
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="library.views"):
        for n, (name, query) in enumerate([*VIEWS.items(), *saved.items()]):
            kind: Literal["secondary", "tertiary"] = "secondary" if dict(query) == now else "tertiary"
            st.button((_make_plain(name) or "–"), key=f"library.view.{n}", type=kind, on_click=apply, args=(query,))
        with st.popover("Save view", icon=":material/bookmark_add:", key="library.view.saving"):
            if now:
                st.text_input("Name", key="library.view.name", max_chars=saved_views.MAX_CHARACTERS)
                st.button("Save what is listed now", key="library.view.save", on_click=_save_view, args=(now,))
            else:
                st.html('<div class="ts-small ts-faint">Search, filter or sort first: a view is what is chosen then.</div>')
            for n, name in enumerate(saved):
                label = _make_plain(name) or "–"
                st.button(
                    f"Delete {label}", key=f"library.view.delete.{n}", type="tertiary", on_click=_delete_view, args=(name,)
                )
    if problem := st.session_state.pop("library.view.problem", None):
        widgets.draw_notice(*problem)


def _save_view(query: Mapping[str, str]) -> None:
    try:
        saved_views.save_view(st.session_state.get("library.view.name") or "", query)
        st.session_state["library.view.name"] = ""
    except TurnscopeError as error:
        st.session_state["library.view.problem"] = (error.what.capitalize() + ".", error.hint)


def _delete_view(name: str) -> None:
    try:
        saved_views.delete_view(name)
    except TurnscopeError as error:
        st.session_state["library.view.problem"] = (error.what.capitalize() + ".", error.hint)


def select_rows(every: Sequence[Row], query: Mapping[str, str], found: frozenset[Key]) -> tuple[Row, ...]:
    """The rows that the filters leave, in their order; those that are written now come first.

    Args:
        every: all rows.
        query: what is looked for.
        found: sessions in whose texts the words were found.
    """
    words = query.get("q", "").casefold().replace('"', " ").split()
    first, last = _read_span(query)
    least, most = _read_usd(query.get("least")), _read_usd(query.get("most"))
    left = [
        row
        for row in every
        if query.get("tool", row.tool) == row.tool
        and query.get("project", row.project) == row.project
        and ("model" not in query or query["model"] in row.models.split(", "))
        and ("tag" not in query or query["tag"] in row.tags)
        and (least is None or (row.usd is not None and row.usd >= least))
        and (most is None or (row.usd is not None and row.usd <= most))
        and ("cut" not in query or row.cuts > 0)
        and (first is None or first <= _get_day(row) <= last)
        and (row.key in found or all(word in row.words for word in words))
    ]
    compare = ORDERS[query.get("sort", "new")][1]
    return tuple(sorted(left, key=lambda row: (not row.live, compare(row))))


def _read_span(query: Mapping[str, str]) -> tuple[date | None, date]:
    """From a date to a date, both included; the second is the last there is until it is chosen."""
    if query.get("last") in SPANS:
        return get_today() - timedelta(days=int(query["last"]) - 1), date.max
    first, last = _read_day(query.get("from")), _read_day(query.get("to"))
    return first or (date.min if last else None), last or date.max


def _get_day(row: Row) -> date:
    at = to_datetime(row.at)
    return at.date() if at else date.min


def find_matches(query: Mapping[str, str]) -> frozenset[Key]:
    """Sessions in whose texts the words of the search are; none where it has no word."""
    index = cache.open_store().index_path
    if not query.get("q"):
        return frozenset()
    with suppress(TurnscopeError):  # shown where the hits are listed
        return _find_matches(str(index), query["q"], index_queries.read_version(index))
    return frozenset()


@st.cache_resource(max_entries=8, show_spinner=False)
def _find_matches(path: str, text: str, version: tuple[int, ...]) -> frozenset[Key]:  # noqa: ARG001  what the cache goes by
    return index_queries.find_sessions(cache.open_store().index_path, text)
