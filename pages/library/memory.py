"""What is remembered by chats, by project."""

from __future__ import annotations

import streamlit as st

from pages.parts import memories


def draw() -> None:
    """The section of the page."""
    with st.expander("Memory: what chats remember of you and your projects", icon=":material/bookmark:"):
        projects = memories.open_memories().list_projects() or ("",)
        chosen = st.selectbox("Project", projects, format_func=memories.name_project, key="memory.project")
        memories.draw_facts(memories.open_memories(chosen or ""), f"memory.{chosen}")
        memories.draw_learned(memories.open_memories(chosen or ""), f"memory.{chosen}")
