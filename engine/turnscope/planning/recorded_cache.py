"""What a record shows of the prompt cache that no simulation can know, to be the same under every policy.

A provider's cache is shared by sessions, and it may lose entries. So a session's first request may read what another session
wrote, a request after a long pause may read a system prompt that others kept alive, and a request may find nothing without a
cause in the log. `prompt_cache` takes these from the record, and works out what a policy does to the cache. Reads recorded
usage, times and edits, and no plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, takewhile
from typing import NamedTuple

from turnscope.pricing.caches import CacheRules
from turnscope.session.model import Bucket, Request, Session, Usage

MINUTES = 300.0  # seconds; the shortest lifetime of any provider
LEAST_LOSS = 1_024  # tokens; a smaller difference is the counter's error, or a breakpoint a few blocks away
STATIC = -1  # end of an entry with system prompt and tools only
NOTHING = -2  # end of no entry at all


class CacheFact(NamedTuple):
    """What the record shows of the cache at one request. The default: nothing beyond the provider's rules.

    Attributes:
        requested: False where the request did not request caching.
        kept: entries that end behind this address were not found, without a cause in the log (`NOTHING` = none was); None = all
            were. They may be found again by a later request.
        edited: the first address at which the tool changed what it had sent; None = nowhere. A loss at an edit counts only for
            prompts that differ there or earlier.
        alive: tokens that were read although no entry that the session wrote could be alive; 0 = none.
        hour: share of the written tokens that live for an hour, 0 to 1.
        static: tokens of system prompt and tools that were read where nothing behind them was; 0 = more was, or nothing.
    """

    requested: bool = True
    kept: int | None = None
    edited: int | None = None
    alive: int = 0
    hour: float = 0.0
    static: int = 0


@dataclass(frozen=True, slots=True)
class RecordedCache:
    """The facts of each request. `static`: by model, tokens of system prompt and tools as the cache was seen to hold them."""

    facts: tuple[CacheFact, ...]
    static: Mapping[str, int]


class _Entry(NamedTuple):
    """What a recorded request left in the cache: up to block `stop`, of `tokens`, for `lives` seconds after its last use."""

    stop: int
    tokens: int
    lives: float


@dataclass(slots=True)
class _Line:
    """The recorded requests to one model: entries short ones first, last used at `used`."""

    rules: CacheRules
    shortest: int
    entries: list[_Entry] = field(default_factory=list)
    used: float | None = None
    static: int = 0
    hour: float = 0.0
    requested: bool = True

    def compare(self, request: Request, usage: Usage, edited: int | None, *, restarted: bool) -> CacheFact:
        """What a request's read shows beyond what the entries explain.

        Args:
            request: The request.
            usage: What was billed for it.
            edited: See `CacheFact`.
            restarted: Its system prompt or tools are others than before.
        """
        read = usage.cache_read_input_tokens
        if usage.cache_creation_input_tokens:
            self.hour = min(1.0, usage.cache_creation_1h_input_tokens / usage.cache_creation_input_tokens)
        if self.rules.how == "marked" and usage.prompt_tokens >= self.shortest:
            self.requested = bool(read or usage.cache_creation_input_tokens)
        if not self.requested:
            return CacheFact(requested=False)
        expected = 0 if restarted else self._count_expected(request, edited)
        if read > LEAST_LOSS and (restarted or not self.entries or read < self.entries[-1].tokens - LEAST_LOSS):
            self.static = min(self.static or read, read)
        found = CacheFact(edited=edited, hour=self.hour)
        if not self.entries and read <= LEAST_LOSS:
            found = found._replace(kept=NOTHING)  # nothing of what was sent before without being billed
        elif expected - read > LEAST_LOSS:
            ends = {NOTHING: 0, STATIC: self.static or read} | {entry.stop: entry.tokens for entry in self.entries}
            kept = min(ends, key=lambda end: abs(ends[end] - read))
            found = found._replace(kept=kept, static=read if kept == STATIC else 0)
        elif read - expected > LEAST_LOSS:
            found = found._replace(alive=read)
        if edited is not None or restarted:
            self.entries = [entry for entry in self.entries if edited is not None and entry.stop <= edited]
        self._advance(request, usage)
        return found

    def _count_expected(self, request: Request, edited: int | None) -> int:
        """Tokens of the newest entry that is alive and before the edit, near enough to be found."""
        now = get_times(request)[0]
        idle = 0.0 if now is None or self.used is None else now - self.used
        alive = (entry for entry in reversed(self.entries) if idle <= max(MINUTES, entry.lives))
        newest = next(alive, None)
        if edited is None or newest is None:
            return newest.tokens if newest else 0
        near = takewhile(lambda entry: request.cut - entry.stop <= self.rules.lookback, chain((newest,), alive))
        static = self.static or 2 * LEAST_LOSS  # not seen yet: some of it should be found
        return max([static, *(entry.tokens for entry in near if entry.stop <= edited)])

    def _advance(self, request: Request, usage: Usage) -> None:
        marked = self.rules.how == "marked"
        tokens = usage.cache_read_input_tokens + usage.cache_creation_input_tokens if marked else usage.prompt_tokens
        usual = next(iter(self.rules.lives.values()))
        lives = self.rules.lives.get("1h", usual) if self.hour else usual
        self.entries.append(_Entry(request.cut, tokens, lives))
        self.used = get_times(request)[1]


def read_recorded_cache(session: Session, models: Mapping[str, tuple[CacheRules, int]]) -> RecordedCache:
    """Read the facts of a session's requests.

    Args:
        session: The session.
        models: By name of a model, the rules of its cache and the tokens of its shortest cached prefix.
    """
    lines = {model: _Line(*found) for model, found in models.items()}
    reads = {request.model for request in session.requests if request.usage and request.usage.cache_read_input_tokens}
    seen: dict[str, Request] = {}
    edits = _find_first_edits(session)
    facts: list[CacheFact] = []
    for request in session.requests:
        line, usage, before = lines[request.model], request.usage, seen.get(request.model)
        silent = line.rules.how == "none" or (line.rules.how == "prefix" and request.model not in reads)
        if silent or usage is None or not usage.prompt_tokens or usage.iterations:
            facts.append(CacheFact(requested=line.requested, hour=line.hour))
            continue
        first = before.n + 1 if before else 0
        edited = min((edits[n] for n in range(first, request.n + 1) if n in edits), default=None)
        if before and edited is not None and edited >= before.cut:
            edited = None  # what it changed was not sent before
        facts.append(line.compare(request, usage, edited, restarted=_has_new_static(session, before, request)))
        seen[request.model] = request
    return RecordedCache(tuple(facts), {model: line.static for model, line in lines.items() if line.static})


def get_times(request: Request) -> tuple[float | None, float | None]:
    """When a request met the cache, and when it last used it.

    Measured: all recorded reads within 300 s of the previous answer were served. Of several attempts the last one counts; the
    log times only its answer.
    """
    used = request.answered_at or request.sent_at
    return (used if request.attempts > 1 else request.sent_at), used


def _find_first_edits(session: Session) -> dict[int, int]:
    """By request, the first address at which the tool edited what it had sent."""
    found: dict[int, int] = {}
    for seen in session.observed:
        if seen.edit.span:
            found[seen.request] = min(found.get(seen.request, seen.edit.span.start), seen.edit.span.start)
    return found


def _has_new_static(session: Session, before: Request | None, request: Request) -> bool:
    if before is None:
        return False
    new = (block for block in session.blocks[before.cut : request.cut] if block.bucket in (Bucket.SYSTEM, Bucket.TOOLS))
    return any(not session.messages[block.message].fence for block in new)
