"""Turnscope's engine: open a session of any chat or agent tool, see what filled each request, and replay it.

    import engine
    session = engine.load("session.jsonl")      # .blocks, .requests (each with .usage), .subagents, .branches, .notes
    trace = engine.replay(session)              # .plans, each with .before, .decisions, .after
    engine.compare(session, ["last-5-pairs"])   # a row per policy: cost with its cache, fill, what it lost
    view = engine.overview(session)             # arrays over requests: tokens and USD per cell

Nothing here touches the network; nothing here knows Streamlit. More of it is public in `engine.views`, `engine.figures`,
`engine.library`, `engine.live` and `engine.settings`. What counts and prices is loaded when it is first asked for: until then
a file may already be read.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from engine.errors import TurnscopeError
from engine.library.loading import entries, load, load_all, thread, unwalked
from engine.session.model import Session
from engine.session.portable import dumps
from engine.session.thread import Thread

if TYPE_CHECKING:
    from engine.library.advising import advise
    from engine.library.calculating import calculate
    from engine.library.comparing import compare
    from engine.library.opening import overview, policies, replay
    from engine.planning.policy import Policy
    from engine.planning.trace import Trace
else:
    _LATER = {
        "advise": "library.advising",
        "calculate": "library.calculating",
        "compare": "library.comparing",
        "Policy": "planning.policy",
        "Trace": "planning.trace",
    }
    _LATER |= dict.fromkeys(("overview", "policies", "replay"), "library.opening")

    def __getattr__(name: str) -> Any:
        """What is loaded when it is first asked for."""
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        with unwalked():
            value = globals()[name] = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "Policy",
    "Session",
    "Thread",
    "Trace",
    "TurnscopeError",
    "advise",
    "calculate",
    "compare",
    "dumps",
    "entries",
    "load",
    "load_all",
    "overview",
    "policies",
    "replay",
    "thread",
]
