"""Condense the whole conversation, with its newest message, to one summary. The next request begins with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any

from turnscope.envelope.condensing import load_prompt
from turnscope.envelope.conversation import memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.file_reads import FileRead, find_file_reads, get_file_text
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.roo import folding, management
from turnscope.ports.roo.history import SLOT, Size, Summary, build_entry, list_since_summary, measure_size, store_summary
from turnscope.session.content import extract_text
from turnscope.session.index import Index, count_before
from turnscope.session.model import Answer, Ask, Edit, Part, Session, Span

NEWEST = "newest"
_ENVIRONMENT = "<environment_details>"


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters, with Roo's defaults."""

    auto: Annotated[bool, "condense; else only the sliding window acts"] = True
    threshold: Annotated[float, "percentage of the window from which on it condenses, even below the limit"] = 100
    profile: Annotated[float, "the profile's own percentage, 5 to 100 (-1 = inherit)"] = management.INHERIT
    factor: Annotated[float, "factor for token counts, as Roo has for those of tiktoken"] = 1.5
    count_after_condense: Annotated[
        bool, "right after a condense, compare the summary's count instead of the billed tokens"
    ] = True
    prompt: Annotated[str, "name of the prompt: a text file in engine/turnscope/envelope/prompts"] = "hand-over"
    model: Annotated[str, "model that writes the summary (empty = the caller's choice)"] = ""
    fold: Annotated[int, "characters of the outlines of read files (0 = none); Roo has 50,000"] = 0
    environment: Annotated[str, "text after the summary (newest = the log's newest environment details)"] = NEWEST


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request."""
    newest: Summary | None = ctx.state
    size = measure_size(ctx, newest, params.factor, params.count_after_condense)
    if size is None or not params.auto or not _is_due(size, ctx, params):
        return newest
    limit = management.compute_allowed(ctx.budget.window, ctx.budget.max_output)
    facts: dict[str, Any] = {"size": size.whole, "allowed": limit, "window": ctx.budget.window}
    because = f"{size.whole:,} tokens of {ctx.budget.window:,}, where {limit:,.0f} are allowed"
    messages = list_since_summary(envelope, ctx, newest)
    error = management.explain_refusal(messages)
    answer = Answer()
    if not error:
        answer = yield _build_ask(management.select_since_summary(messages), params)
        error = "condense_api_failed" if answer.failed else "" if answer.text.strip(management.SPACE) else "condense_failed"
    if error:
        why = answer.failed or error.replace("_", " ")
        yield Edit("keep", f"{because}, but no summary was made: {why}", facts={**facts, "error": error})
        return newest
    content = _build_content(ctx, answer, params)
    parts = tuple(Part("user", "text" if n else "summary", block["text"], block) for n, block in enumerate(content))
    made = store_summary(envelope, ctx, parts, newest, params.factor)
    facts |= {"summary": made.number, "new_size": made.size}
    facts |= {"source": answer.source, "offline": answer.source == "offline", "model": answer.model}
    yield from _replace_conversation(envelope, ctx, parts, f"{because}: one summary now replaces all messages", facts)
    return made


def _is_due(size: Size, ctx: Ctx, params: Params) -> bool:
    window, output = ctx.budget.window, ctx.budget.max_output
    return management.will_manage(
        size.total, size.last, window=window, max_output=output, auto=True, threshold=params.threshold, profile=params.profile
    )


def _build_ask(messages: list[Any], params: Params) -> Ask:
    """Return the query: everything since the last summary, also what is hidden, with results added for calls that have none."""
    open_calls = management.build_missing_results(messages)
    text = load_prompt(params.prompt)
    content = management.render_transcript([*messages, *([{"role": "user", "content": open_calls}] if open_calls else [])])
    key = blake2b(f"{text}\0{params.model}\0{content}".encode("utf-8", "surrogatepass"), digest_size=16)
    return Ask("summary", key.hexdigest(), text, content, model=params.model)


def _build_content(ctx: Ctx, answer: Answer, params: Params) -> list[Any]:
    heading = management.OFFLINE_HEADING if answer.source == "offline" else management.HEADING
    environment = params.environment
    if environment == NEWEST:
        environment = next(_iter_environments(ctx), "")
    outlines = folding.build_outlines(_iter_files(ctx), params.fold) if params.fold else ()
    return management.build_summary_content(
        heading, answer.text.strip(management.SPACE), build_entry(ctx, ctx.index.messages[0]), environment, outlines
    )


@memoize
def _find_reads(session: Session, _index: Index) -> tuple[FileRead, ...]:
    """Return every file read, in order."""
    prompts = (block for block in session.blocks if block.role == "user")
    return tuple(reading for block in prompts for reading in find_file_reads(block, session))


def _iter_files(ctx: Ctx) -> Iterator[tuple[str, str]]:
    """Yield the files that were read, the latest first, each with the text of its newest complete read, or of its newest."""
    known = [reading for reading in _find_reads(ctx) if reading.at < ctx.request.cut]
    for path in dict.fromkeys(reading.path for reading in reversed(known)):
        of = [reading for reading in known if reading.path == path]
        newest = next((reading for reading in reversed(of) if not reading.part), of[-1])
        yield path, get_file_text(ctx.session.blocks[newest.at], path)


def _iter_environments(ctx: Ctx) -> Iterator[str]:
    newest = ctx.index.messages[count_before(ctx.index.messages, ctx.request.cut) - 1]
    content = build_entry(ctx, newest)["content"]
    for block in reversed(content if isinstance(content, list) else []):
        if isinstance(block, Mapping) and block.get("type") == "text" and extract_text(block).startswith(_ENVIRONMENT):
            yield extract_text(block)


def _replace_conversation(envelope: Envelope, ctx: Ctx, parts: tuple[Part, ...], because: str, facts: dict[str, Any]) -> Edits:
    for number, span in enumerate(ctx.index.find_conversation_spans(ctx.index.messages[0], ctx.request.cut)):
        body = () if number else parts
        markers = [p.slot for p in envelope.pieces if number and p.start == p.stop == span.start and p.slot.startswith(SLOT)]
        for slot in markers:
            yield Edit("drop", because, Span(span.start, span.start), (), slot=slot, facts=facts)
        yield Edit("drop" if number else "condense", because, span, body, facts=facts)


RULE = Rule(
    "condense_to_fresh_start",
    "Once the request is too large, ask for a summary of everything since the last one, and continue with it alone.",
    edits,
    Params,
    "remembers",
    "Roo Code 3.52.1 (cb83656718), manageContext and summarizeConversation (context-management/index.ts, condense/index.ts)",
    state=Summary,
)
