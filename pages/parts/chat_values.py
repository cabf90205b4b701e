"""What the live chat's form holds, and what it begins with. Loads no provider, so that any page may look."""

from __future__ import annotations

from typing import Any

import streamlit as st
from turnscope.live.tools import DEFINITIONS

POLICY = "balanced"
TOOLS = tuple(str(tool["name"]) for tool in DEFINITIONS)
DEFAULTS: dict[str, Any] = {
    "provider": "offline",
    "url": "",
    "model": "offline-16k",
    "window": 0,  # tokens of the model's, where its server or the person told it
    "policy": POLICY,
    "thinking": False,
    "max": 1_024,
    "temperature": None,
    "cache": "5m",
    "system": "You are a helpful assistant. Be brief.",
    "folder": "",
    "tools": list(TOOLS),
    "spend": 0.0,
    "growth": 0,
    "condense": True,  # the built-in model costs nothing; choosing another provider switches it off until somebody asks for it
    "summary": "",
    "fault": "none",
}


def value(name: str) -> Any:
    """A setting as the form has it."""
    return st.session_state.get(f"chat.{name}", DEFAULTS.get(name))


def about() -> dict[str, Any]:
    """What a new chat remembers of its settings. No key."""
    return {name: value(name) for name in ("provider", "model", "policy", "url", "folder")}
