"""Opening sessions: from a file to a trace and its overview, what is stored of them, exact counts, jobs in the background."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from turnscope.counting.exact import ExactCounts
from turnscope.counting.exact import is_available as exact_available
from turnscope.library.loading import find_places, get_tool_title
from turnscope.reading.importer import Place
from turnscope.reading.registry import find_session_path, find_session_paths, find_suffixes
from turnscope.reading.source import Entry
from turnscope.session.thread import iter_descendants

if TYPE_CHECKING:
    from turnscope.counting.ledger import Ledger
    from turnscope.envelope.context_items import ContextItem
    from turnscope.envelope.memories import Memory, Owner
    from turnscope.library.advice_job import AdviceJob, AdviceTask
    from turnscope.library.advising import TRIALS
    from turnscope.library.calculating import CALCULATED_POLICIES, FIELDS, Calculation, Shape
    from turnscope.library.chats import forget_chat, get_chat_source, get_chat_thread, index_chats
    from turnscope.library.comparing import COMPARED_POLICIES, WINDOWS, replace_model, resize_budget
    from turnscope.library.comparison_job import ComparisonJob, ReplayTask
    from turnscope.library.discovery import find_sources
    from turnscope.library.dropped import get_dropped_key, get_dropped_source, index_dropped
    from turnscope.library.index_job import IndexJob, count_reasons
    from turnscope.library.index_queries import IndexRow
    from turnscope.library.indexing import refresh
    from turnscope.library.notable import Notable, find_notable
    from turnscope.library.opening import begin_replay, count_branch, replay_record
    from turnscope.library.replay_job import ReplayCache, ReplayJob, Stage
    from turnscope.library.row_worker import ComparisonBasis
    from turnscope.library.session_follower import SessionFollower
    from turnscope.library.store import CatalogueRow, OpenedSession, Progress, Store, is_current
    from turnscope.library.trial_log import find_advice_folder
    from turnscope.library.window_choices import choose_window, list_sizes, read_choices_state
    from turnscope.planning.policy_catalog import PolicyCatalog, load_catalog, save_policy
    from turnscope.pricing.prices import list_models
    from turnscope.storage.memories import Memories
    from turnscope.storage.sessions import MAX_SESSIONS
    from turnscope.typed_path import parse_path
else:
    _MODULES = {  # names of a module, which is imported when one of them is first used
        "turnscope.planning.policy_catalog": ("PolicyCatalog", "load_catalog", "save_policy"),
        "turnscope.storage.memories": ("Memories",),
        "turnscope.envelope.memories": ("Memory", "Owner"),
        "turnscope.envelope.context_items": ("ContextItem",),
        "turnscope.counting.ledger": ("Ledger",),
        "turnscope.library.advice_job": ("AdviceJob", "AdviceTask"),
        "turnscope.library.advising": ("TRIALS",),
        "turnscope.library.calculating": ("CALCULATED_POLICIES", "FIELDS", "Calculation", "Shape"),
        "turnscope.library.chats": ("forget_chat", "get_chat_source", "get_chat_thread", "index_chats"),
        "turnscope.library.comparing": ("COMPARED_POLICIES", "WINDOWS", "replace_model", "resize_budget"),
        "turnscope.library.comparison_job": ("ComparisonJob", "ReplayTask"),
        "turnscope.library.discovery": ("find_sources",),
        "turnscope.library.dropped": ("get_dropped_key", "get_dropped_source", "index_dropped"),
        "turnscope.library.index_job": ("IndexJob", "count_reasons"),
        "turnscope.library.index_queries": ("IndexRow",),
        "turnscope.library.indexing": ("refresh",),
        "turnscope.library.notable": ("Notable", "find_notable"),
        "turnscope.library.opening": ("begin_replay", "count_branch", "replay_record"),
        "turnscope.library.replay_job": ("ReplayCache", "ReplayJob", "Stage"),
        "turnscope.library.row_worker": ("ComparisonBasis",),
        "turnscope.library.session_follower": ("SessionFollower",),
        "turnscope.library.store": ("CatalogueRow", "OpenedSession", "Progress", "Store", "is_current"),
        "turnscope.library.trial_log": ("find_advice_folder",),
        "turnscope.library.window_choices": ("choose_window", "list_sizes", "read_choices_state"),
        "turnscope.pricing.prices": ("list_models",),
        "turnscope.storage.sessions": ("MAX_SESSIONS",),
        "turnscope.typed_path": ("parse_path",),
    }
    _LATER = {name: module for module, names in _MODULES.items() for name in names}

    def __getattr__(name: str) -> Any:
        """Import a name when it is first used."""
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_LATER[name]), name)
        return value


__all__ = [
    "CALCULATED_POLICIES",
    "COMPARED_POLICIES",
    "FIELDS",
    "MAX_SESSIONS",
    "TRIALS",
    "WINDOWS",
    "AdviceJob",
    "AdviceTask",
    "Calculation",
    "CatalogueRow",
    "ComparisonBasis",
    "ComparisonJob",
    "ContextItem",
    "Entry",
    "ExactCounts",
    "IndexJob",
    "IndexRow",
    "Ledger",
    "Memories",
    "Memory",
    "Notable",
    "OpenedSession",
    "Owner",
    "Place",
    "PolicyCatalog",
    "Progress",
    "ReplayCache",
    "ReplayJob",
    "ReplayTask",
    "SessionFollower",
    "Shape",
    "Stage",
    "Store",
    "begin_replay",
    "choose_window",
    "count_branch",
    "count_reasons",
    "exact_available",
    "find_advice_folder",
    "find_notable",
    "find_places",
    "find_session_path",
    "find_session_paths",
    "find_sources",
    "find_suffixes",
    "forget_chat",
    "get_chat_source",
    "get_chat_thread",
    "get_dropped_key",
    "get_dropped_source",
    "get_tool_title",
    "index_chats",
    "index_dropped",
    "is_current",
    "iter_descendants",
    "list_models",
    "list_sizes",
    "load_catalog",
    "parse_path",
    "read_choices_state",
    "refresh",
    "replace_model",
    "replay_record",
    "resize_budget",
    "save_policy",
]
