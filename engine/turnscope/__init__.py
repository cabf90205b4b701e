"""Turnscope: open a session of any chat or agent tool, see what filled each request, and replay it.

    import turnscope
    session = turnscope.load("session.jsonl")      # .blocks, .requests (each with .usage), .subagents, .branches, .notes
    trace = turnscope.replay(session)              # .plans, each with .before, .decisions, .after
    turnscope.compare(session, ["last-5-pairs"])   # a row per policy: cost with its cache, fill, what it lost
    view = turnscope.overview(session)             # arrays over requests: tokens and USD per cell
    turnscope.show(session)                        # in a notebook: what filled each request, with a slider
    @turnscope.trace                               # around a function of your own that calls a provider: records its requests

Nothing here touches the network; nothing here knows Streamlit. More of it is public in `turnscope.views`, `turnscope.figures`,
`turnscope.library`, `turnscope.live` and `turnscope.settings`. A name is loaded when it is first used: `import
turnscope` is quick, and a file may be read before what counts and prices is there.
"""

from __future__ import annotations

from turnscope.errors import TurnscopeError

__version__ = "0.2.0"

TYPE_CHECKING = False  # as in `typing`, whose import would cost the status line a fifth of its time
if TYPE_CHECKING:
    from typing import Any

    from turnscope.library.advising import advise
    from turnscope.library.calculating import calculate
    from turnscope.library.comparing import compare
    from turnscope.library.loading import entries, load, load_all, thread
    from turnscope.library.opening import overview, policies, replay
    from turnscope.library.showing import show
    from turnscope.live.call_recorder import trace
    from turnscope.planning.policy import Policy
    from turnscope.planning.trace import Trace
    from turnscope.session.model import Session
    from turnscope.session.portable import dumps
    from turnscope.session.thread import Thread
else:
    _LATER = {
        "advise": "library.advising",
        "calculate": "library.calculating",
        "compare": "library.comparing",
        "Policy": "planning.policy",
        "Session": "session.model",
        "Thread": "session.thread",
        "Trace": "planning.trace",
        "dumps": "session.portable",
        "show": "library.showing",
        "trace": "live.call_recorder",
    }
    _LATER |= dict.fromkeys(("entries", "load", "load_all", "thread"), "library.loading")
    _LATER |= dict.fromkeys(("overview", "policies", "replay"), "library.opening")

    def __getattr__(name: str) -> Any:
        """What is loaded when it is first used."""
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        from turnscope.library.loading import pause_gc

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
    "show",
    "thread",
    "trace",
]
