"""LobeHub's window: which messages form a group, and which of them are in the newest groups.

Pure functions over stored messages as plain mappings (`id`, `role`, `parentId`, `tools`, `metadata`, `agentId`), written
from what is documented of processors/HistoryTruncate.ts (lobehub 2.2.10).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

StoredMessage = Mapping[str, Any]
COUNT, EXTRA = 20, 1  # messages by default; the app passes in one more


class _Tree:
    """Messages by id, and the ids of the children of each, in order."""

    def __init__(self, messages: Iterable[StoredMessage]) -> None:
        self.by_id: dict[Any, StoredMessage] = {}
        self.below: dict[Any, list[Any]] = {}
        for message in messages:
            self.by_id[message.get("id")] = message
            if message.get("parentId"):
                self.below.setdefault(message["parentId"], []).append(message.get("id"))

    def find_neighbours(self, message: StoredMessage) -> list[Any]:
        """Return the ids of the messages that form a group with this one, its own first."""
        own, role, about = message.get("id"), message.get("role"), message.get("metadata") or {}
        if role == "assistant" and message.get("tools"):
            return list(self._iter_chain(message))
        children = self.below.get(own, [])
        if role == "tool" and about.get("agentCouncil") and children:
            called = (tool for id in children for tool in list_call_ids(self.by_id[id]))
            return [own, *children, *(id for id in called if id in self.by_id)]
        if about.get("compare") and children:
            return [own, *children]
        above = message.get("parentId")
        tasks = [id for id in self.below.get(above, []) if self.by_id[id].get("role") == "task"]
        if role == "task" and len(tasks) > 1:
            return [*([above] if above in self.by_id else []), *tasks]
        return [own]

    def iter_ties(self, message: StoredMessage) -> Iterator[Any]:
        """Yield what ties a message to others: its own id, those of its calls, and its parent's if that can form a group."""
        yield message.get("id")
        yield from list_call_ids(message)
        if message.get("tool_call_id"):
            yield message["tool_call_id"]
        above = self.by_id.get(message.get("parentId"), {})
        if message.get("role") == "task" or above.get("role") == "tool" or (above.get("metadata") or {}).get("compare"):
            yield message.get("parentId")

    def _iter_chain(self, message: StoredMessage) -> Iterator[Any]:
        """Yield an answer, its results, and the answers of the same agent that follow these."""
        known: set[Any] = set()
        todo = [message]
        while todo:
            answer = todo.pop()
            if answer.get("id") in known:
                continue
            known.add(answer.get("id"))
            yield answer.get("id")
            for id in list_call_ids(answer):
                if id in self.by_id and id not in known:
                    known.add(id)
                    yield id
                    follows = self.by_id.get(next(iter(self.below.get(id, ())), None))
                    if follows and follows.get("role") == "assistant" and follows.get("agentId") == message.get("agentId"):
                        todo.append(follows)


def list_call_ids(message: StoredMessage) -> list[Any]:
    """Return the ids of the calls of a stored message."""
    return [tool.get("id") for tool in message.get("tools") or ()]


def find_groups(messages: Sequence[StoredMessage]) -> list[list[int]]:
    """Return the groups of messages, as numbers, newest first. A message may be in two groups."""
    tree = _Tree(messages)
    numbers = {message.get("id"): n for n, message in enumerate(messages)}
    found: list[list[int]] = []
    of: dict[int, int] = {}
    for number, message in enumerate(messages):
        if number not in of:
            group = sorted({numbers[id] for id in tree.find_neighbours(message)} | {number})
            of |= dict.fromkeys(group, len(found))
            found.append(group)
    met = dict.fromkeys(of[number] for number in range(len(messages) - 1, -1, -1))
    return [found[number] for number in met]


def find_cuts(messages: Sequence[StoredMessage]) -> list[int]:
    """Return the numbers at which the messages can be cut, 0 included.

    No group, call, result or reaction reaches across such a cut, so each side can be read without the other.
    """
    tree = _Tree(messages)
    last: dict[Any, int] = {}
    prompt = len(messages)  # the newest user message so far, seen from the end
    reach = []
    for number in range(len(messages) - 1, -1, -1):
        message = messages[number]
        prompt = number if message.get("role") == "user" else prompt
        rated = message.get("role") == "assistant" and (message.get("metadata") or {}).get("reactions")
        far = [last.setdefault(name, number) for name in tree.iter_ties(message)]
        reach.append(max([number, *far, *([prompt] if rated and prompt < len(messages) else [])]))
    furthest = accumulate(reversed(reach), max)
    return [0, *(number + 1 for number, far in enumerate(furthest) if far == number and number + 1 < len(messages))]
