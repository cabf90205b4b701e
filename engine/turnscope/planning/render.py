"""Provider order: where each block is in a request. The one place for rendering and cost.

Providers read tools, then the system prompt, then messages; in an envelope all three are at the address where they took effect.
Pure functions of an envelope or a plan; no prices here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from sys import maxsize
from typing import Any, NamedTuple

from turnscope.counting.ledger import Ledger
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.envelope.plan import Plan
from turnscope.session.model import JSON, SHAPE, Bucket, Counts, Part, Session, Span

MID_PROMPT = maxsize  # not the start of a block
_STATIC = (Bucket.SYSTEM, Bucket.TOOLS)


class Point(NamedTuple):
    """Where a message begins in an envelope.

    Its piece, its block (`MID_PROMPT` = inside a placeholder), and how many tools and system blocks come before it.
    """

    piece: int
    block: int
    tools: int
    system: int


_NOWHERE = Point(0, MID_PROMPT, 0, 0)


@dataclass(frozen=True, slots=True)
class Rendering:
    """An envelope as tools, system prompt and messages, with the place where each message begins.

    `shared`: how many of its first messages are the same objects as in the rendering it was made from.
    """

    session: Session
    pieces: tuple[Piece, ...]
    tools: tuple[JSON, ...]
    system: tuple[JSON, ...]
    messages: tuple[JSON, ...]
    points: tuple[Point, ...]
    shared: int = 0


@dataclass(slots=True)
class _Message:
    role: str
    content: list[JSON] = field(default_factory=list)
    ordinal: int = -1
    fence: bool = False
    extra: Mapping[str, JSON] = field(default_factory=dict)
    bare: bool = False  # its content is one string
    point: Point = _NOWHERE


@dataclass(slots=True)
class _Output:
    """What was rendered so far."""

    session: Session
    tools: list[JSON]
    system: list[JSON]
    messages: list[_Message] = field(default_factory=list)

    def begin(self, message: _Message, piece: int, block: int) -> _Message:
        message.point = Point(piece, block, len(self.tools), len(self.system))
        self.messages.append(message)
        return message


def build_body(
    plan: Plan, session: Session, *, as_recorded: bool = False, rendering: Rendering | None = None
) -> dict[str, JSON]:
    """Return the body that a plan is sent with: its model first. max_tokens is capped by the budget.

    Args:
        plan: The plan.
        session: The session.
        as_recorded: In the form in which the request was recorded, which fits only what was recorded (see `render`).
        rendering: The plan's envelope, if it is rendered already.
    """
    settings = {key: value for key, value in plan.request.settings.items() if as_recorded or key != SHAPE}
    content = _build_body(rendering, settings) if rendering else render(plan.after, session, settings)
    made: dict[str, JSON] = {"model": plan.model} | content | {"model": plan.model}
    for key in ("max_tokens", "max_completion_tokens"):
        if plan.budget.max_output and isinstance(made.get(key), int):
            made[key] = min(made[key], plan.budget.max_output)
    return made


def render(envelope: Envelope, session: Session, settings: Mapping[str, JSON] | None = None) -> dict[str, JSON]:
    """Return the request body in the form of Anthropic's Messages API.

    Args:
        envelope: The envelope.
        session: The session.
        settings: Further keys of the body (model, max_tokens, ...). Its entry `SHAPE` restores the recorded form, which does
            not change the content: `{"cache": [[path, value], ...], "bare": [place, ...], "lists": [place, ...], "extra":
            [[message, keys], ...], "set": [[path, value], ...]}`. `path` leads from the body to a block or value. `bare` names
            what is written as one string, `lists` what is written as a list (a place is a message's number, or "system").
            `extra` has further keys of a message.
    """
    return _build_body(render_envelope(envelope, session), settings or {})


def render_envelope(envelope: Envelope, session: Session, before: Rendering | None = None) -> Rendering:
    """Return an envelope as tools, system prompt and messages.

    Args:
        envelope: The envelope.
        session: The session.
        before: A rendering of the same conversation, which may have grown since. Its first messages are reused as far as both
            envelopes agree.
    """
    pieces = tuple(envelope.pieces)
    shared = _count_shared(before, pieces) if before and _continues(before.session, session) else 0
    read, first, block = _Output(session, [], []), 0, 0
    if before and shared:
        first, block, tools, system = before.points[shared]
        read = _Output(session, [*before.tools[:tools]], [*before.system[:system]])
    for i in range(first, len(pieces)):
        _render_piece(pieces[i], i, Span(block, pieces[i].stop), read)
    new = [*_merge_messages(read.messages)]
    messages, points = (*map(_write_message, new),), (*(message.point for message in new),)
    if before and shared:
        messages, points = before.messages[:shared] + messages, before.points[:shared] + points
    return Rendering(
        session, pieces, tools=tuple(read.tools), system=tuple(read.system), messages=messages, points=points, shared=shared
    )


def render_span(envelope: Envelope, session: Session, span: Span) -> Rendering:
    """Return the part of an envelope's rendering that `span` gives, if a message begins at either end of it.

    A message that begins inside a placeholder or behind an insert has its point at `MID_PROMPT`.

    Args:
        envelope: The envelope.
        session: The session.
        span: The span.
    """
    read, pieces, after_insert = _Output(session, [], []), tuple(envelope.iter_pieces_and_inserts(span)), False
    for i, piece in enumerate(pieces):
        known = len(read.messages)
        _render_piece(piece, i, span, read)
        for message in read.messages[known:] if after_insert else ():
            if message.point.block == piece.start:
                message.point = message.point._replace(block=MID_PROMPT)
        after_insert = piece.start == piece.stop
    new = [*_merge_messages(read.messages)]
    points = (*(message.point for message in new),)
    return Rendering(
        session,
        pieces,
        tools=tuple(read.tools),
        system=tuple(read.system),
        messages=(*map(_write_message, new),),
        points=points,
    )


def _render_piece(piece: Piece, number: int, span: Span, read: _Output) -> None:
    """Render one piece; of a verbatim one only the blocks in `span`."""
    if piece.body is None:
        _render_verbatim(number, Span(max(piece.start, span.start), min(piece.stop, span.stop)), read)
    else:
        for j, part in enumerate(piece.body):
            _render_part(part, piece, (number, MID_PROMPT if j else piece.start), read)


def _continues(before: Session, now: Session) -> bool:
    """Whether one session begins with the other: blocks are appended and never change."""
    many = len(before.blocks)
    return not many or (many <= len(now.blocks) and before.blocks[-1] is now.blocks[many - 1])


def _count_shared(before: Rendering, pieces: tuple[Piece, ...]) -> int:
    """How many messages of `before` are unchanged in other pieces. The last that begins in both may continue differently."""
    end, number = before.pieces[-1].stop if before.pieces else 0, 0
    for a, b in zip(before.pieces, pieces, strict=False):
        if a is not b and (a.start, a.stop, a.body) != (b.start, b.stop, b.body):
            break
        if a.body is not None and a.stop == end:  # the message that it joins may have come since
            break
        number += 1
    block = 0
    if number < min(len(before.pieces), len(pieces)):
        a, b = before.pieces[number], pieces[number]
        block = min(a.stop, b.stop) if a.body is None and b.body is None and a.start == b.start else 0
    message = bisect_left(before.points, (number, block)) - 1
    while message > 0 and before.points[message].block == MID_PROMPT:
        message -= 1
    return max(message, 0)


def _build_body(made: Rendering, settings: Mapping[str, JSON]) -> dict[str, JSON]:
    body: dict[str, JSON] = {key: value for key, value in settings.items() if key != SHAPE}
    tools, system = made.tools, made.system
    if tools:
        body["tools"] = [*tools]
    if system:
        body["system"] = system[0] if len(system) == 1 and isinstance(system[0], str) else [_to_block(raw) for raw in system]
    body["messages"] = [*made.messages]
    return _apply_shape(body, settings.get(SHAPE))


def _render_verbatim(number: int, span: Span, read: _Output) -> None:
    session, messages = read.session, read.messages
    message = messages[-1] if messages else _Message("")
    for block in session.blocks[span.start : span.stop]:
        bucket, raw = block.bucket, block.raw
        if bucket == Bucket.TOOLS:
            read.tools.append(raw)
        elif bucket == Bucket.SYSTEM and block.role == "system" and not session.messages[block.message].fence:
            read.system.append(raw)
        else:
            if message.ordinal != block.message:
                source = session.messages[block.message]
                message = _Message(block.role, [], ordinal=block.message, fence=source.fence, extra=source.extra)
                read.begin(message, number, block.at)
            if raw is not None:
                message.content.append(raw)
                message.bare = isinstance(raw, str) and len(message.content) == 1


def _render_part(part: Part, piece: Piece, place: tuple[int, int], read: _Output) -> None:
    """Render one part of a placeholder: `before` joins the previous message, `after` the message that follows the piece."""
    session, messages = read.session, read.messages
    raw = session.blocks[part.ref].raw if part.ref is not None else part.raw if part.raw is not None else part.text
    if part.place == "system":
        read.system.append(raw)
    elif part.place == "before" and messages and not part.fence:
        messages[-1].content.append(_to_block(raw))
        messages[-1].bare = False
    elif part.place == "after" and piece.stop < len(session.blocks) and session.blocks[piece.stop].role == part.role:
        ordinal = session.blocks[piece.stop].message
        if not messages or messages[-1].ordinal != ordinal:
            source = session.messages[ordinal]
            read.begin(_Message(part.role, [], ordinal=ordinal, fence=source.fence, extra=source.extra), *place)
        messages[-1].content.append(_to_block(raw))
    else:
        content = [] if part.kind == "empty" else [raw]
        read.begin(_Message(part.role, content, ordinal=-1, fence=part.fence, extra={}, bare=isinstance(raw, str)), *place)


def _merge_messages(messages: list[_Message]) -> Iterator[_Message]:
    """Neighbours of one role become one message, unless either is fenced."""
    pending: _Message | None = None
    for message in messages:
        if pending and pending.role == message.role and not pending.fence and not message.fence:
            content = [*map(_to_block, pending.content), *map(_to_block, message.content)]
            pending = _Message(
                pending.role,
                content,
                ordinal=pending.ordinal,
                fence=False,
                extra={**pending.extra, **message.extra},
                bare=False,
                point=pending.point,
            )
            continue
        if pending:
            yield pending
        pending = message
    if pending:
        yield pending


def _write_message(message: _Message) -> dict[str, JSON]:
    blocks = message.content
    content = (
        blocks[0] if message.bare and len(blocks) == 1 else [_to_block(raw) if isinstance(raw, str) else raw for raw in blocks]
    )
    return {**message.extra, "role": message.role, "content": content}


def _to_block(raw: JSON) -> JSON:
    return {"type": "text", "text": raw} if isinstance(raw, str) else raw


def _apply_shape(body: dict[str, JSON], shape: Any) -> dict[str, JSON]:
    if not isinstance(shape, Mapping):
        return body
    messages = body["messages"]
    for place in shape.get("bare", ()):
        holder, key = (body, "system") if place == "system" else (messages[place], "content")
        holder[key] = holder[key][0]["text"] if isinstance(holder[key], list) else holder[key]
    for place in shape.get("lists", ()):
        holder, key = (body, "system") if place == "system" else (messages[place], "content")
        holder[key] = [_to_block(holder[key])] if isinstance(holder[key], str) else holder[key]
    for number, extra in shape.get("extra", ()):
        messages[number] = {**extra, "role": messages[number]["role"], "content": messages[number]["content"]}
    for path, value in shape.get("cache", ()):
        body = _put(body, [*path, "cache_control"], value)
    for path, value in shape.get("set", ()):
        body = _put(body, path, value)
    return body


def _put(holder: JSON, path: list[Any], value: JSON) -> JSON:
    """A copy of `holder` with `value` at the end of `path`."""
    if not path:
        return value
    if isinstance(holder, list):
        return [_put(v, path[1:], value) if i == path[0] else v for i, v in enumerate(holder)]
    return {**holder, path[0]: _put(holder.get(path[0]), path[1:], value)}


def spread_over_buckets(envelope: Envelope, ledger: Ledger, tokens: float) -> Counts:
    """Return how the first `tokens` tokens of a request are spread over the buckets.

    Args:
        envelope: The envelope.
        ledger: Token counts of the session.
        tokens: Tokens in the ledger's units, in provider order.
    """
    counts = [0.0] * 5
    left = float(tokens)
    for bucket in (1, 0):  # tools, then system
        taken = min(left, envelope.counts[bucket])
        counts[bucket] += taken
        left -= taken
    for chunk in envelope.chunks:
        _, _, messages, results, thinking = chunk.counts
        size = messages + results + thinking
        if size > left:
            for piece in chunk.pieces:
                if left <= 0:
                    break
                left = _take(piece, ledger, left, counts)
            break
        left -= size
        counts[2] += messages
        counts[3] += results
        counts[4] += thinking
    a, b, c, d, e = counts
    return (round(a), round(b), round(c), round(d), round(e))


def _take(piece: Piece, ledger: Ledger, left: float, counts: list[float]) -> float:
    """Add the part of `piece` that fits into `left` tokens to `counts`; return what is left."""
    _, _, messages, results, thinking = piece.counts
    size = messages + results + thinking
    if size <= left:
        taken = piece.counts
    elif piece.body is not None:
        taken = tuple(round(count * left / size) for count in piece.counts)  # type: ignore[assignment]
    else:
        start, stop, base = piece.start, piece.stop, _count_messages(ledger, piece.start)
        apart = ledger.total[start] - base
        if apart == ledger.total[stop] - _count_messages(ledger, stop):  # it contains neither system prompt nor tools
            whole = bisect_right(ledger.total, left + base + apart, start, stop) - 1
        else:
            whole = bisect_right(range(start, stop), left + base, key=lambda at: _count_messages(ledger, at)) + start - 1
        taken = ledger.count_by_bucket(start, whole)
        part = left - (_count_messages(ledger, whole) - base)
        block = ledger.count_by_bucket(whole, whole + 1)
        for bucket in (2, 3, 4):
            counts[bucket] += part if block[bucket] else 0.0
    for bucket in (2, 3, 4):
        counts[bucket] += taken[bucket]
    return left - size


def _count_messages(ledger: Ledger, at: int) -> int:
    """Tokens of `blocks[:at]` that are in messages."""
    return ledger.total[at] - ledger.sums[0][at] - ledger.sums[1][at]
