"""All decisions of a replay as a list in the browser; it reads the data that the stepper has, and sends that to a place."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from pages.debugger.address import Place
from pages.debugger.policy_replay import Replay
from pages.parts import theme

_HERE = Path(__file__).parent / "browser"


_list = st.components.v2.component(
    "turnscope_decisions",
    html=theme.read_files(_HERE, "decisions.html"),
    css=theme.read_files(_HERE, "decisions.css"),
    js=theme.NUMBERING + theme.read_files(_HERE, "stepper_model.js", "decisions.js"),
)


def draw(replay: Replay, at: Place) -> None:
    """The list, with the place where the stepper stands.

    Args:
        replay: the replay that is shown.
        at: where the stepper stands.
    """
    _list(key="debugger-decisions", data={"steps": replay.key, "at": [at.request, at.step]})
