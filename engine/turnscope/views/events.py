"""The words for what happens at a request, used by markers, legends, chips, findings and the help.

`overview.Marker.kind` is a key of `EVENTS` and of `SIGNS`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from turnscope.session.model import Action


class Event(NamedTuple):
    """The words of one kind of event: `word` in a sentence, `noun` and `nouns` for counts, and `meaning`, one sentence."""

    word: str
    noun: str
    nouns: str
    meaning: str

    def format_count(self, count: int) -> str:
        """A count with its noun: "1 compaction", "12 clearings"."""
        return f"{count:,} {self.noun if count == 1 else self.nouns}"


EVENTS = {
    "compact": Event("compacted", "compaction", "compactions", "Earlier messages were replaced by a summary of them."),
    "cut": Event("cut", "cut", "cuts", "Earlier messages were left out, and no summary took their place."),
    "clear": Event("cleared", "clearing", "clearings", "Old content was emptied or shortened where it stands."),
    "unlogged": Event(
        "cut, not in the log",
        "cut that is not in the log",
        "cuts that are not in the log",
        "The tool cut something that its log does not hold.",
    ),
    "back": Event("re-injected", "retrieval", "retrievals", "Something that had left the window stands in it again."),
    "break": Event("cache miss", "cache miss", "cache misses", "What the cache had held was billed in full again."),
    "overflow": Event("over the window", "overflow", "overflows", "The prompt was larger than the window."),
    "retry": Event("retried", "retry", "retries", "The provider answered with errors first."),
    "subagent": Event("subagent", "subagent", "subagents", "A subagent was started, with a window of its own."),
    "side": Event(
        "side request", "side request", "side requests", "A request beside the conversation: a title, a summary, a check."
    ),
}
SIGNS = {  # kind of event: how it is drawn, and its colour in the palette
    "compact": ("▼", "warn"),
    "cut": ("■", "warn"),
    "clear": ("▽", "warn"),
    "unlogged": ("◁", "warn"),
    "back": ("▲", "good"),
    "break": ("◆", "bad"),
    "overflow": ("✖", "bad"),
    "retry": ("×", "bad"),
    "subagent": ("●", "accent"),
    "side": ("○", "accent"),
}
CUT_KINDS = ("compact", "cut", "clear", "unlogged")  # events that remove something from the window, the largest first
_KINDS: dict[Action, str] = {"condense": "compact", "drop": "cut", "retrieve": "back", "restore": "back"}


def classify_action(action: Action) -> str:
    """The kind of event of a rule's action."""
    return _KINDS.get(action, "clear")


def describe_event(kind: str, what: str) -> str:
    """Describe an event, beginning with its word: "compacted into a summary", "cut: the window was full".

    Args:
        kind: a key of `EVENTS`.
        what: what happened.

    >>> describe_event("cut", "the window was full"), describe_event("compact", "compacted into a summary")
    ('cut: the window was full', 'compacted into a summary')
    """
    word = EVENTS[kind].word
    return what if what.startswith(word) else f"{word}: {what}" if what else word


def count_cuts(kinds: Iterable[str]) -> list[tuple[str, str]]:
    """Count the events that removed something from the window, by kind: [("compact", "3 compactions"), ...]."""
    found = list(kinds)
    return [(kind, EVENTS[kind].format_count(found.count(kind))) for kind in CUT_KINDS if kind in found]
