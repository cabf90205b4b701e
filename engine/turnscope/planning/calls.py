"""Tool calls and their results in the messages of a body, read in order: what a provider would reject of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MAPPING = (dict, Mapping)  # dict first: nearly all are dicts, and a check for Mapping takes ten times as long
_ID = re.compile(r"^[a-zA-Z0-9_-]+$")


@dataclass(slots=True)
class Calls:
    """What was read so far: ids of calls, and the calls that wait for a result, with their paths.

    Pairs are checked over runs of one role, because a provider merges neighbours of one role.
    """

    known: set[str] = field(default_factory=set)
    waiting: dict[str, str] = field(default_factory=dict)
    role: str = ""

    def copy(self) -> Calls:
        """Return a copy to continue with independently."""
        return Calls(self.known.copy(), self.waiting.copy(), self.role)

    def read(self, i: int, message: Any) -> Iterator[tuple[str, str]]:
        """Read message number `i`; yield the path of each mistake and what is wrong.

        Args:
            i: Number of the message.
            message: The message.
        """
        now = str(message.get("role") if isinstance(message, MAPPING) else None)
        if now == "assistant" and self.role == "user":
            yield from self.find_unanswered()
            self.waiting.clear()
        self.role = now if now in ("user", "assistant") else self.role
        for j, block in enumerate(list_blocks(message)):
            path, kind = f"messages.{i}.content.{j}", str(block.get("type"))
            if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
                yield from ((path, what) for what in _check_call(block, now, self.known))
                self.known.add(str(block.get("id")))
                if kind == "tool_use":
                    self.waiting[str(block.get("id"))] = path
            elif kind.endswith("tool_result"):
                plain = kind == "tool_result"
                yield from ((path, what) for what in _check_result(block, now, self.known, self.waiting, plain))
                self.waiting.pop(str(block.get("tool_use_id")), None)

    def find_unanswered(self) -> Iterator[tuple[str, str]]:
        """Yield the calls that wait for a result."""
        for name, path in self.waiting.items():
            yield path, f"the call {name} has no result in the next message"


def list_blocks(message: Any) -> list[Mapping[str, Any]]:
    """Return the content blocks of a message; [] where its content is no list."""
    content = message.get("content") if isinstance(message, MAPPING) else None
    return [block for block in content if isinstance(block, MAPPING)] if isinstance(content, list) else []


def _check_call(block: Mapping[str, Any], role: str, known: Collection[str]) -> Iterator[str]:
    name = str(block.get("id"))
    if role != "assistant":
        yield "a tool call is only allowed in an answer"
    if name in known:
        yield f"two calls have the id {name}"
    elif not _ID.match(name):
        yield f"{name!r} is no valid id of a call"
    if not isinstance(block.get("input"), MAPPING):
        yield "a call's input must be an object"


def _check_result(
    block: Mapping[str, Any], role: str, known: Collection[str], waiting: Collection[str], plain: bool
) -> Iterator[str]:
    """What is wrong with a result. `plain`: of the caller's own tool, so it must follow the call in the next user's message."""
    name = str(block.get("tool_use_id"))
    if plain and role != "user":
        yield "a tool result is only allowed in a user's message"
    if name not in known:
        yield f"no call before this result has the id {name}"
    elif plain and name not in waiting:
        yield f"the result of {name} does not directly follow its call, or the call already has a result"
