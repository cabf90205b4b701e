"""What is remembered by chats, by project."""

from __future__ import annotations

import streamlit as st

from pages.parts import memories


def draw() -> None:
    """The section of the page."""
    with st.expander("Memory: what chats remember of you and your projects", icon=":material/bookmark:"):
        projects = memories.stored().list_projects() or ("",)
        chosen = st.selectbox("Project", projects, format_func=memories.named, key="memory.project")
        memories.facts(memories.stored(chosen or ""), f"memory.{chosen}")
        memories.learned(memories.stored(chosen or ""), f"memory.{chosen}")
