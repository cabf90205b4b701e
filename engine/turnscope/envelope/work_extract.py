"""An extract of earlier work, made without a model: those of its lines that name the most of what may be needed again.

The extract is grouped by where a line comes from: a file, a command, a search, an answer. Each identifier that the kept part of
the conversation does not name needs one line. Lines are chosen one by one: the most identifiers that no chosen line names yet,
each weighed by how often and how recently it occurred, for the fewest characters. An earlier extract is read as lines like any
other. What an edit replaced in a file is no line of it any more.

Pure functions; linear in the text, but for choosing among the lines, which a heap does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import heapify, heappop, heappush
from math import fsum
from operator import attrgetter
from typing import Any, NamedTuple

from turnscope.envelope.conversation import find_path, get_call_input, get_result_text
from turnscope.envelope.identifiers import find_identifiers
from turnscope.session.model import JSON, Block, Session

LONGEST = 240  # characters of a line; the rest is cut
SHORTEST = 4  # characters below which a line names nothing
LABEL = 120  # characters of where a line comes from
READ = 60_000  # characters of one block that are read: a log may have megabytes
TALK = "Answers and thoughts"
INDENT = "  "
FRAME = 8  # characters that a line takes beside its text: indent, number, end
LEFT = 32  # characters of room that are not worth a search for a line so short
RECENT = 1_000  # tokens below which it makes no difference how long ago an identifier occurred
REPLACED = ("old_string", "old_str", "oldText")  # inputs of edits: what is in the file no longer
_NUMBERED = re.compile(r"[ \t]*(\d+)(?:→|\t|: )(.*)")  # a line of a file as tools show it, and as an extract does
_FOUND = re.compile(r"((?:[\w.@+~-]*/)*[\w.@+-]+\.\w+)[:-](\d+)[:-](.*)")  # what a search prints
_TELLING = ("command", "pattern", "query", "url", "description", "prompt")  # inputs that say what a call was for


class Line(NamedTuple):
    """A line that an extract may hold: where it comes from, its number there (0 = none), its text, and what it names."""

    source: str
    number: int
    text: str
    names: frozenset[str]


@dataclass(slots=True)
class Candidates:
    """The lines that an extract may hold, and how often and when each identifier occurred.

    Attributes:
        lines: by source and text, with the number of the line and what it names; the newest reading counts.
        mentions: blocks that have each identifier.
        newest: how many tokens after the beginning each identifier occurred last.
    """

    lines: dict[tuple[str, str], Line] = field(default_factory=dict)
    mentions: Counter[str] = field(default_factory=Counter)
    newest: dict[str, int] = field(default_factory=dict)

    def add(self, lines: Iterable[Line], at: int, *, weight: int = 1) -> None:
        """Add the lines of one block.

        Args:
            lines: The lines.
            at: Tokens before the block.
            weight: How many mentions of an identifier the block counts as.
        """
        names = set[str]()
        for line in lines:
            self.lines[line.source, line.text] = line
            names |= line.names
        self.count(names, at, weight=weight)

    def count(self, names: Iterable[str], at: int, *, weight: int = 1) -> None:
        """Count identifiers of a block whose lines are no candidates.

        Args:
            names: The identifiers.
            at: Tokens before the block.
            weight: How many mentions the block counts as.
        """
        if not (found := [*names]):
            return
        for _ in range(weight):
            self.mentions.update(found)  # a loop without a step in Python
        self.newest.update(dict.fromkeys(found, at))

    def remove(self, source: str, texts: Iterable[str]) -> None:
        """Remove lines of a source: they are in it no longer.

        Args:
            source: The source, such as a file.
            texts: The lines.
        """
        for text in texts:
            self.lines.pop((source, text), None)

    def choose(self, known: set[str], room: float, now: int) -> list[Line]:
        """Choose lines, the most telling one first, and add what they name to `known`.

        Args:
            known: Identifiers that need no line.
            room: The most characters of the lines, with their sources.
            now: Tokens before the end.
        """
        weights = {name: count / (RECENT + now - self.newest[name]) for name, count in self.mentions.items()}
        order = [*self.lines.values()]
        heap = [(-worth, place) for place, line in enumerate(order) if (worth := _weigh(line, known, weights)) > 0]
        heapify(heap)
        chosen, sources = list[Line](), set[str]()
        while heap and room > LEFT:
            worth, place = heappop(heap)
            line = order[place]
            if -worth > (new := _weigh(line, known, weights)) + 1e-12:  # lines chosen since name some of it
                if new > 0:
                    heappush(heap, (-new, place))
                continue
            opens = line.source not in sources
            size = FRAME + len(line.text) + (len(line.source) if opens else 0)
            if size > room:
                continue
            if opens:
                sources.add(line.source)
                known |= find_names(line.source)
            chosen.append(line)
            known |= line.names
            room -= size
        return chosen


def _weigh(line: Line, known: set[str], weights: Mapping[str, float]) -> float:
    """What a line is worth. The root of its length: a line with two names is worth more than two lines with one each.

    The sum is exact: a set has another order in each process, and the order of a rounded sum decides between equal lines.
    """
    new = line.names - known
    return fsum(map(weights.__getitem__, new)) / (FRAME + len(line.text)) ** 0.5 if new else 0.0


def find_names(text: str) -> set[str]:
    """Find what a text names: its identifiers, but for numbers alone, which are rarely needed again."""
    return {name for name in find_identifiers(text) if not (name[0].isdigit() and name.replace(".", "").isdigit())}


def read_block(block: Block, session: Session) -> Iterator[Line]:
    """Yield the lines of a block that name something, each with where it comes from.

    Args:
        block: The block.
        session: Its session, which holds the call of a result.
    """
    if block.kind == "tool_use":
        arguments = get_input(block)
        source = describe_call(block.name, arguments)
        for text in _iter_texts({key: value for key, value in arguments.items() if key not in REPLACED}):
            yield from _read_lines(text, source)
    elif block.kind == "tool_result":
        yield from _read_lines(get_result_text(block) or "", describe_call(block.name, get_call_input(session, block)))
    else:
        yield from _read_lines(block.text, TALK)


def find_replaced(block: Block) -> tuple[str, set[str]]:
    """Return the file that a call edits, and the lines that are in it no longer; none for any other block."""
    arguments = get_input(block)
    if not (path := find_path(arguments)):
        return "", set()
    listed = arguments.get("edits")
    edits = [arguments, *(each for each in (listed if isinstance(listed, list) else []) if isinstance(each, Mapping))]
    texts = [(key in REPLACED, text) for each in edits for key, text in each.items() if isinstance(text, str)]
    old, new = (
        {_clip(line) for is_old, text in texts if is_old == side for line in text.split("\n")} for side in (True, False)
    )
    return path[:LABEL], old - new


def get_input(block: Block) -> Mapping[str, Any]:
    """Return the input of a call; {} for any other block."""
    raw = block.raw if block.kind == "tool_use" else None
    given = raw.get("input") if isinstance(raw, Mapping) else None
    return given if isinstance(given, Mapping) else {}


def describe_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Return what a call was about: its file, else the tool and what tells most of its input.

    Args:
        name: The tool's name.
        arguments: The input of the call.
    """
    if path := find_path(arguments):
        return path[:LABEL]
    telling = next((arguments[key] for key in _TELLING if isinstance(arguments.get(key), str)), "")
    return " ".join(f"{name or 'a tool'}: {telling}".split())[:LABEL] if telling else name or "a tool"


def _iter_texts(value: JSON) -> Iterator[str]:
    """The texts in a call's input, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _iter_texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _iter_texts(inner)


def _read_lines(text: str, source: str) -> Iterator[Line]:
    for line in text[:READ].split("\n"):
        if len(line) >= SHORTEST:
            place, number, content, names = _read_line(line)
            if names:
                yield Line(place or source, number, content, names)


@lru_cache(maxsize=1 << 16)
def _read_line(line: str) -> tuple[str, int, str, frozenset[str]]:
    """The file and number before a line ("" and 0 = none), its text, and what it names. Lines repeat, so this is cached."""
    place, number, content = "", 0, line
    if line[0] in " \t0123456789" and (numbered := _NUMBERED.match(line)):
        number, content = int(numbered[1][:9]), numbered[2]
    elif found := _FOUND.match(line):
        place, number, content = found[1][:LABEL], int(found[2][:9]), found[3]
    content = _clip(content)
    return place, number, content, frozenset(find_names(content))


def _clip(line: str) -> str:
    return line.strip()[:LONGEST]


def write_extract(lines: Iterable[Line], head: str) -> str:
    """Write an extract: a heading, then for each source its lines, in the order of their numbers.

    Args:
        lines: The lines.
        head: The heading, one line.
    """
    sources: dict[str, list[Line]] = {}
    for line in lines:
        sources.setdefault(line.source, []).append(line)
    texts = [head]
    for source, found in sources.items():
        texts.append(source)
        for line in sorted(found, key=attrgetter("number")):
            number = f"{line.number}: " if line.number else ""
            texts.append(f"{INDENT}{number}{line.text}")
    return "\n".join(texts)


def read_extract(text: str) -> Iterator[Line]:
    """Yield the lines of an extract that `write_extract` wrote."""
    source = TALK
    for line in text.split("\n")[1:]:
        if not line.startswith(INDENT):
            source = line
            continue
        _, number, content, names = _read_line(line)
        yield Line(source, number, content, names)
