"""Addresses of blocks by kind, so that a rule finds its candidates without reading every block.

The index is built once per session, in one pass. It holds addresses only. What a rule does with them is the rule's business.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import ref

from turnscope.session.model import Block, Bucket, Session, Span

_STATIC = (Bucket.SYSTEM, Bucket.TOOLS)
_BUILT: dict[int, tuple[ref[Session], Index]] = {}  # by id; an entry goes with its session


@dataclass(frozen=True, slots=True)
class Index:
    """Rising addresses of blocks by what they are. `messages` and `turns` hold the addresses of their first blocks.

    `compactions`: summaries that a provider made. It reads them in place of what precedes them. `shared`: one object for all
    indexes of a session, by which what was read of the session is remembered. `remembered`: what rules remember of the replay
    that has this index, by what they choose; it goes with the replay.
    """

    messages: tuple[int, ...]  # messages of the conversation, without system and tools
    turns: tuple[int, ...]
    static: tuple[int, ...]  # system and tool blocks
    calls: tuple[int, ...]
    results: tuple[int, ...]
    thinking: tuple[int, ...]
    compactions: tuple[int, ...]
    shared: object = field(default_factory=object, compare=False, repr=False)
    remembered: dict[Any, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

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
        lists = (static, calls, results, thinking, compactions)
        return Index(starts, tuple(turns.values()), *map(tuple, lists))

    def find_conversation_spans(self, start: int, stop: int) -> Iterator[Span]:
        """Find the conversation inside `[start, stop)`: the spans without system and tool blocks.

        Args:
            start: Address of the first block.
            stop: Address after the last block.
        """
        for at in self.static[bisect_left(self.static, start) : bisect_left(self.static, stop)]:
            if start < at:
                yield Span(start, at)
            start = at + 1
        if start < stop:
            yield Span(start, stop)


def _has_summary(block: Block) -> bool:
    """Whether a compaction produced a summary. The API returns a block without one where it failed, which changes nothing."""
    raw = block.raw
    return not isinstance(raw, Mapping) or raw.get("content") is not None or bool(raw.get("encrypted_content"))


def get_index(session: Session) -> Index:
    """Return an index of a session, which is built once: what is read of the session by one replay, the others know.

    Args:
        session: The session.
    """
    key = id(session)
    known = _BUILT.get(key)
    if known is None or known[0]() is not session:
        known = _BUILT[key] = ref(session, lambda _: _BUILT.pop(key, None)), Index.build(session)
    return replace(known[1])  # with nothing remembered: each replay remembers its own


def count_before(addresses: Sequence[int], stop: int) -> int:
    """Count the addresses before `stop`.

    Args:
        addresses: Rising addresses.
        stop: A block address.

    >>> count_before([2, 5, 9], 5), count_before([2, 5, 9], 6)
    (1, 2)
    """
    return bisect_left(addresses, stop)


def find_at_or_after(addresses: Sequence[int], at: int) -> int | None:
    """Find the first address that is >= `at`; None where there is none.

    Args:
        addresses: Rising addresses.
        at: A block address.
    """
    place = bisect_left(addresses, at)
    return addresses[place] if place < len(addresses) else None


def find_at_or_before(addresses: Sequence[int], at: int) -> int | None:
    """Find the last address that is <= `at`; None where there is none.

    Args:
        addresses: Rising addresses.
        at: A block address.
    """
    place = bisect_right(addresses, at)
    return addresses[place - 1] if place else None


def find_complete_start(session: Session, index: Index, at: int, stop: int) -> int:
    """Find the first message start >= `at` from which no result up to `stop` answers a call before it.

    Args:
        session: The session.
        index: Its index.
        at: Where to start looking, a block address.
        stop: Address after the last block.

    Returns:
        A block address; `stop` where there is no such message.
    """
    place = bisect_left(index.messages, at)
    while place < len(index.messages) and index.messages[place] < stop:
        start = index.messages[place]
        end = min(session.messages[session.blocks[start].message].stop, stop)
        if not any(0 <= block.pair < start and block.bucket == Bucket.TOOL_RESULTS for block in session.blocks[start:end]):
            return start
        place += 1
    return stop


def group_runs(addresses: Iterable[int]) -> Iterator[Span]:
    """Group rising addresses into spans of neighbours.

    >>> [*group_runs([1, 2, 3, 7])]
    [Span(start=1, stop=4), Span(start=7, stop=8)]
    """
    start = stop = -1
    for at in addresses:
        if at != stop:
            if start >= 0:
                yield Span(start, stop)
            start = at
        stop = at + 1
    if start >= 0:
        yield Span(start, stop)
