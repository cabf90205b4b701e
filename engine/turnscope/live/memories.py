"""What pages name of memory: facts, their store, and what is put beside a question. Nothing is defined here."""

from turnscope.envelope.memories import Memory, Owner, Tier
from turnscope.envelope.provided import Provided
from turnscope.storage.memories import Memories

__all__ = ["Memories", "Memory", "Owner", "Provided", "Tier"]
