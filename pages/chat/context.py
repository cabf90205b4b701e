"""What stands beside a chat, as the form has it: memory on or off, for which project, what was pasted. Draws nothing."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import streamlit as st
from turnscope import Policy
from turnscope.library import ContextItem, Memories
from turnscope.live import injected_context
from turnscope.live.chat import Chat
from turnscope.live.context_sources import ContextSources
from turnscope.live.events import Event
from turnscope.live.injected_context import InjectedContext

from pages.parts import memories
from pages.parts.chat_form import value

OFF, POLICY, ALWAYS = "off", "as the policy says", "with every policy"
MODES = (POLICY, ALWAYS, OFF)


def mode() -> str:
    """Whether the chat remembers: never, where its policy does, or under every policy."""
    return str(st.session_state.get("chat.memory", POLICY))


def project() -> str:
    """The project that facts belong to: the folder of the tools; "" where a chat has none."""
    folder = str(value("folder") or "").strip()
    return str(Path(folder).expanduser().resolve()) if folder else ""


def store() -> Memories:
    """What is remembered in the chat's project."""
    return memories.stored(project())


def pasted() -> dict[str, list[tuple[str, str, str]]]:
    """Pages and issues whose text was pasted, by chat: kind, name and text."""
    found: dict[str, list[tuple[str, str, str]]] = st.session_state.setdefault("chat.pasted", {})
    return found


def policy(base: Policy) -> Policy:
    """The policy as it is sent: with facts and notes where every policy is to have them."""
    return injected_context.add_memory_rules(base) if mode() == ALWAYS else base


def current(thread: str) -> InjectedContext:
    """What stands beside a chat now."""
    folder = Path(project()) if project() else None
    texts = tuple(ContextItem(kind, name, text) for kind, name, text in pasted().get(thread, []))  # type: ignore[arg-type]
    memories = None if mode() == OFF else store()
    asks = bool(value("condense")) and bool(st.session_state.get("chat.extract", True))
    learns = bool(st.session_state.get("chat.learn", True))
    return InjectedContext(memories, ContextSources(folder, texts), asks, learns)


def definitions(chosen: Policy) -> list[Any]:
    """The tools of notes and outputs that a new chat begins with."""
    return [*injected_context.list_tool_definitions(chosen)]


def attach(chat: Chat, thread: str, turn: Callable[[Chat], Generator[Event]]) -> Callable[[Chat], Generator[Event]]:
    """Give a chat what stands beside it, and its turn what is asked after it."""
    now = current(thread)
    injected_context.attach(chat, now)
    return injected_context.add_post_turn_queries(now, turn)


def look(chat: Chat, thread: str) -> None:
    """Weigh a chat's next request with what stands beside it now."""
    injected_context.attach_preview(chat, current(thread))
