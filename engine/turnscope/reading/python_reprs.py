"""Reads messages that were logged as Python prints them: `role='user' content='Hi' tool_calls=None ...`. Pure functions.

Frameworks log so the objects for which they have no JSON. Only literals are read; whatever else a field holds is left out.
"""

from __future__ import annotations

import ast
import re
from typing import Any

_FIELD = re.compile(r"(\w+)=")
_TEXT = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_PLAIN = re.compile(r"[^\s()\[\]{}'\"]+")
_WANTED = ("role", "content", "tool_call_id", "tool_calls", "tool_call_error", "reasoning_content", "name")
BRACKETS = {"(": ")", "[": "]", "{": "}", "<": ">"}


def parse_message(text: str) -> dict[str, Any]:
    """Parse a printed message; an empty object where the text is none.

    >>> parse_message("role='user' content='Say \\\\'hi\\\\'' name=None metrics=Metrics(tokens=3)")
    {'role': 'user', 'content': "Say 'hi'"}
    """
    found: dict[str, Any] = {}
    at = 0
    while (field := _FIELD.match(text, at)) is not None:
        at = _find_end(text, field.end())
        if field[1] in _WANTED:
            try:
                value = ast.literal_eval(text[field.end() : at])
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                value = None
            found |= {field[1]: value} if value is not None else {}
        while at < len(text) and text[at] in " ,":
            at += 1
    if found.pop("tool_call_error", None):
        found["error"] = True
    return found if isinstance(found.get("role"), str) else {}


def _find_end(text: str, start: int) -> int:
    """Find where a value ends: a text, a bracket with what is in it, or a word, with a call's brackets behind it."""
    at, waiting = start, list[str]()
    while at < len(text):
        one = text[at]
        if quoted := _TEXT.match(text, at):
            at = quoted.end()
        elif one in BRACKETS:
            waiting.append(BRACKETS[one])
            at += 1
        elif waiting and one == waiting[-1]:
            waiting.pop()
            at += 1
        elif not waiting and one in " ,":
            return at
        else:
            plain = _PLAIN.match(text, at) if not waiting else None
            at = plain.end() if plain else at + 1
        if not waiting and at < len(text) and text[at] in " ,":
            return at
    return at
