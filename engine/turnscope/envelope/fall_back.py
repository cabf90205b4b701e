"""What a chat sends where its policy leaves nothing that can be sent: the newest turns as they are, the older ones left out.

The edits are recorded for one request like what a person wishes (`envelope.wishes`). At that request they and the repairs take
the place of the policy's rules, live and in every replay; from the next one on the policy goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from turnscope.envelope.condensing import get_summary, subtract_spans
from turnscope.envelope.conversation import find_newest_message
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx
from turnscope.envelope.wishes import find_manual_spans, find_wishes
from turnscope.session.index import count_before
from turnscope.session.model import Edit, Part, Session, Span

POLICY = "falls_back_from"  # key of a wish's facts: the policy whose rules do not run at this request
EMPTY = "[This message is empty.]"


def falls_back(session: Session, request: int, policy: str) -> bool:
    """Return whether the rules of a policy do not run at a request.

    Args:
        session: The session.
        request: Number of the request.
        policy: Name of the policy.
    """
    return request in session.recorded.wishes and any(
        edit.facts.get(POLICY) == policy for edit in find_wishes(session, request)
    )


def keep_newest_turns(envelope: Envelope, ctx: Ctx, policy: str, why: str, most: int) -> tuple[Edit, ...]:
    """Return the edits that leave the newest turns verbatim, and summaries before them, in at most `most` tokens.

    What a person left out stays out. A turn that is too large begins at one of its answers.

    Args:
        envelope: The request with all wishes of the user, before the policy.
        ctx: What the rule may read.
        policy: Name of the policy in force.
        why: Why it falls back, as a sentence.
        most: Tokens of the prompt, in the provider's units.
    """
    talk = Span(ctx.index.messages[0], ctx.request.cut)
    start, summaries = _find_start(envelope, ctx, most)
    excluded = [s for s in find_manual_spans(envelope, ctx) if envelope.find_piece(s.start).body == () and s.stop > start]
    restored = [*subtract_spans(talk, summaries)]
    head = Span(talk.start, start)
    dropped = [*(subtract_spans(head, summaries) if head.start < head.stop else ()), *excluded]
    kept = sum(1 for at in ctx.index.turns if start <= at < ctx.request.cut)
    because = f"{why} Instead the newest {'turn is' if kept < 2 else f'{kept} turns are'} sent, and what is older is left out."
    return tuple(_iter_edits(envelope, ctx, policy, because, restored, dropped))


def keep_newest_message(envelope: Envelope, ctx: Ctx, policy: str, why: str) -> tuple[Edit, ...]:
    """Return the edits that leave nothing but the text of the user's newest message.

    Args:
        envelope: The request with all wishes of the user, before the policy.
        ctx: What the rule may read.
        policy: Name of the policy in force.
        why: Why it falls back, as a sentence.
    """
    session, talk = ctx.session, Span(ctx.index.messages[0], ctx.request.cut)
    prompts = [m for m in session.messages if m.role == "user" and talk.start <= m.start < m.stop <= talk.stop]
    spans = [Span(m.start, m.stop) for m in prompts[-1:]]
    because = f"{why} Instead the text of the newest message is sent, and nothing else of the conversation."
    made = [*_iter_edits(envelope, ctx, policy, because, [talk], [*subtract_spans(talk, spans)])]
    for span in spans:
        text = "\n".join(block.text for block in session.blocks[span.start : span.stop] if block.text.strip())
        made.append(Edit("repair", because, span, (Part("user", "text", text or EMPTY),)))
    return tuple(made)


def _iter_edits(
    envelope: Envelope, ctx: Ctx, policy: str, because: str, restored: list[Span], dropped: list[Span]
) -> Iterator[Edit]:
    """The mark that the policy does not run, then: no insert, every message verbatim, and some of them dropped."""
    yield Edit("keep", because, facts={POLICY: policy})
    whole = Span(ctx.index.messages[0], ctx.request.cut)
    for piece in [piece for piece in envelope.iter_pieces_and_inserts(whole) if piece.start == piece.stop]:
        yield Edit("drop", because, Span(piece.start, piece.stop), (), slot=piece.slot)
    for span in restored:
        if any(piece.body is not None for piece in envelope.iter_pieces(span)):
            yield Edit("restore", because, _widen(envelope, span), None, restore=True)
    for span in chain.from_iterable(ctx.index.find_conversation_spans(*span) for span in dropped):
        yield Edit("drop", because, span, ())


def _widen(envelope: Envelope, span: Span) -> Span:
    """The span with the whole of the placeholders that it would cut in two."""
    first, last = envelope.find_piece(span.start), envelope.find_piece(span.stop - 1)
    return Span(first.start if first.body else span.start, last.stop if last.body else span.stop)


def _find_start(envelope: Envelope, ctx: Ctx, most: int) -> tuple[int, list[Span]]:
    """Where the newest turns that fit begin, and the summaries before them that fit as well."""
    cut, index = ctx.request.cut, ctx.index
    newest = find_newest_message(ctx)
    turns = [at for at in index.turns if at < cut]
    inside = [at for at in index.messages[count_before(index.messages, turns[-1] if turns else 0) :] if at < cut]
    answers = [at for at in inside if ctx.session.blocks[at].role == "assistant"]
    fixed = envelope.counts[0] + envelope.counts[1]
    fits = (at for at in (*turns, *answers) if ctx.calibration.predict(fixed + ctx.ledger.count_tokens(at, cut)) <= most)
    start = next(fits, newest)
    summaries: list[Span] = []
    spent = fixed + ctx.ledger.count_tokens(start, cut)
    for piece in reversed([piece for piece in envelope.pieces if get_summary(piece) and piece.start < piece.stop]):
        if piece.start >= start:
            continue
        start = piece.stop if start < piece.stop <= newest else start
        spent += sum(piece.counts)
        if piece.stop <= start and ctx.calibration.predict(spent) <= most:
            summaries.insert(0, Span(piece.start, piece.stop))
    return start, summaries
