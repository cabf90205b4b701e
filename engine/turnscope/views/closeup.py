"""One place in a trace, read closely: a block before and after a decision, and what was asked.

Pure functions of a trace. Session text passes through as text; nothing is HTML or markdown.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Decision, Piece
from turnscope.planning.trace import Cursor, Trace
from turnscope.session.content import extract_block_text
from turnscope.session.model import Answer, Ask, Part, Placeholder, Session, Span
from turnscope.views.labels import label_block

UNLOGGED_CUT = "The tool cut about {:,} tokens of this conversation. Its log does not say which, so every block is scaled down."


@dataclass(frozen=True, slots=True)
class Closeup:
    """A block at a place. `before` and `after`: its text on either side of the decision, None where nothing stands for it.

    Tokens are the provider's, by the scale of the request; of a stand-in for several blocks, those of the whole stand-in. `at`
    is -1 for an insert. `decision` is the one at the place, where it touched the block; `touched_blocks`: blocks that it
    touched; `replaced_blocks`: blocks that the text after stands for; `note`: why tokens are fewer than they would be, "" =
    they are not.
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
    touched_blocks: int
    replaced_blocks: int
    note: str = ""


def get_cursor_after(trace: Trace, decision: Decision) -> Cursor:
    """The place right after a decision of the policy was made."""
    return Cursor(decision.request, decision.seq - trace.plans[decision.request].first + 1)


@dataclass(frozen=True, slots=True)
class RuleQuery:
    """A question that a rule asked while this request was planned. `offline`: answered offline, without a model."""

    ask: Ask
    answer: Answer
    offline: bool


def build_closeup(trace: Trace, cursor: Cursor, at: int | None = None, focus: int = -1) -> Closeup | None:
    """The block `at`, else the one that the decision at the cursor is about (`focus` where it says so), else the newest one.

    Of several that a decision is about it is the first that stood before it: a compaction spans what an earlier one took out.
    None where the request holds no block. IndexError where the trace has no such place.
    """
    frame = trace.get_frame(cursor)
    decision, cut = frame.decision, frame.plan.request.cut
    span = decision.edit.span if decision else None
    if at is None and decision and span and span.start == span.stop:
        return _build_insert(trace, cursor, decision)
    old = trace.get_frame(Cursor(cursor.request, cursor.step - 1)) if decision else frame
    chosen = at if at is not None else focus if focus >= 0 else _find_first_present(old.envelope, span) if span else cut - 1
    if not 0 <= chosen < len(trace.session.blocks):
        return None
    block = trace.session.blocks[chosen]
    terms = trace.fit(cursor.request)
    scale = terms.scale
    before, after = (found.envelope.at(chosen) if chosen < cut else None for found in (old, frame))
    touched = span is not None and span.start <= chosen < span.stop
    return Closeup(
        chosen,
        label_block(trace.session, block),
        block.turn,
        block.kind,
        round(trace.ledger.count_tokens(chosen, chosen + 1) * scale),
        _get_text(before, chosen, trace.session),
        _get_text(after, chosen, trace.session),
        round(_count_tokens(before, chosen, trace) * scale),
        round(_count_tokens(after, chosen, trace) * scale),
        decision if touched else None,
        span.stop - span.start if span and touched else 0,
        after.stop - after.start if after and after.body else 0,
        UNLOGGED_CUT.format(terms.cut) if terms.cut else "",
    )


def _find_first_present(before: Envelope, span: Span) -> int:
    """The first block of a span that stood there, as it is or by a stand-in; its very first where none did."""
    return next((max(piece.start, span.start) for piece in before.iter_pieces(span) if piece.body != ()), span.start)


def _build_insert(trace: Trace, cursor: Cursor, decision: Decision) -> Closeup:
    """What stood in a slot and what stands there now; it stands for no block."""
    old, new = (decision.splice.old, decision.splice.new) if decision.splice else ((), ())
    before, after = (
        next((p for p in pieces if p.slot == decision.edit.slot and p.start == p.stop), None) for pieces in (old, new)
    )
    scale = trace.fit(cursor.request).scale
    sizes = [round(sum(piece.counts) * scale) if piece else 0 for piece in (before, after)]
    texts = [render_body(piece.body, trace.session) if piece else None for piece in (before, after)]
    turn = trace.plans[cursor.request].request.turn
    return Closeup(-1, decision.edit.slot, turn, "insert", sizes[1], texts[0], texts[1], sizes[0], sizes[1], decision, 0, 0)


def _get_text(piece: Piece | None, at: int, session: Session) -> str | None:
    if piece is None or piece.body == ():
        return None
    return session.blocks[at].text if piece.body is None else render_body(piece.body, session)


def _count_tokens(piece: Piece | None, at: int, trace: Trace) -> int:
    if piece is None:
        return 0
    return trace.ledger.count_tokens(at, at + 1) if piece.body is None else sum(trace.ledger.count_placeholder(piece.body))


def render_body(body: Placeholder, session: Session) -> str:
    """The text of a stand-in, its parts one below the other."""
    return "\n\n".join(_render_part(part, session) for part in body or ())


def _render_part(part: Part, session: Session) -> str:
    if part.ref is not None:
        return session.blocks[part.ref].text
    return part.text or (part.raw if isinstance(part.raw, str) else extract_block_text(part.kind, part.raw) if part.raw else "")


def list_rule_queries(trace: Trace, request: int) -> tuple[RuleQuery, ...]:
    """What rules asked while a request was planned."""
    return tuple(RuleQuery(ask, answer, answer.source == "offline") for ask, answer in trace.plans[request].asks)
