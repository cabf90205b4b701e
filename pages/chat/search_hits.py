"""Messages that a search of all chats found: chosen in the list, and marked in the chat that holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st
from turnscope import Session
from turnscope.live.threads import Hit

from pages.chat import choices
from pages.parts.formats import make_unique, shorten

MOST = 30  # hits listed
NAMES = {"user": "You", "assistant": "Model"}


def draw(hits: Sequence[Hit], titles: Mapping[str, str], words: str) -> None:
    """A list of hits, each with what stands around the words; the one that is chosen opens its chat there.

    Args:
        hits: the hits, in the order of the list.
        titles: titles of the chats, by thread.
        words: what was searched.
    """
    known = {(hit.thread, hit.n): hit for hit in hits[:MOST] if hit.thread in titles}
    if not known:
        return
    labels = make_unique(
        {
            at: f"{NAMES.get(hit.role, 'Tool')}: {quote_around(hit.text, words)} ({shorten(titles[hit.thread], 30)})"
            for at, hit in known.items()
        }
    )
    st.selectbox(
        "Go to a message",
        list(labels),
        index=None,
        format_func=labels.__getitem__,
        key="chat.hit",
        on_change=_open_hit,
        placeholder=f"{len(labels)} messages",
    )


def quote_around(text: str, words: str, most: int = 60) -> str:
    """What stands around the first of the words, on one line; the text's beginning where none stands there as it was typed.

    Args:
        text: a text.
        words: what was searched.
        most: characters on each side of the word.
    """
    found = min((at for word in words.split() if (at := text.lower().find(word.lower())) >= 0), default=0)
    start = max(0, found - most // 3)
    return f"{'…' if start else ''}{shorten(text[start:], most)}"


def _open_hit() -> None:
    if picked := st.session_state.get("chat.hit"):
        st.session_state["chat.sought"] = picked
        choices.show_thread(picked[0])


def get_sought() -> tuple[str, int]:
    """Chat and address of the message that is looked for; "" where none is."""
    found: tuple[str, int] = st.session_state.get("chat.sought") or ("", -1)
    return found


def find_sought_block(session: Session) -> int | None:
    """The block with which the message begins that is looked for in this chat."""
    thread, start = get_sought()
    return start if thread == session.id else None


def find_sought_message(session: Session) -> int | None:
    """Which of the messages of this chat is looked for."""
    thread, start = get_sought()
    starts = [message.start for message in session.messages if message.role in ("user", "assistant")]
    return starts.index(start) if thread == session.id and start in starts else None
