"""What the requests of a replay would cost with the prompt cache that they would have met, and what each decision does to it.

The cache is simulated (`planning.prompt_cache`), prices are list prices, answers are taken as recorded. What was really billed
is `views.bill`'s; what a page shows of a replay is `views.replay_cost`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil

from turnscope.counting.tokens import count_texts
from turnscope.envelope.pieces import Decision
from turnscope.planning.prompt_cache import CacheUse, count_tokens_from
from turnscope.planning.trace import Trace
from turnscope.pricing.prices import Rates
from turnscope.session.model import Answer, Ask, Request, Usage, select_model_output
from turnscope.views.bill import charge

MAX_COUNTED = 20_000  # characters of a long text that are counted; the rest is taken to be alike
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class SimulatedCost:
    """USD of a replay by request, None where there is no known price: prompt and answer, and in `summary_usd` (also part of
    `usd`) what summaries asked of a model would have cost. A request that is refused costs nothing.

    `cached_tokens`, `prompt_tokens`: tokens of all priced and unpriced requests that came from the cache, and in all.
    """

    usd: tuple[Decimal | None, ...]
    summary_usd: tuple[Decimal, ...]
    cached_tokens: int
    prompt_tokens: int

    @property
    def total(self) -> Decimal | None:
        """USD of all requests with a known price; None where none has one."""
        known = [usd for usd in self.usd if usd is not None]
        return sum(known, Decimal(0)) if known else None

    @property
    def unpriced_requests(self) -> int:
        """Requests without a known price."""
        return sum(usd is None for usd in self.usd)

    @property
    def cache_share(self) -> float:
        """Share of all prompt tokens that came from the cache, 0 to 1."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


@dataclass(frozen=True, slots=True)
class CachePrice:
    """What one decision saves, and what it makes the cache write again, in provider tokens of its request.

    `usd`: what writing them again costs beyond reading them; `usd_per_request`: what is saved at every request from this one
    on, at the price of reading; None without a price. `break_even`: after so many requests, its own counted; None where it
    never does.
    """

    seq: int
    saved: int
    rewritten: int
    usd: Decimal | None
    usd_per_request: Decimal | None
    break_even: int | None

    @property
    def sentence(self) -> str:
        """All of it in one sentence."""
        saved = f"{abs(self.saved):,} tokens {'more' if self.saved < 0 else 'fewer'} from now on"
        told = f"{saved}, {self.rewritten:,} written again because of it"
        if self.usd is None or self.saved < 0 or not self.rewritten:
            return told
        if self.break_even is None:
            return f"{told}: it never pays off"
        return f"{told}: it pays off after {self.break_even:,} request{'' if self.break_even == 1 else 's'}"


def count_answer_tokens(trace: Trace) -> tuple[int, ...]:
    """Output tokens of every recorded answer, which a replay takes over."""
    session, count, prices = trace.session, trace.ledger.count_content, trace.prices
    return tuple(
        request.usage.output_tokens
        if request.usage and not request.output_stub
        else charge(request, prices, select_model_output(session.blocks[request.cut : request.stop]), count).answer
        for request in session.requests
    )


def simulate_cost(trace: Trace, kept: Sequence[CacheUse], answers: Sequence[int] | None = None) -> SimulatedCost:
    """Price a replay. `kept`: what the cache does for its requests; `answers`: see `count_answer_tokens`."""
    answers = count_answer_tokens(trace) if answers is None else answers
    usd: list[Decimal | None] = []
    condensing: list[Decimal] = []
    asked: set[str] = set()
    for n, (plan, cache) in enumerate(zip(trace.plans, kept, strict=True)):
        request = plan.request
        calls = Decimal(0)
        for ask, answer in plan.asks:
            if ask.kind == "summary" and ask.key not in asked:
                calls += _price_summary(trace, ask, answer, plan.model, request) or Decimal(0)
                asked.add(ask.key)
        condensing.append(calls)
        if not cache.sent:
            usd.append(calls)
            continue
        billed = Usage(cache.plain, cache.written, cache.read, answers[n], cache.written if cache.hour else 0)
        cost = trace.prices.compute_cost(billed, plan.model, request.sent_at)
        usd.append(cost.total + calls if cost else None)
    return SimulatedCost(tuple(usd), tuple(condensing), sum(c.read for c in kept), sum(c.prompt for c in kept))


def _price_summary(trace: Trace, ask: Ask, answer: Answer, model: str, request: Request) -> Decimal | None:
    """What a summary cost, or would: from its recorded usage, else all that was asked as uncached prompt; None: no price.

    A text that was made offline stands for one of the model that the policy names, and is priced as if that had written it.
    """
    if answer.failed:
        return None
    usage = answer.usage or Usage(
        input_tokens=_estimate_tokens(trace, ask.prompt) + _estimate_tokens(trace, ask.content),
        output_tokens=_estimate_tokens(trace, answer.text),
    )
    named = answer.model or ask.model
    cost = trace.prices.compute_cost(usage, named or model, request.sent_at)
    if cost is None and named:  # the built-in model bills nothing, and a model may be unknown here
        cost = trace.prices.compute_cost(usage, model, request.sent_at)
    return cost.total if cost else None


def _estimate_tokens(trace: Trace, text: str) -> int:
    """Tokens of a text; of a long one by what its beginning comes to."""
    counted = count_texts([text[:MAX_COUNTED]], trace.ledger.counter)[0]
    return round(counted * max(1.0, len(text) / MAX_COUNTED))


def price_decisions(trace: Trace, kept: Sequence[CacheUse], request: int) -> Mapping[int, CachePrice]:
    """The price of each decision of a request that changed something, by its number. IndexError: there is no such request.

    What the cache has to write again because the prompt parts is shared out in the order of the decisions: each answers for
    what stands between its own place and the nearest to the front that was changed before it.
    """
    plan, cache = trace.plans[request], kept[request]
    made = [decision for decision in plan.decisions if decision.splice]
    ends = trace.plans[request - 1].seen.stop if request else 0
    parts = _split_rewritten(trace, request, made, ends)
    whole = sum(parts)
    scale = trace.fit(request).scale
    rate = trace.prices.find_rates(plan.model, cache.prompt, plan.request.sent_at)
    found: dict[int, CachePrice] = {}
    for decision, part in zip(made, parts, strict=True):
        again = round(cache.missed * part / whole) if whole else 0
        saved = round((decision.before - decision.after) * scale)
        found[decision.seq] = _build_price(decision.seq, saved, again, rate, hour=cache.hour)
    return found


def _split_rewritten(trace: Trace, request: int, made: Sequence[Decision], ends: int) -> list[int]:
    """For how many counted tokens behind it each decision answers, as `price_decisions` says."""
    seen = trace.plans[request].seen
    front, reached, parts = ends, count_tokens_from(seen, ends, trace.ledger), list[int]()
    for decision in made:
        at = decision.splice.place[0] if decision.splice else front
        if at >= front:
            parts.append(0)
            continue
        now = count_tokens_from(seen, at, trace.ledger)
        parts.append(max(0, now - reached))
        front, reached = at, max(now, reached)
    return parts


def _build_price(seq: int, saved: int, again: int, rate: Rates | None, *, hour: bool) -> CachePrice:
    if rate is None:
        return CachePrice(seq, saved, again, None, None, None)
    write = max(rate.cache_write_1h if hour else rate.cache_write_5m, rate.input)
    usd, each = (write - rate.cache_read) * again / _MILLION, rate.cache_read * saved / _MILLION
    pays = max(1, ceil(usd / each)) if each > 0 else None
    return CachePrice(seq, saved, again, usd, each, pays)
