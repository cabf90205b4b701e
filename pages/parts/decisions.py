"""All decisions of a replay as a list in the browser; it reads the data that the stepper has, and sends that to a place."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from pages.parts import replays

_HERE = Path(__file__).parent.parent / "debugger" / "browser"


def _read(*names: str) -> str:
    return "\n".join((_HERE / name).read_text(encoding="utf-8") for name in names)


_list = st.components.v2.component(
    "turnscope_decisions",
    html=_read("decisions.html"),
    css=_read("decisions.css"),
    js=_read("stepper_model.js", "decisions.js"),
)


def draw(replay: replays.Replay, at: replays.Place) -> None:
    """The list, with the place where the stepper stands."""
    _list(key="debugger-decisions", data={"steps": replay.key, "at": [at.request, at.step]})
