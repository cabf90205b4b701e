"""How a stretch of conversation becomes a summary: what the summariser reads, what stands for the stretch afterwards.

Shared by the rules that condense. It decides neither when nor how much, and asks no model: the rule's `Ask` is answered by
whoever runs it. Prompts are the text files in `engine/turnscope/envelope/prompts`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.envelope.rule import Ctx
from turnscope.errors import PolicyError
from turnscope.session.index import count_before, find_complete_start
from turnscope.session.model import Answer, Ask, Block, Edit, Part, Span

PROMPTS = Path(__file__).parent / "prompts"
SUMMARY = "[Summary of the earlier conversation, which is not shown; it stands for {} messages]"
STAND_IN = "[Stand-in summary, made offline without a model, of the earlier conversation; it stands for {} messages]"
HEAD = re.compile(r"\[[^\n\]]*stands for ([\d,]+) messages\]$")  # the first line of these
UNDERSTOOD = "Understood. I go on from this summary."
Shape = Literal["user", "pair", "system"]


@dataclass(frozen=True, slots=True)
class SummaryOptions:
    """How to condense: name of the prompt, model to ask ("" = whoever answers decides), most tokens of the summary."""

    prompt: str
    model: str = ""
    cap: int = 1_000
    shape: Shape = "user"  # a user's message, a user's and an answer, or a part of the system prompt
    clip: int = 2_000  # characters of a tool result that the summariser reads; 0 = all
    recursive: bool = True  # read the old summary instead of what it stands for
    include_dropped: bool = False  # read what was dropped as well
    slot: str = ""  # a note on the summary's piece
    frame: str = ""  # how the summary stands there, with {summary} in it; "" = in our words, with how many it stands for
    reply: str = ""  # the answer of a pair; "" = in our words
    allow_larger: bool = True  # a summary may be larger than what it stands for, as it may in tools that do not look


@cache
def load_prompt(name: str) -> str:
    """The text of a prompt. PolicyError where there is none of that name."""
    known = sorted(path.stem for path in PROMPTS.glob("*.txt"))
    if name not in known:
        raise PolicyError(f"there is no prompt {name!r}", hint=f"Known prompts: {', '.join(known)}.")
    return (PROMPTS / f"{name}.txt").read_text(encoding="utf-8")


def compute_fill(envelope: Envelope, ctx: Ctx) -> float:
    """Share of the budget that the request takes, with what the log does not hold; 1.0 is the limit."""
    scale = ctx.calibration.scale if ctx.own is ctx.ledger else 1.0
    room = ctx.budget.limit
    return 1 - (ctx.limit - ctx.count_envelope(envelope)) * scale / room if room > 0 else float("inf")


def find_summary(envelope: Envelope, at: int) -> Piece | None:
    """The summary that stands at address `at`, if one does."""
    piece = envelope.find_piece(at) if at < envelope.stop else None
    return piece if piece and piece.start == at and get_summary(piece) else None


def get_summary(piece: Piece) -> str:
    """The text of the summary in a piece; "" where it holds none."""
    return next((part.text for part in piece.body if part.kind == "summary"), "") if piece.body else ""


def strip_summary_frame(text: str, frame: str = "") -> str:
    """The text of a summary without the line that says what it is, and without the `frame` that a policy put around it."""
    first, _, rest = text.partition("\n")
    text = rest if HEAD.match(first) else text
    before, _, behind = frame.partition("{summary}")
    return text.removeprefix(before).removesuffix(behind) if frame and text.startswith(before) else text


def find_start_after_summary(envelope: Envelope, ctx: Ctx) -> int:
    """Where the conversation begins behind a summary that stands in front of it; its first address where none does."""
    first: int = ctx.index.messages[0]
    piece = find_summary(envelope, first)
    return piece.stop if piece else first


def subtract_spans(span: Span, others: Iterable[Span]) -> Iterator[Span]:
    """What is left of a span without `others`, which are in order."""
    start = span.start
    for other in others:
        if start < min(other.start, span.stop):
            yield Span(start, min(other.start, span.stop))
        start = max(start, other.stop)
    if start < span.stop:
        yield Span(start, span.stop)


def find_next_present(envelope: Envelope, ctx: Ctx, at: int) -> int:
    """The first address >= `at` where conversation stands (verbatim or as a stand-in); `envelope.stop` where none does."""
    while at < envelope.stop:
        piece = envelope.find_piece(at)
        if piece.body is None:
            span = next(ctx.index.find_conversation_spans(at, piece.stop), None)
            if span:
                return span.start
        elif piece.body:
            return at
        at = piece.stop
    return at


def find_condensable_start(envelope: Envelope, ctx: Ctx, pinned: bool) -> int:
    """Where the conversation that may be condensed begins: at its second message where the first is `pinned`.

    A stand-in that already holds the first message pins nothing any more: it begins there.
    """
    begin: int = ctx.index.messages[pinned]
    piece = envelope.find_piece(begin)
    return piece.start if piece.body else begin


def find_leading_summary(envelope: Envelope, ctx: Ctx, pinned: bool = False) -> tuple[int, Piece | None, int]:
    """Where what may be condensed begins, the summary that leads it, and where conversation stands behind that."""
    begin = find_condensable_start(envelope, ctx, pinned)
    old = find_summary(envelope, begin)
    return begin, old, find_next_present(envelope, ctx, old.stop if old else begin)


def find_boundary(envelope: Envelope, ctx: Ctx, want: int, least: int, user: bool = False, later: bool = True) -> int | None:
    """The message start after `least` nearest to `want` (`later` before earlier) at which no call is torn from its result.

    Never past the newest message. `user`: only a user's message will do.
    """
    session, starts = ctx.session, ctx.index.messages
    last, first = count_before(starts, ctx.request.cut) - 1, count_before(starts, least + 1)
    place = min(count_before(starts, want), last)
    for i in (*(range(place, last + 1) if later else ()), *range(place - later, first - 1, -1)):
        at: int = starts[i]
        message = session.messages[session.blocks[at].message]
        piece = envelope.find_piece(at)
        torn = bool(piece.body and piece.start < at) or find_complete_start(session, ctx.index, at, message.stop) != at
        if at > least and not torn and not (user and message.role != "user"):
            return at
    return None


def build_summary_ask(envelope: Envelope, ctx: Ctx, span: Span, how: SummaryOptions, old: str = "") -> Ask | None:
    """The question for a summary of the conversation in `span`, and of an `old` one; None where nothing can be read."""
    lines = [f"summary: {old}"] if old else []
    text, content = load_prompt(how.prompt), "\n".join([*lines, *_render_lines(envelope, ctx, span, how)])
    key = _make_key(text, how.model, str(how.cap), content)
    return Ask("summary", key, text, content, how.cap, model=how.model) if content else None


def build_text_ask(name: str, content: str, cap: int, model: str = "", capped: bool = True) -> Ask:
    """The question for a summary of what a port writes out itself.

    `name`: of the prompt; `model` "" = whoever answers decides; `capped`: with another cap it is another question.
    """
    text = load_prompt(name)
    key = _make_key(text, *([model] if model else []), *([str(cap)] if capped else []), content)
    return Ask("summary", key, text, content, cap, model=model)


def _make_key(*texts: str) -> str:
    return blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def widen_span(envelope: Envelope, span: Span) -> Span:
    """The span with the whole of a stand-in that reaches out of it at either end."""
    if span.start >= span.stop:
        return span
    first, last = envelope.find_piece(span.start), envelope.find_piece(span.stop - 1)
    return Span(first.start if first.body else span.start, last.stop if last.body else span.stop)


def condense(
    envelope: Envelope, ctx: Ctx, span: Span, how: SummaryOptions, because: str, facts: dict[str, Any]
) -> Generator[Edit | Ask, Any, Envelope]:
    """Ask for a summary of the conversation in `span` and put it there; gives the envelope after that.

    Yields the ask, then one edit per stretch between system blocks; an ask that failed yields a look and drops nothing. A
    stand-in that reaches out of the span is summed up whole: nothing of it can stand alone.
    """
    span = widen_span(envelope, span)
    question = build_summary_ask(envelope, ctx, span, how)
    if question is None:
        yield Edit("keep", f"{because}, but nothing in the older messages can be read", facts=facts)
        return envelope
    answer = yield question
    if answer.failed or not answer.text.strip():
        why = answer.failed or "the summary was empty"
        yield Edit("keep", f"{because}, but no summary was made: {why}", facts={**facts, "failed": why})
        return envelope
    starts = ctx.index.messages
    messages = count_before(starts, span.stop) - count_before(starts, span.start)
    body = build_summary_parts(answer, messages, how)
    if not how.allow_larger and (size := sum(ctx.own.count_placeholder(body))) > (
        source := count_source_tokens(envelope, ctx, span, how)
    ):
        why = f"the summary was refused: it has {size:,} tokens, what it would stand for has {source:,}"
        yield Edit("keep", f"{because}, but {why}", facts={**facts, **describe_answer(answer), "refused": why})
        return envelope
    facts = {**facts, **describe_answer(answer), "messages": messages, "tokens_read": ctx.count_tokens(*span), "cap": how.cap}
    stood = f"{because}: a {'stand-in ' if facts['stand_in'] else ''}summary now stands for {messages:,} messages"
    for number, part in enumerate(ctx.index.find_conversation_spans(*span)):
        if number == 0:
            envelope = yield Edit("condense", stood, part, body, slot=how.slot, facts=facts)
        elif envelope.find_piece(part.start).body != () or envelope.find_piece(part.start).stop < part.stop:
            envelope = yield Edit("drop", "the summary before it stands for this too", part, (), facts={"messages": messages})
    return envelope


def estimate_smallest_summary(ctx: Ctx, messages: int, how: SummaryOptions) -> int:
    """Tokens of a summary of so many messages that uses all of its cap: smaller than its source, or nobody should be asked."""
    return sum(ctx.own.count_placeholder(build_summary_parts(Answer("", source="model"), messages, how))) + how.cap


def count_source_tokens(envelope: Envelope, ctx: Ctx, span: Span, how: SummaryOptions) -> int:
    """Tokens of the conversation that a summary of the span is made of, in the policy's own units."""
    tokens = 0
    for piece in envelope.iter_pieces(span):
        if piece.body is None or (piece.body == () and how.include_dropped):
            inside = ctx.index.find_conversation_spans(max(piece.start, span.start), min(piece.stop, span.stop))
            tokens += sum(ctx.own.count_tokens(*part) for part in inside)
        else:
            tokens += sum(ctx.own.count_placeholder(piece.body))
    return tokens


def render_transcript(envelope: Envelope, ctx: Ctx, span: Span) -> str:
    """The conversation of a span as `role: text` lines, as it stands; results of tools are clipped, as for every summariser."""
    return "\n".join(_render_lines(envelope, ctx, span, SummaryOptions("")))


def build_summary_parts(answer: Answer, messages: int, how: SummaryOptions) -> tuple[Part, ...]:
    """What stands for so many messages: the answer under a line that says what it is, or in the frame that is asked for."""
    offline = answer.source == "offline"
    text = f"{(STAND_IN if offline else SUMMARY).format(f'{messages:,}')}\n{answer.text.strip()}"
    if how.frame:
        mark = STAND_IN.format(f"{messages:,}") + "\n" if offline else ""
        text = mark + how.frame.replace("{summary}", answer.text.strip())
    if how.shape == "system":
        return (Part("system", "summary", text, place="system"),)
    summary = Part("user", "summary", text)
    return (summary, Part("assistant", "text", how.reply or UNDERSTOOD)) if how.shape == "pair" else (summary,)


def describe_answer(answer: Answer) -> dict[str, Any]:
    """Where a summary came from, and what it was billed, in tokens."""
    usage = answer.usage
    billed = {"prompt_tokens": usage.prompt_tokens, "output_tokens": usage.output_tokens} if usage else {}
    named = {"model": answer.model} if answer.model else {}
    return {"source": answer.source, "stand_in": answer.source == "offline", **named, **billed}


def _render_lines(envelope: Envelope, ctx: Ctx, span: Span, how: SummaryOptions) -> Iterator[str]:
    """The conversation as `role: text` lines: what stands, and what was dropped where `how.lost`."""
    for piece in envelope.iter_pieces(span):
        at, stop = max(piece.start, span.start), min(piece.stop, span.stop)
        old = get_summary(piece)
        if piece.body is None or (old and not how.recursive) or (piece.body == () and how.include_dropped):
            for part in ctx.index.find_conversation_spans(at, stop):
                yield from filter(None, (_render_line(block, how.clip) for block in ctx.session.blocks[part.start : part.stop]))
        elif old:
            yield "summary: " + strip_summary_frame(old, how.frame)
        else:
            yield from (f"{part.role}: {part.text}" for part in piece.body or () if part.text.strip())


def _render_line(block: Block, clip: int) -> str:
    if block.kind in ("thinking", "redacted_thinking"):
        return ""
    text = block.text.strip()
    if block.kind == "tool_result":
        if clip and len(text) > clip:
            text = f"{text[: clip // 2]} … {text[-(clip - clip // 2) :]}"
        return f"tool: {text}" if text else ""
    return f"{block.role}: {'calls ' if block.kind == 'tool_use' else ''}{text}" if text else f"{block.role}: ({block.kind})"


def find_turn_start(ctx: Ctx, newest: int) -> int:
    """The address where the newest `newest` turns begin."""
    turns = ctx.index.turns
    place = bisect_right(turns, ctx.request.cut - 1) - newest
    return turns[max(0, min(place, len(turns) - 1))] if turns else 0
