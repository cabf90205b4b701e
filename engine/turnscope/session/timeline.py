"""The one place where a message is appended to a timeline. It sets addresses and turns, and pairs calls with results.

A timeline may continue a prefix of another one. That prefix is shared, not copied. The module knows no request and no format.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate

from msgspec import structs

from turnscope.session.content import UNRECORDED, encode_json, extract_text, is_thought
from turnscope.session.model import JSON, Block, Bucket, Message, Session

STATIC_ROLES = ("system", "tools")  # roles that are no part of the conversation
_KINDS: dict[str, tuple[str, Bucket]] = {
    "text": ("text", Bucket.MESSAGES),
    "image": ("image", Bucket.MESSAGES),
    "image_url": ("image", Bucket.MESSAGES),
    "document": ("document", Bucket.MESSAGES),
    "thinking": ("thinking", Bucket.THINKING),
    "redacted_thinking": ("redacted_thinking", Bucket.THINKING),
    "tool_use": ("tool_use", Bucket.MESSAGES),
    "server_tool_use": ("tool_use", Bucket.MESSAGES),
    "mcp_tool_use": ("tool_use", Bucket.MESSAGES),
    "tool_result": ("tool_result", Bucket.TOOL_RESULTS),
    "compaction": ("compaction", Bucket.MESSAGES),
}
_EMPTY: Sequence[tuple[JSON, str]] = ((None, "empty"),)


class Timeline:
    """Blocks and messages while they are appended.

    `blocks` and `messages` are the timeline's own. They start at address `start` and ordinal `first`; before that comes the
    shared prefix of `base`. `relinked`: blocks of that prefix that have another pair here, by address.
    """

    def __init__(self) -> None:
        self.base: Timeline | None = None
        self.start = self.first = 0
        self.blocks: list[Block] = []
        self.messages: list[Message] = []
        self.relinked: dict[int, Block] = {}
        self.turn = -1  # turn of the newest message; -1 = no message yet
        self._spoken = -1  # ordinal of the first message of the conversation
        self.calls: dict[str, list[int]] = {}  # addresses of the calls of each id
        self._pairs: list[tuple[int, int]] = []  # (address of the result, address of the call), results rising
        self._low: list[int] = []  # per pair the lowest call from there on; computed when it is needed

    @classmethod
    def from_session(cls, session: Session) -> Timeline:
        """Make the timeline of a session, to continue it. Its values are taken as they are."""
        line = cls()
        line.blocks, line.messages = list(session.blocks), list(session.messages)
        for block in line.blocks:
            line._learn(block)
        spoken = (n for n, message in enumerate(line.messages) if message.role not in STATIC_ROLES)
        line._spoken = next(spoken, -1)
        line.turn = line.blocks[-1].turn if line._spoken >= 0 else -1
        return line

    def fork(self, messages: int) -> Timeline:
        """Make a timeline that shares the first `messages` messages of this path."""
        if self.base is not None and messages <= self.first:
            return self.base.fork(messages)
        line = Timeline()
        own = messages - self.first
        line.base, line.first = self, messages
        line.start = self.messages[own - 1].stop if own > 0 else self.start
        if 0 <= self._spoken < messages:
            line._spoken, line.turn = self._spoken, self.get_block(line.start - 1).turn
        for call in self._find_open_calls(line.start):
            line.relinked[call] = structs.replace(self.get_block(call), pair=-1)
        return line

    @property
    def end(self) -> int:
        """Address of the next block."""
        return self.start + len(self.blocks)

    def get_block(self, at: int) -> Block:
        """Get the block at an address of the whole path."""
        line = self
        while at < line.start:
            if at in line.relinked:
                return line.relinked[at]
            assert line.base is not None
            line = line.base
        return line.blocks[at - line.start]

    def append(
        self,
        role: str,
        parts: Sequence[tuple[JSON, str]],
        *,
        origin: str,
        id: str = "",
        sent_at: float | None = None,
        fence: bool = False,
        extra: Mapping[str, JSON] | None = None,
    ) -> Message:
        """Append one message. A prompt begins a turn.

        Args:
            role: user | assistant | system | tools.
            parts: Content blocks, each with its kind ("" = from its type). Without any, the message gets one empty block.
            origin: prompt | tool | meta | answer | summary | system.
            id: Id of the message.
            sent_at: Seconds since the Unix epoch.
            fence: Never merge the message with a neighbour of the same role.
            extra: Further keys of the message, sent as they are.
        """
        ordinal = self.first + len(self.messages)
        if role not in STATIC_ROLES and self._spoken < 0:
            self._spoken = ordinal
            self.turn += 1
        elif origin == "prompt":
            self.turn += 1
        turn, start = max(0, self.turn), self.start + len(self.blocks)
        for at, (raw, kind) in enumerate(parts or _EMPTY, start):
            self._add(make_block(at, ordinal, turn, role, kind, raw))
        message = Message(start, self.start + len(self.blocks), role, origin, id, sent_at, fence, extra or {})
        self.messages.append(message)
        return message

    def _add(self, block: Block) -> None:
        if block.kind == "tool_result" and isinstance(raw := block.raw, (dict, Mapping)):
            call = self._find_call(str(raw.get("tool_use_id")), block.at)
            if call is not None:
                before = self.get_block(call)
                linked, block = link_pair(before, block)
                if linked is not before:
                    if call >= self.start:
                        self.blocks[call - self.start] = linked
                    else:
                        self.relinked[call] = linked
        self.blocks.append(block)
        self._learn(block)

    def _learn(self, block: Block) -> None:
        """Remember where a call stands, or which call a result answers."""
        if block.kind == "tool_use" and isinstance(raw := block.raw, (dict, Mapping)):
            self.calls.setdefault(str(raw.get("id")), []).append(block.at)
        elif block.kind == "tool_result" and 0 <= block.pair < block.at:
            self._pairs.append((block.at, block.pair))

    def _find_call(self, id: str, before: int) -> int | None:
        """Find the newest call with that id before an address of the whole path."""
        line: Timeline | None = self
        while line is not None:
            places = line.calls.get(id, ())
            if found := bisect_left(places, before):
                return places[found - 1]
            before, line = min(before, line.start), line.base
        return None

    def _find_open_calls(self, stop: int) -> list[int]:
        """Find the calls before `stop` whose result stands at `stop` or later on this path."""
        if len(self._low) != len(self._pairs):
            self._low = list(accumulate((call for _, call in reversed(self._pairs)), min))[::-1]
        found: dict[int, None] = {}
        for n in range(bisect_left(self._pairs, (stop, -1)), len(self._pairs)):
            if self._low[n] >= stop:
                break
            call = self._pairs[n][1]
            if call < stop <= self.get_block(call).pair:
                found[call] = None
        return list(found)


def make_block(at: int, message: int, turn: int, role: str, kind: str, raw: JSON) -> Block:
    """Make the block at an address. Its type gives kind and bucket, its content the digest.

    A text of an answer that is one thought in tags becomes thinking. It is still sent as text.

    Args:
        at: Address of the block.
        message: Ordinal of its message.
        turn: Number of its turn.
        role: Role of its message; system and tools decide the bucket.
        kind: Kind of a text; "" = from its type.
        raw: The block as sent, a bare string, or None for no content.
    """
    name = ""
    bucket = Bucket.SYSTEM if role == "system" else Bucket.TOOLS if role == "tools" else Bucket.MESSAGES
    if isinstance(raw, str):
        kind, digest = (
            kind or ("system" if role == "system" else "text"),
            _compute_digest(f"s{raw}".encode("utf-8", "surrogatepass")),
        )
    elif isinstance(raw, (dict, Mapping)):
        declared = raw["type"] if isinstance(raw.get("type"), str) else ""
        if declared == UNRECORDED:
            kind, bucket = UNRECORDED, next((one for one in Bucket if one == raw.get("bucket")), bucket)
        elif bucket is Bucket.MESSAGES:
            found, bucket = _KINDS.get(declared, (declared or "unknown", Bucket.MESSAGES))
            if declared.endswith("_tool_result"):
                found, bucket = "tool_result", Bucket.TOOL_RESULTS
            kind = kind if kind and found == "text" else found
        else:
            kind = "tool" if bucket is Bucket.TOOLS else "system"
        name = raw["name"] if isinstance(raw.get("name"), str) else ""
        digest = _compute_digest(encode_json(raw))
    else:
        kind, digest = kind or "empty", _compute_digest(b"")
    if kind == "text" and role == "assistant" and is_thought(extract_text(raw)):
        kind, bucket = "thinking", Bucket.THINKING
    return Block(at, message, turn, role, bucket, kind, digest, -1, name, raw)


def _compute_digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def link_pair(call: Block, result: Block) -> tuple[Block, Block]:
    """Link a call and its result. A call keeps its first result.

    Args:
        call: The call.
        result: The result.
    """
    linked = structs.replace(call, pair=result.at) if call.pair < 0 else call
    return linked, structs.replace(result, pair=call.at, name=call.name)
