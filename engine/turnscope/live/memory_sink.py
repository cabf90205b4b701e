"""What a chat remembers beyond itself: a sink that keeps the facts that the rule `insert_memories` found, unless refused, and
what was looked up again of a layered chat's archive.
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

FACTS_RULE, ARCHIVE_RULE = "insert_memories", "retrieve_conversations"


@dataclass(frozen=True, slots=True)
class MemorySink:
    """Keeps facts in the store of one user and project, as the request at which they were decided ends."""

    memories: Memories
    counts_retrievals: bool = True  # what is looked up again is counted

    def record_message(self, message: Message, blocks: Sequence[JSON], status: Status) -> None:
        """Nothing: what is remembered is a decision of a request."""

    def record_fact(self, fact: Fact) -> None:
        """Nothing: a refusal is read by the rule itself."""

    def record_request(self, ended: RequestEnded) -> None:
        """Keep what was decided to be remembered; a fact that was forgotten on request stays forgotten."""
        told = (d.edit for d in ended.plan.decisions if d.rule == FACTS_RULE and "memory" in d.edit.facts)
        names = {edit.facts["memory"] for edit in told if not edit.facts["refused"]}
        known: Sequence[Memory] = ended.plan.get_state(FACTS_RULE) or ()
        for fact in known:
            if fact.id not in names or fact.tier == "short":
                continue
            try:
                self.memories.add(fact.text, fact.owner, f"{ended.session} {fact.source}", fact.said, fact.tier)
            except StorageError:
                raise
            except TurnscopeError:
                continue
        again = [name for d in ended.plan.decisions if d.rule == ARCHIVE_RULE for name in d.edit.facts.get("names", ())]
        if again and self.counts_retrievals:
            self.memories.learn(again)
