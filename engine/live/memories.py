"""What pages name of memory: facts, their store, and what is put beside a question. Nothing is defined here."""

from engine.envelope.memories import Memory, Owner, Tier
from engine.envelope.provided import Provided
from engine.storage.memories import Memories

__all__ = ["Memories", "Memory", "Owner", "Provided", "Tier"]
