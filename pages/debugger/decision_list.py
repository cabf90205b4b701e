"""All decisions of a replay as a list in the browser; it reads the data that the stepper has, and sends that to a place."""

from __future__ import annotations

from pathlib import Path

from pages.debugger.address import Place
from pages.debugger.policy_replay import Replay
from pages.parts import theme
from pages.parts.components import define_component

_HERE = Path(__file__).parent / "browser"


_list = define_component(
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
