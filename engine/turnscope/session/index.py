"""Where things stand in a session: addresses by kind, so that a rule finds its candidates without reading every block.

Built once per session in one pass. Holds addresses only; what a rule does with them is the rule's business.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from turnscope.session.model import Block, Bucket, Session, Span

_STATIC = (Bucket.SYSTEM, Bucket.TOOLS)


@dataclass(frozen=True, slots=True)
class Index:
    """Rising addresses of blocks by what they are; `messages` and `turns` are addresses of their first blocks.

    `compactions`: summaries that a provider made and reads in place of what precedes them.
    """

    messages: tuple[int, ...]  # conversation messages: system and tools are none
    turns: tuple[int, ...]
    static: tuple[int, ...]  # system and tool blocks
    calls: tuple[int, ...]
    results: tuple[int, ...]
    thinking: tuple[int, ...]
    compactions: tuple[int, ...]

    @staticmethod
    def build(session: Session) -> Index:
        """Index a session."""
        calls, results, thinking, static, compactions = [], [], [], [], []
        for block in session.blocks:
            if block.bucket in _STATIC:
                static.append(block.at)
            elif block.kind == "tool_use":
                calls.append(block.at)
            elif block.bucket == Bucket.TOOL_RESULTS:
                results.append(block.at)
            elif block.bucket == Bucket.THINKING:
                thinking.append(block.at)
            elif block.kind == "compaction" and _has_summary(block):
                compactions.append(block.at)
        talk = [m for m in session.messages if m.start < m.stop and session.blocks[m.start].bucket not in _STATIC]
        turns: dict[int, int] = {}
        for message in talk:
            turns.setdefault(session.blocks[message.start].turn, message.start)
        starts = tuple(message.start for message in talk)
        held = (static, calls, results, thinking, compactions)
        return Index(starts, tuple(turns.values()), *map(tuple, held))

    def find_conversation_spans(self, start: int, stop: int) -> Iterator[Span]:
        """The conversation inside `[start, stop)`: the span without system and tool blocks."""
        for at in self.static[bisect_left(self.static, start) : bisect_left(self.static, stop)]:
            if start < at:
                yield Span(start, at)
            start = at + 1
        if start < stop:
            yield Span(start, stop)


def _has_summary(block: Block) -> bool:
    """Whether a compaction came to a summary: the API returns a block without one where it did not, which changes nothing."""
    raw = block.raw
    return not isinstance(raw, Mapping) or raw.get("content") is not None or bool(raw.get("encrypted_content"))


def count_before(addresses: Sequence[int], stop: int) -> int:
    """How many of rising `addresses` lie before `stop`."""
    return bisect_left(addresses, stop)


def find_at_or_after(addresses: Sequence[int], at: int) -> int | None:
    """The first of rising `addresses` that is >= `at`; None where there is none."""
    place = bisect_left(addresses, at)
    return addresses[place] if place < len(addresses) else None


def find_at_or_before(addresses: Sequence[int], at: int) -> int | None:
    """The last of rising `addresses` that is <= `at`; None where there is none."""
    place = bisect_right(addresses, at)
    return addresses[place - 1] if place else None


def find_complete_start(session: Session, index: Index, at: int, stop: int) -> int:
    """The first message start >= `at` from which the rest up to `stop` answers no call before it; `stop` where none is."""
    place = bisect_left(index.messages, at)
    while place < len(index.messages) and index.messages[place] < stop:
        start = index.messages[place]
        end = min(session.messages[session.blocks[start].message].stop, stop)
        if not any(0 <= block.pair < start and block.bucket == Bucket.TOOL_RESULTS for block in session.blocks[start:end]):
            return start
        place += 1
    return stop


def group_runs(addresses: Iterable[int]) -> Iterator[Span]:
    """Rising addresses as spans of neighbours."""
    start = stop = -1
    for at in addresses:
        if at != stop:
            if start >= 0:
                yield Span(start, stop)
            start = at
        stop = at + 1
    if start >= 0:
        yield Span(start, stop)
