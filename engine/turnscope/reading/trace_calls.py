"""Finds the spans of a trace that report one and the same call of a model. The module knows no convention.

Two instrumentations may report a call, one inside the other; then the richer span counts. A span above several calls sums them
up. Some frameworks write a span for each event of a call (`NAME.start-7`, `NAME.success-7`); these are joined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from turnscope.reading.trace_spans import TraceSpan
from turnscope.session.content import dumps
from turnscope.session.model import JSON, Usage

_EVENT = re.compile(r"(.+)\.(?:start|success|finish|error)(-\w+)$")


def drop_repeats(spans: Sequence[TraceSpan]) -> list[TraceSpan]:
    """Drop spans that are there again, as exporters send them twice and pages of an answer overlap; the fuller one counts."""
    found: dict[object, TraceSpan] = {}
    for span in spans:
        key = (span.trace, span.id) if span.id else id(span)
        known = found.setdefault(key, span)
        if known is not span and _measure(span) > _measure(known):
            found[key] = span
    return list(found.values())


def _measure(span: TraceSpan) -> tuple[int, int, bool]:
    """How much a span holds: one that is still open is sent again when it ends."""
    return sum(value not in (None, "") for value in span.attributes.values()), len(span.events), span.ended is not None


def join_events(spans: Sequence[TraceSpan], is_call: Callable[[TraceSpan], bool]) -> list[TraceSpan]:
    """Join the spans that are events of one call; other spans stay as they are.

    Args:
        spans: The spans of a file.
        is_call: Whether a span reports a call.
    """
    found: list[TraceSpan] = []
    places: dict[tuple[str, ...], int] = {}
    for span in sorted(spans, key=lambda span: span.started or 0):
        event = _EVENT.match(span.name)
        key = (span.trace, *event.groups()) if event and is_call(span) else ()
        if key and key in places:
            found[places[key]] = _join(found[places[key]], span)
            continue
        if key:
            places[key] = len(found)
        found.append(span)
    return found


def _join(first: TraceSpan, later: TraceSpan) -> TraceSpan:
    """An event with one that came later: what both hold, the later one knows better, but for a prompt."""
    attributes = dict(first.attributes)
    for key, value in later.attributes.items():
        known = attributes.get(key)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            total = {} if value.keys() - known.keys() else {"total": known.get("total")}
            attributes[key] = {k: v for k, v in {**known, "total": None, **value, **total}.items() if v is not None}
        elif value not in (None, "", {}, []) and (known in (None, "", {}, []) or "input" not in key):
            attributes[key] = value
    ended = max((at for at in (first.ended, later.ended) if at is not None), default=None)
    return replace(
        first, attributes=attributes, events=[*first.events, *later.events], ended=ended, error=first.error or later.error
    )


def find_doubled(
    spans: Sequence[TraceSpan],
    prompts: Mapping[int, Sequence[JSON]],
    find_answer: Callable[[TraceSpan], Sequence[Any]],
    get_usage: Callable[[TraceSpan], Usage | None],
) -> set[int]:
    """Find the spans (by `id`) whose call another span reports as well.

    Args:
        spans: The spans of a file.
        prompts: The prompt of each span of a call, by `id`.
        find_answer: Gives the messages of a span's answer.
        get_usage: Gives a span's usage.
    """
    by_id = {(span.trace, span.id): span for span in spans}
    above, depth = dict[int, TraceSpan](), dict[int, int]()
    for span in spans:
        if id(span) in prompts and (found := _find_above(span, by_id, prompts)):
            above[id(span)] = found[0]
            depth[id(span)] = found[1]
    below: dict[int, list[TraceSpan]] = {}
    doubled: set[int] = set()
    for span in sorted((span for span in spans if id(span) in prompts), key=lambda span: -depth.get(id(span), 0)):
        inner = below.pop(id(span), [])
        left = _choose(span, inner, prompts, find_answer, get_usage, doubled)
        if id(span) in above:
            below.setdefault(id(above[id(span)]), []).extend(left)
    return doubled


def _find_above(
    span: TraceSpan, by_id: Mapping[tuple[str, str], TraceSpan], prompts: Mapping[int, Any]
) -> tuple[TraceSpan, int] | None:
    """The nearest span of a call above one, and how deep the one stands; None where there is none."""
    nearest: TraceSpan | None = None
    seen, at = {id(span)}, by_id.get((span.trace, span.parent))
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        nearest = nearest or (at if id(at) in prompts else None)
        at = by_id.get((at.trace, at.parent))
    return (nearest, len(seen)) if nearest else None


def _choose(
    span: TraceSpan,
    below: Sequence[TraceSpan],
    prompts: Mapping[int, Sequence[JSON]],
    find_answer: Callable[[TraceSpan], Sequence[Any]],
    get_usage: Callable[[TraceSpan], Usage | None],
    doubled: set[int],
) -> list[TraceSpan]:
    """Which of a span and the calls below it are calls; the others go to `doubled`."""
    if not below:
        return [span]
    if len(below) > 1:
        doubled.add(id(span))
        return list(below)
    one = below[0]
    texts = [(prompts[id(each)], find_answer(each)) for each in (span, one)]
    usages = [get_usage(each) for each in (span, one)]
    if any(map(any, texts)) and not all(map(any, texts)) and len({use.prompt_tokens for use in usages if use}) > 1:
        return [span, one]  # one of them has no text, and took something else: no twin
    sizes = [(bool(prompt), len(prompt), len(dumps(prompt)) + len(dumps(answer))) for prompt, answer in texts]
    kept, lost = (span, one) if sizes[0] > sizes[1] else (one, span)
    doubled.add(id(lost))
    if get_usage(kept) is None:
        kept.attributes = {**lost.attributes, **kept.attributes}
    return [kept]
