"""The stepper in the browser: it gets a trace once, steps by itself, and reports where it stopped."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from pages.parts import replays, state, theme

_HERE = Path(__file__).parent / "browser"
KEY = "debugger-stepper"


def _read(*names: str) -> str:
    return "\n".join((_HERE / name).read_text(encoding="utf-8") for name in names)


_data = st.components.v2.component("turnscope_steps", html="", js=_read("stepper_data.js"))
_stepper = st.components.v2.component(
    "turnscope_stepper",
    html=_read("stepper.html"),
    css=_read("stepper.css"),
    js=_read("stepper_model.js", "stepper_film.js", "stepper_draw.js", "stepper.js"),
)


def load(replay: replays.Replay) -> None:
    """Send the trace to the browser: once, then by its digest alone, as long as it is the same."""
    with st.container(key="quiet-steps"):
        _data(key="debugger-steps", data=replay.packed)


def draw(shown: state.Shown, replay: replays.Replay) -> replays.Place:
    """Draw the stepper and give the place where it stands."""

    def report() -> None:
        sent = st.session_state[KEY].get("at")
        if sent:
            replays.moved(shown, replay, sent)

    at = replays.place()
    data = {
        "steps": replay.key,
        "at": [at.request, at.step],
        "block": at.block,
        "seq": f"{replay.key}:{at.seq}",
        "theme": theme.name(),
    }
    _stepper(key=KEY, data=data, default={"at": None}, on_at_change=report)
    return at
