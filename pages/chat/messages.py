"""The messages of a chat, a page of them at a time, and its requests as links into the debugger."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from turnscope.numbering import format_request
from turnscope.views import next_request

from pages.chat import markup, open_chats, search_hits
from pages.parts import shell
from pages.parts.chat_form import POLICY, get_value


def draw(open_chat: open_chats.OpenChat, states: Sequence[next_request.State]) -> None:
    """The newest messages, and on demand those before them, a page at a time.

    Args:
        open_chat: the chat.
        states: what the next request carries of each message.
    """
    session = open_chat.session
    count = sum(message.role in ("user", "assistant") for message in session.messages)
    key = f"chat.first.{open_chat.thread}"
    first = min(st.session_state.get(key, count), max(0, count - markup.MOST))
    if (sought := search_hits.find_sought_message(session)) is not None:
        first = min(first, max(0, sought - 2))
    if first:
        st.button(
            f"Show {min(first, markup.MOST)} of {first:,} earlier messages",
            key="chat.earlier",
            type="tertiary",
            on_click=lambda: st.session_state.update({key: max(0, first - markup.MOST)}),
        )
    shared = session.at if session.parent else 0
    # What was drawn as coming stays until its place is drawn again: meanwhile its end stands above it, and it is hidden.
    coming = f'<style>.chat-msg.now:not([data-n="{len(session.messages)}"]) {{ display: none; }}</style>'
    st.html(markup.render_conversation(session, states, shared, first, search_hits.find_sought_block(session)) + coming)


def draw_requests(open_chat: open_chats.OpenChat, most: int = 8) -> None:
    """A link into the debugger for each of the newest requests.

    Args:
        open_chat: the chat.
        most: how many.
    """
    session = open_chat.session
    since = int(session.about.get("live_from", 0))
    live = [request for request in session.requests if request.n >= since]
    if not live:
        return
    with st.expander(f"Requests in the debugger ({len(live)})", key="chat-requests"):
        for request in reversed(live[-most:]):
            used = f"{request.usage.prompt_tokens:,} tokens" if request.usage else request.stop_reason or "no answer"
            query = {
                "session": f"thread-{open_chat.thread}",
                "request": str(request.n),
                "policy": get_value("policy") or POLICY,
            }
            st.page_link(
                shell.find_page("debugger"),
                label=f"Request {format_request(request.n)} · {used}",
                icon=":material/bug_report:",
                query_params=query,
            )
