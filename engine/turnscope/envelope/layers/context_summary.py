"""Layer 0: one short text on the state of the whole conversation, rewritten whenever a conversation begins.

Built from the metadata of the first and the newest conversations, and from what the model reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain

from turnscope.envelope.layers.caps import Count, Point, fit_points
from turnscope.envelope.layers.conversations import Split, find_current, find_objective, format_id, get_memo, read_prompt
from turnscope.envelope.layers.forms import MARKS, format_time, get_metadata, make_counter
from turnscope.envelope.layers.metadata import Metadata
from turnscope.envelope.layers.words import split_sentences
from turnscope.envelope.rule import Ctx
from turnscope.session.index import count_before
from turnscope.session.model import JSON

REPORT = "report_housekeeping"  # the tool with which a model reports on a turn
NEWEST = 8  # conversations in the summary, besides the first
FOCUS = 3  # conversations whose names are in focus
LONG = 240  # characters of one sentence
LABELS = 12  # tokens of the names of the points with room of their own
FIELDS = ("context_summary", "understood_intent", "key_decisions", "code_changes")


def build_context(ctx: Ctx, split: Split, cap: int) -> str:
    """Return the context summary for the conversation under way; objective, newest prompt and achievements have their room.

    Args:
        ctx: What the rule may read.
        split: How the session is split into conversations.
        cap: The most tokens.
    """
    number, count = find_current(ctx, split), make_counter(ctx)
    newest = range(number - 1, max(-1, number - 1 - NEWEST), -1)
    known = [get_metadata(ctx, split, n) for n in newest]
    head = f"[Context: where this conversation stands, after {format_id(ctx, split, number - 1)}{_format_time(ctx)}]"
    room = cap * 4 // 5 - count([head])[0] - LABELS
    goal, prompt = _read_objective(ctx)
    reserved: list[Point] = [("objective", " ", _take_sentences(goal, room * 2 // 5, count))]
    reserved.append(("now", " ", _take_sentences(prompt, room // 5, count)))
    decided = chain(read_report(ctx).get("key_decisions", ()), *(metadata.decided[:2] for metadata in known))
    reserved.append(("achieved", " ", _take_sentences(tuple(dict.fromkeys(decided))[:6], room * 2 // 5, count)))
    return fit_points(fit_points(head, reserved, cap, count), [*_collect_points(ctx, split, known, newest, number)], cap, count)


def _read_objective(ctx: Ctx) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sentences of the objective, which stands until the topic changes, and of the newest prompt where that is another."""
    turns = ctx.index.turns
    turn, goal = count_before(turns, ctx.request.cut) - 1, find_objective(ctx)
    if goal < 0:
        return (), ()
    reported = read_report(ctx, goal).get("understood_intent", ())[:1]
    objective, prompt = (tuple(one[:LONG] for one in split_sentences(read_prompt(ctx, at)))[:2] for at in (goal, turns[turn]))
    return (*objective[:1], *reported, *objective[1:]), (() if turns[turn] == goal else prompt)


def _take_sentences(sentences: Sequence[str], room: int, count: Count) -> tuple[str, ...]:
    """The first sentence, and further ones while all of them have at most `room` tokens."""
    sizes = [*accumulate(size + 1 for size in count(sentences))] if sentences else []
    return tuple(one for n, (one, size) in enumerate(zip(sentences, sizes, strict=True)) if not n or size <= room)


def _collect_points(ctx: Ctx, split: Split, known: list[Metadata], newest: range, number: int) -> Iterator[Point]:
    report = read_report(ctx)
    first, last = get_metadata(ctx, split, 0), known[0]
    lines = (
        _format_line(format_id(ctx, split, n), metadata) for n, metadata in zip((0, *newest), (first, *known), strict=True)
    )
    yield "story, the newest first", " ", (*report.get("context_summary", ())[:4], *dict.fromkeys(lines))
    yield "state", " ", (f"{last.outcome}: {last.line}",) if last.line else ()
    yield "next", " ", last.open[:2]
    changed = chain(report.get("code_changes", ()), *(metadata.changed for metadata in known))
    yield "changed", ", ", tuple(dict.fromkeys(changed))[:6]
    entered, left = compare_focus(ctx, split)
    yield "entered", ", ", entered
    yield "left", ", ", left
    for name, entities in find_focus(ctx, split, number).items():
        yield name, ", ", entities


def find_focus(ctx: Ctx, split: Split, number: int) -> Mapping[str, tuple[str, ...]]:
    """Return what the conversations right before one are about: files, functions and concepts.

    Args:
        ctx: What the rule may read.
        split: How the session is split into conversations.
        number: Number of the conversation, from 0.
    """
    named = [get_metadata(ctx, split, n).names for n in range(number - 1, max(-1, number - 1 - FOCUS), -1)]
    found = {
        "files": chain(*(one.files for one in named)),
        "functions": chain(*(one.functions for one in named)),
        "concepts": chain(*(one.concepts[:4] for one in named)),
    }
    return {name: tuple(dict.fromkeys(several))[:6] for name, several in found.items()}


def compare_focus(ctx: Ctx, split: Split) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what came into focus with the newest completed conversation, and what left it; nothing for the first one.

    Args:
        ctx: What the rule may read.
        split: How the session is split into conversations.
    """
    number = find_current(ctx, split)
    now, before = (tuple(chain(*find_focus(ctx, split, n).values())) for n in (number, number - 1))
    entered, left = (tuple(one for one in a if one not in b) for a, b in ((now, before), (before, now)))
    return (entered[:6], left[:6]) if before else ((), ())


def _format_line(name: str, metadata: Metadata) -> str:
    return f"{name} {' '.join(metadata.topic)} ({MARKS[metadata.outcome]})."


def _format_time(ctx: Ctx) -> str:
    """When the newest message before the request was sent, which is when the summary was last written."""
    message = ctx.session.messages[ctx.session.blocks[ctx.request.cut - 1].message]
    return f", {format_time(message.sent_at)} UTC" if format_time(message.sent_at) else ""


def read_report(ctx: Ctx, since: int = 0) -> Mapping[str, tuple[str, ...]]:
    """Return what the model last reported before this request, as sentences by field; {} where it reported nothing.

    Args:
        ctx: What the rule may read.
        since: Address before which a report does not count.
    """
    calls = get_memo(ctx).get("reports")
    if calls is None:
        calls = get_memo(ctx)["reports"] = tuple(at for at in ctx.index.calls if ctx.session.blocks[at].name == REPORT)
    place = count_before(calls, ctx.request.cut)
    raw = ctx.session.blocks[calls[place - 1]].raw if place and calls[place - 1] >= since else None
    arguments = raw.get("input") if isinstance(raw, Mapping) else None
    return {field: _read_sentences(arguments.get(field)) for field in FIELDS} if isinstance(arguments, Mapping) else {}


def _read_sentences(value: JSON) -> tuple[str, ...]:
    rows = value if isinstance(value, list) else [value]
    return tuple(one[:LONG] for row in rows if isinstance(row, str) for one in split_sentences(row))
