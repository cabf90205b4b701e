"""What stands at the top of every page: which session, search, live, help. Opens the session that the address names."""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from turnscope import TurnscopeError
from turnscope.numbering import format_request
from turnscope.views.events import EVENTS
from turnscope.views.exactness import describe_exactness

from pages.parts import cache, cards, live, opening, search, shell, theme, url, widgets, window
from pages.parts.components import define_component
from pages.parts.formats import escape, make_unique, shorten

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
    "Repeated input": "Tokens that an earlier request had carried already. A cache makes them cheap, not free.",
    "Cached": "A cell that was mostly read from cache, at about a tenth of the price.",
}
KEYS = {
    "←  →": "previous, next request",
    "Home  End": "first, last request",
    "P  N": "previous, next event",
    "Space": "play through the requests",
    "/": "search this session",
    "?": "this help",
}
_keys = define_component("turnscope_keys", html="", js=theme.read_files(_BROWSER, "keys.js"))
_selecting = define_component("turnscope_selecting", html="", js=theme.read_files(_BROWSER, "selecting.js"))


def draw_header(*, middle: bool = True) -> opening.ShownSession:
    """Draw the top of a page and give the session to show. Stops the page where there is none, or nothing in it.

    `middle`: say where the task is in the middle of a long prompt, for a page that does not say it among other findings.
    """
    shown = draw_optional_header(middle=middle)
    if shown is None:
        st.page_link(shell.find_page("library"), label="Open another session", icon=":material/folder_open:")
        st.stop()
    if not len(shown.view):
        widgets.draw_notice(
            "No model was called in this session.", "It holds messages, but no request and no answer of a model."
        )
        st.stop()
    _draw_branches(shown)
    return shown


def draw_optional_header(*, middle: bool = True, title: str = "") -> opening.ShownSession | None:
    """The same, for a page that has something to show without a session.

    Args:
        middle: as of `draw_header`.
        title: HTML that stands in place of the session's title, on a page that is about more than one session.
    """
    theme.apply_theme()
    if title:
        url.drop_view()
    else:
        url.recall_session()
    _draw_keys()
    top = st.container(key="header", horizontal=True, vertical_alignment="center", gap="small")
    shown = _open_session()
    if shown and "session" in st.query_params and len(shown.view):
        url.note_request(shown, url.read_request(shown))  # so that the next page shows the same, also after a link to this one
    with top:
        if title:
            st.html(title, width="stretch")
        elif shown:
            st.html(cards.render_title(shown.view, describe_exactness(shown.trace.session)), width="stretch")
        with st.container(key="header-tools", horizontal=True, width="content", gap="small", vertical_alignment="center"):
            _draw_picker(shown)
            if shown:
                window.draw_choice(shown)
            search.draw_box()
            if shown:
                live.draw_switch(shown)
            _draw_help()
    if shown:
        _link_selection(shown)
        if not title:
            live.draw_line(shown)
        if middle and (findings := [finding for finding in shown.findings if finding.kind == "middle"]):
            st.html(cards.render_middle(findings[0].text, url.make_link(shown, "envelope", request=findings[0].request)))
    return shown


def _open_session() -> opening.ShownSession | None:
    """The session that the URL names, with a progress bar while it is read; None, with a notice, where it cannot be."""
    entry = url.read_entry()
    if entry is None:
        widgets.draw_notice(
            "This session is not known here.", "The link may come from another machine, or the file was moved. Open it again."
        )
        url.forget_session()
        return None
    room = st.empty()
    try:
        if opening.is_open(entry) or live.is_on():
            return opening.open_session(entry, url.read_part(), live=live.is_on())
        bar = room.progress(0.0, "Opening")
        return opening.open_session(entry, url.read_part(), lambda what, share: bar.progress(min(1.0, share), what))
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        url.forget_session()
        return None
    finally:
        room.empty()


def _draw_picker(shown: opening.ShownSession | None) -> None:
    """Which file, which conversation of it, and which branch or subagent of that."""
    with st.popover("Session", icon=":material/swap_horiz:", key="header-session"):
        known = cache.list_first_entries(shown.entry.file if shown else "")
        ids = list(known)
        file = shown.entry.file if shown else ""
        here = ids.index(file) if file in known else None
        names = cache.name_entries(known)
        chosen = st.selectbox(
            f"Session, {len(ids):,} known: type to search",
            ids,
            index=here,
            format_func=names.__getitem__,
            key=f"picker.session.{file}",
            filter_mode="fuzzy",
        )
        if chosen and chosen != file:
            url.choose_session(chosen)
            st.rerun()
        if shown:
            _draw_conversations(shown)
        if shown and len(shown.parts) > 1:
            labels = make_unique({part.number: shorten(part.label, 90) for part in shown.parts})
            key = f"picker.part.{shown.key}"
            part = st.selectbox(
                "Branch or subagent", range(len(labels)), index=shown.part, format_func=labels.__getitem__, key=key
            )
            if part != shown.part:
                url.choose_session(shown.entry.id, part)
                st.rerun()
        st.page_link(shell.find_page("library"), label="Open another file", icon=":material/folder_open:")


def _draw_conversations(shown: opening.ShownSession) -> None:
    """Which conversation of a file that holds several."""
    conversations = cache.list_conversations(shown.entry)
    if len(conversations.listed) < 2:
        return
    inside = shown.entry.inside or conversations.listed[0].id
    titles = {entry.id: shorten(entry.title or entry.id, 90) for entry in conversations.listed}
    titles = make_unique({**titles, inside: titles.get(inside) or shorten(inside, 90)})
    ids, label = list(titles), f"Conversation, {len(conversations.listed):,} listed {conversations.rest}".strip()
    key = f"picker.inside.{shown.entry.id}"
    chosen = st.selectbox(label, ids, index=ids.index(inside), format_func=titles.__getitem__, key=key)
    if chosen != inside:
        url.choose_session(shown.entry.select(chosen).id)
        st.rerun()


def _draw_help() -> None:
    with st.popover("?", key="header-help", help="Keyboard and words"):
        keys = "".join(f"<dt><kbd>{escape(key)}</kbd></dt><dd>{escape(what)}</dd>" for key, what in KEYS.items())
        words = "".join(f"<dt>{escape(word)}</dt><dd>{escape(what)}</dd>" for word, what in GLOSSARY.items())
        st.html(f'<dl class="ts-glossary">{keys}</dl><hr style="margin:10px 0"><dl class="ts-glossary">{words}</dl>')
        st.page_link(shell.find_page("help"), label="Documentation", icon=":material/menu_book:")


def _draw_branches(shown: opening.ShownSession) -> None:
    """The picker; nothing where there is one path only. It stays at the request where that is on both."""
    branches = [part for part in shown.parts if part.fork_request >= 0]
    if not branches:
        return
    names = {MAIN: "Main branch"} | {part.number: _name_branch(part) for part in branches}
    if shown.part not in names:  # a subagent is shown
        names[shown.part] = shorten(shown.parts[shown.part].label, 100)
    names, key = make_unique(names), f"branch.{shown.entry.id}.{shown.part}"

    def choose_part() -> None:
        part = st.session_state.get(key)
        if part is not None and part != shown.part:
            url.choose_session(shown.entry.id, part, url.read_request(shown))

    label = f"{len(branches) + 1:,} branches"
    st.selectbox(
        label,
        list(names),
        index=list(names).index(shown.part),
        format_func=names.__getitem__,
        key=key,
        on_change=choose_part,
        width=560,
        help="Where the conversation branched: an edited prompt, a regenerated answer, a rewind",
    )


def _name_branch(part: opening.Part) -> str:
    return f"Branch {part.number} at request {format_request(part.fork_request)}: {shorten(part.first_text, 70)}"


def _draw_keys() -> None:
    """`/` goes to the search box, `?` opens the help."""
    with st.container(key="quiet"):
        _keys(key="keys")


def _link_selection(shown: opening.ShownSession) -> None:
    """Whatever text of a session is selected on the page, a link next to it leads there."""
    with st.container(key="quiet-selecting"):
        _selecting(key="selecting", data=url.make_query(shown))
