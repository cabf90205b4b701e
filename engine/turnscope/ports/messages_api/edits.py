"""Context edits of the Messages API's server, as edits of the envelope that the model sees.

Sources: platform.claude.com, "Context editing" and "Compaction" (as of 2026-11), and the types of the SDK (anthropic 2.12).
Which blocks an edit changes is documented; the text that replaces them is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice

from turnscope.envelope.condensing import render_transcript
from turnscope.envelope.conversation import find_replaceable, find_signed_thinking
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx
from turnscope.session.index import count_before, find_at_or_after, find_at_or_before, group_runs
from turnscope.session.model import JSON, Ask, AskKind, Edit, Part, Span

TOOL_USES = "clear_tool_uses_20250919"
THINKING = "clear_thinking_20251015"
COMPACT = "compact_20260112"
CLEARED = "[cleared to save context]"  # our wording: that of the server is not documented


def find_begin(seen: Envelope, ctx: Ctx) -> int:
    """Return the first block that the server reads: the newest compaction block that is sent; 0 if there is none.

    Args:
        seen: The envelope as the server has it so far.
        ctx: The context of the request.
    """
    compactions = ctx.index.compactions
    sent = (
        at for at in reversed(compactions[: count_before(compactions, ctx.request.cut)]) if seen.find_piece(at).body is None
    )
    return next(sent, 0)


def count_tokens(seen: Envelope, ctx: Ctx) -> int:
    """Return the input tokens of what the server reads, in its own units.

    Args:
        seen: The envelope as the server has it so far.
        ctx: The context of the request, whose calibration converts to the provider's tokens.
    """
    return ctx.calibration.predict(seen.tokens)


def list_tool_uses(seen: Envelope, ctx: Ctx) -> Sequence[int]:
    """Return the results that the server reads, oldest first.

    Args:
        seen: The envelope as the server has it so far.
        ctx: The context of the request.
    """
    results = ctx.index.results
    return results[count_before(results, find_begin(seen, ctx)) : count_before(results, ctx.request.cut)]


def iter_clearable(seen: Envelope, ctx: Ctx, start: int, stop: int, spared: Iterable[str]) -> Iterator[int]:
    """Yield the results in `[start, stop)` that are still verbatim, oldest first.

    Args:
        seen: The envelope that the model sees.
        ctx: The context of the request.
        start: The first address.
        stop: The address after the last.
        spared: Names of tools whose results stay.
    """
    names, results = set(spared), ctx.index.results
    for at in results[count_before(results, max(start, find_begin(seen, ctx))) : count_before(results, stop)]:
        if ctx.session.blocks[at].name not in names and find_replaceable(seen, at) and seen.find_piece(at).body is None:
            yield at


def find_kept_start(seen: Envelope, ctx: Ctx, keep: int) -> int:
    """Return where the oldest of the newest `keep` turns with thinking begins; 0 if there are no more.

    A tool loop is one turn.

    Args:
        seen: The envelope as the server has it so far.
        ctx: The context of the request.
        keep: How many turns.
    """
    at = ctx.request.cut
    for _ in range(keep):
        last = find_at_or_before(find_signed_thinking(ctx), at - 1)
        if last is None or last < find_begin(seen, ctx):
            return 0
        at = find_at_or_before(ctx.index.turns, last) or 0
    return at


def find_cleared_end(seen: Envelope, ctx: Ctx, many: int) -> int:
    """Return where the first turn begins after the oldest `many` turns with thinking.

    Args:
        seen: The envelope as the server has it so far.
        ctx: The context of the request.
        many: How many turns; 0 = the address at which the server begins to read.
    """
    at = find_begin(seen, ctx)
    for _ in range(many):
        first = find_at_or_after(find_signed_thinking(ctx), at)
        if first is None or first >= ctx.request.cut:
            return ctx.request.cut
        at = find_at_or_after(ctx.index.turns, first + 1) or ctx.request.cut
    return at


def clear_thinking(seen: Envelope, ctx: Ctx, start: int, stop: int, because: str, facts: Mapping[str, JSON]) -> Iterator[Edit]:
    """Yield the edits that remove the thinking in `[start, stop)`.

    Args:
        seen: The envelope as the server has it so far.
        ctx: The context of the request.
        start: The first block.
        stop: The block after the last one.
        because: The reason of the edits.
        facts: Their facts.
    """
    thinking = find_signed_thinking(ctx)
    read = thinking[
        count_before(thinking, max(start, find_begin(seen, ctx))) : count_before(thinking, min(stop, ctx.request.cut))
    ]
    for span in group_runs(at for at in read if seen.find_piece(at).body is None):
        yield Edit("strip", because, span, facts=facts)


def build_summary_edits(
    ctx: Ctx, start: int, stop: int, summary: str, because: str, facts: Mapping[str, JSON], block: JSON = None
) -> Iterator[Edit]:
    """Return the edits that put a summary in place of the conversation in `[start, stop)`.

    System prompt and tools inside it stay.

    Args:
        ctx: The context of the request.
        start: The first address.
        stop: The address after the last.
        summary: The text of the summary.
        because: The reason of the edits.
        facts: Facts about them.
        block: The block that is sent for the summary.
    """
    spans = [*ctx.index.find_conversation_spans(start, stop)]
    for number, span in enumerate(spans, 1):
        body = (Part("assistant", "summary", summary, block),) if number == len(spans) else ()
        yield Edit("condense", because, span, body, facts=facts)


def build_summary_ask(
    kind: AskKind, seen: Envelope, ctx: Ctx, stop: int, prompt: str, cap: int, body: Mapping[str, JSON]
) -> Ask:
    """Return the query for a summary of everything before block `stop`.

    Args:
        kind: `compact` or `expect`; see `AskKind`.
        seen: The envelope that the model sees.
        ctx: The context of the request.
        stop: The address after the last block.
        prompt: Instructions; "" = the server's own.
        cap: Tokens that the summary may have.
        body: The conversation as a request body, for a summary on demand.
    """
    content = render_transcript(seen, ctx, Span(0, stop))
    identity = "\0".join((kind, ctx.request.model, prompt, str(cap), content))
    key = blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return Ask(kind, key, prompt, content, max_tokens=cap, body=body)


def get_edits(settings: Mapping[str, JSON]) -> Mapping[str, Mapping[str, JSON]]:
    """Return the context edits that a request asks for, by type."""
    management = settings.get("context_management")
    listed = management.get("edits") if isinstance(management, Mapping) else None
    edits = [edit for edit in listed if isinstance(edit, Mapping)] if isinstance(listed, list) else []
    return {str(edit.get("type")): edit for edit in edits}


def take_oldest(found: Iterable[int], many: int) -> list[int]:
    """Return the first addresses of an ascending series.

    Args:
        found: The addresses.
        many: How many at most; below 0 = none.
    """
    return [*islice(found, max(0, many))]
