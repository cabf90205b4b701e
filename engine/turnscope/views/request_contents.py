"""What a request consists of, part by part: system prompt, each tool, MCP servers, what the agent injected, results by subject.

Each part has its tokens and USD in one request, and its USD over the session: its tokens at the mean price of its bucket, at
each request that carries it. Pure functions of the session as recorded.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from turnscope.counting.reconciliation import HIDDEN_CELLS, Floats
from turnscope.planning.trace import Trace
from turnscope.session.content import INJECTED_KINDS
from turnscope.session.model import BUCKETS, Block, Session
from turnscope.views.cache_layout import NO_LAYOUT, NONE, CacheLayout, Shares, sum_shares
from turnscope.views.detail import Item
from turnscope.views.labels import label_block
from turnscope.views.overview import CELLS, LABELS, Overview

GROUPS = {
    "hidden": "Not in the log",
    "system": "System",
    "tools": "Tools",
    "injected": "Injected by the agent",
    "messages": "Messages",
    "tool_results": "Tool results",
    "thinking": "Thinking",
}
POINTS = 48  # of the curve of a part
_FILE = re.compile(r"Contents of (\S+)")
_MCP = re.compile(r"mcp__(.+?)__")

Key = tuple[str, str]
"""Group and label of a part."""


@dataclass(frozen=True, slots=True)
class ContentPart:
    """One part of a request.

    Attributes:
        bucket: names its colour.
        note: what else is known of it, in a few words.
        tokens, usd: in the request.
        session_usd: over the session; None without prices.
        requests: how many requests carry it.
        curve: its tokens over the session, at most `POINTS` of them.
        text: of its largest block; "" where there is none.
        billed: its tokens by how they were billed; zeros where that is not recorded.
    """

    label: str
    bucket: str
    note: str
    tokens: int
    usd: float | None
    session_usd: float | None
    requests: int
    curve: tuple[int, ...]
    text: str
    billed: Shares = NONE


@dataclass(frozen=True, slots=True)
class ContentGroup:
    """Parts of one kind, the largest first; last what only other requests carry. Of a hidden group the parts are inferred."""

    name: str
    title: str
    parts: tuple[ContentPart, ...]

    @property
    def tokens(self) -> int:
        """The tokens of its parts in the request."""
        return sum(part.tokens for part in self.parts)

    @property
    def billed(self) -> Shares:
        """The tokens of its parts by how they were billed."""
        return sum_shares(part.billed for part in self.parts)

    @property
    def usd(self) -> float | None:
        """The USD of its parts in the request; None without a price."""
        known = [part.usd for part in self.parts if part.usd is not None]
        return sum(known) if known else None

    @property
    def session_usd(self) -> float | None:
        """The USD of all its parts over the session; None without a price."""
        known = [part.session_usd for part in self.parts if part.session_usd is not None]
        return sum(known) if known else None


@dataclass(slots=True)
class _Known:
    bucket: int
    usd: float = 0.0
    spans: list[tuple[int, int, int]] = field(default_factory=list)  # start, stop, counted tokens


@dataclass(frozen=True, slots=True)
class SessionContents:
    """The parts of all requests of a session, made once.

    Attributes:
        parts: by group and label.
        calls: how often each tool was called.
        prices: USD of a counted token, `[request, bucket]`.
        scales: provider tokens per counted token, `[request, bucket]`.
    """

    trace: Trace
    view: Overview
    parts: dict[Key, _Known]
    calls: dict[str, int]
    prices: Floats
    scales: Floats

    @property
    def has_prices(self) -> bool:
        """Whether any request has a price."""
        return bool(self.view.usd.any())


def build_contents(trace: Trace, view: Overview) -> SessionContents:
    """Read the parts of all requests.

    Args:
        trace: the session as recorded.
        view: its overview.
    """
    session, scales = trace.session, view.list_bucket_scales()
    prices = price_counted_tokens(view)
    summed = np.concatenate([np.zeros((1, len(BUCKETS))), prices.cumsum(axis=0)])
    parts: dict[Key, _Known] = {}
    calls: dict[str, int] = defaultdict(int)
    for block, spans in zip(session.blocks, trace.iter_shown_spans(block.at for block in session.blocks), strict=True):
        if block.kind == "tool_use":
            calls[block.name] += 1
        bucket, counted = BUCKETS.index(block.bucket), trace.ledger.count_tokens(block.at, block.at + 1)
        known = parts.setdefault(classify(session, block), _Known(bucket))
        for start, stop in spans:
            known.spans.append((start, stop, counted))
            known.usd += counted * float(summed[stop, bucket] - summed[start, bucket])
    return SessionContents(trace, view, parts, dict(calls), prices, scales)


def price_counted_tokens(view: Overview) -> Floats:
    """USD of a counted token at the mean price of its bucket, `[request, bucket]`."""
    buckets = len(BUCKETS)
    prices: Floats = view.list_bucket_scales() * view.usd[:, :buckets] / np.maximum(view.cells[:, :buckets], 1)
    return prices


def classify(session: Session, block: Block) -> Key:
    """The part that a block belongs to: its group and its label.

    Args:
        session: the session.
        block: the block.
    """
    if block.bucket == "tools":
        name = block.name or "definitions"
        server = _MCP.match(name)
        return "tools", f"MCP server {server[1]}" if server else name
    if block.kind in INJECTED_KINDS:
        path = _FILE.search(block.text[:2_000]) if block.kind == "memory" else None
        return "injected", f"memory {path[1].rstrip(':')}" if path else INJECTED_KINDS[block.kind]
    if block.bucket == "system":
        head = " ".join(block.text[:200].split())
        return "system", (head if len(head) <= 60 else f"{head[:59]}…") or "system prompt"
    if block.bucket == "messages":
        if block.kind == "tool_use":
            return "messages", "calls of tools"
        return "messages", {"user": "you", "tool": "tool"}.get(block.role, block.role) if block.kind == "text" else block.kind
    return block.bucket.value, label_block(session, block)


def list_contents(
    known: SessionContents, n: int, items: Iterable[Item], most: int = 12, layout: CacheLayout = NO_LAYOUT
) -> tuple[ContentGroup, ...]:
    """List the parts of a request by group, the largest parts first.

    Args:
        known: the parts of its session.
        n: the request.
        items: what the request carries, see `detail.build_detail`.
        most: parts of a group; the rest is one part.
        layout: how its parts were billed.
    """
    session, found = known.trace.session, defaultdict[Key, list[Item]](list)
    for item in items:
        key = classify(session, session.blocks[item.at]) if item.stop > item.at and item.state == "verbatim" else None
        found[key or (item.bucket, f"{item.label} ({item.state})")].append(item)
    groups: dict[str, list[ContentPart]] = defaultdict(list)
    for key, members in found.items():
        groups[key[0]].append(_build_part(known, n, key, members, layout))
    for name in HIDDEN_CELLS:
        if part := _build_hidden(known.view, n, name):
            groups["hidden"].append(part)
    for parts in groups.values():
        parts.sort(key=lambda part: -part.tokens)
    return tuple(
        ContentGroup(name, title, (*_fold(groups[name], most), *_list_absent(known, name, {*found})))
        for name, title in GROUPS.items()
        if name in groups
    )


def _list_absent(known: SessionContents, group: str, here: set[Key]) -> tuple[ContentPart, ...]:
    """What other requests carry of a group, as one part without tokens; () = nothing."""
    absent = [part for key, part in known.parts.items() if key[0] == group and key not in here and part.spans]
    if not absent:
        return ()
    scale = known.scales[:, absent[0].bucket]
    counted = _count_by_request((span for part in absent for span in part.spans), len(known.view))
    return (
        ContentPart(
            label=f"{len(absent):,} not in this request",
            bucket=BUCKETS[absent[0].bucket].value,
            note="",
            tokens=0,
            usd=0.0 if known.has_prices else None,
            session_usd=sum(part.usd for part in absent) if known.has_prices else None,
            requests=int(np.count_nonzero(counted)),
            curve=_thin(counted * scale),
            text="",
        ),
    )


def _build_part(known: SessionContents, n: int, key: Key, members: Sequence[Item], layout: CacheLayout) -> ContentPart:
    tokens, largest = sum(item.tokens for item in members), max(members, key=lambda item: item.tokens)
    bucket = CELLS.index(largest.bucket)
    price = float(known.prices[n, bucket] / known.scales[n, bucket]) if known.scales[n, bucket] else 0.0
    whole, usd = known.parts.get(key), tokens * price if known.has_prices else None
    spans = whole.spans if whole else [(n, n + 1, tokens)]
    counted = _count_by_request(spans, len(known.view))
    scale = known.scales[:, whole.bucket] if whole else np.ones(len(known.view))
    return ContentPart(
        label=key[1],
        bucket=largest.bucket,
        note=_describe(known, key, members),
        tokens=tokens,
        usd=usd,
        session_usd=(whole.usd if whole else usd) if known.has_prices else None,
        requests=int(np.count_nonzero(counted)),
        curve=_thin(counted * scale),
        text=largest.text,
        billed=layout.add_shares(members),
    )


def _build_hidden(view: Overview, n: int, name: str) -> ContentPart | None:
    column, priced = CELLS.index(name), bool(view.usd.any())
    tokens = int(view.cells[n, column])
    if not tokens:
        return None
    row = view.cells[:, column].astype(np.float64)
    return ContentPart(
        label=LABELS[name],
        bucket=name,
        note="inferred",
        tokens=tokens,
        usd=float(view.usd[n, column]) if priced else None,
        session_usd=float(view.usd[:, column].sum()) if priced else None,
        requests=int(np.count_nonzero(row)),
        curve=_thin(row),
        text="",
        billed=Shares(*map(float, view.billed[n, column])),
    )


def _describe(known: SessionContents, key: Key, members: Sequence[Item]) -> str:
    group, label = key
    if group == "tools":
        names = [known.trace.session.blocks[item.at].name for item in members]
        many = sum(known.calls.get(name, 0) for name in set(names))
        calls = f"{many:,} call{'' if many == 1 else 's'}" if many else "never called"
        return f"{len(names):,} tools, {calls}" if label.startswith("MCP server ") else calls
    return f"× {len(members):,}" if len(members) > 1 else ""


def _count_by_request(spans: Iterable[tuple[int, int, int]], many: int) -> Floats:
    steps = np.zeros(many + 1)
    for start, stop, counted in spans:
        steps[start] += counted
        steps[stop] -= counted
    return np.fromiter(accumulate(steps[:-1]), dtype=np.float64, count=many)


def _thin(row: Floats) -> tuple[int, ...]:
    """At most `POINTS` values of a row: the largest of each stretch."""
    width = max(1, -(-len(row) // POINTS))
    return tuple(round(float(row[start : start + width].max())) for start in range(0, len(row), width))


def _fold(parts: Sequence[ContentPart], most: int) -> tuple[ContentPart, ...]:
    """The first parts, and the rest as one."""
    if len(parts) <= most + 1:
        return tuple(parts)
    rest = parts[most:]
    size = max(len(part.curve) for part in rest)
    rows = [part.curve if len(part.curve) == size else (0,) * size for part in rest]
    known = [part.usd for part in rest if part.usd is not None]
    spent = [part.session_usd for part in rest if part.session_usd is not None]
    more = ContentPart(
        label=f"{len(rest):,} smaller ones",
        bucket=rest[0].bucket,
        note="",
        tokens=sum(part.tokens for part in rest),
        usd=sum(known) if known else None,
        session_usd=sum(spent) if spent else None,
        requests=max(part.requests for part in rest),
        curve=tuple(map(sum, zip(*rows, strict=True))),
        text="",
        billed=sum_shares(part.billed for part in rest),
    )
    return (*parts[:most], more)
