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
    from engine import asking, chats
    from engine.live import Chat, Event
    from engine.live import Settings as ChatSettings
    from engine.offline import FAULTS, Offline
    from engine.running import Running
    from engine.storage.threads import Conflict, Threads
    from engine.toolbox import DEFINITIONS, Toolbox

# What a live chat needs loads when it is first asked for: the provider's SDK takes longer than all the rest.
_LATER = {
    "asking": ("engine.asking", ""),
    "Chat": ("engine.live", "Chat"),
    "ChatSettings": ("engine.live", "Settings"),
    "Conflict": ("engine.threads", "Conflict"),
    "DEFINITIONS": ("engine.toolbox", "DEFINITIONS"),
    "Event": ("engine.live", "Event"),
    "FAULTS": ("engine.offline", "FAULTS"),
    "Offline": ("engine.offline", "Offline"),
    "Running": ("engine.running", "Running"),
    "Threads": ("engine.threads", "Threads"),
    "Toolbox": ("engine.toolbox", "Toolbox"),
    "chats": ("engine.chats", ""),
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
