"""The tree of lines as paths that share what stands before they part, each exchange made whole.

A path is a `Limb`: what it adds to the one that it left. So that laying out many takes the time of what they add, a limb
begins at the lowest exchange that its lines, or those of the path that it left, belong to. Builds no messages (see `paths`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from turnscope.importers.claude_code.lines import Entry

END = 1 << 60  # deeper than any path


@dataclass(slots=True, eq=False)
class Limb:
    """One path: the first `at` lines of the chain of `base`, then `chain`. Depths count lines of the chain from the root."""

    base: Limb | None
    at: int
    chain: list[Entry]
    whole: list[Entry] = field(default_factory=list)  # the chain and what its exchanges hold besides
    cuts: list[int] = field(default_factory=list)  # per line of the chain, how many of `whole` stand before it
    marks: dict[str, int] = field(default_factory=dict)  # ids of answers and calls -> depth of their exchange
    on: dict[str, int] = field(default_factory=dict)  # lines on the path -> depth
    answered: dict[str, int] = field(default_factory=dict)  # calls with a result -> depth
    reach: list[int] = field(default_factory=list)  # per line, the lowest depth that it or a later one belongs to

    def find(self, table: Literal["marks", "on", "answered"], key: str, stop: int = END) -> int | None:
        """The depth that a table of the whole path has for a key, below `stop`.

        Args:
            table: `marks`: ids of answers and calls. `on`: uuids of lines. `answered`: calls with a result.
            key: The id.
            stop: Depths from here on do not count.
        """
        if self.base is None:
            depth = getattr(self, table).get(key)
            return depth if depth is not None and depth < stop else None
        limb: Limb | None = self
        while limb is not None:
            tables: Mapping[str, int] = getattr(limb, table)
            depth = tables.get(key)
            if depth is not None and depth < stop:
                return depth
            stop, limb = min(stop, limb.at), limb.base
        return None

    def list_lines(self, start: int, stop: int) -> list[Entry]:
        """The chain of the whole path from depth `start` to `stop`.

        Args:
            start: The first depth, from 0 at the root.
            stop: The depth after the last one.
        """
        parts: list[list[Entry]] = []
        limb: Limb | None = self
        while limb is not None and start < stop:
            if stop > limb.at:
                parts.append(limb.chain[max(0, start - limb.at) : stop - limb.at])
                stop = limb.at
            limb = limb.base
        return [entry for part in reversed(parts) for entry in part]


class Tree:
    """Lines by what ties them together, and the limbs found so far."""

    def __init__(self) -> None:
        self.by: dict[str, Entry] = {}
        self.keys: dict[str, tuple[str, ...]] = {}
        self.calls: dict[str, tuple[str, ...]] = {}  # by line: those that it makes
        self.fragments: dict[str, list[Entry]] = {}
        self.results: dict[str, list[Entry]] = {}
        self.asides: dict[str, list[Entry]] = {}  # by call: what the tool injected with it or its result
        self.anchors: dict[str, Entry] = {}  # attachment -> the line before it that is none
        self.home: dict[str, tuple[Limb, int]] = {}

    def add(self, entry: Entry) -> None:
        """Take a line in. It has to be there before a limb is made that it belongs to."""
        self.by[entry.uuid] = entry
        if entry.spoken:
            self.keys[entry.uuid] = keys = tuple(_belongs_to(entry))
            if entry.type == "assistant":
                self.calls[entry.uuid] = tuple(_iter_calls(entry))
            for key in keys:
                (self.fragments if entry.type == "assistant" else self.results).setdefault(key, []).append(entry)
        elif entry.type == "attachment":
            above = self.by.get(entry.parent)
            anchor = self.anchors.get(entry.parent) if above is not None and above.type == "attachment" else above
            if anchor is not None:
                self.anchors[entry.uuid] = anchor
                if entry.put and entry.put.call in self.calls.get(anchor.uuid, self.keys.get(anchor.uuid, ())):
                    self.keys[entry.uuid] = (entry.put.call,)
                    self.asides.setdefault(entry.put.call, []).append(entry)

    def make_limb(self, leaf: Entry, also: Sequence[Entry] = (), *, kept: bool = True) -> Limb:
        """The path that ends in a line.

        Args:
            leaf: The line.
            also: Lines that were added since. They may belong to exchanges of the path.
            kept: Whether further limbs may part from it.
        """
        own: list[Entry] = []
        seen: set[str] = set()
        at: Entry | None = leaf
        while at is not None and at.uuid not in self.home and at.uuid not in seen:
            seen.add(at.uuid)
            own.append(at)
            at = self.by.get(at.parent)
        own.reverse()
        base, start = self.home[at.uuid] if at is not None and at.uuid in self.home else (None, -1)
        parted = start = start + 1
        if base is not None:
            touched = [base.find("marks", key, parted) for entry in (*own, *also) for key in self.keys.get(entry.uuid, ())]
            start = min([parted, *(depth for depth in touched if depth is not None)])
            if parted - base.at < len(base.reach):
                start = min(start, base.reach[parted - base.at])
            before = base.list_lines(start, parted)
            while base is not None and start <= base.at:
                base = base.base
            own = [*before, *own]
        limb = Limb(base, start, own)
        self._learn(limb)
        self._complete(limb)
        if kept:
            for depth, entry in enumerate(own, start):
                self.home.setdefault(entry.uuid, (limb, depth))
        return limb

    def _learn(self, limb: Limb) -> None:
        """Fill a limb's tables from its chain."""
        known: Callable[[str], int | None] = partial(limb.find, "marks") if limb.base else limb.marks.get
        for depth, entry in enumerate(limb.chain, limb.at):
            limb.on[entry.uuid] = depth
            limb.reach.append(depth)
            if entry.uuid not in self.keys:
                continue
            keys, earlier = self.keys[entry.uuid], False
            for key in keys:
                if (mark := known(key)) is not None:
                    earlier = True
                    limb.reach[-1] = min(limb.reach[-1], mark)
            if entry.type == "user":
                for key in keys:
                    limb.answered.setdefault(key, depth)
            elif entry.type == "assistant" and not earlier:
                for key in self._iter_marks(entry):
                    limb.marks.setdefault(key, depth)
        lowest = END
        for n in range(len(limb.reach) - 1, -1, -1):
            limb.reach[n] = lowest = min(lowest, limb.reach[n])

    def _iter_marks(self, entry: Entry) -> Iterator[str]:
        """The ids of an answer, of its calls, and of whatever stands in one result with those."""
        yield from self.keys[entry.uuid]
        for part in self.fragments[entry.id] if entry.id else (entry,):
            for call in self.calls[part.uuid]:
                yield call
                for result in self.results.get(call, ()):
                    yield from self.keys[result.uuid]

    def _complete(self, limb: Limb) -> None:
        """Add what one API exchange holds besides the chain: sibling fragments of a message, results of parallel calls.

        A message's fragments stand together and in file order, so that its last line is the last one here too.
        """
        begun: set[str] = set()
        for depth, entry in enumerate(limb.chain, limb.at):
            limb.cuts.append(len(limb.whole))
            if entry.type != "assistant" or not entry.spoken:
                limb.whole.append(entry)
                if entry.type == "user" and entry.uuid in self.keys:
                    limb.whole += self._iter_injected(limb, entry, depth)
                continue
            if entry.id in begun:
                continue
            parts = [entry]
            if entry.id:
                begun.add(entry.id)
                parts = self.fragments[entry.id]
            if len(parts) > 1:  # what is not on the chain may be a copy that a resumed session wrote
                on = [limb.find("on", part.uuid) is not None for part in parts]
                if not all(on):
                    contents = [part.message.get("content") for part, here in zip(parts, on, strict=True) if here]
                    pairs = zip(parts, on, strict=True)
                    parts = [part for part, here in pairs if here or part.message.get("content") not in contents]
            limb.whole += parts
            calls = [call for part in parts for call in self.calls[part.uuid]]
            for result in [result for call in calls for result in self.results.get(call, ())]:
                keys = self.keys[result.uuid]
                if limb.find("on", result.uuid) is None and any(limb.find("answered", key) is None for key in keys):
                    limb.on[result.uuid] = depth
                    for key in keys:
                        limb.answered.setdefault(key, depth)
                    limb.whole += (result, *self._iter_injected(limb, result, depth))

    def _iter_injected(self, limb: Limb, result: Entry, depth: int) -> Iterator[Entry]:
        """What the tool injected with a result, or its call, where the path does not lead through it."""
        for call in self.keys[result.uuid]:
            for aside in self.asides.get(call, ()) if limb.find("marks", call) is not None else ():
                if limb.find("on", aside.uuid) is None:
                    limb.on[aside.uuid] = depth
                    yield aside


def _belongs_to(entry: Entry) -> Iterator[str]:
    """Ids that tie a line to others: an answer's message id, the calls that its results answer."""
    if entry.type == "assistant":
        if entry.id:
            yield entry.id
        return
    content = entry.message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and isinstance(block.get("tool_use_id"), str):
            yield block["tool_use_id"]


def _iter_calls(entry: Entry) -> Iterator[str]:
    content = entry.message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "tool_use" and isinstance(block.get("id"), str):
            yield block["id"]
