"""Turnscope's engine: open a session of any chat or agent tool, see what filled each request, and replay it.

    import engine
    session = engine.load("session.jsonl")      # .blocks, .requests (each with .usage), .subagents, .branches, .notes
    trace = engine.replay(session)              # .plans, each with .before, .decisions, .after
    view = engine.overview(session)             # arrays over requests: tokens and USD per cell

Nothing here touches the network; nothing here knows Streamlit.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from engine.counting.exact import ExactCounts
from engine.counting.exact import available as exact_available
from engine.errors import TurnscopeError
from engine.library.opening import ledger_of, load, load_all, overview, replay
from engine.library.store import Opened, Recent, Store
from engine.session.portable import dumps
from engine.settings import claude_projects, context_pairs, data_file, data_folder, to_open

if TYPE_CHECKING:
    from engine.live import branches as chats
    from engine.live import summaries as asking
    from engine.live.chat import Chat
    from engine.live.chat import Settings as ChatSettings
    from engine.live.events import Event
    from engine.live.offline import FAULTS, Offline
    from engine.live.running import Running
    from engine.live.tools import DEFINITIONS, Toolbox
    from engine.storage.threads import Conflict, Threads

# What a live chat needs loads when it is first asked for: the provider's SDK takes longer than all the rest.
_LATER = {
    "asking": ("engine.live.summaries", ""),
    "Chat": ("engine.live.chat", "Chat"),
    "ChatSettings": ("engine.live.chat", "Settings"),
    "Conflict": ("engine.storage.threads", "Conflict"),
    "DEFINITIONS": ("engine.live.tools", "DEFINITIONS"),
    "Event": ("engine.live.events", "Event"),
    "FAULTS": ("engine.live.offline", "FAULTS"),
    "Offline": ("engine.live.offline", "Offline"),
    "Running": ("engine.live.running", "Running"),
    "Threads": ("engine.storage.threads", "Threads"),
    "Toolbox": ("engine.live.tools", "Toolbox"),
    "chats": ("engine.live.branches", ""),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, what = _LATER[name]
    found = import_module(module)
    return getattr(found, what) if what else found


__all__ = [
    "DEFINITIONS",
    "FAULTS",
    "Chat",
    "ChatSettings",
    "Conflict",
    "Event",
    "ExactCounts",
    "Offline",
    "Opened",
    "Recent",
    "Running",
    "Store",
    "Threads",
    "Toolbox",
    "TurnscopeError",
    "asking",
    "chats",
    "claude_projects",
    "context_pairs",
    "data_file",
    "data_folder",
    "dumps",
    "exact_available",
    "ledger_of",
    "load",
    "load_all",
    "overview",
    "replay",
    "to_open",
]
