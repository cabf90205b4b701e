"""The conversations inside a session: where each begins, its id, and which of them are in an envelope.

A conversation is a stretch of the session that ends where the next begins; by default it is a turn. A border depends only on
what comes before it, so borders stay when the session grows. Pure functions; no texts are made here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from turnscope.envelope.condensing import subtract_spans
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.layers.words import continues_topic, find_topic_words
from turnscope.envelope.rule import Ctx
from turnscope.envelope.wishes import find_wishes_until
from turnscope.session.index import count_before, find_at_or_before
from turnscope.session.model import Edit, Span, list_fork_points


@dataclass(frozen=True, slots=True)
class Split:
    """How a session is split into conversations. All rules of a policy that share ids must use the same values."""

    split: Annotated[Literal["turn", "idle gap", "topic"], "where a conversation begins: the same in every layer"] = "turn"
    gap: Annotated[int, "idle gap: minutes of silence after which a conversation begins"] = 30
    part_over: Annotated[int, "a turn above so many tokens is several conversations (0 = it is one, however long)"] = 0


def get_memo(ctx: Ctx) -> dict[Any, Any]:
    """Return the cache of a replay: values by what they were computed for.

    Args:
        ctx: What the rule may read.
    """
    found: dict[Any, Any] = ctx.index.remembered.setdefault(__name__, {})
    return found


def find_borders(ctx: Ctx, split: Split) -> tuple[int, ...]:
    """Return the addresses at which conversations begin, of the whole session. A rule uses only those before its cut.

    Args:
        ctx: What the rule may read.
        split: How the session is split.
    """
    known = get_memo(ctx)
    key = ("borders", split.split, split.gap, split.part_over, id(ctx.own))
    if key not in known:
        turns = _split_turns(ctx, split)
        known[key] = tuple(_split_long_turns(ctx, turns, split.part_over)) if split.part_over else turns
    found: tuple[int, ...] = known[key]
    return found


def find_current(ctx: Ctx, split: Split) -> int:
    """Return the number of the current conversation, from 0; -1 before the first. So many conversations are completed.

    Args:
        ctx: What the rule may read.
        split: How the session is split.
    """
    return count_before(find_borders(ctx, split), ctx.request.cut) - 1


def get_span(ctx: Ctx, split: Split, number: int) -> Span:
    """Return the blocks of a conversation; the current one ends at the request's cut.

    Args:
        ctx: What the rule may read.
        split: How the session is split.
        number: Number of the conversation, from 0.
    """
    starts = find_borders(ctx, split)
    return Span(starts[number], min(ctx.request.cut, starts[number + 1]) if number + 1 < len(starts) else ctx.request.cut)


def find_first_full(envelope: Envelope, ctx: Ctx, split: Split) -> int:
    """Return the first conversation from which all conversations up to the current one are in the request in full.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        split: How the session is split.
    """
    number = find_current(ctx, split)
    while number > 0 and _is_present(envelope, ctx, get_span(ctx, split, number - 1)):
        number -= 1
    return number


def format_id(ctx: Ctx, split: Split, number: int) -> str:
    """Return the id of a conversation, from `c1`. On a branch, its versions are `c1.2`, `c1.3`: one more for each edit of it.

    Args:
        ctx: What the rule may read.
        split: How the session is split into conversations.
        number: Number of the conversation, from 0.
    """
    version = _count_versions(ctx, split, number)
    return f"c{number + 1}.{version}" if version > 1 else f"c{number + 1}"


def parse_id(ctx: Ctx, split: Split, name: str) -> tuple[int, str]:
    """Return the number of the conversation with an id (-1 = none) and its id now, which differs where edits superseded it.

    Args:
        ctx: What the rule may read.
        split: How the session is split into conversations.
        name: The id.
    """
    head, dot, version = name.strip().lower().partition(".")
    digits = head.removeprefix("c")
    texts = (digits, version) if dot else (digits,)
    if not all(text.isascii() and text.isdigit() and len(text) <= 9 for text in texts):
        return -1, ""
    number = int(digits) - 1
    if not 0 <= number <= find_current(ctx, split):
        return -1, ""
    known = 1 <= int(version or 1) <= _count_versions(ctx, split, number)
    return (number, format_id(ctx, split, number)) if known else (-1, "")


def find_current_prompt(ctx: Ctx) -> Span:
    """Return the span of the prompt that is being answered. It always stays."""
    at = find_at_or_before(ctx.index.turns, ctx.request.cut - 1)
    if at is None:
        return Span(0, 0)
    message = ctx.session.messages[ctx.session.blocks[at].message]
    return Span(at, min(message.stop, ctx.request.cut)) if message.role == "user" else Span(at, at)


def exclude_prompt(ctx: Ctx, span: Span) -> Iterator[Span]:
    """Yield a span without the prompt that is being answered.

    Args:
        ctx: What the rule may read.
        span: The span.
    """
    pin = find_current_prompt(ctx)
    parts = (Span(span.start, min(span.stop, pin.start)), Span(max(span.start, pin.stop), span.stop)) if pin.stop else (span,)
    yield from (part for part in parts if part.start < part.stop)


def _count_versions(ctx: Ctx, split: Split, number: int) -> int:
    """How many versions a conversation has on its path: 1, and one more for each edit at it or before it."""
    points = list_fork_points(ctx.session)
    return 1 + sum(get_span(ctx, split, number).stop > at for at in points) if points else 1


def _is_present(envelope: Envelope, ctx: Ctx, span: Span) -> bool:
    """Whether anything of a conversation is sent, other than system blocks and the prompt that is being answered."""
    for part in (talk for one in exclude_prompt(ctx, span) for talk in ctx.index.find_conversation_spans(*one)):
        piece = envelope.find_piece(part.start)
        if piece.body != () or piece.stop < part.stop:
            return True
    return False


def _split_turns(ctx: Ctx, split: Split) -> tuple[int, ...]:
    turns = ctx.index.turns
    if split.split == "turn" or not turns:
        return turns
    begins = _find_idle_gaps(ctx, turns, split.gap * 60) if split.split == "idle gap" else find_topic_changes(ctx)
    return (turns[0], *begins)


def _find_idle_gaps(ctx: Ctx, turns: tuple[int, ...], seconds: int) -> Iterator[int]:
    messages, blocks = ctx.session.messages, ctx.session.blocks
    heard: float | None = None
    place = 0
    for at in turns[1:]:
        ordinal = blocks[at].message
        for message in messages[place:ordinal]:
            heard = message.sent_at if message.sent_at is not None else heard
        place, now = ordinal, messages[ordinal].sent_at
        if now is not None and heard is not None and now - heard >= seconds:
            yield at


def find_topic_changes(ctx: Ctx) -> tuple[int, ...]:
    """Return the addresses of the prompts that change the topic, of the whole session. The first prompt is none of them."""
    known = get_memo(ctx)
    if "topics" not in known:
        known["topics"] = tuple(_find_topic_changes(ctx))
    found: tuple[int, ...] = known["topics"]
    return found


def _find_topic_changes(ctx: Ctx) -> Iterator[int]:
    about: set[str] = set()
    for at in ctx.index.turns:
        prompt = read_prompt(ctx, at)
        if about and not continues_topic(prompt, about):
            about = set()
            yield at
        about |= find_topic_words(prompt)


def find_objective(ctx: Ctx) -> int:
    """Return the address of the prompt that set the objective: the first with a text since the topic changed; -1 = none."""
    turns, changes = ctx.index.turns, find_topic_changes(ctx)
    place = count_before(changes, ctx.request.cut)
    since = bisect_left(turns, changes[place - 1]) if place else 0
    prompts = (turns[n] for n in range(since, count_before(turns, ctx.request.cut)))
    return next((at for at in prompts if read_prompt(ctx, at).strip()), -1)


def find_manual_drops(ctx: Ctx, span: Span) -> tuple[Span, ...]:
    """Return the parts of a span that a person dropped by hand: no layer mentions them, and nothing restores them.

    Args:
        ctx: What the rule may read.
        span: The span.
    """
    found: list[Span] = []
    for edit in _list_wishes(ctx):
        if edit.span and edit.restore:
            found = [one for one in found if one.stop <= edit.span.start or edit.span.stop <= one.start]
        elif edit.span and edit.action == "drop" and edit.span.start < span.stop and span.start < edit.span.stop:
            found.append(edit.span)
    return tuple(sorted(found))


def _list_wishes(ctx: Ctx) -> tuple[Edit, ...]:
    """The edits that a person wished so far. Found once for a request: each is held against all blocks that stood before it."""
    known, basis = get_memo(ctx), (ctx.session.recorded, ctx.request.n)
    if known.get("wishes", ((None, -1), ()))[0] != basis:
        known["wishes"] = basis, tuple(find_wishes_until(ctx.session, ctx.request.n))
    found: tuple[Edit, ...] = known["wishes"][1]
    return found


def has_wishes(ctx: Ctx) -> bool:
    """Return whether a person wished something for this very request, so that texts made before may have to change."""
    return ctx.request.n in ctx.session.recorded.wishes


def read_prompt(ctx: Ctx, at: int) -> str:
    """Return the text of the message at address `at` if it is a user's, without what was dropped by hand; else "".

    Args:
        ctx: What the rule may read.
        at: Start of the message.
    """
    message = ctx.session.messages[ctx.session.blocks[at].message]
    if message.role != "user":
        return ""
    parts = subtract_spans(Span(message.start, message.stop), find_manual_drops(ctx, Span(message.start, message.stop)))
    texts = (block.text for part in parts for block in ctx.session.blocks[part.start : part.stop] if block.kind == "text")
    return "\n".join(texts)


def _split_long_turns(ctx: Ctx, turns: tuple[int, ...], most: int) -> Iterator[int]:
    """The borders, and further ones before answers wherever a conversation has more than `most` tokens."""
    messages, total = ctx.index.messages, ctx.own.total
    session = ctx.session
    for number, begin in enumerate(turns):
        stop = turns[number + 1] if number + 1 < len(turns) else len(total) - 1
        yield (at := begin)
        while total[stop] - total[at] > most:
            place = max(bisect_right(messages, at), bisect_left(messages, bisect_left(total, total[at] + most)))
            while place < len(messages) and messages[place] < stop:
                roles = (session.messages[session.blocks[messages[n]].message].role for n in (place, place - 1))
                if tuple(roles) == ("assistant", "user"):
                    break
                place += 1
            if place >= len(messages) or messages[place] >= stop:
                break
            at = messages[place]
            yield at
