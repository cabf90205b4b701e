"""A sink that stores what a chat remembers across chats.

That is facts that the rule `insert_memories` found, and which names are looked up again: those of conversations that the model
retrieved, and those of earlier conversations that the user's prompts name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnscope.envelope.memories import Memory
from turnscope.envelope.request_outcome import RequestEnded, Status
from turnscope.errors import TurnscopeError
from turnscope.session.model import JSON, Fact, Message
from turnscope.storage.database import StorageError
from turnscope.storage.memories import Memories

FACTS_RULE = "insert_memories"
LEARNING_RULES = ("retrieve_conversations", "insert_references")  # what the model asks for again, and what the user does


@dataclass(frozen=True, slots=True)
class MemorySink:
    """Stores facts of one user and project, when the request at which they were decided ends.

    Args:
        memories: The store.
        counts_retrievals: Whether retrieved conversations are counted.
    """

    memories: Memories
    counts_retrievals: bool = True

    def record_message(self, message: Message, blocks: Sequence[JSON], status: Status) -> None:
        """See `Sink`. Nothing to do: facts are decisions of a request."""

    def record_fact(self, fact: Fact) -> None:
        """See `Sink`. Nothing to do: the rule itself reads that a fact was refused."""

    def record_request(self, ended: RequestEnded) -> None:
        """Store the facts that the request decided to remember. A fact that was forgotten on request stays forgotten."""
        edits = (d.edit for d in ended.plan.decisions if d.rule == FACTS_RULE and "memory" in d.edit.facts)
        names = {edit.facts["memory"] for edit in edits if not edit.facts["refused"]}
        known: Sequence[Memory] = ended.plan.get_state(FACTS_RULE) or ()
        for fact in known:
            if fact.id not in names or fact.tier == "short":
                continue
            try:
                self.memories.add(fact.text, fact.owner, f"{ended.session} {fact.source}", fact.day, fact.tier)
            except StorageError:
                raise
            except TurnscopeError:
                continue
        again = [name for d in ended.plan.decisions if d.rule in LEARNING_RULES for name in d.edit.facts.get("names", ())]
        if again and self.counts_retrievals:
            self.memories.learn(again)
