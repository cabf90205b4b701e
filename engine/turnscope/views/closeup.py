"""One block at one step of a trace: its text and tokens before and after a decision, and the queries of rules.

Pure functions of a trace. Session text stays text; nothing is HTML or Markdown.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Decision, Piece
from turnscope.planning.trace import Cursor, Trace
from turnscope.session.content import extract_block_text
from turnscope.session.model import BUCKETS, Answer, Ask, Part, Placeholder, Session, Span
from turnscope.views.labels import label_block

UNLOGGED_CUT = "The tool cut about {:,} tokens of this conversation. Its log does not say which, so every block is scaled down."


@dataclass(frozen=True, slots=True)
class Closeup:
    """A block at a step. Tokens are the provider's, by the scale of the request.

    Attributes:
        at: its address; -1 for an insert.
        tokens: tokens of the block itself.
        before, after: its text before and after the decision; None = it is not in the prompt.
        before_tokens, after_tokens: tokens of these; of a placeholder for several blocks, those of the whole placeholder.
        decision: the decision at the step, if it touched the block.
        touched_blocks: how many blocks that decision touched.
        replaced_blocks: how many blocks the text after stands for.
        note: why the tokens are scaled down; "" = they are not.
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
    """The step right after a decision of the policy.

    Args:
        trace: the replay.
        decision: one of its decisions.
    """
    return Cursor(decision.request, decision.seq - trace.plans[decision.request].first + 1)


@dataclass(frozen=True, slots=True)
class RuleQuery:
    """A query of a rule while a request was planned. `offline`: it was answered without a model."""

    ask: Ask
    answer: Answer
    offline: bool


def build_closeup(trace: Trace, cursor: Cursor, at: int | None = None, focus: int = -1) -> Closeup | None:
    """Build the closeup of a block.

    Without `at` and `focus` it is the block that the decision at the cursor is about, else the newest block. Of several blocks
    it is the first one that was still in the prompt, because a compaction also spans what an earlier one removed. None where
    the request holds no such block.

    Args:
        trace: the replay.
        cursor: the step.
        at: address of the block; None = choose one.
        focus: address of the block that the decision is about; -1 = unknown.

    Raises:
        IndexError: the trace has no such step.
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
    block, terms = trace.session.blocks[chosen], trace.get_terms(cursor.request)
    scale = terms.get_scale(BUCKETS.index(block.bucket))
    before, after = (found.envelope.find_piece(chosen) if chosen < cut else None for found in (old, frame))
    touched = span is not None and span.start <= chosen < span.stop
    return Closeup(
        at=chosen,
        name=label_block(trace.session, block),
        turn=block.turn,
        kind=block.kind,
        tokens=round(trace.ledger.count_tokens(chosen, chosen + 1) * scale),
        before=_get_text(before, chosen, trace.session),
        after=_get_text(after, chosen, trace.session),
        before_tokens=round(_count_tokens(before, chosen, trace) * scale),
        after_tokens=round(_count_tokens(after, chosen, trace) * scale),
        decision=decision if touched else None,
        touched_blocks=span.stop - span.start if span and touched else 0,
        replaced_blocks=after.stop - after.start if after and after.body else 0,
        note=UNLOGGED_CUT.format(terms.cut) if terms.cut else "",
    )


def _find_first_present(before: Envelope, span: Span) -> int:
    """The first block of a span that was in the prompt, verbatim or by a placeholder; the first of all where none was."""
    return next((max(piece.start, span.start) for piece in before.iter_pieces(span) if piece.body != ()), span.start)


def _build_insert(trace: Trace, cursor: Cursor, decision: Decision) -> Closeup:
    """Build the closeup of a slot: its content before and after a decision."""
    old, new = (decision.splice.old, decision.splice.new) if decision.splice else ((), ())
    before, after = (
        next((p for p in pieces if p.slot == decision.edit.slot and p.start == p.stop), None) for pieces in (old, new)
    )
    terms = trace.get_terms(cursor.request)
    sizes = [terms.convert(piece.counts) if piece else 0 for piece in (before, after)]
    texts = [render_body(piece.body, trace.session) if piece else None for piece in (before, after)]
    turn = trace.plans[cursor.request].request.turn
    return Closeup(
        at=-1,
        name=decision.edit.slot,
        turn=turn,
        kind="insert",
        tokens=sizes[1],
        before=texts[0],
        after=texts[1],
        before_tokens=sizes[0],
        after_tokens=sizes[1],
        decision=decision,
        touched_blocks=0,
        replaced_blocks=0,
    )


def _get_text(piece: Piece | None, at: int, session: Session) -> str | None:
    if piece is None or piece.body == ():
        return None
    return session.blocks[at].text if piece.body is None else render_body(piece.body, session)


def _count_tokens(piece: Piece | None, at: int, trace: Trace) -> int:
    if piece is None:
        return 0
    return trace.ledger.count_tokens(at, at + 1) if piece.body is None else sum(trace.ledger.count_placeholder(piece.body))


def render_body(body: Placeholder, session: Session) -> str:
    """The text of a placeholder, its parts separated by blank lines.

    Args:
        body: the parts.
        session: the session, for parts that refer to a block.
    """
    return "\n\n".join(_render_part(part, session) for part in body or ())


def _render_part(part: Part, session: Session) -> str:
    if part.ref is not None:
        return session.blocks[part.ref].text
    return part.text or (part.raw if isinstance(part.raw, str) else extract_block_text(part.kind, part.raw) if part.raw else "")


def list_rule_queries(trace: Trace, request: int) -> tuple[RuleQuery, ...]:
    """List the queries of rules while a request was planned.

    Args:
        trace: the replay.
        request: number of the request.
    """
    return tuple(RuleQuery(ask, answer, answer.source == "offline") for ask, answer in trace.plans[request].asks)
