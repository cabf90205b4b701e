"""Splits the text of a request body into pieces that later bodies repeat: messages, tools, long texts.

The pieces and what stands between them, joined, are the body to the letter. Pure functions.
"""

from __future__ import annotations

import json
import re

from turnscope.tap.json_places import expect, skip_comma, skip_space

LEAST_CHARS = 128  # a shorter piece costs more as a reference than as text
NESTED_OBJECTS = 1  # objects in the body's own one that are looked into, as those of Code Assist, which wrap another API's body
TAIL_CHARS = 200  # where the end of a message is looked for

# What follows a message's last text. A cache mark moves on with every request, so it is no part of the piece.
_TAIL = re.compile(r'(?:\s*,\s*"cache_control"\s*:\s*\{[^{}]*\})?[\s}\]]*\Z')
_decoder = json.JSONDecoder()


def split_body(text: str) -> list[str]:
    """Split a body: text, piece, text, piece, ..., text. A text may be empty. What is no JSON object is one text."""
    spans: list[tuple[int, int]] = []
    try:
        _walk_object(text, skip_space(text, 0), NESTED_OBJECTS, spans)
    except (ValueError, RecursionError):
        return [text]
    parts, at = [], 0
    for start, stop in spans:
        parts += [text[at:start], text[start:stop]]
        at = stop
    return [*parts, text[at:]]


def _walk_object(text: str, at: int, depth: int, spans: list[tuple[int, int]]) -> int:
    """Find the pieces of the object that begins at a place. Gives where it ends."""
    at = skip_space(text, expect("{", text, at))
    while not text.startswith("}", at):
        expect('"', text, at)
        _, at = _decoder.raw_decode(text, at)
        at = skip_space(text, expect(":", text, skip_space(text, at)))
        if text.startswith("[", at):
            at = _walk_list(text, at, spans)
        elif depth and text.startswith("{", at):
            at = _walk_object(text, at, depth - 1, spans)
        else:
            at = _walk_value(text, at, spans)
        at = skip_comma(text, at, "}")
    return at + 1


def _walk_list(text: str, at: int, spans: list[tuple[int, int]]) -> int:
    at = skip_space(text, at + 1)
    while not text.startswith("]", at):
        at = skip_comma(text, _walk_value(text, at, spans), "]")
    return at + 1


def _walk_value(text: str, at: int, spans: list[tuple[int, int]]) -> int:
    _, end = _decoder.raw_decode(text, at)
    tail = _TAIL.search(text, max(at, end - TAIL_CHARS), end)
    stop = tail.start() if tail else end
    if stop - at >= LEAST_CHARS:
        spans.append((at, stop))
    return end
