"""Layer 0: one short text on the state of the whole conversation, rewritten whenever a conversation begins.

Built from the metadata of the first and the newest conversations, and from what the model reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from turnscope.envelope.layers.caps import Point, fit_points
from turnscope.envelope.layers.conversations import Split, find_current, format_id, get_memo, read_prompt
from turnscope.envelope.layers.forms import MARKS, format_time, get_metadata, make_counter
from turnscope.envelope.layers.metadata import Metadata
from turnscope.envelope.layers.words import split_sentences
from turnscope.envelope.rule import Ctx
from turnscope.session.index import count_before
from turnscope.session.model import JSON

REPORT = "report_housekeeping"  # the tool with which a model reports on a turn
NEWEST = 8  # conversations in the summary, besides the first
FIELDS = ("context_summary", "understood_intent", "key_decisions", "code_changes")


def build_context(ctx: Ctx, split: Split, cap: int) -> str:
    """Return the context summary for the current conversation, the objective first.

    Args:
        ctx: What the rule may read.
        split: How the session is split into conversations.
        cap: The most tokens.
    """
    number = find_current(ctx, split)
    newest = range(number - 1, max(-1, number - 1 - NEWEST), -1)
    known = [get_metadata(ctx, split, n) for n in newest]
    head = f"[Context: where this conversation stands, after {format_id(ctx, split, number - 1)}{_format_time(ctx)}]"
    return fit_points(head, [*_collect_points(ctx, split, known, newest)], cap, make_counter(ctx))


def _collect_points(ctx: Ctx, split: Split, known: list[Metadata], newest: range) -> Iterator[Point]:
    report = read_report(ctx)
    first, last = get_metadata(ctx, split, 0), known[0]
    turn = count_before(ctx.index.turns, ctx.request.cut) - 1
    prompt_sentences = [*split_sentences(read_prompt(ctx, ctx.index.turns[turn]))] if turn >= 0 else []
    yield "objective", " ", (*report.get("understood_intent", ())[:1], *(one[:240] for one in prompt_sentences[:2]))
    lines = (
        _format_line(format_id(ctx, split, n), metadata) for n, metadata in zip((0, *newest), (first, *known), strict=True)
    )
    yield "story, the newest first", " ", (*report.get("context_summary", ())[:4], *dict.fromkeys(lines))
    yield "state", " ", (f"{last.outcome}: {last.line}",) if last.line else ()
    achieved = chain(report.get("key_decisions", ()), *(metadata.decided[:2] for metadata in known))
    yield "achieved", " ", tuple(dict.fromkeys(achieved))[:6]
    yield "next", " ", last.open[:2]
    changed = chain(report.get("code_changes", ()), *(metadata.changed for metadata in known))
    yield "changed", ", ", tuple(dict.fromkeys(changed))[:6]
    named = [metadata.names for metadata in known[:3]]
    yield "files", ", ", tuple(dict.fromkeys(chain(*(one.files for one in named))))[:6]
    yield "functions", ", ", tuple(dict.fromkeys(chain(*(one.functions for one in named))))[:6]
    yield "concepts", ", ", tuple(dict.fromkeys(chain(*(one.concepts[:4] for one in named))))[:6]


def _format_line(name: str, metadata: Metadata) -> str:
    return f"{name} {' '.join(metadata.topic)} ({MARKS[metadata.outcome]})."


def _format_time(ctx: Ctx) -> str:
    """When the newest message before the request was sent, which is when the summary was last written."""
    message = ctx.session.messages[ctx.session.blocks[ctx.request.cut - 1].message]
    return f", {format_time(message.sent_at)} UTC" if format_time(message.sent_at) else ""


def read_report(ctx: Ctx) -> Mapping[str, tuple[str, ...]]:
    """Return what the model last reported before this request, as sentences by field; {} where it reported nothing."""
    calls = get_memo(ctx).get("reports")
    if calls is None:
        calls = get_memo(ctx)["reports"] = tuple(at for at in ctx.index.calls if ctx.session.blocks[at].name == REPORT)
    place = count_before(calls, ctx.request.cut)
    raw = ctx.session.blocks[calls[place - 1]].raw if place else None
    arguments = raw.get("input") if isinstance(raw, Mapping) else None
    return {field: _read_sentences(arguments.get(field)) for field in FIELDS} if isinstance(arguments, Mapping) else {}


def _read_sentences(value: JSON) -> tuple[str, ...]:
    rows = value if isinstance(value, list) else [value]
    return tuple(one[:240] for row in rows if isinstance(row, str) for one in split_sentences(row))
