"""Cache misses of a recorded session: where the prompt cache broke, what that cost, and why, as far as the log shows it.

Reads recorded usage only; it simulates no cache and knows no policy. A request is a miss if it reads clearly less from the
cache than the request before made available. Writing a new end of the prompt is no miss.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import zip_longest
from typing import Literal, NamedTuple

from turnscope.counting.ledger import Ledger
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.envelope.plan import Plan
from turnscope.planning.session_fit import TOOL_REFERENCE
from turnscope.planning.trace import Trace
from turnscope.pricing.prices import ModelFacts, Prices
from turnscope.session.model import Action, Bucket, Request, Session, Usage
from turnscope.views.phrases import format_duration

Cause = Literal["compaction", "edit", "thinking", "model", "static", "settings", "idle", "off", "unknown"]

MIN_LOSS = 1_024  # tokens; caches work in blocks and skip short prefixes, so smaller losses mean nothing
MIN_LOSS_SHARE = 0.04  # of the cached tokens; a smaller loss depends on where the last breakpoint was
SIDE_REQUEST_FACTOR = 4  # a prompt this many times shorter than its neighbours is a side request (a title, a check)
SHORT_TTL, LONG_TTL = 300.0, 3_600.0  # seconds that a cache entry lives after its last use, at Anthropic
# Seconds after which waiting alone explains a miss. OpenAI's guide: 5 to 10 minutes, at most an hour; others do not say.
TTL_BY_PROVIDER = {"anthropic": SHORT_TTL, "openai": SHORT_TTL}
LOOKBACK = 20  # blocks before a breakpoint in which Anthropic looks for a known prefix
INVALIDATING_SETTINGS = ("thinking", "tool_choice")  # changing these makes Anthropic write the messages again
# The provider's words for the cause of a miss, and what a person reads of them.
DIAGNOSES: Mapping[str, tuple[Cause, str]] = {
    "model_changed": ("model", "the model changed, and each model has its own cache"),
    "system_changed": ("static", "the system prompt changed, and it stands before all messages"),
    "tools_changed": ("static", "the tools changed, and they stand before all messages"),
    "messages_changed": ("edit", "messages that were cached before changed"),
    "previous_message_not_found": ("idle", "what was cached before is no longer held"),
}
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class CacheBreak:
    """One request whose prompt was billed again although the cache had held it.

    Attributes:
        request: its number.
        cause, evidence: why, as a key and in words.
        rebilled_tokens: tokens that were cached, were sent again and were not read from the cache.
        usd: what they cost beyond the price of reading them; None without a price.
        expected, read: tokens that the cache held, and tokens that were read from it.
        idle: seconds since the previous answer; None where the log has no times.
        at: the address where the two prompts first differ; None where the log shows no difference.
    """

    request: int
    cause: Cause
    evidence: str
    rebilled_tokens: int
    usd: Decimal | None
    expected: int
    read: int
    idle: float | None = None
    at: int | None = None


class _Reading(NamedTuple):
    """What the usage of a request (number `n`) and of an earlier one (`base`) says of the cache, in tokens."""

    base: int
    n: int
    usage: Usage
    expected: int  # what the cache held
    prompt: int  # of the base
    short: int  # written for five minutes and still expected
    long: bool  # whether anything was written for one hour so far

    @property
    def is_short(self) -> bool:
        """Whether clearly less was read than the cache held."""
        return self.expected - self.usage.cache_read_input_tokens > max(MIN_LOSS, MIN_LOSS_SHARE * self.expected)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A request (`plan`) and an earlier one (`base`) that shows what the cache held.

    `last` was sent right before `plan`, with usage or without. The other numbers are those of `_Reading`.
    """

    base: Plan
    last: Plan
    plan: Plan
    usage: Usage
    model: ModelFacts  # of `plan`
    expected: int
    prompt: int
    short: int
    long: bool


def find_breaks(trace: Trace) -> tuple[CacheBreak, ...]:
    """Find every request at which the cache broke, in order. Empty where the provider's usage has no cache."""
    found: list[CacheBreak] = []
    least = 0  # the shortest prefix that was ever read, so the least that system prompt and tools have
    for reading in _iter_readings(trace.session.requests):
        read = reading.usage.cache_read_input_tokens
        least = min(least or read, read) if read else least
        if not reading.is_short:
            continue
        pair = _build_pair(trace, reading)
        if pair.expected < (pair.model.min_cache_prefix or 0):
            continue
        broken = _explain(trace, pair, least)
        if broken is not None:
            found.append(broken)
    return tuple(found)


def may_break(requests: Sequence[Request], first: int = 0) -> bool:
    """Whether the usage of a path leaves room for a break. Where not, there is none, and the path need not be assembled.

    Args:
        requests: the requests of the path.
        first: number of the first one that counts.
    """
    return any(reading.is_short for reading in _iter_readings(requests) if reading.n >= first)


def find_cold_time(trace: Trace) -> float | None:
    """When the provider may drop the last prompt from its cache, in seconds since the Unix epoch.

    Five minutes after its last use, or an hour where the tokens that were written last were written for that long. None where
    the log has no time, where nothing was cached, or where the lifetime of the provider's cache is not known.
    """
    requests = trace.session.requests
    last = requests[-1] if requests else None
    if last is None or last.usage is None:
        return None
    used, lives = last.answered_at or last.sent_at, TTL_BY_PROVIDER.get(trace.prices.find_facts(last.model).provider)
    if used is None or lives is None or not (last.usage.cache_read_input_tokens or last.usage.cache_creation_input_tokens):
        return None
    writes = (each.usage for each in reversed(requests) if each.usage and each.usage.cache_creation_input_tokens)
    written = next(writes, None)
    return used + (LONG_TTL if written and written.cache_creation_1h_input_tokens else lives)


def _iter_readings(requests: Sequence[Request]) -> Iterator[_Reading]:
    """Yield each request with usage, and the one before it in the same conversation."""
    billed = [(n, request.usage) for n, request in enumerate(requests) if request.usage and request.usage.prompt_tokens]
    base: int | None = None
    expected = prompt = short = 0
    long = False
    for (n, usage), after in zip_longest(billed, billed[1:]):
        size = usage.prompt_tokens
        if base is not None:
            if size * SIDE_REQUEST_FACTOR < prompt and after and after[1].prompt_tokens >= prompt:
                continue
            yield _Reading(base, n, usage, expected, prompt, short, long)
        read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
        long = long or usage.cache_creation_1h_input_tokens > 0
        brief = written - min(written, usage.cache_creation_1h_input_tokens)
        short = brief + (short if read >= expected - MIN_LOSS else max(0, short - max(0, expected - read)))
        base, expected, prompt = n, read + written, size


def _build_pair(trace: Trace, reading: _Reading) -> _Pair:
    plan = trace.plans[reading.n]
    return _Pair(
        base=trace.plans[reading.base],
        last=trace.plans[reading.n - 1],
        plan=plan,
        usage=reading.usage,
        model=trace.prices.find_facts(plan.model),
        expected=reading.expected,
        prompt=reading.prompt,
        short=reading.short,
        long=reading.long,
    )


def find_prefix_break(before: Envelope, after: Envelope) -> int | None:
    """Find the address from which `after` no longer carries what `before` carried; None where it only adds to the end.

    Chunks that both envelopes share are skipped.

    Args:
        before: the envelope of the earlier request.
        after: the envelope of the later request.
    """
    shared = 0
    for one, other in zip(before.chunks, after.chunks, strict=False):
        if one is not other:
            break
        shared += 1
    left = (piece for chunk in before.chunks[shared:] for piece in chunk.pieces)
    right = (piece for chunk in after.chunks[shared:] for piece in chunk.pieces)
    a, b = next(left, None), next(right, None)
    at = a.start if a else 0
    while a is not None:
        if b is None or not _is_same(a, b):
            return at
        at = min(a.stop, b.stop)
        if a.stop == b.stop:
            a, b = next(left, None), next(right, None)
        elif a.stop < b.stop:
            a = next(left, None)
        else:
            b = next(right, None)
    return None


def _is_same(a: Piece, b: Piece) -> bool:
    """Whether two overlapping pieces put the same content into the prompt."""
    if a.body is not b.body and a.body != b.body:
        return False
    whole = bool(a.body) or a.start == a.stop or b.start == b.stop
    return not whole or (a.start == b.start and a.stop == b.stop)


def _count_removed(before: Envelope, after: Envelope, at: int, ledger: Ledger) -> tuple[int, int]:
    """Count the tokens of `before` from an address on: all of them, and those that `after` no longer carries."""
    here, there = list(_iter_pieces_from(before, at)), [p for p in _iter_pieces_from(after, at) if p.body is None]
    size = sum(ledger.count_tokens(max(at, p.start), p.stop) if p.body is None else sum(p.counts) for p in here)
    kept = i = 0
    for piece in (p for p in here if p.body is None):
        while i < len(there) and there[i].stop <= piece.start:
            i += 1
        for other in there[i:]:
            if other.start >= piece.stop:
                break
            kept += ledger.count_tokens(max(at, piece.start, other.start), min(piece.stop, other.stop))
    return size, size - kept


def _iter_pieces_from(envelope: Envelope, at: int) -> Iterator[Piece]:
    return (p for chunk in envelope.chunks if chunk.stop > at for p in chunk.pieces if p.stop > at)


def _explain(trace: Trace, pair: _Pair, least: int) -> CacheBreak | None:
    """Explain a break; None where nothing was billed again. Causes are tried in an order in which one rules out the next."""
    base, plan, usage = pair.base, pair.plan, pair.usage
    read = usage.cache_read_input_tokens
    scale = plan.calibration.scale
    at = find_prefix_break(base.seen, plan.seen)
    behind, gone = _count_removed(base.seen, plan.seen, at, trace.ledger) if at is not None else (0, 0)
    added = round(trace.ledger.count_tokens(base.request.cut, plan.request.cut) * scale)
    expected = pair.expected
    if gone:
        expected = min(expected, pair.prompt - round(gone * scale))
        if (
            gone >= base.seen.tokens
        ):  # content that the log does not hold may be gone too: expect the shortest known prefix only
            expected = min(expected, least)
    shrunk = pair.prompt + added - round(gone * scale) - usage.prompt_tokens
    if gone or base.model != plan.model or shrunk > max(MIN_LOSS, MIN_LOSS_SHARE * pair.prompt):
        expected = min(expected, usage.prompt_tokens - added)
    rebilled = max(0, min(expected, usage.prompt_tokens) - read)
    cause, evidence, idle = _find_diagnosis(trace, pair, at) or _find_cause(
        trace, pair, at=at, behind=round(behind * scale), shrunk=shrunk
    )
    if rebilled <= MIN_LOSS:
        return None  # the cached content is not sent any more, so nothing was billed again
    broken = CacheBreak(
        request=plan.request.n,
        cause=cause,
        evidence=evidence,
        rebilled_tokens=rebilled,
        usd=None,
        expected=pair.expected,
        read=read,
        idle=idle,
        at=at,
    )
    return replace(broken, usd=_price_rebilled(trace.prices, pair, rebilled))


def _price_rebilled(prices: Prices, pair: _Pair, tokens: int) -> Decimal | None:
    """Price `tokens` beyond reading them. They follow what was read, so tokens written for one hour come first."""
    usage, request = pair.usage, pair.plan.request
    rate = prices.find_rates(request.model, usage.prompt_tokens, request.sent_at)
    if rate is None:
        return None
    written = usage.cache_creation_input_tokens
    hours = min(tokens, written, usage.cache_creation_1h_input_tokens)
    minutes = min(tokens - hours, written - min(written, usage.cache_creation_1h_input_tokens))
    plain = tokens - hours - minutes
    paid = rate.cache_write_1h * hours + rate.cache_write_5m * minutes + rate.input * plain
    return (paid - rate.cache_read * tokens) / _MILLION


def _find_cause(trace: Trace, pair: _Pair, at: int | None, behind: int, shrunk: int) -> tuple[Cause, str, float | None]:
    """Find the cause, its evidence in words, and the seconds since the previous answer. `behind`, `shrunk`: provider tokens."""
    base, plan, usage = pair.base, pair.plan, pair.usage
    read, lost = usage.cache_read_input_tokens, pair.expected - usage.cache_read_input_tokens
    idle, longest = _measure_gap(pair)
    lives = _estimate_lifetime(pair, lost)
    over = idle is not None and idle > lives
    figures = f"{read:,} of {pair.expected:,} cached tokens were read"
    if base.model != plan.model:
        return "model", f"the model changed from {base.model} to {plan.model}, and each has its own cache; {figures}", idle
    if not (read or usage.cache_creation_input_tokens) and pair.model.provider == "anthropic":
        return "off", f"nothing was read and nothing was written: the request did not request caching; {figures}", idle
    if what := _find_static_change(trace.session, pair):
        return "static", f"{what}, and they stand before all messages; {figures}", idle
    waited = f"{format_duration(idle)} passed since the answer before" if idle is not None else ""
    if at is not None and (not over or behind * 2 >= lost):
        cause, because = _find_edit(trace, pair, at)
        also = f"; {waited}, longer than the {format_duration(lives)} that an entry lives" if over else ""
        return cause, f"{because}: the prompt differs from block {at} on; {figures}{also}", idle
    if idle is not None and longest is not None and longest > lives:
        if not over:
            tries = f", {plan.request.attempts} attempts" if plan.request.attempts > 1 else ""
            waited = f"between {format_duration(idle)} and {format_duration(longest)} passed{tries}"
        return "idle", f"{waited}, and an entry lives {format_duration(lives)} after its last use; {figures}", idle
    reported_cut = _find_unlocated_cut(trace, pair)
    if reported_cut or shrunk > max(MIN_LOSS, MIN_LOSS_SHARE * pair.prompt):
        why = reported_cut or f"the prompt is {shrunk:,} tokens shorter than the log accounts for"
        return "edit", f"{why}; {figures}", idle
    changed = [key for key in INVALIDATING_SETTINGS if base.request.settings.get(key) != plan.request.settings.get(key)]
    if changed:
        return "settings", f"{' and '.join(changed)} changed, which makes the messages anew; {figures}", idle
    return "unknown", f"{_describe_unknown(trace.session, pair)}; {figures}", idle


def _find_diagnosis(trace: Trace, pair: _Pair, at: int | None) -> tuple[Cause, str, float | None] | None:
    """The cause as the provider reports it; None where it reports none. It does not say which messages changed: the log may.

    Args:
        trace: The trace.
        pair: The request and the one before it.
        at: The address where the two prompts first differ; None where the log shows no difference.
    """
    miss = pair.plan.request.cache_miss
    if miss is None or miss.reason not in DIAGNOSES:
        return None
    cause, because = DIAGNOSES[miss.reason]
    shown = ""
    if miss.reason == "messages_changed" and at is not None:
        cause, why = _find_edit(trace, pair, at)
        shown = f": {why}, and the prompt differs from block {at} on"
    elif miss.reason == "messages_changed" and (cut := _find_unlocated_cut(trace, pair)):
        shown = f": {cut}"
    figures = f"{pair.usage.cache_read_input_tokens:,} of {pair.expected:,} cached tokens were read"
    return cause, f"{because} (the provider's own diagnosis){shown}; {figures}", _measure_gap(pair)[0]


def _measure_gap(pair: _Pair) -> tuple[float | None, float | None]:
    """Seconds since the previous request, at least and at most. The log has the end of an answer, not its start."""
    last, now = pair.last.request, pair.plan.request
    end, start = last.answered_at or last.sent_at, now.sent_at
    if end is None or start is None:
        return None, None
    until = now.answered_at if now.attempts > 1 and now.answered_at else start
    return max(0.0, start - end), max(0.0, until - (last.sent_at or end))


def _estimate_lifetime(pair: _Pair, lost: int) -> float:
    """Seconds that the lost entries could live: one hour if more was lost than was written for five minutes."""
    maker = pair.model.provider
    if maker != "anthropic":
        return TTL_BY_PROVIDER.get(maker, LONG_TTL)
    outlived = lost > pair.short * (1 + MIN_LOSS_SHARE) + MIN_LOSS and pair.short < pair.expected / 2
    return LONG_TTL if pair.long and outlived else TTL_BY_PROVIDER[maker]


def _find_static_change(session: Session, pair: _Pair) -> str:
    """What changed of the system prompt or the tools; "" where nothing shows."""
    blocks = session.blocks[pair.base.request.cut : pair.plan.request.cut]
    names = {Bucket.SYSTEM: "the system prompt", Bucket.TOOLS: "the tools"}
    new = {b.bucket for b in blocks if b.bucket in names and not session.messages[b.message].fence}
    for i, bucket in enumerate((Bucket.SYSTEM, Bucket.TOOLS)):
        if pair.base.seen.counts[i] != pair.plan.seen.counts[i]:
            new.add(bucket)
    if new:
        return " and ".join(name for bucket, name in names.items() if bucket in new) + " changed"
    loads = any(b.kind == "tool_result" and TOOL_REFERENCE in b.text for b in blocks)
    return "a tool search added tools" if loads and pair.usage.cache_read_input_tokens < MIN_LOSS else ""


def _find_edit(trace: Trace, pair: _Pair, at: int) -> tuple[Cause, str]:
    """Find the kind of edit that first changed the prompt, and its recorded reason."""
    plans = trace.plans[pair.base.request.n + 1 : pair.plan.request.n + 1]
    inserts = (d for plan in plans for d in plan.decisions if d.splice and d.edit.span == (at, at))
    made = next(inserts, None) or (trace.explain(at, pair.plan.request.n).decision if at < pair.plan.request.cut else None)
    kinds: dict[Action, Cause] = {"condense": "compaction", "strip": "thinking"}
    if made is None:
        return "edit", "what the request before carried was changed"
    return kinds.get(made.action, "edit"), made.edit.because


def _find_unlocated_cut(trace: Trace, pair: _Pair) -> str:
    """What the log reports of content that was cleared between the two requests and that it does not hold; "" = nothing."""
    plans = trace.plans[pair.base.request.n + 1 : pair.plan.request.n + 1]
    return next((d.edit.because for plan in plans for d in plan.decisions if d.edit.is_unlocated_cut), "")


def _describe_unknown(session: Session, pair: _Pair) -> str:
    """Describe what is ruled out, and what stands out without being proof."""
    request, idle = pair.plan.request, _measure_gap(pair)[0]
    blocks = session.blocks[pair.base.request.cut : request.cut]
    seen = ["same model", "no edit of what was sent before"]
    seen.append("no times in the log" if idle is None else f"only {format_duration(idle)} since the answer before")
    if request.attempts > 1 or pair.last.request.attempts > 1:
        seen.append("the provider was answering with errors around it")
    if any(b.kind == "tool_result" and TOOL_REFERENCE in b.text for b in blocks):
        seen.append("a tool search had just added tools")
    new = request.cut - pair.base.request.stop
    if new > LOOKBACK and pair.model.provider == "anthropic":
        seen.append(f"{new} blocks came in at once, and only the last {LOOKBACK} are searched for a known prefix")
    before = pair.base.request.usage
    if before and pair.usage.cache_read_input_tokens == before.cache_read_input_tokens:
        seen.append("what is missing is just what the request before had written")
    return f"the log does not say why: {', '.join(seen)}"
