"""How a stretch of conversation becomes a summary: what the summariser reads, and what replaces the stretch.

Shared by the rules that condense. Nothing here decides when or how much to condense, and no model is called here: a rule yields
an `Ask`, and its caller answers. Prompts are the text files in `engine/turnscope/envelope/prompts`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
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
from turnscope.session.transcript import Transcript

PROMPTS = Path(__file__).parent / "prompts"
SUMMARY = "[Summary of the earlier conversation, which is not shown; it stands for {} messages]"
OFFLINE_SUMMARY = "[Offline summary, built without calling a model, of the earlier conversation; it stands for {} messages]"
HEAD = re.compile(r"\[[^\n\]]*stands for ([\d,]+) messages\]$")  # first line of a summary
UNDERSTOOD = "Understood. I go on from this summary."
Shape = Literal["user", "pair", "system"]
Run = Span | str  # of what lines of a conversation are made: blocks as they came, or a line of a placeholder


@dataclass(frozen=True, slots=True)
class SummaryOptions:
    """How to condense.

    Attributes:
        prompt: Name of the prompt.
        model: Model to ask; "" = the caller decides.
        cap: The most tokens of the summary.
        shape: `user` = a user's message, `pair` = a user's message and an answer, `system` = a part of the system prompt.
        clip: The most characters of a tool result that the summariser reads; 0 = all.
        tool_text: What the summariser reads in place of a message with calls or results; "" = these, clipped.
        recursive: Read the old summary instead of what it replaces.
        include_dropped: Read dropped blocks as well.
        slot: A note on the summary's piece.
        frame: The text around the summary, with {summary} in it; "" = our own words with the number of messages.
        reply: The answer of a pair; "" = our own words.
        allow_larger: Accept a summary that is larger than its source, as tools do that do not check.
        lead: What stands before a summary in the user's place, such as instructions that are sent again.
    """

    prompt: str
    model: str = ""
    cap: int = 1_000
    shape: Shape = "user"  # a user's message, a user's and an answer, or a part of the system prompt
    clip: int = 2_000  # characters of a tool result that the summariser reads; 0 = all
    tool_text: str = ""  # read in place of a message with calls or results; "" = these
    recursive: bool = True  # read the old summary instead of what it stands for
    include_dropped: bool = False  # read what was dropped as well
    slot: str = ""  # a note on the summary's piece
    frame: str = ""  # how the summary stands there, with {summary} in it; "" = in our words, with how many it stands for
    reply: str = ""  # the answer of a pair; "" = in our words
    allow_larger: bool = True  # a summary may be larger than what it stands for, as it may in tools that do not look
    lead: tuple[Part, ...] = ()


@cache
def load_prompt(name: str) -> str:
    """Return the text of a prompt. PolicyError where there is none of that name."""
    known = sorted(path.stem for path in PROMPTS.glob("*.txt"))
    if name not in known:
        raise PolicyError(f"there is no prompt {name!r}", hint=f"Known prompts: {', '.join(known)}.")
    return (PROMPTS / f"{name}.txt").read_text(encoding="utf-8")


def compute_fill(envelope: Envelope, ctx: Ctx) -> float:
    """Return the share of the budget that the request uses, including what the log does not contain; 1.0 is the limit.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
    """
    scale = ctx.calibration.scale if ctx.own is ctx.ledger else 1.0
    room = ctx.budget.limit
    return 1 - (ctx.limit - ctx.count_envelope(envelope)) * scale / room if room > 0 else float("inf")


def find_summary(envelope: Envelope, at: int) -> Piece | None:
    """Return the summary at address `at`, or None.

    Args:
        envelope: The request as it stands.
        at: The address at which the piece must begin.
    """
    piece = envelope.find_piece(at) if at < envelope.stop else None
    return piece if piece and piece.start == at and get_summary(piece) else None


def get_summary(piece: Piece) -> str:
    """Return the text of the summary in a piece; "" where it holds none."""
    return next((part.text for part in piece.body if part.kind == "summary"), "") if piece.body else ""


def strip_summary_frame(text: str, frame: str = "") -> str:
    """Return a summary's text without its first line or frame.

    Args:
        text: The text of the summary as it is sent.
        frame: The frame of the policy, with {summary} in it; "" = none.
    """
    first, _, rest = text.partition("\n")
    text = rest if HEAD.match(first) else text
    before, _, behind = frame.partition("{summary}")
    return text.removeprefix(before).removesuffix(behind) if frame and text.startswith(before) else text


def find_start_after_summary(envelope: Envelope, ctx: Ctx) -> int:
    """Return where the conversation begins behind a summary in front of it; its first address where there is no summary.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
    """
    first: int = ctx.index.messages[0]
    piece = find_summary(envelope, first)
    return piece.stop if piece else first


def subtract_spans(span: Span, others: Iterable[Span]) -> Iterator[Span]:
    """Yield what remains of a span without other spans.

    Args:
        span: The span.
        others: Spans in address order.

    Example:
        >>> [*subtract_spans(Span(0, 9), [Span(2, 4), Span(8, 12)])]
        [Span(start=0, stop=2), Span(start=4, stop=8)]
    """
    start = span.start
    for other in others:
        if start < min(other.start, span.stop):
            yield Span(start, min(other.start, span.stop))
        start = max(start, other.stop)
    if start < span.stop:
        yield Span(start, span.stop)


def find_next_present(envelope: Envelope, ctx: Ctx, at: int) -> int:
    """Return the first address >= `at` at which conversation is sent, verbatim or as a placeholder; `envelope.stop` for none.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        at: Address from which to search.
    """
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
    """Return where the conversation begins that may be condensed.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        pinned: The first message must stay, so begin at the second. A placeholder that holds the first message already pins
            nothing: begin there.
    """
    begin: int = ctx.index.messages[pinned]
    piece = envelope.find_piece(begin)
    return piece.start if piece.body else begin


def find_leading_summary(envelope: Envelope, ctx: Ctx, pinned: bool = False) -> tuple[int, Piece | None, int]:
    """Return where the condensable conversation begins, the summary in front (or None), and where the rest begins.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        pinned: See `find_condensable_start`.
    """
    begin = find_condensable_start(envelope, ctx, pinned)
    old = find_summary(envelope, begin)
    return begin, old, find_next_present(envelope, ctx, old.stop if old else begin)


def find_boundary(envelope: Envelope, ctx: Ctx, want: int, least: int, user: bool = False, later: bool = True) -> int | None:
    """Return the message start nearest to `want` at which no call loses its result, or None. The newest message always stays.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        want: The wished address.
        least: The boundary must be after this address.
        user: Accept only starts of a user's message.
        later: Look at later starts before earlier ones; False = only at earlier ones.
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
    """Build the question for a summary of the conversation in `span`; None where it contains no text.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        span: The conversation to summarise.
        how: How to condense.
        old: An earlier summary to include.
    """
    text = load_prompt(how.prompt)
    if how.tool_text:
        lines = [f"summary: {old}"] if old else []
        content = "\n".join([*lines, *_render_lines(envelope, ctx, span, how)])
        key = _make_key(text, how.model, str(how.cap), content)
        return Ask("summary", key, text, content, how.cap, model=how.model) if content else None
    runs = (*([f"summary: {old}"] if old else []), *_join_runs(_iter_runs(envelope, ctx, span, how)))
    transcript = _continue_transcript(ctx, runs, how) or _extend_transcript(
        Transcript(f"{text}\0{how.model}\0{how.cap}\0", None), ctx, runs, how, runs
    )
    return Ask("summary", transcript.digest, text, transcript, how.cap, model=how.model) if transcript.count else None


def _continue_transcript(ctx: Ctx, runs: tuple[Run, ...], how: SummaryOptions) -> Transcript | None:
    """What the previous request's summariser read, and what came behind it since; None where that is not what `runs` hold."""
    for ask, _ in ctx.previous.asks if ctx.previous else ():
        if isinstance(ask.source, str) or ask.source.source is None:
            continue
        was, earlier = ask.source.source
        if was != how or not earlier or len(earlier) > len(runs):
            continue
        *same, last = earlier
        here, behind = runs[len(same)], runs[len(earlier) :]
        if same != [*runs[: len(same)]]:
            continue
        if here == last:
            return _extend_transcript(ask.source, ctx, behind, how, runs) if behind else ask.source
        if isinstance(here, Span) and isinstance(last, Span) and here.start == last.start and here.stop > last.stop:
            return _extend_transcript(ask.source, ctx, (Span(last.stop, here.stop), *behind), how, runs)
    return None


def _extend_transcript(
    transcript: Transcript, ctx: Ctx, more: tuple[Run, ...], how: SummaryOptions, runs: tuple[Run, ...]
) -> Transcript:
    """The transcript with the lines of further runs; `runs` are all of which it is made then."""
    return transcript.extend([line for run in more for line in _render_run(ctx, run, how.clip)], (how, runs))


def build_text_ask(name: str, content: str, cap: int, model: str = "", capped: bool = True) -> Ask:
    """Build the question for a summary of a text that a port writes itself.

    Args:
        name: Name of the prompt.
        content: The text to summarise.
        cap: The most tokens of the summary.
        model: Model to ask; "" = the caller decides.
        capped: Make `cap` part of the question's key, so another cap is another question.
    """
    text = load_prompt(name)
    key = _make_key(text, *([model] if model else []), *([str(cap)] if capped else []), content)
    return Ask("summary", key, text, content, cap, model=model)


def _make_key(*texts: str) -> str:
    return blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def widen_span(envelope: Envelope, span: Span) -> Span:
    """Return the span, widened by placeholders that reach out of it at either end.

    Args:
        envelope: The request as it stands.
        span: The span.
    """
    if span.start >= span.stop:
        return span
    first, last = envelope.find_piece(span.start), envelope.find_piece(span.stop - 1)
    return Span(first.start if first.body else span.start, last.stop if last.body else span.stop)


def condense(
    envelope: Envelope, ctx: Ctx, span: Span, how: SummaryOptions, because: str, facts: dict[str, Any]
) -> Generator[Edit | Ask, Any, Envelope]:
    """Request a summary of the conversation in `span`, replace it by the summary, and return the envelope after all edits.

    Yields the ask, then one edit per stretch between system blocks. A failed ask yields a `keep` and changes nothing. A
    placeholder that reaches out of the span is summarised as a whole.

    Args:
        envelope: The request as it is.
        ctx: What the rule may read.
        span: The conversation to condense.
        how: How to condense.
        because: The reason for the decision log.
        facts: Further facts of the decisions.
    """
    span = widen_span(envelope, span)
    question = build_summary_ask(envelope, ctx, span, how)
    if question is None:
        yield Edit("keep", f"{because}, but the older messages contain no text", facts=facts)
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
        why = f"the summary was refused: it has {size:,} tokens, its source has {source:,}"
        yield Edit("keep", f"{because}, but {why}", facts={**facts, **describe_answer(answer), "refused": why})
        return envelope
    facts = {**facts, **describe_answer(answer), "messages": messages, "tokens_read": ctx.count_tokens(*span), "cap": how.cap}
    reason = f"{because}: a {'placeholder ' if facts['offline'] else ''}summary now replaces {messages:,} messages"
    for number, part in enumerate(ctx.index.find_conversation_spans(*span)):
        if number == 0:
            envelope = yield Edit("condense", reason, part, body, slot=how.slot, facts=facts)
        elif envelope.find_piece(part.start).body != () or envelope.find_piece(part.start).stop < part.stop:
            envelope = yield Edit("drop", "the summary before it replaces this too", part, (), facts={"messages": messages})
    return envelope


def estimate_smallest_summary(ctx: Ctx, messages: int, how: SummaryOptions) -> int:
    """Return the tokens of a summary that uses its whole cap. If its source is no larger, asking is pointless.

    Args:
        ctx: What the rule may read.
        messages: Number of messages that it replaces.
        how: How to condense.
    """
    return sum(ctx.own.count_placeholder(build_summary_parts(Answer("", source="model"), messages, how))) + how.cap


def count_source_tokens(envelope: Envelope, ctx: Ctx, span: Span, how: SummaryOptions) -> int:
    """Return the tokens of the conversation from which a summary of `span` is made, in the policy's own units.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        span: The conversation to condense.
        how: How to condense.
    """
    tokens = 0
    for piece in envelope.iter_pieces(span):
        if piece.body is None or (piece.body == () and how.include_dropped):
            inside = ctx.index.find_conversation_spans(max(piece.start, span.start), min(piece.stop, span.stop))
            tokens += sum(ctx.own.count_tokens(*part) for part in inside)
        else:
            tokens += sum(ctx.own.count_placeholder(piece.body))
    return tokens


def render_transcript(envelope: Envelope, ctx: Ctx, span: Span) -> str:
    """Return the conversation of a span as `role: text` lines, as it is sent. Results of tools are clipped as for a summariser.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        span: The conversation.
    """
    return "\n".join(_render_lines(envelope, ctx, span, SummaryOptions("")))


def build_summary_parts(answer: Answer, messages: int, how: SummaryOptions) -> tuple[Part, ...]:
    """Return the parts that replace messages: the summary under a line that says what it is, or in the options' frame.

    Args:
        answer: The summary.
        messages: Number of messages that it replaces.
        how: How to condense.
    """
    offline = answer.source == "offline"
    text = f"{(OFFLINE_SUMMARY if offline else SUMMARY).format(f'{messages:,}')}\n{answer.text.strip()}"
    if how.frame:
        mark = OFFLINE_SUMMARY.format(f"{messages:,}") + "\n" if offline else ""
        text = mark + how.frame.replace("{summary}", answer.text.strip())
    if how.shape == "system":
        return (Part("system", "summary", text, place="system"),)
    summary = Part("user", "summary", text)
    return (*how.lead, summary, *([Part("assistant", "text", how.reply or UNDERSTOOD)] if how.shape == "pair" else []))


def describe_answer(answer: Answer) -> dict[str, Any]:
    """Return where a summary came from and the tokens it was billed, as facts of a decision."""
    usage = answer.usage
    billed = {"prompt_tokens": usage.prompt_tokens, "output_tokens": usage.output_tokens} if usage else {}
    named = {"model": answer.model} if answer.model else {}
    return {"source": answer.source, "offline": answer.source == "offline", **named, **billed}


def _render_lines(envelope: Envelope, ctx: Ctx, span: Span, how: SummaryOptions) -> Iterator[str]:
    """The conversation as `role: text` lines: what is sent, and dropped blocks if the options ask for them."""
    if not how.tool_text:
        for run in _iter_runs(envelope, ctx, span, how):
            yield from _render_run(ctx, run, how.clip)
        return
    shown = -1  # number of the newest message for which `tool_text` stands
    for piece in envelope.iter_pieces(span):
        at, stop = max(piece.start, span.start), min(piece.stop, span.stop)
        old = get_summary(piece)
        if not old and (piece.body != () or how.include_dropped):
            for block in _iter_conversation(ctx, at, stop):
                if not _has_tools(ctx, block):
                    yield from filter(None, () if piece.body else (_render_line(block, how.clip),))
                elif block.message > shown:
                    shown = block.message
                    yield f"{block.role}: {how.tool_text}"
            if piece.body and not _has_tools(ctx, ctx.session.blocks[piece.start]):
                yield from _render_parts(piece.body)
        else:
            for run in _iter_piece_runs(ctx, piece, Span(at, stop), how):
                yield from _render_run(ctx, run, how.clip)


def _iter_runs(envelope: Envelope, ctx: Ctx, span: Span, how: SummaryOptions) -> Iterator[Run]:
    """Of what the lines of a conversation are made: spans of blocks, and lines of placeholders."""
    for piece in envelope.iter_pieces(span):
        yield from _iter_piece_runs(ctx, piece, Span(max(piece.start, span.start), min(piece.stop, span.stop)), how)


def _iter_piece_runs(ctx: Ctx, piece: Piece, span: Span, how: SummaryOptions) -> Iterator[Run]:
    old = get_summary(piece)
    if piece.body is None or (old and not how.recursive) or (piece.body == () and how.include_dropped):
        yield from ctx.index.find_conversation_spans(*span)
    elif old:
        yield "summary: " + strip_summary_frame(old, how.frame)
    else:
        yield from _render_parts(piece.body or ())


def _join_runs(runs: Iterable[Run]) -> Iterator[Run]:
    """The runs, neighbouring spans as one."""
    last: Run = ""
    for run in runs:
        if isinstance(run, Span) and isinstance(last, Span) and run.start == last.stop:
            last = Span(last.start, run.stop)
            continue
        if last:
            yield last
        last = run
    if last:
        yield last


def _render_run(ctx: Ctx, run: Run, clip: int) -> Iterator[str]:
    if isinstance(run, str):
        yield run
    else:
        yield from filter(None, (_render_line(block, clip) for block in ctx.session.blocks[run.start : run.stop]))


def _iter_conversation(ctx: Ctx, start: int, stop: int) -> Iterator[Block]:
    for part in ctx.index.find_conversation_spans(start, stop):
        yield from ctx.session.blocks[part.start : part.stop]


def _has_tools(ctx: Ctx, block: Block) -> bool:
    """Whether the message of a block holds calls or results."""
    message = ctx.session.messages[block.message]
    return any(one.kind in ("tool_use", "tool_result") for one in ctx.session.blocks[message.start : message.stop])


def _render_parts(body: Sequence[Part]) -> Iterator[str]:
    yield from (f"{part.role}: {part.text}" for part in body if part.text.strip())


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
    """Return the address at which the newest `newest` turns begin.

    Args:
        ctx: What the rule may read.
        newest: Number of turns.
    """
    turns = ctx.index.turns
    place = bisect_right(turns, ctx.request.cut - 1) - newest
    return turns[max(0, min(place, len(turns) - 1))] if turns else 0
