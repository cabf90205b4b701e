"""Which leaf of a tree of nodes its main path ends in, for formats that name no current node. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from turnscope.reading.nodes import Node


def find_newest_leaf(nodes: Sequence[Node]) -> str:
    """The leaf that was said last; the last one where no leaf has a time."""
    parents = {node.parent for node in nodes}
    leaves = [node for node in nodes if node.id not in parents]
    return max(enumerate(leaves), key=lambda row: (row[1].at or 0, row[0]))[1].id if leaves else ""


def follow_choices(nodes: Sequence[Node], choose: Callable[[str, Sequence[Node]], str]) -> str:
    """The leaf that a choice at each level leads to. `choose(parent, children)` gives the id of a child; "" is above roots."""
    known = {node.id for node in nodes}
    children: dict[str, list[Node]] = {}
    for node in nodes:
        children.setdefault(node.parent if node.parent in known and node.parent else "", []).append(node)
    at, seen = "", set[str]()
    while at in children and at not in seen:
        seen.add(at)
        at = choose(at, children[at])
    return at


def find_last_leaf(nodes: Sequence[Node]) -> str:
    """The leaf that the last root, its last child, and so on lead to."""
    return follow_choices(nodes, lambda _, below: below[-1].id)
