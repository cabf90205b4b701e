"""What a person does to a chat's summaries by hand: condense now, edit a summary, undo it, rate it.

A wish is an edit for one request, recorded under the request's number. The rule `follow_wishes` makes it at that request, live
and in every replay, and it holds from then on. Nothing here asks a model or stores anything: see `live.chat`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from hashlib import blake2b

from msgspec import structs

from turnscope.envelope.condensing import (
    HEAD,
    SUMMARY,
    SummaryOptions,
    condense,
    count_source_tokens,
    estimate_smallest_summary,
    find_boundary,
    find_next_present,
    find_summary,
    find_turn_start,
    get_summary,
    strip_summary_frame,
)
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Decision, Piece
from turnscope.envelope.rule import Ctx
from turnscope.errors import TurnscopeError
from turnscope.session.facts import add_facts, make_storable
from turnscope.session.index import count_before
from turnscope.session.model import Action, Answer, Ask, Edit, RatingFact, Session, Span, Wish, WishFact

RULE = "follow_wishes"
TRIAL = "(the summary)"
CAP = 1_000  # tokens of a summary at most; half of its source where that is less


def add_wishes(session: Session, request: int, edits: Iterable[Edit]) -> WishFact:
    """Return the fact that these edits are wished for a request, in addition to earlier wishes for it.

    Args:
        session: The session.
        request: Number of the request.
        edits: The edits.
    """
    blocks = len(session.blocks)
    digest = _digest_blocks(session, blocks)
    new = (Wish(make_storable(edit), session.id, blocks, digest) for edit in edits)
    return WishFact(request, (*session.recorded.wishes.get(request, ()), *new))


def find_wishes(session: Session, request: int) -> Iterator[Edit]:
    """Yield the edits wished for a request. A branch follows only wishes on the part that it shares with its parent.

    Args:
        session: The session.
        request: Number of the request.
    """
    for wish in session.recorded.wishes.get(request, ()):
        own = wish.session == session.id or wish.blocks <= session.at
        if own and wish.blocks_digest == _digest_blocks(session, wish.blocks):
            yield wish.edit


def find_wishes_until(session: Session, request: int) -> Iterator[Edit]:
    """Yield the edits wished for a request and for all before it, in their order.

    Args:
        session: The session.
        request: Number of the request.
    """
    for number in sorted(number for number in session.recorded.wishes if number <= request):
        yield from find_wishes(session, number)


def find_manual_spans(envelope: Envelope, ctx: Ctx) -> list[Span]:
    """Return what a person condensed or dropped by hand, in order, for rules that would otherwise restore it.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
    """
    session = ctx.session
    if not session.recorded.wishes:
        return []
    wanted = find_wishes_until(session, ctx.request.n)
    out = [edit.span for edit in wanted if edit.action == "drop" and edit.span]
    return [
        Span(piece.start, piece.stop)
        for piece in envelope.pieces
        if piece.start < piece.stop
        and (get_summary(piece) or (piece.body == () and any(_is_within(piece, span) for span in out)))
    ]


def _is_within(piece: Piece, span: Span) -> bool:
    return span.start <= piece.start and piece.stop <= span.stop


def make_rating(text: str, rating: str) -> RatingFact:
    """Return the fact that a person rates a summary. An edited text needs a new rating.

    Args:
        text: The summary's text.
        rating: `up`, `down`, or "" for none.
    """
    return RatingFact(hash_text(text), rating)


def get_rating(session: Session, text: str) -> str:
    """Return the rating of a summary's text: `up`, `down`, or "" for none.

    Args:
        session: The session.
        text: The summary's text.
    """
    return session.recorded.ratings.get(hash_text(text), "")


def condense_by_hand(envelope: Envelope, ctx: Ctx, keep_turns: int) -> Generator[Ask, Answer, tuple[Edit, ...]]:
    """Ask for a summary of everything before the newest turns.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        keep_turns: Number of newest turns to keep.

    Returns:
        The edits that put the summary in place.

    Raises:
        TurnscopeError: There is nothing to condense, or no summary came.
    """
    begin = next(iter(ctx.index.messages), 0)
    want = find_turn_start(ctx, max(1, keep_turns))
    old = find_summary(envelope, begin)
    fresh = find_next_present(envelope, ctx, old.stop if old else begin)
    stop = find_boundary(envelope, ctx, want, fresh, later=False) if fresh < want else None
    if stop is None:
        what = f"there is nothing to condense before the newest {max(1, keep_turns)} turns"
        raise TurnscopeError(what, hint="Continue for a few turns first.")
    how = SummaryOptions("summarise", cap=max(1, min(CAP, ctx.count_tokens(fresh, stop) // 2)), allow_larger=False)
    starts = ctx.index.messages
    need = estimate_smallest_summary(ctx, count_before(starts, stop) - count_before(starts, fresh), how)
    if need >= (source := count_source_tokens(envelope, ctx, Span(begin, stop), how)):
        what = f"the part before the newest {max(1, keep_turns)} turns has only {source:,} tokens: a summary would save nothing"
        raise TurnscopeError(what, hint="No model was called, nothing was paid. Continue for a few turns first.")
    facts = {"by_hand": True, "kept_turns": keep_turns, "recursive": bool(old)}
    making = condense(envelope, ctx, Span(begin, stop), how, "by hand", facts)
    made: list[Edit] = []
    wish = next(making)
    try:
        while True:
            if isinstance(wish, Ask):
                answer = yield wish
                wish = making.send(answer)
                continue
            if wish.span is None:
                raise TurnscopeError(wish.because, hint="Nothing was changed. Try again, or with another model.")
            made.append(wish)
            envelope = envelope.replace(wish, 0, ctx.ledger)[0]
            wish = making.send(envelope)
    except StopIteration:
        return tuple(made)


def preview_summary(envelope: Envelope, ctx: Ctx, keep_turns: int) -> Session:
    """Return the session as if the summary were there already, with a dummy text. So the effect of a policy is known for free.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        keep_turns: Number of newest turns to keep.

    Raises:
        TurnscopeError: As `condense_by_hand`.
    """
    asking = condense_by_hand(envelope, ctx, keep_turns)
    next(asking)
    try:
        asking.send(Answer(TRIAL))
    except StopIteration as made:
        recorded = add_facts(ctx.session.recorded, add_wishes(ctx.session, ctx.request.n, made.value))
        return structs.replace(ctx.session, recorded=recorded)
    raise TurnscopeError("a summary asks for more than one text", hint="Nothing was changed.")


def check_summary_stays(envelope: Envelope) -> None:
    """Raise TurnscopeError if the summary of `preview_summary` is not in the next request: paying for it would be pointless."""
    if not any(get_editable_text(piece) == TRIAL for piece in find_summaries(envelope)):
        what = "under this policy the next request would not contain the summary, so none was requested"
        raise TurnscopeError(what, hint="Choose another policy first, or let this one cut by itself.")


def find_summaries(envelope: Envelope) -> tuple[Piece, ...]:
    """Return the summaries in an envelope, in order of address."""
    return tuple(piece for piece in envelope.pieces if get_summary(piece))


def find_summary_of_decision(envelope: Envelope, by: int) -> Piece:
    """Return the summary that a decision made. TurnscopeError where it is gone.

    Args:
        envelope: The request as it stands.
        by: Number of the decision.
    """
    piece = next((piece for piece in find_summaries(envelope) if piece.by == by), None)
    if piece is None:
        raise TurnscopeError("this summary is no longer in the request", hint="See the newest summaries in the decision log.")
    return piece


def get_editable_text(piece: Piece) -> str:
    """Return a summary's text as a person edits it: without the line that says what it is."""
    return strip_summary_frame(get_summary(piece))


def edit_summary(piece: Piece, text: str) -> Edit:
    """Return the edit that gives a summary another text. TurnscopeError where the text is empty.

    Args:
        piece: The summary.
        text: The new text.
    """
    if not text.strip():
        raise TurnscopeError("the summary is empty", hint="Write a text, or undo the summary.")
    head = HEAD.match(get_summary(piece).partition("\n")[0])
    new_text = f"{SUMMARY.format(head[1])}\n{text.strip()}" if head else text.strip()
    body = tuple(structs.replace(part, text=new_text) if part.kind == "summary" else part for part in piece.body or ())
    because, facts = "by hand: the summary was edited", {"by_hand": True, "edited": True}
    return Edit("condense", because, Span(piece.start, piece.stop), body, slot=piece.slot, facts=facts)


def undo_summary(envelope: Envelope, piece: Piece, decisions: Sequence[Decision]) -> tuple[Edit, ...]:
    """Return the edits that restore what was there before a summary.

    Args:
        envelope: The request as it stands.
        piece: The summary.
        decisions: Known decisions, in order. Where the summary's own is not among them, the messages themselves are restored.
    """
    at = next((i for i, decision in enumerate(decisions) if decision.seq == piece.by and decision.splice), None)
    if piece.start == piece.stop:
        return (Edit("drop", "by hand: the summary was undone", Span(piece.start, piece.stop), (), slot=piece.slot),)
    if at is None:
        return (_build_restore(Span(piece.start, piece.stop)),)
    made: list[Edit] = []
    for decision in (decisions[at], *_find_accompanying_drops(decisions, at)):
        span = decision.edit.span
        if span is None or decision.splice is None or not _is_present(envelope, decision):
            continue
        made.append(_build_restore(span))
        for old in decision.splice.old:
            start, stop = max(old.start, span.start), min(old.stop, span.stop)
            if old.body is not None and start < stop:
                action: Action = "condense" if get_summary(old) else "drop" if old.body == () else "truncate"
                because = "by hand: as it was before the summary"
                made.append(Edit(action, because, Span(start, stop), old.body, slot=old.slot, facts={"by_hand": True}))
    return tuple(made) or (_build_restore(Span(piece.start, piece.stop)),)


def _find_accompanying_drops(decisions: Sequence[Decision], at: int) -> Iterator[Decision]:
    """What the same rule dropped because the summary replaces it too: blocks behind a system prompt that came in between."""
    first = decisions[at]
    for other in decisions[at + 1 :]:
        if (other.request, other.rule, other.action) != (first.request, first.rule, "drop"):
            return
        yield other


def _is_present(envelope: Envelope, decision: Decision) -> bool:
    assert decision.edit.span is not None
    piece = envelope.find_piece(decision.edit.span.start)
    return piece.by == decision.seq and Span(piece.start, piece.stop) == decision.edit.span


def _build_restore(span: Span) -> Edit:
    because = "by hand: the summary was undone"
    return Edit("restore", because, span, None, restore=True, facts={"by_hand": True})


def _digest_blocks(session: Session, blocks: int) -> str:
    return hash_text("\0".join(block.digest for block in session.blocks[:blocks]))


def hash_text(text: str) -> str:
    """Return a hash of a text, by which it is recognised."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
