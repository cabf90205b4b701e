"""Sessions opened: from a file to a trace and its overview, what is remembered of them, and their exact counts."""

from engine.counting.exact import ExactCounts
from engine.counting.exact import available as exact_available
from engine.importers import Place
from engine.library.following import Following
from engine.library.opening import ledger_of_branch, places
from engine.library.store import Opened, Progress, Recent, Store
from engine.reading.source import Entry

__all__ = [
    "Entry",
    "ExactCounts",
    "Following",
    "Opened",
    "Place",
    "Progress",
    "Recent",
    "Store",
    "exact_available",
    "ledger_of_branch",
    "places",
]
