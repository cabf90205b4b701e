"""Turnscope's engine: open a session of any chat or agent tool, see what filled each request, and replay it.

    import engine
    session = engine.load("session.jsonl")      # .blocks, .requests (each with .usage), .subagents, .branches, .notes
    trace = engine.replay(session)              # .plans, each with .before, .decisions, .after
    view = engine.overview(session)             # arrays over requests: tokens and USD per cell

Nothing here touches the network; nothing here knows Streamlit.
"""

from engine.errors import TurnscopeError
from engine.front import ledger_of, load, load_all, overview, replay
from engine.settings import claude_projects, data_file, data_folder, to_open
from engine.store import Opened, Recent, Store

__all__ = [
    "Opened",
    "Recent",
    "Store",
    "TurnscopeError",
    "claude_projects",
    "data_file",
    "data_folder",
    "ledger_of",
    "load",
    "load_all",
    "overview",
    "replay",
    "to_open",
]
