"""Builds a thread of stored messages: a tree by parent ids. Each leaf is a path, the current one the main path.

An importer maps each record to a `Node`, and what its tool did to the window to a `Cut`. This module handles ids, cycles,
unknown parents, shared prefixes and the edits that follow from a cut. In a log without a tree no node names a parent. The
module knows no format.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from turnscope.session.builder import Builder, Observer, make_part
from turnscope.session.content import dumps, extract_text
from turnscope.session.model import JSON, Action, Edit, Fork, Note, ObservedEdit, Part, Session, Span
from turnscope.session.thread import Thread
from turnscope.session.timeline import STATIC_ROLES

TITLE_CHARACTERS = 80  # characters of the first prompt that make a title


@dataclass(slots=True)
class NodeMessage:
    """One message of a node. `request`: fields of `model.Request` where it answers one.

    Without a role it stands for a lost answer.

    `files`: what the tool injected before the content, as blocks.
    """

    role: str
    content: str | Sequence[JSON] = ""
    origin: str = ""
    kind: str = ""
    request: Mapping[str, Any] | None = None
    at: float | None = None
    fence: bool = False
    files: Sequence[JSON] = ()


@dataclass(slots=True)
class Cut:
    """What the tool did to the window before its node: only `keep` stayed, in this order.

    `keep` names nodes, or gives parts of placeholders. `summary`: the node that sums up the rest; it may be the cut's own node.
    `action`: what was done; anything but condense is no compaction. `unsent`: kinds of blocks that are never sent again: no
    copy of a message has them. `names_all`: `keep` names system messages, too; otherwise those at the beginning stay.
    """

    because: str
    keep: Sequence[str | tuple[Part, ...]] = ()
    summary: str = ""
    facts: Mapping[str, JSON] = field(default_factory=dict)
    action: Action = "condense"
    unsent: Collection[str] = ()
    names_all: bool = False


Gaps = dict[tuple[int, int], list[Part]]  # ranges of messages that are not sent, and what stands in for each


@dataclass(slots=True)
class Node:
    """One stored record. `parent`: None = the node before it, "" = it is a root. `title`: of a branch that begins with it."""

    id: str
    parent: str | None = None
    messages: list[NodeMessage] = field(default_factory=list)
    at: float | None = None
    cut: Cut | None = None
    title: str = ""


class SkippedRecords:
    """Records without anything for a timeline, or of an unknown kind. Each kind becomes one note."""

    def __init__(self) -> None:
        self.kinds: dict[str, list[int]] = {}

    def add(self, kind: object, record: JSON, line: int = 0) -> None:
        """Count a skipped record.

        Args:
            kind: Its kind.
            record: The record.
            line: Its line number; 0 = unknown.
        """
        counts = self.kinds.setdefault(str(kind)[:60], [line, 0, 0])
        counts[1] += 1
        counts[2] += len(dumps(record))

    def add_notes(self, builder: Builder) -> None:
        """Add a note for each kind."""
        for kind, (line, count, size) in self.kinds.items():
            many, were = ("record", "was") if count == 1 else ("records", "were")
            what = f"{count} {many} of kind {kind!r} ({size:,} bytes) {were} skipped"
            builder.notes.append(Note("info", line, what, size))


def iter_objects(
    records: Iterable[tuple[Any, int]], builder: Builder, passed: SkippedRecords
) -> Iterator[tuple[dict[str, Any], int]]:
    """Iterate over the records of a log that are objects, each with its line.

    Notes go to the builder; other values are skipped.

    Args:
        records: Values with their line numbers, and notes.
        builder: Gets the notes.
        passed: Collects the records that are skipped.
    """
    for record, line in records:
        if isinstance(record, dict):
            yield record, line
        elif isinstance(record, Note):
            builder.notes.append(record)
        else:
            passed.add(type(record).__name__, record, line)


def build_thread(
    builder: Builder,
    nodes: Iterable[Node],
    current: str = "",
    lead: Sequence[NodeMessage] = (),
    observers: Sequence[Observer] = (),
) -> Thread:
    """Build the thread of a tool's records.

    Args:
        builder: The builder of the main path.
        nodes: The records.
        current: Id of the node in which the main path ends; "" = the last one.
        lead: Messages before all others.
        observers: Find edits; each sees a path as a whole. In a request they come before those of its cut.
    """
    tree = _Tree(builder, nodes)
    leaves = [node for node in tree.nodes if node not in tree.parents]
    main = current if current in tree.nodes else leaves[-1] if leaves else ""
    for message in lead:
        _add_message(builder, message, None, "")
    tree.append_messages(builder, tree.find_path(main))
    builder.title = builder.title or make_title(builder)
    session = builder.build([*observers, *tree.make_observers(main)])
    forks: list[Fork] = []
    for leaf in leaves:
        if leaf in tree.places:
            continue
        path = tree.find_path(leaf)
        start = next(n for n, node in enumerate(path) if node not in tree.places)
        base, shared = (tree.homes[path[start - 1]], tree.places[path[start - 1]][1]) if start else (builder, len(lead))
        title = next((named for id in path[start:] if (named := tree.nodes[id].title)), builder.title)
        branch = base.start_branch(shared, f"{builder.id}~{len(forks) + 1}", title)
        tree.append_messages(branch, path[start:])
        if branch.drafts:
            fork = branch.build_fork(session, forks, [*observers, *tree.make_observers(leaf)])
            forks.append(structs.replace(fork, own=structs.replace(fork.own, parent=session.id, at=fork.start)))
        else:  # it adds no message: its children continue what it shares
            tree.homes |= dict.fromkeys(path[start:], base)
    return Thread(structs.replace(session, forks=tuple(forks)) if forks else session)


def split_rounds(blocks: Sequence[Any], request: Mapping[str, Any], *, parallel: bool = False) -> list[NodeMessage]:
    """Split the blocks of a stored answer that holds its tools' results: one request for each round of calls.

    Args:
        blocks: The blocks.
        request: Fields of the last request.
        parallel: Calls with only results between them are one round.
    """
    messages: list[NodeMessage] = []
    shared = {key: request[key] for key in ("model",) if key in request}
    for block in blocks:
        last = messages[-1].role if messages else ""
        use = block.get("type") == "tool_use"
        if block.get("type") == "tool_result":
            if last != "user":
                messages.append(NodeMessage("user", [], "tool"))
            messages[-1].content = [*messages[-1].content, block]
        elif last == "user" and use and parallel and len(messages) > 1:
            messages[-2].content = [*messages[-2].content, block]
        else:
            if last != "assistant":
                messages.append(NodeMessage("assistant", [], request=shared))
            messages[-1].content = [*messages[-1].content, block]
    answers = [one for one in messages if one.role == "assistant"]
    if answers:
        answers[0].request = {**shared, **({"sent_at": request["sent_at"]} if "sent_at" in request else {})}
        answers[-1].request = {**request, **({"sent_at": None} if len(answers) > 1 else {})}
    return messages


def make_title(builder: Builder) -> str:
    """Make a title of the first prompt's beginning."""
    prompts = (draft for draft in builder.drafts if draft.origin == "prompt")
    texts = (" ".join(extract_text([raw for raw, _ in draft.parts]).split()) for draft in prompts)
    return next((text[:TITLE_CHARACTERS] for text in texts if text), "")


class _Tree:
    """Nodes by id, and where the messages of each stand. A node's place is the same on every path that holds it."""

    def __init__(self, builder: Builder, nodes: Iterable[Node]) -> None:
        self.nodes: dict[str, Node] = {}
        self.above: dict[str, str] = {}
        twice = 0
        before = ""
        for number, node in enumerate(nodes):
            id = node.id or f"without id {number}"  # "" is the parent of roots
            if id in self.nodes:
                twice += 1
                continue
            self.nodes[id] = node
            self.above[id] = before if node.parent is None else node.parent
            before = id
        lost = [id for id, up in self.above.items() if up and up not in self.nodes]
        self.above |= dict.fromkeys(lost, "")
        cycles = self._cut_cycles()
        for count, what in (
            (twice, "repeat an id and were left out"),
            (len(lost), "name a missing parent: they count as beginnings"),
            (cycles, "were their own ancestors: the cycle was cut"),
        ):
            if count:
                builder.add_note("warning", 0, f"{count} of the messages {what}")
        self.parents = {up for up in self.above.values() if up}
        self.places: dict[str, tuple[int, int]] = {}  # first ordinal of a node's messages, and the one after its last
        self.homes: dict[str, Builder] = {}
        self.cuts = any(node.cut for node in self.nodes.values())

    def _cut_cycles(self) -> int:
        known: set[str] = set()
        found = 0
        for start in self.above:
            walk: set[str] = set()
            at = start
            while at and at not in known:
                walk.add(at)
                known.add(at)
                if self.above[at] in walk:
                    self.above[at] = ""
                    found += 1
                at = self.above[at]
        return found

    def find_path(self, leaf: str) -> list[str]:
        """Get the ids from a root to a node."""
        found = []
        while leaf:
            found.append(leaf)
            leaf = self.above[leaf]
        return found[::-1]

    def append_messages(self, builder: Builder, path: Sequence[str]) -> None:
        """Append the messages of nodes."""
        for id in path:
            node = self.nodes[id]
            first = builder.shared + len(builder.drafts)
            for number, message in enumerate(node.messages):
                _add_message(builder, message, node.at, f"{id}:{number}" if number else id)
            self.places[id] = first, builder.shared + len(builder.drafts)
            self.homes[id] = builder

    def make_observers(self, leaf: str) -> list[Observer]:
        """Make observers of what the cuts on a path did."""
        cuts = [self.nodes[id] for id in self.find_path(leaf) if self.nodes[id].cut] if self.cuts else []
        return [lambda session: self._observe_cuts(cuts, session)] if cuts else []

    def _observe_cuts(self, cuts: Sequence[Node], session: Session) -> Iterator[ObservedEdit]:
        gone: Gaps = {}
        for node in cuts:
            assert node.cut
            before = self.places[node.id][0]
            end = session.messages[before - 1].stop if before else 0
            request = bisect_left(session.requests, end, key=lambda request: request.cut)
            edits, gone = self._make_edits(node.cut, node.id, before, gone, session)
            if request < len(session.requests):
                yield from (ObservedEdit(request, edit) for edit in edits)

    def _make_edits(self, cut: Cut, id: str, before: int, gone: Gaps, session: Session) -> tuple[list[Edit], Gaps]:
        """What a cut changed, and what stands in for which messages from there on. `gone`: the same before it."""
        static = next(
            (n for n, message in enumerate(session.messages) if message.role not in STATIC_ROLES), len(session.messages)
        )
        static = min(static, *(first for first, _ in self.places.values())) if cut.names_all else static
        lost = {ordinal for gap in gone for ordinal in range(*gap)}
        row: list[int | tuple[Part, ...]] = list(range(min(static, before)))
        for item in cut.keep:
            if isinstance(item, tuple):
                row.append(item)
                continue
            for ordinal in range(*self.places.get(item, (0, 0))):
                if static <= ordinal < before:
                    row.append(_copy_message(session, ordinal, cut.unsent) if ordinal in lost else ordinal)
        summed = self.places.get(cut.summary, (0, 0))
        facts = dict(cut.facts)
        if summed[0] < summed[1] and summed[0] < len(session.messages):
            facts["summary"] = session.messages[summed[0]].start
        row += range(*summed) if cut.summary != id and summed[1] <= before else ()
        gaps = {(start, stop): body for start, stop, body in _find_gaps(row, Span(static, before), session, cut.unsent)}
        edits: list[Edit] = []
        for (start, stop), body in gaps.items():
            span = Span(session.messages[start].start, session.messages[stop - 1].stop)
            reported = facts if not body and span.stop <= facts.get("summary", -1) else cut.facts
            if gone.get((start, stop)) != body:  # else an earlier cut did it
                edits.append(Edit(cut.action, cut.because, span, tuple(body), facts=reported))
        if edits and "summary" in facts and not any("summary" in edit.facts for edit in edits):  # something stands in each gap
            edits[-1] = structs.replace(edits[-1], facts=facts)
        return edits, gaps


def _find_gaps(
    row: Sequence[int | tuple[Part, ...]], messages: Span, session: Session, unsent: Collection[str]
) -> list[tuple[int, int, list[Part]]]:
    """Find the ranges of messages (first and stop: `messages`) between those that stay, with what stands in for each.

    No placeholder is without a range: where nothing left, a neighbouring message is replaced as well.
    """
    static, before = messages
    found: list[tuple[int, int, list[Part]]] = []
    stays, parts = -1, list[Part]()
    for item in (*row, before):
        if isinstance(item, tuple):
            parts += item
        elif item <= stays or (item == stays + 1 < before and parts):
            parts += _copy_message(session, item, unsent)
        else:
            if item > stays + 1:
                found.append((stays + 1, item, parts))
            elif parts and stays >= static:
                start, _, ahead = found.pop() if found and found[-1][1] == stays else (stays, 0, [])
                found.append((start, before, [*ahead, *_copy_message(session, stays, unsent), *parts]))
            stays, parts = item, []
    return found


def _copy_message(session: Session, ordinal: int, unsent: Collection[str]) -> tuple[Part, ...]:
    """Copy a message as parts of a placeholder."""
    message = session.messages[ordinal]
    blocks = [block for block in session.blocks[message.start : message.stop] if block.kind not in unsent]
    return tuple(make_part(message.role, block.raw, "before" if n else "own", fence=not n) for n, block in enumerate(blocks))


def make_message_parts(role: str, content: str | Sequence[JSON], kind: str = "") -> tuple[Part, ...]:
    """Make the parts of a placeholder for a message.

    Args:
        role: Role of the message.
        content: A string, or blocks in Anthropic's shape.
        kind: What each of the parts is; "" = what its block says.
    """
    raws: Sequence[JSON] = [content] if isinstance(content, str) else content
    parts = (make_part(role, raw, "before" if n else "own", fence=not n) for n, raw in enumerate(raws))
    return tuple(structs.replace(part, kind=kind) if kind else part for part in parts)


def _add_message(builder: Builder, message: NodeMessage, at: float | None, id: str) -> None:
    fields = {"answered_at": message.at or at, "id": f"{builder.id}:{id}", **(message.request or {})}
    if not message.role:
        builder.add_unanswered(**{**fields, "answered_at": None})
        return
    about: dict[str, Any] = {"id": id, "origin": message.origin, "sent_at": message.at or at, "fence": message.fence}
    if message.files:
        about["origin"] = message.origin or "prompt"
        builder.add_message(message.role, message.files, kind="files", **about)
    draft = builder.add_message(message.role, message.content, kind=message.kind, **about)
    if message.request is not None:
        builder.set_request(draft, **fields)
