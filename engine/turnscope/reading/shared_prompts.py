"""Puts prompts together of which a trace holds each message once, as Turnscope writes them (`telemetry.prompts`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from turnscope.reading.calls import as_text, parse_if_json
from turnscope.reading.content_blocks import as_mapping, as_rows
from turnscope.reading.trace_spans import TraceSpan
from turnscope.session.model import JSON

CONVERSATION, REQUEST = "gen_ai.conversation.id", "turnscope.request"  # see `telemetry.names`
RUN = "turnscope.prompt.run"  # sets numbers apart where a conversation was told by several processes
START, MESSAGES, MARKS = "turnscope.prompt.start", "turnscope.prompt.messages", "turnscope.prompt.marks"
HEADS = {"turnscope.prompt.system": "gen_ai.system_instructions", "turnscope.prompt.tools": "gen_ai.tool.definitions"}
INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
MAX_NUMBERS = 1_000_000  # messages of one prompt; a trace that names more is damaged


def restore_prompts(spans: Sequence[TraceSpan]) -> int:
    """Give every span the whole prompt of its request. Gives how many lack a part, because its span is not there."""
    conversations: dict[tuple[str, str], list[TraceSpan]] = defaultdict(list)
    for span in spans:
        if isinstance(span.attributes.get(START), int):
            conversations[as_text(span.attributes.get(CONVERSATION)), as_text(span.attributes.get(RUN))].append(span)
    return sum(_restore(own) for own in conversations.values())


def _restore(spans: Sequence[TraceSpan]) -> int:
    written: dict[int, JSON] = {}
    heads: dict[tuple[str, Any], JSON] = {}
    for span in spans:
        start = span.attributes[START]
        own = [*_read_list(span, INPUT), *_read_list(span, OUTPUT)]
        written |= dict(enumerate(own, start))
        for key in HEADS.values():
            if value := span.get_nested(key):
                heads[key, span.attributes.get(REQUEST)] = value
    lacking = 0
    for span in spans:
        numbers = [*_iter_numbers(str(span.attributes.get(MESSAGES, "")))]
        named = [(key, span.attributes[at]) for at, key in HEADS.items() if at in span.attributes]
        lacking += not all(number in written for number in numbers) or not all(each in heads for each in named)
        messages = [written[number] for number in numbers if number in written]
        span.attributes[INPUT] = messages if len(messages) < len(numbers) else _put_marks(messages, _read_list(span, MARKS))
        for key, number in named:
            if (key, number) in heads:
                span.attributes[key] = heads[key, number]
    return lacking


def _read_list(span: TraceSpan, key: str) -> list[Any]:
    value = span.attributes.get(key)
    value = parse_if_json(value) if isinstance(value, str) else value
    return value if isinstance(value, list) else []


def _iter_numbers(text: str) -> Iterator[int]:
    """The numbers of `0-5,8`. What is none is passed over."""
    left = MAX_NUMBERS
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal() and max(len(first), len(last)) < 10):
            continue
        several = range(int(first), min(int(last or first) + 1, int(first) + left))
        left -= len(several)
        yield from several


def _put_marks(messages: Sequence[JSON], marks: Sequence[Any]) -> list[JSON]:
    """The messages with their marks for the cache."""
    found = list(messages)
    for mark in marks:
        at, number, value = mark if isinstance(mark, list) and len(mark) == 3 else (-1, -1, None)
        if not (isinstance(at, int) and isinstance(number, int) and 0 <= at < len(found)):
            continue
        parts = as_rows(as_mapping(found[at]).get("parts"))
        if 0 <= number < len(parts):
            marked = {**parts[number], "cache_control": value}
            found[at] = {**found[at], "parts": [*parts[:number], marked, *parts[number + 1 :]]}
    return found
