"""Sessions opened: from a file to a trace and its overview, what is remembered of them, exact counts, replays under way."""

from engine.counting.exact import ExactCounts
from engine.counting.exact import available as exact_available
from engine.counting.ledger import Ledger
from engine.importers import Place, part_of, suffixes
from engine.library.advising import TRIALS
from engine.library.advising_job import AdvisingJob, Task
from engine.library.calculating import FIELDS, Calculated, Shape
from engine.library.calculating import SHOWN as CALCULATED
from engine.library.comparing import SHOWN as COMPARED
from engine.library.comparing import WINDOWS, sized
from engine.library.discovery import sources_in
from engine.library.following import Following
from engine.library.indexing_job import IndexingJob, summary
from engine.library.known import Line
from engine.library.opening import begun, ledger_of_branch, places, tool_of
from engine.library.replaying import Replaying, Replays, Stage
from engine.library.store import Opened, Progress, Recent, Store
from engine.library.tried import kept
from engine.reading.source import Entry
from engine.session.thread import hanging
from engine.storage.sessions import KEPT

__all__ = [
    "CALCULATED",
    "COMPARED",
    "FIELDS",
    "KEPT",
    "TRIALS",
    "WINDOWS",
    "AdvisingJob",
    "Calculated",
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
    "begun",
    "exact_available",
    "hanging",
    "kept",
    "ledger_of_branch",
    "part_of",
    "places",
    "sized",
    "sources_in",
    "suffixes",
    "summary",
    "tool_of",
]
