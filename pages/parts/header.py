"""What stands at the top of every page: which session, search, live, help. Opens the session that the address names."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import streamlit as st
from turnscope import TurnscopeError
from turnscope.views.events import EVENTS

from pages.parts import cache, cards, opening, registry, search, shell, theme, url, widgets
from pages.parts.formats import apart, esc, short

POLL_SECONDS = 2
MAIN = 0  # the number of the main path among the parts of a session
_BROWSER = Path(__file__).parent / "browser"
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
_keys = st.components.v2.component("turnscope_keys", html="", js=theme.read(_BROWSER, "keys.js"))
_selecting = st.components.v2.component("turnscope_selecting", html="", js=theme.read(_BROWSER, "selecting.js"))


def header(*, amid: bool = True) -> opening.Shown:
    """Draw the top of a page and give the session to show. Stops the page where there is none, or nothing in it.

    `amid`: say where the task stands amid a long prompt, for a page that does not say it among other findings.
    """
    shown = header_if_any(amid=amid)
    if shown is None:
        st.page_link(shell.page("library"), label="Open another session", icon=":material/folder_open:")
        st.stop()
    if not len(shown.view):
        widgets.notice("No model was called in this session.", "It holds messages, but no request and no answer of a model.")
        st.stop()
    _branches(shown)
    return shown


def header_if_any(*, amid: bool = True) -> opening.Shown | None:
    """The same, for a page that has something to show without a session."""
    theme.apply()
    url.recall()
    _draw_keys()
    top = st.container(key="header", horizontal=True, vertical_alignment="center", gap="small")
    shown = _open()
    with top:
        if shown:
            st.html(cards.title(shown.view), width="stretch")
        with st.container(key="header-tools", horizontal=True, width="content", gap="small", vertical_alignment="center"):
            _picker(shown)
            if shown:
                search.box()
                _live(shown)
            _help()
    if shown:
        _link_selection(shown)
        search.found(shown)
        if amid and (told := [finding for finding in shown.findings if finding.kind == "middle"]):
            st.html(cards.amid(told[0].text, url.link(shown, "envelope", request=told[0].request)))
    return shown


def _open() -> opening.Shown | None:
    """The session that the URL names, with a progress bar while it is read; None, with a notice, where it cannot be."""
    entry = url.entry()
    if entry is None:
        widgets.notice(
            "This session is not known here.", "The link may come from another machine, or the file was moved. Open it again."
        )
        url.forget()
        return None
    room = st.empty()
    try:
        live = bool(st.session_state.get("header-live"))
        if opening.is_open(entry) or live:
            return opening.opened(entry, url.part(), live=live)
        bar = room.progress(0.0, "Opening")
        return opening.opened(entry, url.part(), lambda what, share: bar.progress(min(1.0, share), what))
    except TurnscopeError as error:
        widgets.notice(error.what, error.hint)
        url.forget()
        return None
    finally:
        room.empty()


def _picker(shown: opening.Shown | None) -> None:
    """Which file, which conversation of it, and which branch or subagent of that."""
    with st.popover("Session", icon=":material/swap_horiz:", key="header-session"):
        known = cache.near(shown.entry.file if shown else "")
        ids = list(known)
        file = shown.entry.file if shown else ""
        here = ids.index(file) if file in known else None
        titles = cache.titles()
        names = apart({entry.id: registry.named(entry, titles.get(str(entry.path), "")) for entry in known.values()})
        chosen = st.selectbox(
            f"Session, {len(ids):,} known: type to search", ids, index=here, format_func=names.__getitem__,
            key=f"picker.session.{file}", filter_mode="fuzzy",
        )  # fmt: skip
        if chosen and chosen != file:
            url.choose(chosen)
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
                url.choose(shown.entry.id, part)
                st.rerun()
        st.page_link(shell.page("library"), label="Open another file", icon=":material/folder_open:")


def _conversation(shown: opening.Shown) -> None:
    """Which conversation of a file that holds several."""
    held = cache.conversations(shown.entry)
    if len(held.listed) < 2:
        return
    inside = shown.entry.inside or held.listed[0].id
    titles = {entry.id: short(entry.title or entry.id, 90) for entry in held.listed}
    titles = apart({**titles, inside: titles.get(inside) or short(inside, 90)})
    ids, label = list(titles), f"Conversation, {len(held.listed):,} listed {held.rest}".strip()
    key = f"picker.inside.{shown.entry.id}"
    chosen = st.selectbox(label, ids, index=ids.index(inside), format_func=titles.__getitem__, key=key)
    if chosen != inside:
        url.choose(shown.entry.of(chosen).id)
        st.rerun()


def _live(shown: opening.Shown) -> None:
    """Follow a file that is being written: look at its metadata, read it again when it grew, show the newest request."""
    if st.toggle("Live", key="header-live", persist_state="session"):
        _begin(shown)
        _follow(shown)
    else:  # what stood here when following begins: a file may have grown since
        st.session_state["live.version"] = (shown.entry.id, cache.version(shown.entry))


def _begin(shown: opening.Shown) -> None:
    """Read what stands in the file now, so that from here on only what is added has to be read."""
    if shown.entry.origin != "chat":
        with suppress(TurnscopeError):  # said when it is opened
            opening.follow(shown.entry).read_session()


@st.fragment(run_every=POLL_SECONDS)
def _follow(shown: opening.Shown) -> None:
    now = cache.version(shown.entry)
    before = st.session_state.get("live.version", (shown.entry.id, now))
    st.session_state["live.version"] = (shown.entry.id, now)
    if before != (shown.entry.id, now) and before[0] == shown.entry.id:
        url.go(url.NEWEST)
        st.rerun()


def _help() -> None:
    with st.popover("?", key="header-help", help="Keyboard and words"):
        keys = "".join(f"<dt><kbd>{esc(key)}</kbd></dt><dd>{esc(what)}</dd>" for key, what in KEYS.items())
        words = "".join(f"<dt>{esc(word)}</dt><dd>{esc(what)}</dd>" for word, what in GLOSSARY.items())
        st.html(f'<dl class="ts-glossary">{keys}</dl><hr style="margin:10px 0"><dl class="ts-glossary">{words}</dl>')


def _branches(shown: opening.Shown) -> None:
    """The picker; nothing where there is one path only. It stays at the request where that is on both."""
    branches = [part for part in shown.parts if part.parted >= 0]
    if not branches:
        return
    names = {MAIN: "Main path"} | {part.number: _label(part) for part in branches}
    if shown.part not in names:  # a subagent is shown
        names[shown.part] = short(shown.parts[shown.part].label, 100)
    names, key = apart(names), f"branch.{shown.entry.id}.{shown.part}"

    def chosen() -> None:
        part = st.session_state[key]
        if part is not None and part != shown.part:
            url.choose(shown.entry.id, part, url.request(shown))

    told = f"{len(branches) + 1:,} paths"
    st.selectbox(
        told, list(names), index=list(names).index(shown.part), format_func=names.__getitem__, key=key, on_change=chosen,
        width=560, help="Where the conversation went on in another way: an edited prompt, an answer made again, a rewind",
    )  # fmt: skip


def _label(part: opening.Part) -> str:
    return f"Branch {part.number} at request {part.parted:,}: {short(part.says, 70)}"


def _draw_keys() -> None:
    """`/` goes to the search box, `?` opens the help."""
    with st.container(key="quiet"):
        _keys(key="keys")


def _link_selection(shown: opening.Shown) -> None:
    """Whatever text of a session is selected on the page, a link beside it leads there."""
    with st.container(key="quiet-selecting"):
        _selecting(key="selecting", data=url.session(shown))
