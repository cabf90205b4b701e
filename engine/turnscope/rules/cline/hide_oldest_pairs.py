"""Cline's classic context manager: once the previous request was too large, hide the oldest pairs of messages.

Repeated reads of a file are rewritten first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from msgspec import structs

from turnscope.envelope.condensing import subtract_spans
from turnscope.envelope.conversation import memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.envelope.wishes import find_manual_spans
from turnscope.ports.cline import ranges
from turnscope.ports.cline.ranges import NOTICE, Entry, History, State, Text
from turnscope.ports.cline.reads import compute_saved_share, rewrite_reads
from turnscope.ports.cline.sending import build_content, build_inserted, find_lost, find_places, yield_edits
from turnscope.session.model import Edit, Span

starts = memoize(ranges.find_starts)


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    min_saved: Annotated[float, "hide nothing if rewriting repeated reads saves this share of the characters"] = 0.3
    share: Annotated[float, "share of the window from which on it acts, if that is below the limit (0 = at the limit)"] = 0.0
    handler: Annotated[str, "the kind of API; openai-compatible: DeepSeek models have a window of 128,000 tokens"] = ""
    auto_condense: Annotated[bool, "the model writes summaries instead, so nothing is hidden"] = False
    force: Annotated[
        Literal["", "none", "lastTwo", "half", "quarter"], "hide at once, as after a provider's error, and keep this much"
    ] = ""


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. State: what was hidden and rewritten so far."""
    old: State = ctx.state or State()
    history = History(ctx.session, starts(ctx), ctx.request.cut, old.lost)
    known = len(replace(history, cut=ctx.previous.request.cut)) if ctx.previous else 0
    state, because, facts = _decide(history, ctx, old, params)
    touched = {*range(max(0, known - 1), len(history)), *range(state.start, old.start + 1), state.start}
    if state.entries is not old.entries:
        touched |= {message for message, entry in state.entries.items() if entry is not old.entries.get(message)}
    summed = find_manual_spans(envelope, ctx)  # what the user condensed stays condensed
    if summed:
        hidden = frozenset(message for message in range(len(history)) if _is_in(history.get_address(message), summed))
        history, touched = replace(history, summed=hidden), touched - hidden
    found = find_places(history, state, touched)
    state = structs.replace(state, lost=find_lost(history, state, found))
    history = replace(history, lost=state.lost)
    explained = not because
    for action, first, last in (("drop", min(old.start, known), state.start), ("restore", state.start, min(old.start, known))):
        for span in (
            left for talk in _iter_conversation(ctx, history, max(2, first), last) for left in subtract_spans(talk, summed)
        ):
            text = f"messages 2 to {state.start - 1} are hidden" + (f": {because}" if because else "")
            envelope = yield Edit(action, text, span, restore=action == "restore", facts=facts)  # type: ignore[arg-type]
            explained = True
    if not explained:
        yield Edit("keep", because, facts=facts)
    for place in found:
        if not place.again:
            envelope = yield from yield_edits(envelope, history, place.message, build_content(history, state, place))
    if min(state.start, old.start) < 2:
        yield from _repeat_first_pair(history, state, old)
    return state


def _is_in(at: int, spans: Sequence[Span]) -> bool:
    return any(span.start <= at < span.stop for span in spans)


def _decide(history: History, ctx: Ctx, old: State, params: Params) -> tuple[State, str, Mapping[str, Any]]:
    """Return the new state, why it changed ("" if it did not), and the numbers behind it."""
    used, (window, limit) = _count_used(ctx), ranges.compute_allowance(ctx.budget.window, params.handler, ctx.request.model)
    facts: dict[str, Any] = {"reported": used or 0, "limit": limit}
    entries, because = dict(old.entries), f"an error or the user caused it, keeping {params.force}"
    keep = params.force
    if not keep:
        if params.auto_condense or not ranges.is_over(used, window, limit, params.share):
            return old, "", facts
        because = f"the previous request had {used or 0:,} tokens of {limit:,.0f} allowed"
        keep = "quarter" if (used or 0) / 2 > limit else "half"
        entries, changed = rewrite_reads(history, old)
        share = compute_saved_share(history, old, entries, changed) if changed else 0.0
        facts |= {"rewritten": len(changed), "saved": round(share, 4)}
        if changed:
            because += f"; rewriting {len(changed)} repeated file reads saves {share:.0%} of the text"
        if changed and share >= params.min_saved:
            return structs.replace(old, entries=entries), because, facts
    entries.setdefault(1, Entry(NOTICE, {0: Text(ranges.TRUNCATED)}))
    if params.force and ranges.get_opening(history):
        entries.setdefault(0, Entry(NOTICE, {0: Text(ranges.FIRST_USER)}))
    hidden = ranges.compute_next_range(history.get_role, len(history), old.range, keep)
    return structs.replace(old, range=hidden, entries=entries), because, facts | {"keep": keep, "end": hidden[1]}


def _count_used(ctx: Ctx) -> int | None:
    """Return the tokens of the previous request. A request without usage counts as 0 if others of the log have usage."""
    if ctx.previous is None:
        return None
    return 0 if ctx.previous.request.usage is None and ctx.calibration.seen else ctx.previous_usage


def _iter_conversation(ctx: Ctx, history: History, first: int, last: int) -> Iterator[Span]:
    """Yield the conversation from message `first` up to, and without, message `last`."""
    if first < last:
        yield from ctx.index.find_conversation_spans(history.get_address(first), history.get_address(last))


def _repeat_first_pair(history: History, state: State, old: State) -> Iterator[Edit]:
    """Return the messages of the first pair that are sent again after it."""
    at, start = history.get_address(2), state.start
    for message in range(max(old.start, 0), 2) if start != old.start else ():
        yield Edit("drop", f"the hidden range now ends at message {start - 1}", Span(at, at), slot=f"message {message} again")
    for place in find_places(history, state, (0, 1)):
        if place.again:
            body = build_inserted(history, place.message, build_content(history, state, place))
            text = f"the hidden range ends at message {start - 1}, before it begins: message {place.message} is sent twice"
            yield Edit("insert", text, Span(at, at), body, slot=f"message {place.message} again")


RULE = Rule(
    "hide_oldest_pairs",
    "Hide half or three quarters of the messages after the first pair once the previous request was too large. "
    "Repeated file reads are rewritten first; orphaned pairs are repaired.",
    edits,
    Params,
    "remembers",
    "Cline 3.89.2 ContextManager.getNewContextMessagesAndMetadata",
    state=State,
)
