"""What is remembered of a project, as rows: each with where it came from, to edit or to forget; and a line to add one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import streamlit as st
from turnscope import TurnscopeError
from turnscope.library import Memories, Memory, Owner

from pages.parts import cache, widgets
from pages.parts.formats import escape

OWNERS: tuple[Owner, ...] = ("user", "agent")
WHOSE = {"user": "you", "agent": "the agent"}
TIERS = {"short": "for now", "medium": "fades after 30 days", "long": "stays"}
MOST = 60  # facts listed, the newest


def name_project(project: str) -> str:
    """A project in few words."""
    return Path(project).name or project if project else "no project"


def describe_origin(fact: Memory) -> str:
    """Whose a fact is, how long it stays, and which message it comes from."""
    chat, _, block = fact.source.partition(" ")
    where = f"from chat {chat[:8]}, {block}" if len(chat) > 30 else f"from {fact.source}" if fact.source else "added by hand"
    return " · ".join(filter(None, (f"of {WHOSE[fact.owner]}", TIERS[fact.tier], fact.day, where)))


def render_fact(fact: Memory, refused: bool = False) -> str:
    """A fact as HTML, with where it came from.

    Args:
        fact: the fact.
        refused: whether a person has refused it.
    """
    text = f"<s>{escape(fact.text)}</s>" if refused else escape(fact.text)
    return f'<div>{text}<div class="chat-why" style="margin:0">{escape(describe_origin(fact))}</div></div>'


def draw_facts(store: Memories, key: str) -> None:
    """The facts of a user in a project, the newest first; what was forgotten as a count of tombstones.

    Args:
        store: the facts.
        key: begins the keys of the widgets.
    """
    known = store.list_all()
    rows = [fact for fact in known if not fact.forgotten]
    gone = len(known) - len(rows)
    st.html(
        f'<div class="chat-why" style="margin:0"><b>{len(rows)} facts</b> of {escape(name_project(store.project))}'
        f"{f', {gone} forgotten' if gone else ''}. They never reach another project or user.</div>"
    )
    for fact in reversed(rows[-MOST:]):
        _draw_fact(store, fact, f"{key}.{fact.id}")
    with st.form(f"{key}.add", clear_on_submit=True, border=False):
        text = st.text_input("A fact to remember", placeholder="We deploy on Fridays.", key=f"{key}.new")
        owner = st.selectbox("Whose", OWNERS, format_func=WHOSE.__getitem__, key=f"{key}.owner")
        if st.form_submit_button("Remember") and text.strip():
            _change(lambda: store.add(text, owner))


def _draw_fact(store: Memories, fact: Memory, key: str) -> None:
    st.html(render_fact(fact))
    with st.container(horizontal=True, gap="small"):
        with st.popover("Edit", icon=":material/edit:", key=f"{key}.edit", type="tertiary"):
            text = st.text_area("It says", fact.text, key=f"{key}.text")
            if st.button("Save", key=f"{key}.save", disabled=text.strip() in ("", fact.text)):
                _change(lambda: store.edit(fact.id, text))
        if st.button(
            "Forget",
            icon=":material/delete_forever:",
            key=f"{key}.forget",
            type="tertiary",
            help="For good: out of the store, its index and what chats recorded of it. A tombstone stays.",
        ):
            _change(lambda: store.forget(fact.id))


def draw_learned(store: Memories, key: str) -> None:
    """What a project's chats look up again, and the way to delete it.

    Args:
        store: the facts.
        key: begins the keys of the widgets.
    """
    names = store.list_learned()
    if names:
        searches = ", ".join(f"{name} {times}" for name, times in names[:12])
        st.html(
            f'<div class="chat-why">Looked up again in this project: {escape(searches)}. It orders what is made ready.</div>'
        )
        if st.button("Delete what was learned", key=f"{key}.unlearn", type="tertiary"):
            _change(store.unlearn)


def open_memories(project: str = "") -> Memories:
    """What is remembered in a project."""
    return Memories(cache.find_chats_file(), project=project)


def _change(what: Callable[[], object]) -> None:
    try:
        what()
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return
    st.rerun()
