"""The most expensive requests of a session, each with its cause: what made it cost more than its neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from turnscope.planning.trace import Trace
from turnscope.views.bill import READ, UNCACHED, WRITTEN
from turnscope.views.cache_breaks import CacheBreak, Cause, find_breaks
from turnscope.views.detail import build_detail
from turnscope.views.overview import Overview
from turnscope.views.phrases import format_duration, format_tokens

MAX_REQUESTS = 5
LARGE_PART = 0.5  # of a request's cost; a part that is half of it is the cause
_CAUSES: dict[Cause, str] = {
    "model": "cache miss: another model",
    "static": "cache miss: system prompt or tools changed",
    "thinking": "cache miss: thinking of past turns dropped",
    "compaction": "cache miss: compaction",
    "edit": "cache miss: earlier content changed",
    "settings": "cache miss: a setting changed",
    "off": "sent without caching",
    "unknown": "unexplained cache miss",
}


@dataclass(frozen=True, slots=True)
class ExpensiveRequest:
    """One of the most expensive requests.

    Attributes:
        request: its index.
        usd: its cost, answer included.
        kind: `break` (cache miss), `compact`, `first`, `answer`, `new` (new content) or `large` (a large prompt).
        cause: why it cost that much, in a few words.
        detail: the tokens behind it.
    """

    request: int
    usd: Decimal
    kind: str
    cause: str
    detail: str


def find_expensive_requests(
    trace: Trace, view: Overview, broken: Iterable[CacheBreak] | None = None, most: int = MAX_REQUESTS
) -> tuple[ExpensiveRequest, ...]:
    """Find the requests that cost most, the most expensive first. Requests without a price are left out.

    Args:
        trace: the session as recorded.
        view: the overview of the same trace.
        broken: its cache misses, if known already.
        most: requests.
    """
    priced = ((usd, n) for n, usd in enumerate(view.totals) if usd)
    ranked = sorted(priced, key=lambda row: (-row[0], row[1]))[:most]
    misses = {miss.request: miss for miss in (find_breaks(trace) if broken is None else broken)}
    return tuple(ExpensiveRequest(n, usd, *_explain(trace, view, n, misses.get(n))) for usd, n in ranked)


def sum_share(view: Overview, found: Sequence[ExpensiveRequest]) -> float:
    """The share of the branch's cost that these requests have, 0 to 1.

    Args:
        view: the overview.
        found: some of its requests.
    """
    whole = view.path_total or Decimal(0)
    return float(sum((each.usd for each in found), Decimal(0)) / whole) if whole else 0.0


def _explain(trace: Trace, view: Overview, n: int, miss: CacheBreak | None) -> tuple[str, str, str]:
    """Kind, cause and detail of what a request cost."""
    read, written, uncached = (int(view.billed[n, :, how].sum()) for how in (READ, WRITTEN, UNCACHED))
    answer, usd = float(view.answer_usd[n]), float(view.totals[n] or 0)
    compacted = any(mark.kind == "compact" and mark.request == n for mark in view.markers)
    if answer >= LARGE_PART * usd:
        return "answer", "long output", f"{format_tokens(int(view.answers[n]))} output tokens"
    if miss is not None and not (compacted and miss.cause in ("compaction", "edit")):
        return "break", _describe_miss(miss), f"{format_tokens(miss.rebilled_tokens)} tokens sent again"
    fresh = _describe_fresh(written, uncached)
    if compacted:
        return "compact", "first request after a compaction", fresh
    if n == 0:
        return "first", "first request: nothing is cached yet", fresh
    if not read:
        return "off", "nothing read from the cache", fresh
    if _price_fresh(trace, view, n, read) >= LARGE_PART * usd:
        added = max(build_detail(trace, view, n).added, key=lambda item: item.tokens, default=None)
        return "new", f"new content: {added.label}" if added else "new content", fresh
    return "large", "large prompt, mostly cached", f"{format_tokens(read)} tokens read from the cache"


def _describe_miss(miss: CacheBreak) -> str:
    if miss.cause == "idle":
        return f"cache expired after {format_duration(miss.idle or 0.0)} idle"
    return _CAUSES[miss.cause]


def _describe_fresh(written: int, uncached: int) -> str:
    return f"{format_tokens(written or uncached)} tokens {'written to the cache' if written else 'not cached'}"


def _price_fresh(trace: Trace, view: Overview, n: int, read: int) -> float:
    """USD of the tokens of a prompt that were not read from the cache."""
    plan = trace.plans[n]
    rates = trace.prices.find_rates(plan.model, view.get_prompt(n), plan.request.sent_at)
    return float(view.usd[n].sum()) - read * float(rates.cache_read) / 1e6 if rates else 0.0
