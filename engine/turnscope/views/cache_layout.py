"""Where a request's prompt was read from the cache, where written to it, and where its cache breakpoints stand.

A provider reads tools, then the system prompt, then messages, and bills the prompt from its start: tokens read from the cache,
then tokens written to it, then uncached ones. Pure functions of the session as recorded. Breakpoints are those of the recorded
body; Cline and Roo Code keep no bodies, and set them by a rule of their own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from turnscope.envelope.envelope import Envelope
from turnscope.importers.task_folder.timeline import NAME as TASK_FOLDER
from turnscope.planning.calls import MAPPING
from turnscope.planning.render import build_body
from turnscope.planning.trace import Trace
from turnscope.session.model import JSON, Bucket
from turnscope.views.detail import Item
from turnscope.views.labels import label_block
from turnscope.views.overview import Overview

NEARLY_ALL = 0.98  # of a part's tokens: the rest is the error of an estimated edge
FIVE_MINUTES = "5m"  # how long a breakpoint keeps its prefix where it does not say

_Key = tuple[int, int, str]
"""Start and stop of its blocks, and the slot of an insert."""


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A cache breakpoint.

    Attributes:
        tokens: prompt tokens up to it.
        label: the block that carries it.
        ttl: the time to live that it asks for, such as "5m".
        at: address of the block that carries it.
        inferred: whether it follows from the tool's rule, not from a recorded body.
    """

    tokens: int
    label: str
    ttl: str
    at: int = -1
    inferred: bool = False


class Shares(NamedTuple):
    """Tokens of a part of a prompt by how they were billed."""

    read: float = 0.0
    written: float = 0.0
    uncached: float = 0.0

    @property
    def state(self) -> str:
        """How all, nearly all or most of it was billed: "read", "written", "uncached", "mostly read", ...; "" = no tokens."""
        most = max(self)
        if not most:
            return ""
        return ("" if most >= NEARLY_ALL * sum(self) else "mostly ") + self._fields[self.index(most)]


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """The prompt of one request along the cache.

    Attributes:
        breakpoints: in the order sent; () where the body is not known.
        shares: by part; empty where no usage is recorded.
    """

    breakpoints: tuple[Breakpoint, ...]
    shares: Mapping[_Key, Shares]

    def add_shares(self, items: Iterable[Item]) -> Shares:
        """Add up how some items of the request were billed.

        Args:
            items: those of `views.detail`.
        """
        return sum_shares(self.shares.get(_get_key(item), NONE) for item in items)


NONE = Shares()
NO_LAYOUT = CacheLayout((), {})


def sum_shares(shares: Iterable[Shares]) -> Shares:
    """Add up parts of a prompt by how they were billed."""
    return Shares(*map(sum, zip(NONE, *shares, strict=True)))


class _Unit(NamedTuple):
    key: _Key
    tokens: int
    sent: bool  # whether it is an element of the body by itself
    bucket: str


def lay_out_cache(trace: Trace, view: Overview, n: int) -> CacheLayout:
    """Lay the prompt of a request along the cache.

    Args:
        trace: the session as recorded.
        view: its overview.
        n: number of the request.
    """
    plan, terms = trace.plans[n], trace.get_terms(n)
    units = _list_units(trace, plan.seen, n)
    counted = [*accumulate((unit.tokens for unit in units), initial=terms.hidden_tokens)]
    scale = view.get_prompt(n) / max(1, counted[-1])
    ends = [end * scale for end in counted]
    place = {unit.key: end for unit, end in zip(units, ends[1:], strict=True)}
    inferred = _follows_rule(trace, n)
    marked = [(_find_end(place, before), key, ttl) for before, key, ttl in _find_marked(trace, n, inferred)]
    breakpoints = tuple(Breakpoint(round(end), _label(trace, key), ttl, key[0], inferred) for end, key, ttl in marked)
    if view.recorded[n] < 0:
        return CacheLayout(breakpoints, {})
    read, written, _ = (float(tokens) for tokens in view.billed[n].sum(axis=0))
    edges = _place_edges(read, read + written, ends, [end for end, _, _ in marked])
    spans = zip(units, ends, ends[1:], strict=False)
    shares: dict[_Key, Shares] = {}
    for unit, start, stop in spans:
        shares[unit.key] = sum_shares((shares.get(unit.key, NONE), _split(start, stop, edges)))
    return CacheLayout(breakpoints, shares)


def _place_edges(read: float, cached: float, ends: list[float], breakpoints: list[float]) -> tuple[float, float]:
    """Up to where the prompt was read, and up to where it is cached.

    With breakpoints both are ends of blocks: what is cached ends at the last breakpoint, and what was read at one of an
    earlier request. The places of blocks are estimated, so the nearest end is taken.
    """
    if not breakpoints or not cached:
        return read, cached
    at = bisect_left(ends, read)
    near = min(ends[max(0, at - 1) : at + 1], key=lambda end: abs(end - read)) if read else 0.0
    return near, max(near, breakpoints[-1])


def _split(start: float, stop: float, edges: tuple[float, float]) -> Shares:
    read, cached = (min(max(edge, start), stop) for edge in edges)
    return Shares(read - start, cached - read, stop - cached)


def _get_key(item: Item) -> _Key:
    return item.at, item.stop, item.label if item.at == item.stop else ""


def _list_units(trace: Trace, envelope: Envelope, n: int) -> list[_Unit]:
    """What an envelope carries, in the order in which a provider reads it; a placeholder has a unit for each part."""
    found: dict[str, list[_Unit]] = {"tools": [], "system": [], "messages": []}
    session, ledger, terms = trace.session, trace.ledger, trace.get_terms(n)
    for piece in envelope.pieces:
        if piece.body is None:
            for block in session.blocks[piece.start : piece.stop]:
                fenced = block.role != "system" or session.messages[block.message].fence
                place = "messages" if block.bucket not in (Bucket.SYSTEM, Bucket.TOOLS) else block.bucket.value
                place = "messages" if place == "system" and fenced else place
                tokens = terms.convert(ledger.count_by_bucket(block.at, block.at + 1))
                unit = _Unit((block.at, block.at + 1, ""), tokens, block.raw is not None or place != "messages", block.bucket)
                found[place].append(unit)
            continue
        key = piece.start, piece.stop, piece.slot if piece.start == piece.stop else ""
        for part in piece.body:
            place = "system" if part.place == "system" else "messages"
            tokens = terms.convert(ledger.count_placeholder((part,)))
            found[place].append(_Unit(key, tokens, part.kind != "empty", ""))
    return [*found["tools"], *found["system"], *found["messages"]]


def _follows_rule(trace: Trace, n: int) -> bool:
    """Whether Cline or Roo Code sent the request with caching: they mark what goes to Claude, and no log holds the marks."""
    request = trace.session.requests[n]
    cached = request.usage is not None and bool(
        request.usage.cache_read_input_tokens or request.usage.cache_creation_input_tokens
    )
    return trace.session.source == TASK_FOLDER and cached and "claude" in request.model.lower()


def _find_marked(trace: Trace, n: int, inferred: bool) -> Iterator[tuple[list[_Key], _Key, str]]:
    """Each breakpoint of the body: the parts up to it, the part that carries it, and its time to live."""
    plan = trace.plans[n]
    body = build_body(plan, trace.session, as_recorded=True)
    units = [unit for unit in _list_units(trace, plan.after, n) if unit.sent]
    marks = [*(_mark_user_messages(body) if inferred else _read_marks(body))]
    if len(marks) != len(units):  # something in the body is no block of the session
        return
    keys = [unit.key for unit in units]
    for number, ttl in enumerate(marks):
        if ttl:
            yield keys[: number + 1], keys[number], ttl


def _read_marks(body: Mapping[str, JSON]) -> Iterator[str]:
    """Of each block of a body the time to live of its breakpoint, in the order in which a provider reads; "" = it has none.

    The mark of a whole body is at its last block, that of a part at the block that holds it.
    """
    blocks = [*_as_list(body.get("tools")), *_as_list(body.get("system"))]
    blocks += [block for message in body["messages"] for block in _as_list(message["content"])]
    whole = _read_ttl(body)
    for number, block in enumerate(blocks, 1):
        inner = block.get("content") if isinstance(block, MAPPING) else None
        within = [_read_ttl(part) for part in inner] if isinstance(inner, list) else []
        yield _read_ttl(block) or next(filter(None, within), "") or (whole if number == len(blocks) else "")


def _mark_user_messages(body: Mapping[str, JSON]) -> Iterator[str]:
    """The same as Cline and Roo Code set them: the last block of the last two user messages, and that of the system prompt.

    The newest is written for the next request; the one before is where this request finds what was written.
    """
    yield from ("" for _ in _as_list(body.get("tools")))
    system = _as_list(body.get("system"))
    yield from (FIVE_MINUTES if block is system[-1] else "" for block in system)
    users = [number for number, message in enumerate(body["messages"]) if message["role"] == "user"][-2:]
    for number, message in enumerate(body["messages"]):
        blocks = _as_list(message["content"])
        yield from (FIVE_MINUTES if number in users and last == len(blocks) else "" for last, _ in enumerate(blocks, 1))


def _read_ttl(block: JSON) -> str:
    mark = block.get("cache_control") if isinstance(block, MAPPING) else None
    return str(mark.get("ttl", FIVE_MINUTES)) if isinstance(mark, MAPPING) else ""


def _as_list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else [value] if value else []


def _find_end(place: Mapping[_Key, float], before: list[_Key]) -> float:
    """The end of the last of some parts that the model saw: a server may have taken out others."""
    return next((place[key] for key in reversed(before) if key in place), 0.0)


def _label(trace: Trace, key: _Key) -> str:
    blocks = trace.session.blocks
    return key[2] or (label_block(trace.session, blocks[key[0]]) if key[0] < len(blocks) else "")
