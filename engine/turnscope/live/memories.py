"""What pages name of memory: facts, their store, and what is put beside a question. Nothing is defined here."""

from turnscope.envelope.context_items import ContextItem
from turnscope.envelope.memories import Memory, Owner, Tier
from turnscope.storage.memories import Memories

__all__ = ["ContextItem", "Memories", "Memory", "Owner", "Tier"]
