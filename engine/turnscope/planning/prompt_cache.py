"""A simulation of a provider's prompt cache over the requests of a trace, in the order in which they were sent.

Rules come from the provider (`pricing.caches`), times from the log; positions are in provider order. What no rule explains
comes from the record (`recorded_cache`) and is the same under every policy: what the first request found in the cache, which
entries were lost without a cause, the lifetime that each request bought, and whether it requested caching. All other reads are
worked out, for the record too, so that its bill can check them.

Assumptions: breakpoints are behind the system prompt and behind the last two messages; using a prefix keeps all of its prefixes
alive; nothing else is lost early; a summary is made outside the conversation's cache. No prices here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter
from typing import NamedTuple

from msgspec import Struct

from turnscope.counting.ledger import Ledger
from turnscope.counting.reconciliation import Terms
from turnscope.envelope.difference import find_first_change
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.plan import Plan
from turnscope.planning.recorded_cache import (
    LEAST_LOSS,
    MINUTES,
    STATIC,
    CacheFact,
    RecordedCache,
    get_times,
    read_recorded_cache,
)
from turnscope.planning.trace import Trace
from turnscope.pricing.caches import CacheRules, find_rules
from turnscope.pricing.prices import Prices
from turnscope.session.model import Bucket

_END = attrgetter("end")


class CacheUse(NamedTuple):
    """What the cache did for one request, in the provider's tokens. `read`, `written` and `plain` (neither) sum to the prompt.

    Attributes:
        read: Tokens served from the cache.
        written: Tokens written to it.
        plain: Tokens neither read nor written.
        held: Tokens of the previous request that were still cached.
        still_sent: Part of `held` that is also in this request, at any place.
        hour: Part of `written` that lives for an hour.
        sent: False for a request that its policy refuses.
    """

    read: int = 0
    written: int = 0
    plain: int = 0
    held: int = 0
    still_sent: int = 0
    hour: int = 0
    sent: bool = True

    @property
    def prompt(self) -> int:
        """Tokens of the whole prompt."""
        return self.read + self.written + self.plain

    @property
    def unserved(self) -> int:
        """Tokens that are cached and sent again, but not served because something before them changed."""
        return max(0, self.still_sent - self.read)


class _Entry(NamedTuple):
    """A cached prefix: up to block `end` (or `STATIC`), of `tokens`, for `lives` seconds after its last use."""

    end: int
    tokens: int
    lives: float


@dataclass(frozen=True, slots=True)
class _CachedPrompt:
    """What one model's cache holds of a conversation: prefixes of its last prompt, short ones first, last used at `used`."""

    plan: Plan
    size: int
    used: float | None
    entries: list[_Entry] = field(default_factory=list)

    def find_alive(self, now: float | None) -> list[_Entry]:
        """What is still cached at a time; everything where the log has no times."""
        if now is None or self.used is None:
            return self.entries
        idle = now - self.used
        return self.entries if idle <= MINUTES else [entry for entry in self.entries if idle <= entry.lives]


def simulate_prompt_cache(trace: Trace, sizes: Sequence[int] | None = None, *, sent: bool = True) -> tuple[CacheUse, ...]:
    """Return what the cache does for every request of a trace, in order.

    Args:
        trace: The trace.
        sizes: The provider's tokens of each request, if known already.
        sent: Whether the requests go to the models that they really went to. If not, the record says nothing of their cache.
    """
    return tuple(iter_cache_uses(trace, sizes, sent=sent))


def iter_cache_uses(
    trace: Trace, sizes: Iterable[int] | None = None, *, sent: bool = True, plans: Iterable[Plan] | None = None
) -> Iterator[CacheUse]:
    """Yield what `simulate_prompt_cache` returns, as the plans are read.

    Args:
        trace: See `simulate_prompt_cache`.
        sizes: See `simulate_prompt_cache`.
        sent: See `simulate_prompt_cache`.
        plans: The plans of the trace, where they become more while they are read; None = those that it has.
    """
    session, lines = trace.session, dict[str, _CachedPrompt]()
    rules = _RulesByModel(trace.prices)
    own = {request.model: rules[request.model] for request in session.requests}
    recorded = read_recorded_cache(session, own) if sent else RecordedCache((CacheFact(),) * len(session.requests), {})
    sizes = map(trace.count_tokens, count()) if sizes is None else sizes
    for n, (plan, fact, size) in enumerate(zip(plans or trace.plans, recorded.facts, sizes, strict=False)):
        how, shortest = rules[plan.model]
        if plan.verdict == "refuse":
            yield CacheUse(sent=False)
            continue
        if how.how == "none" or not fact.requested:
            yield CacheUse(plain=size)
            continue
        known = plan.model == (plan.request.requested_model or plan.model)  # a policy sends it to the recorded model
        step = _CacheStep(
            trace,
            plan,
            terms=trace.get_terms(n),
            size=size,
            rules=how,
            shortest=shortest,
            lives=_find_lifetime(how, plan, fact),
            fact=fact if known else CacheFact(hour=fact.hour),
            static=recorded.static.get(plan.model, 0),
        )
        kept, lines[plan.model] = step.use_cache(lines.get(plan.model))
        yield kept


class _RulesByModel(dict[str, tuple[CacheRules, int]]):
    """By model: the rules of its cache, and its shortest cached prefix in tokens."""

    def __init__(self, prices: Prices) -> None:
        super().__init__()
        self._prices = prices

    def __missing__(self, model: str) -> tuple[CacheRules, int]:
        facts = self._prices.find_facts(model)
        rules = find_rules(facts)
        self[model] = rules, rules.find_shortest_prefix(facts)
        return self[model]


def _find_lifetime(rules: CacheRules, plan: Plan, fact: CacheFact) -> float:
    """Seconds that what a request writes lives: as it asks for, or as the record bought."""
    retention = plan.request.settings.get("prompt_cache_retention") or ("1h" if fact.hour else "5m")
    return rules.lives.get(str(retention), next(iter(rules.lives.values())))


class _CacheStep(Struct, frozen=True, gc=False):
    """One request and what is cached before it."""

    trace: Trace
    plan: Plan
    terms: Terms
    size: int
    rules: CacheRules
    shortest: int
    lives: float
    fact: CacheFact
    static: int  # tokens of system prompt and tools, as the record shows them; 0 = it does not

    def use_cache(self, line: _CachedPrompt | None) -> tuple[CacheUse, _CachedPrompt]:
        """What the cache does for the request, and what it holds afterwards."""
        return self.use_breakpoints(line) if self.rules.how == "marked" else self.use_prefix(line)

    def use_breakpoints(self, line: _CachedPrompt | None) -> tuple[CacheUse, _CachedPrompt]:
        """Breakpoints behind the system prompt and the last two messages: an entry is found from one of them, or not at all."""
        now, then = get_times(self.plan.request)
        if self.size < self.shortest:
            return CacheUse(plain=self.size), _CachedPrompt(self.plan, self.size, then)
        at = self._find_common(line)[0] if line else self.plan.seen.stop
        entries, kept = self._find_held(line, now), self._find_kept(at)
        left = entries[: bisect_right(entries, max(at, STATIC) if self.fact.alive else at, key=_END)]
        marks = self._find_breakpoints()
        while left and left[-1].end != STATIC and not self._is_found(left[-1].end, marks):
            del left[1 if left[0].end == STATIC else 0 :]  # entries before it are further away
        if kept is not None:  # lost for this request, whatever the prompt
            entries = entries[: bisect_right(entries, kept, key=_END)]
        found = left[: bisect_right(left, entries[-1].end, key=_END)] if entries else []
        known = self.fact.static if found and found[-1].end == STATIC else 0
        read = min(known or found[-1].tokens, self.size) if found else 0
        for end in (STATIC, *marks):
            place = bisect_left(left, end, key=_END)
            size = self._count_until(end)
            if (place == len(left) or left[place].end != end) and size >= self.shortest:
                left.insert(place, _Entry(end, size, self.lives))
        most = entries[-1].tokens if entries else 0
        written = self.size - read
        use = CacheUse(
            read=read,
            written=written,
            plain=0,
            held=most,
            still_sent=min(self._count_repeated(line), most),
            hour=round(written * self.fact.hour),
        )
        return use, _CachedPrompt(self.plan, self.size, then, left)

    def _find_kept(self, at: int) -> int | None:
        """Behind which address the record shows a loss that this prompt, which differs at `at` from the last one, has too."""
        return self.fact.kept if self.fact.edited is None or at <= self.fact.edited else None

    def _find_held(self, line: _CachedPrompt | None, now: float | None) -> list[_Entry]:
        """What the cache holds when the request meets it."""
        fact, entries = self.fact, line.find_alive(now) if line else []
        if not fact.alive:
            return entries
        static = min(fact.alive, self.static or self._count_static())
        others = [e for e in line.entries if e.end != STATIC and e.tokens <= fact.alive + LEAST_LOSS] if line else []
        if line is None and fact.alive > static + LEAST_LOSS and not self.plan.is_changed:
            others = [_Entry(self._find_end(fact.alive), fact.alive, self.lives)]
        return [_Entry(STATIC, static, self.lives), *others]

    def _find_end(self, tokens: int) -> int:
        """The last block up to which the prompt has no more than so many tokens."""
        ends = range(self.plan.seen.stop + 1)
        return max(0, bisect_right(ends, tokens, key=lambda end: self.size - self._count_from(self.plan.seen, end)) - 1)

    def use_prefix(self, line: _CachedPrompt | None) -> tuple[CacheUse, _CachedPrompt]:
        """The longest common prefix, in steps: every prefix of the last prompt is cached."""
        now, then = get_times(self.plan.request)
        most = line.size if line and line.find_alive(now) else self.fact.alive
        at, common = self._find_common(line)
        if (kept := self._find_kept(at)) is not None:
            most = min(most, self._count_until(kept))
        common = min(common if line else self.size, most, self.size)
        read = common // self.rules.step * self.rules.step
        read = read if read >= self.shortest else 0
        entries = [_Entry(self.plan.seen.stop, self.size, self.lives)] if self.size >= self.shortest else []
        use = CacheUse(
            read=read, written=0, plain=self.size - read, held=most, still_sent=min(self._count_repeated(line), most)
        )
        return use, _CachedPrompt(self.plan, self.size, then, entries)

    def _count_repeated(self, line: _CachedPrompt | None) -> int:
        """Tokens of the last prompt that are also in this one: everything except new blocks and replacements."""
        if line is None:
            return 0
        put = sum(sum(p.counts) for d in self.plan.decisions if d.splice for p in d.splice.new if p.body and p.by == d.seq)
        return max(
            0, min(line.size, self.size - self._count_from(self.plan.seen, line.plan.seen.stop) - round(put * self.terms.scale))
        )

    def _find_common(self, line: _CachedPrompt | None) -> tuple[int, int]:
        """Up to which block the last prompt and this one agree (`STATIC` - 1 = none), and its tokens up to there."""
        if line is None:
            return STATIC - 1, 0
        was, now = line.plan.seen, self.plan.seen
        if was.counts[:2] != now.counts[:2]:
            return STATIC - 1, 0
        at = find_first_change(was, now)
        if at is None or at >= was.stop:
            return was.stop, line.size
        if self.trace.session.blocks[at].bucket in (Bucket.SYSTEM, Bucket.TOOLS):
            return STATIC - 1, 0
        return at, max(0, line.size - self._count_from(was, at))

    def _find_breakpoints(self) -> tuple[int, ...]:
        """Ends of the last message and of the one before it."""
        blocks, stop = self.trace.session.blocks, self.plan.seen.stop
        at = stop - 1
        while at > 0 and blocks[at].role != "assistant":
            at -= 1
        return (at + 1, stop) if 0 < at + 1 < stop else (stop,)

    def _is_found(self, end: int, marks: Sequence[int]) -> bool:
        """Whether an entry is within the blocks that are searched before one of the breakpoints."""
        return any(end <= mark and is_within_lookback(self.plan.seen, end, mark, self.rules.lookback) for mark in marks)

    def _count_from(self, envelope: Envelope, at: int) -> int:
        return round(count_tokens_from(envelope, at, self.trace.ledger) * self.terms.scale)

    def _count_until(self, end: int) -> int:
        """Tokens of the prompt up to the end of an entry."""
        if end < 0:
            return self._count_static() if end == STATIC else 0
        return max(0, self.size - self._count_from(self.plan.seen, end))

    def _count_static(self) -> int:
        counted = round(self.terms.get_scale(0) * self.plan.static_tokens)
        hidden = self.static if self.static and self.terms.prefix + self.terms.earlier > counted else self.terms.prefix
        return min(self.size, hidden + counted)


def is_within_lookback(envelope: Envelope, start: int, stop: int, most: int) -> bool:
    """Return whether an envelope has at most `most` blocks between two addresses.

    Args:
        envelope: The envelope.
        start: The first address.
        stop: The address behind.
        most: The most blocks.
    """
    if stop - start <= most:
        return True
    left = most
    for chunk in reversed(envelope.chunks):
        if chunk.stop <= start:
            break
        for piece in reversed(chunk.pieces):
            if piece.stop <= start:
                break
            size = max(0, min(piece.stop, stop) - max(piece.start, start)) if piece.body is None else len(piece.body)
            left -= size
            if left < 0:
                return False
    return True


def count_tokens_from(envelope: Envelope, at: int, ledger: Ledger) -> int:
    """Return the counted tokens of an envelope's messages from address `at` on.

    Args:
        envelope: The envelope.
        at: The address.
        ledger: Token counts of the session.
    """
    tokens = 0
    for chunk in reversed(envelope.chunks):
        if chunk.stop <= at:
            break
        for piece in reversed(chunk.pieces):
            if piece.stop <= at and piece.start < at:
                break
            if piece.start >= at:
                tokens += sum(piece.counts[2:])
            elif piece.body is None:
                tokens += sum(ledger.count_by_bucket(at, piece.stop)[2:])
            else:
                tokens += sum(piece.counts[2:])
    return tokens
