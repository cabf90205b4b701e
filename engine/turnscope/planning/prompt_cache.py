"""A simulation of a provider's prompt cache over the requests of a trace, in the order in which they were sent.

Rules come from the provider (`pricing.caches`), times from the log; positions are in provider order. Recorded cache reads are
not used, so that a replay is treated like the record, and the record can check it. Only the lifetime of entries that a session
bought, and that it bought none, come from the record.

Assumptions: breakpoints are behind the system prompt and behind the last two messages; using a prefix keeps all of its prefixes
alive; nothing is evicted early; a summary is made outside the conversation's cache. No prices here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from turnscope.counting.ledger import Ledger
from turnscope.counting.reconciliation import Terms
from turnscope.envelope.difference import find_first_change
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.plan import Plan
from turnscope.planning.trace import Trace
from turnscope.pricing.caches import CacheRules, find_rules
from turnscope.pricing.prices import ModelFacts
from turnscope.session.model import Bucket, Request, Session

MINUTES = 300.0  # seconds; the shortest lifetime of any provider
_END = attrgetter("end")
STATIC = -1  # end of an entry with system prompt and tools only


class CacheUse(NamedTuple):
    """What the cache did for one request, in the provider's tokens. `read`, `written` and `plain` (neither) sum to the prompt.

    Attributes:
        read: Tokens served from the cache.
        written: Tokens written to it.
        plain: Tokens neither read nor written.
        held: Tokens of the previous request that were still cached.
        still_sent: Part of `held` that is also in this request, at any place.
        hour: Written entries live for an hour.
        sent: False for a request that its policy refuses.
    """

    read: int = 0
    written: int = 0
    plain: int = 0
    held: int = 0
    still_sent: int = 0
    hour: bool = False
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


def simulate_prompt_cache(trace: Trace, sizes: Sequence[int] | None = None) -> tuple[CacheUse, ...]:
    """Return what the cache does for every request of a trace, in order.

    Args:
        trace: The trace.
        sizes: The provider's tokens of each request, if known already.
    """
    session, lines, found = trace.session, dict[str, _CachedPrompt](), list[CacheUse]()
    facts: dict[str, tuple[ModelFacts, CacheRules]] = {}
    off = is_uncached(session)
    for n, (plan, life) in enumerate(zip(trace.plans, _iter_lifetimes(session), strict=False)):
        size = trace.count_tokens(n) if sizes is None else sizes[n]
        if plan.model not in facts:
            model = trace.prices.find_facts(plan.model)
            facts[plan.model] = model, find_rules(model)
        model, rules = facts[plan.model]
        if plan.verdict == "refuse":
            found.append(CacheUse(sent=False))
            continue
        if rules.how == "none" or (off and rules.how == "marked"):
            found.append(CacheUse(plain=size))
            continue
        line, lives = lines.get(plan.model), rules.lives.get(life, next(iter(rules.lives.values())))
        step = _CacheStep(
            trace,
            plan,
            terms=trace.get_terms(n),
            size=size,
            rules=rules,
            shortest=rules.find_shortest_prefix(model),
            lives=lives,
        )
        kept, lines[plan.model] = step.use_breakpoints(line) if rules.how == "marked" else step.use_prefix(line)
        found.append(kept._replace(hour=rules.how == "marked" and lives > MINUTES))
    return tuple(found)


def is_uncached(session: Session) -> bool:
    """Return whether a session requested no caching: several requests have usage, and none read or wrote the cache."""
    billed = [request.usage for request in session.requests if request.usage and request.usage.prompt_tokens]
    return len(billed) > 1 and not any(u.cache_read_input_tokens or u.cache_creation_input_tokens for u in billed)


def _iter_lifetimes(session: Session) -> Iterator[str]:
    """The lifetime that each request buys, as in the record: that of the last entry written."""
    first = next((r for r in session.requests if r.usage and r.usage.cache_creation_input_tokens), None)
    life = _get_lifetime(first) if first else ""
    for request in session.requests:
        if request.usage and request.usage.cache_creation_input_tokens:
            life = _get_lifetime(request)
        yield str(request.settings.get("prompt_cache_retention") or life)


def _get_lifetime(request: Request) -> str:
    return "1h" if request.usage and request.usage.cache_creation_1h_input_tokens else "5m"


@dataclass(frozen=True, slots=True)
class _CacheStep:
    """One request and what is cached before it."""

    trace: Trace
    plan: Plan
    terms: Terms
    size: int
    rules: CacheRules
    shortest: int
    lives: float

    def use_breakpoints(self, line: _CachedPrompt | None) -> tuple[CacheUse, _CachedPrompt]:
        """Breakpoints behind the system prompt and the last two messages: an entry is found from one of them, or not at all."""
        now, then = _get_times(self.plan.request)
        held = line.find_alive(now) if line else []
        if self.size < self.shortest:
            return CacheUse(plain=self.size), _CachedPrompt(self.plan, self.size, then)
        at = self._find_common(line)[0]
        left = held[: bisect_right(held, at, key=_END)]
        marks = self._find_breakpoints()
        while left and left[-1].end != STATIC and not self._is_found(left[-1].end, marks):
            del left[1 if left[0].end == STATIC else 0 :]  # entries before it are further away
        read = min(left[-1].tokens, self.size) if left else 0
        for end in (STATIC, *marks):
            place = bisect_left(left, end, key=_END)
            size = self._count_static() if end == STATIC else self.size - self._count_from(self.plan.seen, end)
            if (place == len(left) or left[place].end != end) and size >= self.shortest:
                left.insert(place, _Entry(end, size, self.lives))
        most = held[-1].tokens if held else 0
        kept = CacheUse(
            read=read, written=self.size - read, plain=0, held=most, still_sent=min(self._count_repeated(line), most)
        )
        return kept, _CachedPrompt(self.plan, self.size, then, left)

    def use_prefix(self, line: _CachedPrompt | None) -> tuple[CacheUse, _CachedPrompt]:
        """The longest common prefix, in steps: every prefix of the last prompt is cached."""
        now, then = _get_times(self.plan.request)
        most = line.size if line and line.find_alive(now) else 0
        common = min(self._find_common(line)[1], most, self.size)
        read = common // self.rules.step * self.rules.step
        read = read if read >= self.shortest else 0
        entries = [_Entry(self.plan.seen.stop, self.size, self.lives)] if self.size >= self.shortest else []
        kept = CacheUse(
            read=read, written=0, plain=self.size - read, held=most, still_sent=min(self._count_repeated(line), most)
        )
        return kept, _CachedPrompt(self.plan, self.size, then, entries)

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

    def _count_static(self) -> int:
        return min(self.size, self.terms.prefix + round(self.terms.scale * sum(self.plan.seen.counts[:2])))


def _get_times(request: Request) -> tuple[float | None, float | None]:
    """When a request met the cache, and when it last used it.

    Measured: all recorded reads within 300 s of the previous answer were served. Of several attempts the last one counts; the
    log times only its answer.
    """
    used = request.answered_at or request.sent_at
    return (used if request.attempts > 1 else request.sent_at), used


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
