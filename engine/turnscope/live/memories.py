"""The types of memory that pages import from here: facts, their store, and injected items."""

from turnscope.envelope.context_items import ContextItem
from turnscope.envelope.memories import Memory, Owner, Tier
from turnscope.storage.memories import Memories

__all__ = ["ContextItem", "Memories", "Memory", "Owner", "Tier"]
