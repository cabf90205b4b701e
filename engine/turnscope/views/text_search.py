"""Search in a session: blocks by their text, their role, and whether a request carries them; when each left the window, and
why.

Pure functions of a trace. A text is a substring without regard to case, or a regular expression with a time limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import regex

from turnscope.errors import QueryError
from turnscope.numbering import format_request
from turnscope.planning.trace import BlockStatus, Trace
from turnscope.session.model import Block, Span
from turnscope.views.labels import label_block
from turnscope.views.transcript import get_role, list_states

PAGE_SIZE = 50  # hits on one page
CONTEXT = 60  # characters of context on each side of a match
TIMEOUT = 2.0  # seconds for a regular expression over a whole session; some would never end

Find = Callable[[str], tuple[int, int] | None]


@dataclass(frozen=True, slots=True)
class Query:
    """What to search for; "" = anything.

    Attributes:
        text: a substring, or a regular expression where `regex` is true.
        role: user, assistant, system or tool.
        tool: name of a tool; finds its calls and its results.
        request: with `which`, only blocks that this request carries verbatim ("in"), or does not ("out").
    """

    text: str = ""
    regex: bool = False
    role: str = ""
    tool: str = ""
    request: int = -1
    which: Literal["", "in", "out"] = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """A block that holds the text.

    Attributes:
        before, match, after: the text around the match.
        spans: half-open ranges of requests that carried the block; empty = none did.
        out: how it left last, or why the first request did not carry it; None while a request still carries it.
    """

    at: int
    label: str
    bucket: str
    before: str
    match: str
    after: str
    spans: tuple[Span, ...]
    out: BlockStatus | None

    @property
    def reason(self) -> str:
        """How the block left last; "" while a request still carries it."""
        if self.out is None:
            return ""
        return f"left at request {format_request(self.out.since)}" + (f": {self.out.because}" if self.out.because else "")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search. `matches`: addresses of all blocks that match; `hits`: a page of them, from number `start` on."""

    query: Query
    matches: tuple[int, ...]
    start: int
    hits: tuple[Hit, ...]

    @property
    def match_count(self) -> int:
        """How many blocks match."""
        return len(self.matches)


def search(trace: Trace, query: Query | str, start: int = 0, most: int = PAGE_SIZE) -> SearchResult:
    """Find every block that matches, and the requests that carried those of one page. An empty text finds nothing.

    Args:
        trace: the replay.
        query: what to search for.
        start: number of the first hit of the page.
        most: hits of one page.

    Raises:
        QueryError: the pattern is wrong, or takes too long.
    """
    query = Query(query) if isinstance(query, str) else query
    if not query.text.strip():
        return SearchResult(query, (), 0, ())
    places = find_matches(trace, query)
    start = max(0, min(start, len(places) - 1)) // most * most
    page = places[start : start + most]
    find = _build_finder(query)
    hits = (
        _build_hit(trace, trace.session.blocks[at], find, spans)
        for at, spans in zip(page, trace.iter_shown_spans(page), strict=True)
    )
    return SearchResult(query, places, start, tuple(hits))


def find_matches(trace: Trace, query: Query) -> tuple[int, ...]:
    """Find the addresses of the blocks that match, in order. An empty text matches all.

    Args:
        trace: the replay.
        query: what to search for.

    Raises:
        QueryError: the pattern is wrong, or takes too long.
    """
    blocks = trace.session.blocks
    if query.which and 0 <= query.request < len(trace.plans):
        wanted = query.which == "in"
        stands = list_states(trace, query.request)
        blocks = tuple(block for block in blocks if (stands[block.at] == "here") == wanted)
    if query.role:
        blocks = tuple(block for block in blocks if get_role(block) == query.role)
    if query.tool:
        blocks = tuple(block for block in blocks if block.name == query.tool)
    if query.text.strip():
        find = _build_finder(query)
        blocks = tuple(block for block in blocks if find(block.text))
    return tuple(block.at for block in blocks)


def list_tools(trace: Trace) -> list[str]:
    """List the names of the tools that a session called, sorted."""
    return sorted({block.name for block in trace.session.blocks if block.name and block.kind in ("tool_use", "tool_result")})


def _build_finder(query: Query) -> Find:
    """Build a function that finds the match in a text: its start and end, or None."""
    if query.regex:
        return _build_pattern_finder(query.text)
    needle = query.text.casefold().strip()

    def find(text: str) -> tuple[int, int] | None:
        at = text.casefold().find(needle)
        return (at, at + len(needle)) if at >= 0 else None

    return find


def _build_pattern_finder(text: str) -> Find:
    try:
        pattern = regex.compile(text, regex.IGNORECASE | regex.MULTILINE)
    except regex.error as error:
        where = f" at character {error.pos + 1}" if error.pos is not None else ""
        raise QueryError(
            f"This is not a valid regular expression: {error.msg}{where}.",
            hint="Correct it, or switch “Regex” off to search for the text.",
        ) from error
    until = time.monotonic() + TIMEOUT

    def find(text: str) -> tuple[int, int] | None:
        try:
            found = pattern.search(text, timeout=max(1e-3, until - time.monotonic()))
        except TimeoutError as error:
            raise QueryError(
                f"This pattern takes more than {TIMEOUT:.0f} seconds here.",
                hint="Nested repeats such as (a+)+ are slow: simplify it, or search for plain text.",
            ) from error
        return found.span() if found else None

    return find


def _build_hit(trace: Trace, block: Block, find: Find, spans: tuple[Span, ...]) -> Hit:
    gone = spans[-1].stop if spans else trace.find_first_request(block.at)
    out = trace.explain(block.at, gone) if gone < len(trace.plans) else None
    start, stop = find(block.text) or (0, 0)
    head, tail = block.text[max(0, start - CONTEXT) : start], block.text[stop : stop + CONTEXT]
    match = block.text[start : min(stop, start + 4 * CONTEXT)]
    return Hit(
        at=block.at,
        label=label_block(trace.session, block),
        bucket=block.bucket,
        before=head,
        match=match,
        after=tail,
        spans=spans,
        out=out,
    )
