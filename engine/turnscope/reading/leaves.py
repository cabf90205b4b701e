"""Finds the leaf in which the main path of a tree ends, for formats that name no current node. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from turnscope.reading.nodes import Node


def find_newest_leaf(nodes: Sequence[Node]) -> str:
    """Find the leaf with the latest time; the last leaf where none has a time."""
    parents = {node.parent for node in nodes}
    leaves = [node for node in nodes if node.id not in parents]
    return max(enumerate(leaves), key=lambda row: (row[1].at or 0, row[0]))[1].id if leaves else ""


def follow_choices(nodes: Sequence[Node], choose: Callable[[str, Sequence[Node]], str]) -> str:
    """Follow a choice at each level, from the roots to a leaf.

    Args:
        nodes: The tree.
        choose: Gets the id of a parent ("" = above the roots) and its children; gives the id of a child.
    """
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
    """Follow the last root, its last child, and so on."""
    return follow_choices(nodes, lambda _, below: below[-1].id)
