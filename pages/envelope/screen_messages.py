"""Messages of the screen of Cline or Roo Code, each beside the API message that it belongs to, and the cache breakpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st
from turnscope import TurnscopeError
from turnscope.numbering import format_request
from turnscope.views import screen_messages as views
from turnscope.views.cache_layout import Breakpoint, CacheLayout
from turnscope.views.screen_messages import ScreenMessage, SentMessage

from pages.envelope.transcript import WORDS
from pages.parts import opening, url, widgets
from pages.parts.formats import escape, shorten, to_datetime

PAGE = 20
SCREEN_TEXT, SENT_TEXT = 280, 160  # characters that a line shows
COLUMNS = {"On the screen": 22, "What was shown": 44, "API message": 34}  # percent of the width


@st.fragment
def draw(shown: opening.ShownSession, n: int, layout: CacheLayout) -> None:
    """One page of the screen's messages, at first the page on which the request begins.

    Args:
        shown: the session that is shown.
        n: number of the request that is shown.
        layout: where the request's cache breakpoints stand.
    """
    try:
        messages = _read(shown, shown.key)
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return
    if not messages:
        st.html('<div class="ts-empty">The task’s folder has no file with the messages of its screen.</div>')
        return
    first = next((message.number for message in messages if message.request == n), 0)
    key = f"screen.start.{shown.key}.{n}"
    begin = widgets.find_page_start(key, len(messages), PAGE, first)
    widgets.draw_pager(key, len(messages), PAGE, begin, "messages of the screen")
    page = messages[begin : begin + PAGE]
    sent = views.describe_messages(shown.trace, n, {message.message for message in page})
    st.html(_render_breakpoints(layout.breakpoints, n) + _render_table(shown, n, page, sent, layout.breakpoints))


@st.cache_resource(max_entries=8, show_spinner=False)
def _read(_shown: opening.ShownSession, key: str) -> tuple[ScreenMessage, ...]:  # noqa: ARG001  what the cache goes by
    return views.read_screen(_shown.entry.path, _shown.entry.inside)


def _render_breakpoints(breakpoints: Sequence[Breakpoint], n: int) -> str:
    if not breakpoints:
        none = "has no cache breakpoints: they go with requests to Claude, and this one’s record shows no caching"
        return f'<div class="ts-small ts-faint">Request {format_request(n)} {none}.</div>'
    places = " and ".join(f"behind block #{each.at:,} ({each.tokens:,} tokens up to it)" for each in breakpoints)
    why = "the last two messages of the user; the prompt is read up to the first and written up to the last"
    why = why if len(breakpoints) > 1 else "the only message of the user; the prompt is written up to it"
    more = "One more is behind the system prompt, which is not in the log."
    return f'<div class="ts-small"><b>Cache breakpoints of request {format_request(n)}</b> {places}: {why}. {more}</div>'


def _render_table(
    shown: opening.ShownSession,
    n: int,
    page: Sequence[ScreenMessage],
    sent: Mapping[int, SentMessage],
    breakpoints: Sequence[Breakpoint],
) -> str:
    """A line for each message of the screen; an API message is described at its first line and named at the others."""
    rows, before = "", -1
    for message in page:
        described = sent.get(message.message)
        cell = '<span class="ts-faint">on the screen alone</span>'
        if described:
            marks = [each for each in breakpoints if described.start <= each.at < described.stop]
            cell = _render_sent(shown, n, described, marks, brief=message.message == before)
        chosen = ' class="ts-chosen"' if message.request == n else ""
        rows += f"<tr{chosen}><td>{_render_kind(message)}</td><td>{_render_text(message)}</td><td>{cell}</td></tr>"
        before = message.message
    head = "".join(f'<th style="width:{width}%">{name}</th>' for name, width in COLUMNS.items())
    return (
        f'<table class="ts-table words stacks" id="screen-messages"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    )


def _render_kind(message: ScreenMessage) -> str:
    time = to_datetime(message.sent_at)
    facts = [f"{time:%H:%M:%S}" if time else "", "" if message.index is None else f"history index {message.index}"]
    of = f"request {format_request(message.request)}" if message.name == "api_req_started" else ""
    more = " · ".join(fact for fact in (*facts, of) if fact)
    return f'{escape(message.kind)} <b>{escape(message.name)}</b><div class="ts-small ts-faint">{escape(more)}</div>'


def _render_text(message: ScreenMessage) -> str:
    text = " ".join(message.text[: 4 * SCREEN_TEXT].split())
    return escape(shorten(text, SCREEN_TEXT)) if text else '<span class="ts-faint">no text</span>'


def _render_sent(shown: opening.ShownSession, n: int, sent: SentMessage, marks: Sequence[Breakpoint], *, brief: bool) -> str:
    link = url.make_link(shown, "envelope", request=n, pane="transcript", block=sent.start)
    head = f'<a href="{escape(link)}">#{sent.start:,}</a> {escape(sent.role)}'
    if brief:
        return f'<span class="ts-faint">{head}, as above</span>'
    states = ", ".join(WORDS[state] for state in sent.states)
    flags = "".join(f' <b class="ts-warned">cache breakpoint at #{each.at:,}</b>' for each in marks)
    text = escape(shorten(" ".join(sent.text.split()), SENT_TEXT))
    return (
        f'{head} · {sent.tokens:,} tokens · <b title="in request {format_request(n)}">{states}</b>{flags}'
        f'<div class="ts-small ts-faint">{text}</div>'
    )
