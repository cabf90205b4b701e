"""Turnscope's engine: open a session of any chat or agent tool, see what filled each request, and replay it.

    import engine
    session = engine.load("session.jsonl")      # .blocks, .requests (each with .usage), .subagents, .branches, .notes
    trace = engine.replay(session)              # .plans, each with .before, .decisions, .after
    engine.compare(session, ["last-5-pairs"])   # a row per policy: cost with its cache, fill, what it lost
    view = engine.overview(session)             # arrays over requests: tokens and USD per cell

Nothing here touches the network; nothing here knows Streamlit. More of it is public in `engine.views`, `engine.figures`,
`engine.library`, `engine.live` and `engine.settings`.
"""

from __future__ import annotations

from engine.errors import TurnscopeError
from engine.library.advising import advise
from engine.library.calculating import calculate
from engine.library.comparing import compare
from engine.library.opening import entries, load, load_all, overview, policies, replay, thread
from engine.planning.policy import Policy
from engine.planning.trace import Trace
from engine.session.model import Session
from engine.session.portable import dumps
from engine.session.thread import Thread

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
