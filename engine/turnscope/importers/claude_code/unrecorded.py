"""Bodies of requests that a log does not record, where it records others of the same conversation whole.

Between two compactions the tool only appends, so a request without a record holds what the next recorded one holds up to its
answer. Behind the last record it holds what the request before it held, that one's answer, and the lines since. Where a
compaction or a clearing lies between it and every record, its messages are those of the transcript. System prompt and tools are
those of the nearest record. All of this is inferred; the session says of which requests.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from turnscope.importers.claude_code.api_requests import list_blocks
from turnscope.reading.recorded_body import RecordedBody, RecordedMessage, parse_body
from turnscope.session.model import JSON, Message, Part, Request, Session

STATIC_ROLES = ("system", "tools")
NOTICE = "notice"  # kind of the tool's own messages, which are never sent


@dataclass(slots=True)
class Unrecorded:
    """The bodies of one path's requests. `bodies`: one for each request, None where the log records none."""

    path: Session
    bodies: list[RecordedBody | None]
    edited: set[int] = field(default_factory=set)  # requests at which something left or changed
    answers: dict[int, dict[Hashable, int]] = field(default_factory=dict)  # by request: where each answer stands in its body

    def __post_init__(self) -> None:
        self.edited = {seen.request for seen in self.path.observed if not self._is_aside(seen.edit)}

    def fill(self, otherwise: RecordedBody | None = None) -> list[RecordedBody]:
        """All bodies, in order.

        Args:
            otherwise: A body of another path, whose system prompt and tools are taken where this path has no record.
        """
        known = [n for n, body in enumerate(self.bodies) if body]
        filled: list[RecordedBody] = []
        for n, body in enumerate(self.bodies):
            after = next((k for k in known if k > n), None)
            near = max((k for k in known if k < n), default=after)
            static = otherwise if near is None else self.bodies[near]
            filled.append(body or self._infer(n, after, filled[-1] if filled else None, static))
        return filled

    def _infer(self, n: int, after: int | None, before: RecordedBody | None, static: RecordedBody | None) -> RecordedBody:
        request = self.path.requests[n]
        messages = self._find_beginning(n, after) if after is not None else None
        if messages is None and before is not None and n not in self.edited:
            last = self.path.requests[n - 1]
            since = (message for message in self.path.messages if last.cut <= message.start < request.cut)
            messages = [*before.messages, *merge_messages(since, self._get_own)]
        elif messages is None:
            shown = self._list_standing(n)
            held = (message for message in self.path.messages if message.start < request.cut)
            messages = merge_messages(held, lambda at: shown.get(at, self._get_own(at)))
        system, tools = (static.system, static.tools) if static else (None, None)
        return RecordedBody(messages, system, tools, dict(request.settings), [], [])

    def _find_beginning(self, n: int, after: int) -> list[RecordedMessage] | None:
        """The messages of a later body up to the answer of a request; None where something was edited since."""
        body = self.bodies[after]
        if body is None or any(n < k <= after for k in self.edited):
            return None
        if after not in self.answers:
            spoken = ((k, one) for k, one in enumerate(body.messages) if one.role == "assistant")
            self.answers[after] = {mark: k for k, one in spoken for mark in iter_marks(one)}
        wanted = iter_marks(read_message(self.path, find_answer(self.path.requests[n])))
        at = next((self.answers[after][mark] for mark in wanted if mark in self.answers[after]), 0)
        return body.messages[:at] if at else None

    def _list_standing(self, n: int) -> dict[int, list[JSON]]:
        """What stands in a request for the blocks that were edited up to it, by address."""
        standing: dict[int, list[JSON]] = {}
        for seen in self.path.observed:
            span = seen.edit.span
            if seen.request > n or span is None:
                continue
            for at in range(span.start, span.stop):
                standing[at] = self._get_own(at) if seen.edit.restore else []
            if not seen.edit.restore:
                standing[span.start] = [self._read_part(part) for part in seen.edit.body or ()]
        return standing

    def _get_own(self, at: int) -> list[JSON]:
        block = self.path.blocks[at]
        return [] if block.kind == NOTICE else [block.raw]

    def _read_part(self, part: Part) -> JSON:
        if part.ref is not None:
            return self.path.blocks[part.ref].raw
        return part.raw if part.raw is not None else part.text

    def _is_aside(self, edit: object) -> bool:
        """Whether an edit concerns what is never among the messages of a body."""
        span, facts = getattr(edit, "span", None), getattr(edit, "facts", {})
        return bool(facts.get("superseded")) or (span is not None and self.path.blocks[span.start].kind == NOTICE)


def find_answer(request: Request) -> Message:
    """The answer of a request as a message."""
    return Message(request.cut, request.stop, "assistant")


def read_message(path: Session, message: Message) -> RecordedMessage:
    """A message of a transcript as a body holds it.

    Args:
        path: The session.
        message: The message.
    """
    return _make_message(message.role, [block.raw for block in path.blocks[message.start : message.stop]])


def merge_messages(messages: Iterator[Message], show: Callable[[int], list[JSON]]) -> list[RecordedMessage]:
    """Messages of a transcript as a body holds them: neighbours of one role are one message.

    Args:
        messages: The messages.
        show: Gives what stands for a block, by its address.
    """
    merged: list[tuple[str, list[JSON]]] = []
    for message in messages:
        raws = [raw for at in range(message.start, message.stop) for raw in show(at)]
        if message.role in STATIC_ROLES or not raws:
            continue
        if merged and merged[-1][0] == message.role:
            listed = [part for raw in merged[-1][1] for part in list_parts(raw)]
            merged[-1] = message.role, [*listed, *(part for raw in raws for part in list_parts(raw))]
        else:
            merged.append((message.role, raws))
    return [_make_message(role, raws) for role, raws in merged]


def list_parts(raw: JSON) -> Sequence[JSON]:
    """A block as a list of blocks: a bare string is one text block."""
    return list_blocks(raw) if isinstance(raw, str) else [raw]


def iter_marks(message: RecordedMessage) -> Iterator[Hashable]:
    """What an answer is recognised by: the ids of its calls, or all that it says."""
    for raw in message.parts:
        if isinstance(raw, dict) and raw.get("type") == "tool_use" and isinstance(raw.get("id"), str):
            yield raw["id"]
    yield message.key


def _make_message(role: str, raws: list[JSON]) -> RecordedMessage:
    content = raws[0] if len(raws) == 1 and isinstance(raws[0], str) else raws
    return parse_body({"messages": [{"role": role, "content": list_blocks(content)}]}).messages[0]
