"""Sessions opened: from a file to a trace and its overview, what is remembered of them, exact counts, replays under way."""

from engine.counting.exact import ExactCounts
from engine.counting.exact import available as exact_available
from engine.counting.ledger import Ledger
from engine.importers import Place, part_of, suffixes
from engine.library.comparing import SHOWN as COMPARED
from engine.library.comparing import WINDOWS, sized, under
from engine.library.discovery import sources_in
from engine.library.following import Following
from engine.library.indexing_job import IndexingJob, summary
from engine.library.known import Line
from engine.library.opening import begun, ledger_of_branch, places, tool_of
from engine.library.replaying import Replaying, Replays, Stage
from engine.library.store import Opened, Progress, Recent, Store
from engine.pricing.prices import offered
from engine.reading.source import Entry
from engine.session.thread import hanging
from engine.storage.sessions import KEPT

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
    "offered",
    "part_of",
    "places",
    "sized",
    "sources_in",
    "suffixes",
    "summary",
    "tool_of",
    "under",
]
