"""The text of the message box while somebody types, so that the next request can be weighed before it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st
from turnscope import TurnscopeError
from turnscope.live import attachments

from pages.parts.components import define_component

SCRIPT = Path(__file__).parent / "browser" / "typing.js"
_typing = define_component("turnscope_typing", html="", js=SCRIPT.read_text(encoding="utf-8"))


MOST = 20_000_000  # characters that are weighed; nobody's window holds more


class Draft(NamedTuple):
    """The text typed so far (of a very long one, a text that weighs as much), the files that are chosen, by name and as blocks
    that weigh as much, and why others will not go."""

    text: str = ""
    names: tuple[str, ...] = ()
    blocks: tuple[Any, ...] = ()
    refused: tuple[TurnscopeError, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text or self.blocks)


def read_draft(go: str = "") -> Draft:
    """The text of the box; a change runs the fragment that asks for it.

    `go`: the name of a place; a new one moves the marked message (`.sought`) into view.
    """
    with st.container(key="quiet"):
        _typing(key="chat.typing", data={"go": go}, default={"text": None}, on_text_change=lambda: None)
    return parse_draft((st.session_state.get("chat.typing") or {}).get("text") or {})


def parse_draft(state: Mapping[str, Any]) -> Draft:
    """What the browser reports of the box."""
    text, length = str(state.get("text") or ""), min(MOST, int(state.get("length") or 0))
    text = (text * (length // len(text) + 1))[:length] if text and length > len(text) else text
    names, blocks, refused = [], [], []
    for file in state.get("files") or ():
        try:
            blocks.append(_build_block(file))
            names.append(str(file.get("name")))
        except TurnscopeError as error:
            refused.append(error)
    return Draft(text, tuple(names), tuple(blocks), tuple(refused))


def _build_block(file: Mapping[str, Any]) -> Any:
    """What weighs as much as a file that the browser reports. TurnscopeError where it cannot be sent."""
    name, size = str(file.get("name")), int(file.get("size") or 0)
    if file.get("width"):
        return attachments.build_placeholder_image(name, int(file["width"]), int(file["height"]), size)
    data = b"\0" if file.get("text") is None else str(file["text"]).encode("utf-8", "replace")
    return attachments.encode_file(name, data)
