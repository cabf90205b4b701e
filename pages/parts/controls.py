"""What stands at the top of every page: which session, search, live, help. Opens the session that the URL names."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

import streamlit as st
from turnscope import TurnscopeError, figures
from turnscope.views.events import EVENTS

from pages.parts import branching, cards, components, leaving, registry, searching, shell, state, theme
from pages.parts.formats import apart, esc, short

ORIGINS = {"sample": "Sample", "given": "File", "recent": "Recent", "found": "Found", "indexed": "Indexed", "chat": "Chat"}
POLL_SECONDS = 2
C = TypeVar("C", bound=str)
GLOSSARY = {
    "Request": "One call of the model, with everything it was sent.",
    "Turn": "One prompt of yours and all requests it caused.",
    "Bucket": "One of five parts of a request: system, tools, messages, tool results, thinking.",
    "Window": "The most tokens that the model takes in one request.",
    "Prefix": "System prompt and tools where the log does not hold them: known by size alone.",
    "Unattributed": "Recorded tokens that nothing in the log explains.",
    **{EVENTS[kind].word.capitalize(): EVENTS[kind].meaning for kind in ("compact", "cut", "clear", "break")},
    "Re-sent": "Tokens that an earlier request had carried already. A cache makes them cheap, not free.",
    "Cold": "A cell that was mostly read from cache, at about a tenth of the price.",
}
KEYS = {
    "←  →": "previous, next request",
    "Home  End": "first, last request",
    "P  N": "previous, next event",
    "/": "search this session",
    "?": "this help",
}


def header(*, amid: bool = True) -> state.Shown:
    """Draw the top of a page and give the session to show. Stops the page where there is none, or nothing in it.

    `amid`: say where the task stands amid a long prompt, for a page that does not say it among other findings.
    """
    shown = header_if_any(amid=amid)
    if shown is None:
        st.page_link(shell.page("library"), label="Open another session", icon=":material/folder_open:")
        st.stop()
    if not len(shown.view):
        notice("No model was called in this session.", "It holds messages, but no request and no answer of a model.")
        st.stop()
    branching.draw(shown)
    return shown


def header_if_any(*, amid: bool = True) -> state.Shown | None:
    """The same, for a page that has something to show without a session."""
    theme.apply()
    state.recall()
    components.keys()
    top = st.container(key="header", horizontal=True, vertical_alignment="center", gap="small")
    shown = _open()
    with top:
        if shown:
            st.html(cards.title(shown.view), width="stretch")
        with st.container(key="header-tools", horizontal=True, width="content", gap="small", vertical_alignment="center"):
            _picker(shown)
            if shown:
                searching.box()
                _live(shown)
            _help()
    if shown:
        leaving.selected(shown)
        searching.found(shown)
        if amid and (told := [finding for finding in shown.findings if finding.kind == "middle"]):
            st.html(cards.amid(told[0].text, leaving.link(shown, "envelope", request=told[0].request)))
    return shown


def _open() -> state.Shown | None:
    """The session that the URL names, with a progress bar while it is read; None, with a notice, where it cannot be."""
    entry = state.entry()
    if entry is None:
        notice(
            "This session is not known here.", "The link may come from another machine, or the file was moved. Open it again."
        )
        state.forget()
        return None
    room = st.empty()
    try:
        live = bool(st.session_state.get("header-live"))
        if state.is_open(entry) or live:
            return state.opened(entry, state.part(), live=live)
        bar = room.progress(0.0, "Opening")
        return state.opened(entry, state.part(), lambda what, share: bar.progress(min(1.0, share), what))
    except TurnscopeError as error:
        notice(error.what, error.hint)
        state.forget()
        return None
    finally:
        room.empty()


def notice(what: str, hint: str = "") -> None:
    """Something that went wrong, as plain text, with what to do about it."""
    st.html(f'<div class="ts-card ts-notice" role="alert"><b>{esc(what)}</b><p>{esc(hint)}</p></div>')


def _picker(shown: state.Shown | None) -> None:
    """Which file, which conversation of it, and which branch or subagent of that."""
    with st.popover("Session", icon=":material/swap_horiz:", key="header-session"):
        known = state.near(shown)
        ids = list(known)
        file = shown.entry.file if shown else ""
        here = ids.index(file) if file in known else None
        titles = state.titles()
        names = apart({entry.id: named(entry, titles.get(str(entry.path), "")) for entry in known.values()})
        chosen = st.selectbox(
            f"Session, {len(ids):,} known: type to search", ids, index=here, format_func=names.__getitem__,
            key=f"picker.session.{file}", filter_mode="fuzzy",
        )  # fmt: skip
        if chosen and chosen != file:
            state.choose(chosen)
            st.rerun()
        if shown:
            _conversation(shown)
        if shown and len(shown.parts) > 1:
            labels = apart({part.number: short(part.label, 90) for part in shown.parts})
            key = f"picker.part.{shown.key}"
            part = st.selectbox(
                "Branch or subagent", range(len(labels)), index=shown.part, format_func=labels.__getitem__, key=key
            )
            if part != shown.part:
                state.choose(shown.entry.id, part)
                st.rerun()
        st.page_link(shell.page("library"), label="Open another file", icon=":material/folder_open:")


def named(entry: registry.Entry, title: str) -> str:
    """What a session is called in the picker: its title where it was opened before, its file, and where it comes from."""
    name = f"{short(title, 60)} · {short(entry.name, 40, 'tail')}" if title else short(entry.name, 80)
    return f"{name} ({entry.tool or ORIGINS[entry.origin]})"


def _conversation(shown: state.Shown) -> None:
    """Which conversation of a file that holds several."""
    held = state.conversations(shown.entry)
    if len(held.listed) < 2:
        return
    inside = shown.entry.inside or held.listed[0].id
    titles = {entry.id: short(entry.title or entry.id, 90) for entry in held.listed}
    titles = apart({**titles, inside: titles.get(inside) or short(inside, 90)})
    ids, label = list(titles), f"Conversation, {len(held.listed):,} listed {held.rest}".strip()
    key = f"picker.inside.{shown.entry.id}"
    chosen = st.selectbox(label, ids, index=ids.index(inside), format_func=titles.__getitem__, key=key)
    if chosen != inside:
        state.choose(shown.entry.of(chosen).id)
        st.rerun()


def _live(shown: state.Shown) -> None:
    """Follow a file that is being written: look at its metadata, read it again when it grew, show the newest request."""
    if st.toggle("Live", key="header-live", persist_state="session"):
        _begin(shown)
        _follow(shown)
    else:  # what stood here when following begins: a file may have grown since
        st.session_state["live.version"] = (shown.entry.id, state.version(shown.entry))


def _begin(shown: state.Shown) -> None:
    """Read what stands in the file now, so that from here on only what is added has to be read."""
    if shown.entry.origin != "chat":
        with suppress(TurnscopeError):  # said when it is opened
            state.follow(shown.entry).read_session()


@st.fragment(run_every=POLL_SECONDS)
def _follow(shown: state.Shown) -> None:
    now = state.version(shown.entry)
    before = st.session_state.get("live.version", (shown.entry.id, now))
    st.session_state["live.version"] = (shown.entry.id, now)
    if before != (shown.entry.id, now) and before[0] == shown.entry.id:
        state.go(state.NEWEST)
        st.rerun()


def _help() -> None:
    with st.popover("?", key="header-help", help="Keyboard and words"):
        keys = "".join(f"<dt><kbd>{esc(key)}</kbd></dt><dd>{esc(what)}</dd>" for key, what in KEYS.items())
        words = "".join(f"<dt>{esc(word)}</dt><dd>{esc(what)}</dd>" for word, what in GLOSSARY.items())
        st.html(f'<dl class="ts-glossary">{keys}</dl><hr style="margin:10px 0"><dl class="ts-glossary">{words}</dl>')


def heatmap_choices(priced: bool, slots: bool) -> tuple[figures.Unit, figures.Measure, figures.Scale, bool, bool]:
    """What the heatmap shows: columns, measure, scale, whether each row has a scale of its own, whether each slot has a row.

    `priced`: some of it has a price; tokens are shown first where nothing has. `slots`: something was put in.
    """
    measures: dict[figures.Measure, str] = {"cost": "Cost", "tokens": "Tokens", "share": "Share of window"}
    if not priced:
        measures = {"tokens": "Tokens", "share": "Share of window"}
    with st.container(horizontal=True, vertical_alignment="center", key="heatmap-choices"):
        by: figures.Unit = _choice("Columns", {"requests": "Requests", "turns": "Turns"}, "heatmap.by")
        measure = _choice("Measure", measures, "heatmap.measure" if priced else "heatmap.measure.unpriced")
        scale: figures.Scale = _choice("Scale", {"rank": "By rank", "log": "Logarithmic", "linear": "Linear"}, "heatmap.scale")
        each = _choice("Rows", {"shared": "One scale", "each": "Each row its own"}, "heatmap.rows") == "each"
        parted = slots and _choice("Inserts", {"in": "In their buckets", "apart": "Inserts apart"}, "heatmap.slots") == "apart"
    return by, measure, scale, each, parted


def _choice(label: str, options: dict[C, str], key: str) -> C:
    first = next(iter(options))
    chosen = st.segmented_control(
        label,
        list(options),
        default=first,
        required=True,
        format_func=options.__getitem__,
        key=key,
        label_visibility="collapsed",
        persist_state="session",
    )
    return chosen or first
