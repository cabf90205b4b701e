"""Sessions opened: from a file to a trace and its overview, what is remembered of them, exact counts, replays under way."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from turnscope.counting.exact import ExactCounts
from turnscope.counting.exact import is_available as exact_available
from turnscope.library.loading import places, tool_of
from turnscope.reading.importer import Place
from turnscope.reading.registry import find_session_path, find_suffixes
from turnscope.reading.source import Entry
from turnscope.session.thread import iter_descendants

if TYPE_CHECKING:
    from turnscope.counting.ledger import Ledger
    from turnscope.library.advising import TRIALS
    from turnscope.library.advising_job import AdvisingJob, Task
    from turnscope.library.calculating import CALCULATED, FIELDS, Calculated, Shape
    from turnscope.library.chats import forget as forget_chat
    from turnscope.library.chats import index_chats, source_of, thread_of
    from turnscope.library.comparing import SHOWN as COMPARED
    from turnscope.library.comparing import WINDOWS, sized, under
    from turnscope.library.comparing_job import ComparingJob, Wanted
    from turnscope.library.discovery import sources_in
    from turnscope.library.following import Following
    from turnscope.library.indexing_job import IndexingJob, summary
    from turnscope.library.known import Line
    from turnscope.library.opening import begun, ledger_of_branch
    from turnscope.library.replaying import Replaying, Replays, Stage
    from turnscope.library.store import Opened, Progress, Recent, Store, current
    from turnscope.library.tried import kept
    from turnscope.pricing.prices import list_models
    from turnscope.storage.sessions import KEPT
else:
    _LATER = {  # by module; `a=b`: its `a` is called `b` here
        "counting.ledger": ("Ledger",),
        "library.advising": ("TRIALS",),
        "library.advising_job": ("AdvisingJob", "Task"),
        "library.calculating": ("CALCULATED", "FIELDS", "Calculated", "Shape"),
        "library.chats": ("forget=forget_chat", "index_chats", "source_of", "thread_of"),
        "library.comparing": ("SHOWN=COMPARED", "WINDOWS", "sized", "under"),
        "library.comparing_job": ("ComparingJob", "Wanted"),
        "library.discovery": ("sources_in",),
        "library.following": ("Following",),
        "library.indexing_job": ("IndexingJob", "summary"),
        "library.known": ("Line",),
        "library.opening": ("begun", "ledger_of_branch"),
        "library.replaying": ("Replaying", "Replays", "Stage"),
        "library.store": ("Opened", "Progress", "Recent", "Store", "current"),
        "library.tried": ("kept",),
        "pricing.prices": ("list_models",),
        "storage.sessions": ("KEPT",),
    }
    _WHERE = {name.rpartition("=")[2]: (module, name.partition("=")[0]) for module, names in _LATER.items() for name in names}

    def __getattr__(name: str) -> Any:
        """What is loaded when it is first asked for."""
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, known = _WHERE[name]
        value = globals()[name] = getattr(import_module(f"turnscope.{module}"), known)
        return value


__all__ = [
    "CALCULATED",
    "COMPARED",
    "FIELDS",
    "KEPT",
    "TRIALS",
    "WINDOWS",
    "AdvisingJob",
    "Calculated",
    "ComparingJob",
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
    "Shape",
    "Stage",
    "Store",
    "Task",
    "Wanted",
    "begun",
    "current",
    "exact_available",
    "find_session_path",
    "find_suffixes",
    "forget_chat",
    "index_chats",
    "iter_descendants",
    "kept",
    "ledger_of_branch",
    "list_models",
    "places",
    "sized",
    "source_of",
    "sources_in",
    "summary",
    "thread_of",
    "tool_of",
    "under",
]
