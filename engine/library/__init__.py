"""Sessions opened: from a file to a trace and its overview, what is remembered of them, exact counts, replays under way."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from engine.counting.exact import ExactCounts
from engine.counting.exact import available as exact_available
from engine.importers import Place, part_of, suffixes
from engine.library.loading import places, tool_of
from engine.reading.source import Entry
from engine.session.thread import hanging

if TYPE_CHECKING:
    from engine.counting.ledger import Ledger
    from engine.library.comparing import SHOWN as COMPARED
    from engine.library.comparing import WINDOWS, sized
    from engine.library.discovery import sources_in
    from engine.library.following import Following
    from engine.library.indexing_job import IndexingJob, summary
    from engine.library.known import Line
    from engine.library.opening import begun, ledger_of_branch
    from engine.library.replaying import Replaying, Replays, Stage
    from engine.library.store import Opened, Progress, Recent, Store
    from engine.storage.sessions import KEPT
else:
    _LATER = {
        "counting.ledger": ("Ledger",),
        "library.comparing": ("SHOWN", "WINDOWS", "sized"),
        "library.discovery": ("sources_in",),
        "library.following": ("Following",),
        "library.indexing_job": ("IndexingJob", "summary"),
        "library.known": ("Line",),
        "library.opening": ("begun", "ledger_of_branch"),
        "library.replaying": ("Replaying", "Replays", "Stage"),
        "library.store": ("Opened", "Progress", "Recent", "Store"),
        "storage.sessions": ("KEPT",),
    }
    _WHERE = {name: module for module, names in _LATER.items() for name in names}

    def __getattr__(name: str) -> Any:
        """What is loaded when it is first asked for."""
        known = "SHOWN" if name == "COMPARED" else name
        if known not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"engine.{_WHERE[known]}"), known)
        return value


__all__ = [
    "COMPARED",
    "KEPT",
    "WINDOWS",
    "Entry",
    "ExactCounts",
    "Following",
    "IndexingJob",
    "Ledger",
    "Line",
    "Opened",
    "Place",
    "Progress",
    "Recent",
    "Replaying",
    "Replays",
    "Stage",
    "Store",
    "begun",
    "exact_available",
    "hanging",
    "ledger_of_branch",
    "part_of",
    "places",
    "sized",
    "sources_in",
    "suffixes",
    "summary",
    "tool_of",
]
