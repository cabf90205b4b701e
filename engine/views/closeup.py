"""One place in a trace, read closely: a block before and after a decision, why it is here or not, the body that was sent.

Pure functions of a trace. Session text passes through as text; nothing is HTML or markdown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from engine.envelope.pieces import Decision, Piece
from engine.planning.render import render
from engine.planning.trace import Cursor, Trace
from engine.reading.body import common
from engine.session.content import block_text
from engine.session.model import JSON, Answer, Ask, Body, Part, Session
from engine.views.labels import label

LINE = 400  # characters of one line of a difference
_ROLES = {"system": "system prompt", "tools": "tools"}


@dataclass(frozen=True, slots=True)
class Closeup:
    """A block at a place. `before` and `after`: its text on either side of the decision, None where nothing stands for it.

    Tokens are the provider's, by the scale of the request; of a stand-in for several blocks, those of the whole stand-in.
    `at` is -1 for an insert. `decision` is the one at the place, where it touched the block; `many`: blocks that it touched;
    `stands_for`: blocks that the text after stands for.
    """

    at: int
    name: str
    turn: int
    kind: str
    tokens: int
    before: str | None
    after: str | None
    before_tokens: int
    after_tokens: int
    decision: Decision | None
    many: int
    stands_for: int


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether a block is part of a request, and why. `decision` is the one that put it so, None where nobody touched it."""

    here: Literal["here", "replaced", "absent", "unseen", "later"]
    why: str
    decision: Decision | None


def place(trace: Trace, decision: Decision) -> Cursor:
    """The place right after a decision was made."""
    return Cursor(decision.request, decision.seq - trace.plans[decision.request].first + 1)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that a rule asked while this request was planned. `standin`: answered offline, without a model."""

    ask: Ask
    answer: Answer
    standin: bool


def closeup(trace: Trace, cursor: Cursor, at: int | None = None, focus: int = -1) -> Closeup | None:
    """The block `at`, else the one that the decision at the cursor is about (`focus` where it says so), else the newest one.

    None where the request holds no block. IndexError where the trace has no such place.
    """
    frame = trace.frame(cursor)
    plan, decision, cut = frame.plan, frame.decision, frame.plan.request.cut
    span = decision.edit.span if decision else None
    if at is None and decision and span and span.start == span.stop:
        return _insert(trace, cursor, decision)
    chosen = at if at is not None else focus if focus >= 0 else span.start if span else cut - 1
    if not 0 <= chosen < len(trace.session.blocks):
        return None
    block = trace.session.blocks[chosen]
    scale = plan.calibration.scale
    old = trace.frame(Cursor(cursor.request, cursor.step - 1)) if decision else frame
    before, after = (found.envelope.at(chosen) if chosen < cut else None for found in (old, frame))
    touched = span is not None and span.start <= chosen < span.stop
    return Closeup(
        chosen,
        label(trace.session, block),
        block.turn,
        block.kind,
        round(trace.ledger.tokens(chosen, chosen + 1) * scale),
        _text(before, chosen, trace.session),
        _text(after, chosen, trace.session),
        round(_tokens(before, chosen, trace) * scale),
        round(_tokens(after, chosen, trace) * scale),
        decision if touched else None,
        span.stop - span.start if span and touched else 0,
        after.stop - after.start if after and after.body else 0,
    )


def _insert(trace: Trace, cursor: Cursor, decision: Decision) -> Closeup:
    """What stood in a slot and what stands there now; it stands for no block."""
    old, new = decision.splice[1:] if decision.splice else ((), ())
    before, after = (
        next((p for p in pieces if p.slot == decision.edit.slot and p.start == p.stop), None) for pieces in (old, new)
    )
    scale = trace.plans[cursor.request].calibration.scale
    sizes = [round(sum(piece.counts) * scale) if piece else 0 for piece in (before, after)]
    texts = [read(piece.body, trace.session) if piece else None for piece in (before, after)]
    turn = trace.plans[cursor.request].request.turn
    return Closeup(-1, decision.edit.slot, turn, "insert", sizes[1], texts[0], texts[1], sizes[0], sizes[1], decision, 0, 0)


def _text(piece: Piece | None, at: int, session: Session) -> str | None:
    if piece is None or piece.body == ():
        return None
    return session.blocks[at].text if piece.body is None else read(piece.body, session)


def _tokens(piece: Piece | None, at: int, trace: Trace) -> int:
    if piece is None:
        return 0
    return trace.ledger.tokens(at, at + 1) if piece.body is None else sum(trace.ledger.body(piece.body))


def read(body: Body, session: Session) -> str:
    """The text of a stand-in, its parts one below the other."""
    return "\n\n".join(_read(part, session) for part in body or ())


def _read(part: Part, session: Session) -> str:
    if part.ref is not None:
        return session.blocks[part.ref].text
    return part.text or (part.raw if isinstance(part.raw, str) else block_text(part.kind, part.raw) if part.raw else "")


def standing(trace: Trace, at: int, request: int) -> Standing:
    """Why block `at` is in a request, or is not. IndexError where session or trace has no such place."""
    plan = trace.plans[request]
    if at >= plan.request.cut:
        first = next((other.request.n for other in trace.plans[request:] if other.request.cut > at), None)
        then = f"; request {first} is the first that it can be part of" if first is not None else ""
        return Standing("later", f"It was said after request {request} had been sent{then}.", None)
    piece, why = plan.after.at(at), trace.why(at, request)
    decision = trace.decision(piece.by) if piece.by >= 0 else None
    if piece.body is None:
        unseen = plan.seen.at(at).body is not None
        return Standing("unseen" if unseen else "here", why, decision)
    return Standing("replaced" if piece.body else "absent", why, decision)


def asked(trace: Trace, request: int) -> tuple[Asked, ...]:
    """What rules asked while a request was planned."""
    return tuple(Asked(ask, answer, answer.source == "offline") for ask, answer in trace.plans[request].asks)


def exact(trace: Trace, request: int) -> str:
    """The body of a request as JSON text, in the shape of Anthropic's Messages API; what the log does not hold is marked."""
    return json.dumps(_body(trace, request), ensure_ascii=False, indent=2, default=str)


def _body(trace: Trace, request: int) -> dict[str, JSON]:
    plan = trace.plans[request]
    body = render(plan.after, trace.session, {**plan.request.settings, "model": plan.model})
    prefix = plan.calibration.prefix
    if prefix > 0:
        unknown = f"<<not in the log; system prompt and tools are about {prefix:,} tokens together>>"
        body |= {key: unknown for key in ("system", "tools") if key not in body}
    return body


def difference(trace: Trace, request: int) -> str:
    """What differs between the bodies of a request and of the one before it: a line per message, `-` gone, `+` new."""
    if not request:
        return "This is the first request: all of it is new."
    old, new = (list(_lines(_body(trace, n))) for n in (request - 1, request))
    lines: list[str] = []
    done = (0, 0)
    for a, b in [*common([key for key, _ in old], [key for key, _ in new]), (len(old), len(new))]:
        if (a, b) != done:
            lines += _told(old, new, done, (a, b))
        done = (a + 1, b + 1)
    if not lines:
        return f"The same body as request {request - 1}."
    return "\n".join(lines)


def _told(
    old: Sequence[tuple[bytes, str]], new: Sequence[tuple[bytes, str]], start: tuple[int, int], stop: tuple[int, int]
) -> list[str]:
    """One stretch of a difference, with the number of the messages that stand alike before it."""
    gone, come = old[start[0] : stop[0]], new[start[1] : stop[1]]
    where = f"@@ part {start[1] + 1:,} of {len(new):,} @@"
    return [where, *(f"- {_clipped(line)}" for _, line in gone), *(f"+ {_clipped(line)}" for _, line in come)]


def _lines(body: dict[str, JSON]) -> Iterator[tuple[bytes, str]]:
    """A body in parts that can be compared: each key of its own, each tool, each block of each message."""
    for key, value in body.items():
        if key == "messages":
            for message in value:
                content = message["content"]
                for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
                    yield _line(message["role"], block)
        elif isinstance(value, list):
            for item in value:
                yield _line(_ROLES.get(key, key), item)
        else:
            yield _line(_ROLES.get(key, key), value)


def _line(name: str, value: JSON) -> tuple[bytes, str]:
    text = f"{name}: {json.dumps(value, ensure_ascii=False, default=str)}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest(), text


def _clipped(line: str) -> str:
    rest = len(line) - LINE
    return line if rest <= 0 else f"{line[:LINE]} … {rest:,} more characters"
