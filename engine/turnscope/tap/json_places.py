"""Where the values of a JSON text stand, so that some can be replaced and all others stay to the letter. Pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from turnscope.session.model import JSON

_SPACE = re.compile(r"[ \t\n\r]*")
_decoder = json.JSONDecoder()


class Found(NamedTuple):
    """A value and the range of the text that it is written in."""

    value: JSON
    start: int
    stop: int


def find_members(text: str, at: int = 0, listed: str = "") -> dict[str, Found]:
    """Find the members of the object that begins at a place, or behind white space there.

    Args:
        text: The text.
        at: The place.
        listed: The key of a list whose value is to be its elements (`Found`), which are read once then.

    Raises:
        ValueError: There is no object, or a key stands in it twice.

    >>> find_members('{"a": [1], "b": 2}')["a"]
    Found(value=[1], start=6, stop=9)
    """
    found: dict[str, Found] = {}
    at = skip_space(text, expect("{", text, skip_space(text, at)))
    while not text.startswith("}", at):
        expect('"', text, at)
        key, at = _decoder.raw_decode(text, at)
        at = skip_space(text, expect(":", text, skip_space(text, at)))
        if key in found:
            raise ValueError(f"the key {key!r} stands twice in an object")
        if key == listed and text.startswith("[", at):
            value, stop = find_elements(text, at)
        else:
            value, stop = _decoder.raw_decode(text, at)
        found[key] = Found(value, at, stop)
        at = skip_comma(text, stop, "}")
    return found


def find_elements(text: str, at: int) -> tuple[list[Found], int]:
    """Find the elements of the list that begins at a place, and the place behind it.

    Args:
        text: The text.
        at: The place.

    Raises:
        ValueError: There is no list.
    """
    found: list[Found] = []
    at = skip_space(text, expect("[", text, at))
    while not text.startswith("]", at):
        value, stop = _decoder.raw_decode(text, at)
        found.append(Found(value, at, stop))
        at = skip_comma(text, stop, "]")
    return found, at + 1


def replace_members(text: str, members: Mapping[str, Found], changes: Mapping[str, str]) -> str:
    """Replace the values of an object's members, and put those into it that it lacks.

    Args:
        text: The text.
        members: The members of the object (`find_members`).
        changes: New values as JSON text, by key.
    """
    known = sorted((members[key].start, members[key].stop, new) for key, new in changes.items() if key in members)
    parts, at = [], 0
    for start, stop, new in known:
        parts += [text[at:start], new]
        at = stop
    parts.append(text[at:])
    added = [f"{json.dumps(key)}:{new}" for key, new in changes.items() if key not in members]
    if not added:
        return "".join(parts)
    last = max(members.values(), key=lambda one: one.stop).stop
    end = len(text) - last
    whole = "".join(parts)
    return whole[: len(whole) - end] + "," + ",".join(added) + whole[len(whole) - end :]


def write_list(elements: Sequence[str]) -> str:
    """Write a list whose elements are JSON texts."""
    return f"[{','.join(elements)}]"


def write_value(value: JSON) -> str:
    """Write a value as JSON text."""
    return json.dumps(value, separators=(",", ":"))


def skip_space(text: str, at: int) -> int:
    """Give the place behind the white space at a place.

    Args:
        text: The text.
        at: The place.
    """
    found = _SPACE.match(text, at)
    return found.end() if found else at


def skip_comma(text: str, at: int, end: str) -> int:
    """Give the place of the next element, or of the end of its list or object.

    Args:
        text: The text.
        at: The place behind an element.
        end: What ends it.

    Raises:
        ValueError: There is neither a comma nor the end.
    """
    at = skip_space(text, at)
    return at if text.startswith(end, at) else skip_space(text, expect(",", text, at))


def expect(mark: str, text: str, at: int) -> int:
    """Give the place behind a mark.

    Args:
        mark: The mark.
        text: The text.
        at: Where it has to stand.

    Raises:
        ValueError: It does not stand there.
    """
    if not text.startswith(mark, at):
        raise ValueError(f"no {mark} at {at}")
    return at + 1
