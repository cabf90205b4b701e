"""Turnscope: open a session of any chat or agent tool, see what filled each request, and replay it.

    import turnscope
    session = turnscope.load("session.jsonl")      # .blocks, .requests (each with .usage), .subagents, .branches, .notes
    trace = turnscope.replay(session)              # .plans, each with .before, .decisions, .after
    turnscope.compare(session, ["last-5-pairs"])   # a row per policy: cost with its cache, fill, what it lost
    view = turnscope.overview(session)             # arrays over requests: tokens and USD per cell

Nothing here touches the network; nothing here knows Streamlit. More of it is public in `turnscope.views`, `turnscope.figures`,
`turnscope.library`, `turnscope.live` and `turnscope.settings`. What counts and prices is loaded when it is first used:
until then a file may already be read.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from turnscope.errors import TurnscopeError
from turnscope.library.loading import entries, load, load_all, pause_gc, thread
from turnscope.session.model import Session
from turnscope.session.portable import dumps
from turnscope.session.thread import Thread

if TYPE_CHECKING:
    from turnscope.library.advising import advise
    from turnscope.library.calculating import calculate
    from turnscope.library.comparing import compare
    from turnscope.library.opening import overview, policies, replay
    from turnscope.planning.policy import Policy
    from turnscope.planning.trace import Trace
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
        with pause_gc():
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
