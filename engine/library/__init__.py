"""Sessions opened: from a file to a trace and its overview, what is remembered of them, and their exact counts."""

from engine.counting.exact import ExactCounts
from engine.counting.exact import available as exact_available
from engine.library.store import Opened, Progress, Recent, Store

__all__ = ["ExactCounts", "Opened", "Progress", "Recent", "Store", "exact_available"]
