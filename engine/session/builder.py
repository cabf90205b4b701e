"""Turns what an importer reads into a `Session`: everything that every importer would otherwise get wrong.

Digests, addresses, message ordinals, buckets and kinds from block types, tool pairs, request cuts, turn numbers, fragments of
one streamed message merged. Holds no knowledge of any file format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from msgspec import structs

from engine.session.content import dumps
from engine.session.model import JSON, Block, Bucket, Edit, Message, Note, Observed, Part, Request, Session, Span, Usage

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
STUB_CHARACTERS = 10  # characters of answer per recorded output token beyond which the record is a start-of-stream value
STUB_FLOOR = 200  # shorter answers are never doubted


@dataclass(slots=True)
class Draft:
    """A message being collected. `at` is unknown until `build`."""

    role: str
    origin: str
    parts: list[tuple[JSON, str]]  # raw block (or bare string) and the kind it was declared as ("" = from its type)
    id: str = ""
    sent_at: float | None = None
    fence: bool = False
    extra: Mapping[str, JSON] = field(default_factory=dict)
    request: Request | None = None
    start: int = -1
    stop: int = -1


class Builder:
    """Collects messages in order, then builds the session."""

    def __init__(self, id: str, source: str, title: str = "", **about: JSON) -> None:
        self.id, self.source, self.title = id, source, title
        self.about: dict[str, JSON] = {key: value for key, value in about.items() if value}
        self.drafts: list[Draft] = []
        self.notes: list[Note] = []
        self.window: int | None = None
        self._by_id: dict[str, Draft] = {}
        self._unanswered: dict[int, list[Request]] = {}

    def message(
        self,
        role: str,
        content: str | Sequence[JSON],
        *,
        id: str = "",
        origin: str = "",
        kind: str = "",
        sent_at: float | None = None,
        fence: bool = False,
        extra: Mapping[str, JSON] | None = None,
    ) -> Draft:
        """Add one message. A message whose `id` was seen before is a further fragment of the same message.

        `content` is a string or a list of blocks in Anthropic's shape; `kind` overrides the kind of its text blocks
        (summary, reminder, ...). `origin`: prompt | tool | meta | answer | summary; found out where it is not given.
        """
        parts = [(content, kind)] if isinstance(content, str) else [(part, kind) for part in content]
        draft = self._by_id.get(id) if id else None
        if draft is None:
            draft = Draft(role, origin or _origin(role, parts), [], id, sent_at, fence, extra or {})
            self.drafts.append(draft)
            if id:
                self._by_id[id] = draft
        draft.parts.extend(parts)
        return draft

    def request(self, answer: Draft, **fields: Any) -> None:
        """Say that `answer` answered a request. Called again for the same answer, the last call wins."""
        answer.request = Request(n=0, turn=0, cut=0, stop=0, **fields)

    def unanswered(self, **fields: Any) -> None:
        """Say that a request was sent here whose answer the file does not hold."""
        self._unanswered.setdefault(len(self.drafts), []).append(Request(n=0, turn=0, cut=0, stop=0, **fields))

    def note(self, severity: Any, line: int, what: str) -> None:
        """Record something a person should know about the file."""
        self.notes.append(Note(severity, line, what))

    def build(self, observe: Iterable[Any] = ()) -> Session:
        """The session. `observe`: callables `(session) -> Iterable[Observed]`, run once addresses are known."""
        blocks: list[Block] = []
        messages: list[Message] = []
        requests: list[Request] = []
        turn = -1
        for ordinal, draft in enumerate(self.drafts):
            self._open(requests, ordinal, turn, len(blocks))
            if draft.origin == "prompt" or (turn < 0 and draft.role not in ("system", "tools")):
                turn += 1
            draft.start = len(blocks)
            for raw, kind in draft.parts or [(None, "empty")]:
                blocks.append(block_of(len(blocks), ordinal, max(0, turn), draft.role, kind, raw))
            draft.stop = len(blocks)
            messages.append(
                Message(draft.start, draft.stop, draft.role, draft.origin, draft.id, draft.sent_at, draft.fence, draft.extra)
            )
            if draft.request is not None:
                requests.append(_request(draft, len(requests), turn, blocks))
        self._open(requests, len(self.drafts), turn, len(blocks))
        session = Session(
            self.id,
            self.title,
            self.source,
            _paired(blocks),
            tuple(messages),
            tuple(requests),
            (),
            tuple(self.notes),
            self.about,
            self.window,
        )
        observed = sorted((o for look in observe for o in look(session)), key=lambda o: o.request)
        return structs.replace(session, observed=tuple(observed)) if observed else session

    def _open(self, requests: list[Request], ordinal: int, turn: int, cut: int) -> None:
        for request in self._unanswered.get(ordinal, ()):
            requests.append(structs.replace(request, n=len(requests), turn=max(0, turn), cut=cut, stop=cut))


def drop(request: int, start: int, stop: int, because: str, action: Any = "drop", **facts: JSON) -> Observed:
    """The original left blocks `[start, stop)` out from request `request` on."""
    return Observed(request, Edit(action, because, Span(start, stop), (), facts=facts))


def stand_in(role: str, raw: JSON, place: Any = "own", fence: bool = False) -> Part:
    """A part that stands in for something: `raw` is a block in Anthropic's shape, a bare string, or None for no content."""
    block = block_of(0, 0, 0, role, "", raw)
    return Part(role, block.kind, block.text, raw, place=place, fence=fence)


def usage(raw: Any) -> Usage | None:
    """Anthropic's usage object as a `Usage`; None where it is none. Unusable numbers count as 0."""
    if not isinstance(raw, Mapping):
        return None
    hours = raw.get("cache_creation")
    passes = raw.get("iterations")
    extra = (
        [usage(p) for p in passes if isinstance(p, Mapping) and p.get("type") not in (None, "message")]
        if isinstance(passes, list)
        else []
    )
    return Usage(
        _int(raw.get("input_tokens")),
        _int(raw.get("cache_creation_input_tokens")),
        _int(raw.get("cache_read_input_tokens")),
        _int(raw.get("output_tokens")),
        _int(hours.get("ephemeral_1h_input_tokens")) if isinstance(hours, Mapping) else 0,
        tuple(u for u in extra if u),
    )


def _int(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else 0


def _origin(role: str, parts: Sequence[tuple[JSON, str]]) -> str:
    if role != "user":
        return "answer" if role == "assistant" else "system"
    results = [isinstance(raw, Mapping) and raw.get("type") == "tool_result" for raw, _ in parts]
    return "tool" if results and all(results) else "prompt"


def block_of(at: int, message: int, turn: int, role: str, kind: str, raw: JSON) -> Block:
    """The block at an address: kind and bucket from its type (or from a role system or tools), digest from its content."""
    name = ""
    bucket = Bucket.SYSTEM if role == "system" else Bucket.TOOLS if role == "tools" else Bucket.MESSAGES
    if isinstance(raw, str):
        kind, digest = kind or ("system" if role == "system" else "text"), _digest("s" + raw)
    elif isinstance(raw, Mapping):
        declared = raw["type"] if isinstance(raw.get("type"), str) else ""
        if bucket is Bucket.MESSAGES:
            found, bucket = _KINDS.get(declared, (declared or "unknown", Bucket.MESSAGES))
            if declared.endswith("_tool_result"):
                found, bucket = "tool_result", Bucket.TOOL_RESULTS
            kind = kind if kind and found == "text" else found
        else:
            kind = "tool" if bucket is Bucket.TOOLS else "system"
        name = raw["name"] if isinstance(raw.get("name"), str) else ""
        digest = _digest(dumps(raw))
    else:
        kind, digest = kind or "empty", _digest("")
    return Block(at, message, turn, role, bucket, kind, digest, -1, name, raw)


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _paired(blocks: list[Block]) -> tuple[Block, ...]:
    """Link each tool call to its result and back; results learn their tool's name."""
    calls: dict[str, int] = {}
    for at, block in enumerate(blocks):
        if block.kind == "tool_use" and isinstance(block.raw, Mapping):
            calls[str(block.raw.get("id"))] = at
        elif block.kind == "tool_result" and isinstance(block.raw, Mapping):
            call = calls.get(str(block.raw.get("tool_use_id")))
            if call is not None:
                blocks[call], blocks[at] = paired_with(blocks[call], block)
    return tuple(blocks)


def paired_with(call: Block, result: Block) -> tuple[Block, Block]:
    """A call and its result, linked; a call keeps its first result."""
    linked = structs.replace(call, pair=result.at) if call.pair < 0 else call
    return linked, structs.replace(result, pair=call.at, name=call.name)


def _request(draft: Draft, n: int, turn: int, blocks: Sequence[Block]) -> Request:
    assert draft.request is not None
    use = draft.request.usage
    characters = sum(len(block.text) for block in blocks[draft.start : draft.stop])
    stub = use is not None and characters > STUB_FLOOR and use.output_tokens * STUB_CHARACTERS < characters
    return structs.replace(draft.request, n=n, turn=turn, cut=draft.start, stop=draft.stop, output_stub=stub)
