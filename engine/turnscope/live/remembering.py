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

RULE, ARCHIVE = "insert_memories", "retrieve_conversations"


@dataclass(frozen=True, slots=True)
class Remembering:
    """Keeps facts in the store of one user and project, as the request at which they were decided ends."""

    memories: Memories
    learns: bool = True  # what is looked up again is counted

    def message(self, message: Message, blocks: Sequence[JSON], status: Status) -> None:
        """Nothing: what is remembered is a decision of a request."""

    def fact(self, fact: Fact) -> None:
        """Nothing: a refusal is read by the rule itself."""

    def ended(self, ended: RequestEnded) -> None:
        """Keep what was decided to be remembered; a fact that was forgotten on request stays forgotten."""
        told = (d.edit for d in ended.plan.decisions if d.rule == RULE and "memory" in d.edit.facts)
        names = {edit.facts["memory"] for edit in told if not edit.facts["refused"]}
        known: Sequence[Memory] = ended.plan.get_state(RULE) or ()
        for fact in known:
            if fact.id not in names or fact.tier == "short":
                continue
            try:
                self.memories.add(fact.text, fact.owner, f"{ended.session} {fact.source}", fact.said, fact.tier)
            except StorageError:
                raise
            except TurnscopeError:
                continue
        again = [name for d in ended.plan.decisions if d.rule == ARCHIVE for name in d.edit.facts.get("names", ())]
        if again and self.learns:
            self.memories.learn(again)
