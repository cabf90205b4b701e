"""What is attached to a chat, as the form has it: memory on or off, for which project, what was pasted. Draws nothing."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import streamlit as st
from turnscope import Policy, TurnscopeError, library
from turnscope.library import ContextItem, Memories
from turnscope.live import injected_context
from turnscope.live.chat import Chat
from turnscope.live.context_sources import ContextSources
from turnscope.live.events import Event
from turnscope.live.injected_context import InjectedContext
from turnscope.live.web_pages import ISSUES, PageReader
from turnscope.live.web_search import WebSearch

from pages.parts import memories
from pages.parts.chat_form import get_value

OFF, POLICY, ALWAYS = "off", "as the policy says", "with every policy"
MODES = (POLICY, ALWAYS, OFF)


def get_memory_mode() -> str:
    """Whether the chat remembers: never, where its policy does, or under every policy."""
    return str(st.session_state.get("chat.memory", POLICY))


def find_project() -> str:
    """The project that facts belong to: the folder of the tools; "" where a chat has none, or a path that leads nowhere."""
    folder = str(get_value("folder") or "").strip()
    with suppress(TurnscopeError):  # the settings say what is wrong with it
        return str(library.parse_path(folder)) if folder else ""
    return ""


def open_memories() -> Memories:
    """What is remembered in the chat's project."""
    return memories.open_memories(find_project())


def get_pasted_texts() -> dict[str, list[tuple[str, str, str]]]:
    """Pages and issues whose text was pasted, by chat: kind, name and text."""
    found: dict[str, list[tuple[str, str, str]]] = st.session_state.setdefault("chat.pasted", {})
    return found


def get_search_key_name() -> str:
    """Under which name this tab's memory has the key of the search: each origin has one of its own."""
    return f"chat.search.key.{WebSearch(_get_search('url')).origin}"


def build_search() -> WebSearch | None:
    """The search for web results as it is set up; None where no address is typed."""
    url = _get_search("url")
    if not url:
        return None
    return WebSearch(
        url,
        _get_search("tool"),
        _get_search("argument") or "query",
        _get_search("path"),
        str(st.session_state.get(get_search_key_name()) or "").strip(),
        _get_search("header") or "Authorization",
    )


def build_page_reader() -> PageReader | None:
    """What reads pages and issues that a question names; None where this is not allowed."""
    if not st.session_state.get("chat.read_pages", False):
        return None
    return PageReader(_get_issue_server(), str(st.session_state.get(get_issue_key_name()) or "").strip())


def get_issue_key_name() -> str:
    """Under which name this tab's memory has the token for issues: each origin has one of its own."""
    return f"chat.issues.key.{PageReader(_get_issue_server()).origin}"


def _get_issue_server() -> str:
    return str(st.session_state.get("chat.issues.address") or "").strip() or ISSUES


def _get_search(name: str) -> str:
    return str(st.session_state.get(f"chat.search.{name}") or "").strip()


def add_memory(base: Policy) -> Policy:
    """The policy as it is sent: with facts and notes where every policy is to have them."""
    return injected_context.add_memory_rules(base) if get_memory_mode() == ALWAYS else base


def add_repetition(base: Policy) -> Policy:
    """The policy as it is sent: with the user's rules said again once they have left, where this is switched on."""
    return injected_context.repeat_user_rules(base) if get_value("repeat") else base


def build_context(thread: str) -> InjectedContext:
    """What is attached to a chat now."""
    folder = Path(find_project()) if find_project() else None
    texts = tuple(ContextItem(kind, name, text) for kind, name, text in get_pasted_texts().get(thread, []))  # type: ignore[arg-type]
    finders = [one for one in (build_search(), build_page_reader()) if one]
    memories = None if get_memory_mode() == OFF else open_memories()
    asks = bool(get_value("condense")) and bool(st.session_state.get("chat.extract", True))
    learns = bool(st.session_state.get("chat.learn", True))
    return InjectedContext(memories, ContextSources(folder, texts, (*finders,)), asks, learns)


def list_memory_tools(chosen: Policy) -> list[Any]:
    """The tools of notes and outputs that a new chat begins with."""
    return [*injected_context.list_tool_definitions(chosen)]


def attach(chat: Chat, thread: str, turn: Callable[[Chat], Generator[Event]]) -> Callable[[Chat], Generator[Event]]:
    """Give a chat what is attached to it, and its turn the questions that follow it.

    Args:
        chat: the chat.
        thread: id of its thread.
        turn: begins the turn.
    """
    now = build_context(thread)
    injected_context.attach(chat, now)
    return injected_context.add_post_turn_queries(now, turn)


def attach_preview(chat: Chat, thread: str) -> None:
    """Weigh a chat's next request with what is attached to it now.

    Args:
        chat: the chat; its toolbox and sink are replaced for the preview.
        thread: id of its thread.
    """
    injected_context.attach_preview(chat, build_context(thread))
