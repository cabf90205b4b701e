"""What a replay would cost with the prompt cache that it would have met, and what each decision does to that cache.

The cache is simulated (`planning.prompt_cache`). Prices are list prices, answers are taken as recorded. `views.bill` has what
was really billed; `views.replay_cost` scales a simulation to it, and that is what is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from math import ceil

from turnscope.counting.tokens import Counter, count_texts
from turnscope.envelope.pieces import Decision
from turnscope.envelope.plan import Plan
from turnscope.planning.prompt_cache import CacheUse, count_tokens_from
from turnscope.planning.trace import Trace
from turnscope.pricing.prices import Rates
from turnscope.session.model import Answer, Ask, Request, Usage, select_model_output
from turnscope.session.transcript import Transcript
from turnscope.views.bill import charge

MAX_COUNTED = 20_000  # characters of a long text that are counted; the rest is taken to be alike
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class ReplayCost:
    """The cost of a replay. A refused request costs nothing.

    Attributes:
        usd: USD by request, prompt and answer; None without a known price.
        summary_usd: USD by request for summaries that a model would write; part of `usd`.
        cached_tokens: prompt tokens read from the cache, of all requests.
        prompt_tokens: all prompt tokens.
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
        """How many requests have no known price."""
        return sum(usd is None for usd in self.usd)

    @property
    def cache_share(self) -> float:
        """The share of prompt tokens read from the cache, 0 to 1."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


@dataclass(frozen=True, slots=True)
class CachePrice:
    """What one decision saves, and what it makes the cache write again, in provider tokens.

    Attributes:
        seq: number of the decision.
        saved: tokens that each request saves from this one on.
        rewritten: tokens that the cache writes again because of it.
        usd: what writing them again costs beyond reading them; None without a price.
        usd_per_request: what each request saves at the price of reading; None without a price.
        break_even: requests, this one counted, after which it has paid for itself; None = never.
    """

    seq: int
    saved: int
    rewritten: int
    usd: Decimal | None
    usd_per_request: Decimal | None
    break_even: int | None

    @property
    def sentence(self) -> str:
        """Saving, rewritten tokens and break-even in one sentence."""
        saved = f"{abs(self.saved):,} tokens {'more' if self.saved < 0 else 'fewer'} from now on"
        effect = f"{saved}, {self.rewritten:,} written again because of it"
        if self.usd is None or self.saved < 0 or not self.rewritten:
            return effect
        if self.break_even is None:
            return f"{effect}: it never breaks even"
        return f"{effect}: it breaks even after {self.break_even:,} request{'' if self.break_even == 1 else 's'}"


def count_answer_tokens(trace: Trace) -> tuple[int, ...]:
    """Output tokens of every recorded answer. A replay takes them over."""
    session, count, prices = trace.session, trace.ledger.count_content, trace.prices
    return tuple(
        request.usage.output_tokens
        if request.usage and not request.output_stub
        else charge(request, prices, select_model_output(session.blocks[request.cut : request.stop]), count).answer
        for request in session.requests
    )


class RunningCost:
    """The cost of a replay at list prices, request by request.

    Args:
        trace: the replay; its plans may still become more.
        answers: output tokens by request; None = those of `count_answer_tokens`.
    """

    def __init__(self, trace: Trace, answers: Sequence[int] | None = None) -> None:
        self._trace = trace
        self._answers = count_answer_tokens(trace) if answers is None else answers
        self._usd: list[Decimal | None] = []
        self._summary_usd: list[Decimal] = []
        self._priced: set[str] = set()  # keys of the summaries whose price is in it
        self._cached_tokens = self._prompt_tokens = 0

    @property
    def cost(self) -> ReplayCost:
        """The cost of the requests that were added."""
        return ReplayCost(tuple(self._usd), tuple(self._summary_usd), self._cached_tokens, self._prompt_tokens)

    def add(self, plan: Plan, cache: CacheUse) -> None:
        """Add the next request.

        Args:
            plan: its plan.
            cache: what the simulated cache does for it.
        """
        request = plan.request
        self._cached_tokens += cache.read
        self._prompt_tokens += cache.prompt
        calls = Decimal(0)
        for ask, answer in plan.asks:
            if ask.kind == "summary" and ask.key not in self._priced:
                calls += _price_summary(self._trace, ask, answer=answer, model=plan.model, request=request) or Decimal(0)
                self._priced.add(ask.key)
        self._summary_usd.append(calls)
        if not cache.sent:
            self._usd.append(calls)
            return
        billed = Usage(
            input_tokens=cache.plain,
            cache_creation_input_tokens=cache.written,
            cache_read_input_tokens=cache.read,
            output_tokens=self._answers[len(self._usd)],
            cache_creation_1h_input_tokens=cache.hour,
        )
        cost = self._trace.prices.compute_cost(billed, plan.model, request.sent_at)
        self._usd.append(cost.total + calls if cost else None)


def simulate_cost(trace: Trace, uses: Iterable[CacheUse], answers: Sequence[int] | None = None) -> ReplayCost:
    """Price a replay at list prices.

    Args:
        trace: the replay.
        uses: what the simulated cache does for each request; read together with the plans.
        answers: see `RunningCost`.
    """
    running = RunningCost(trace, answers)
    for plan, cache in zip(trace.plans, uses, strict=True):
        running.add(plan, cache)
    return running.cost


def _price_summary(trace: Trace, ask: Ask, answer: Answer, model: str, request: Request) -> Decimal | None:
    """Price a summary: its recorded usage, else its prompt and text without a cache. None without a price.

    An offline summary is priced as if the model that the policy names had written it.
    """
    if answer.failed:
        return None
    usage = answer.usage or Usage(
        input_tokens=_estimate_tokens(trace, ask.prompt) + _estimate_tokens(trace, ask.source),
        output_tokens=_estimate_tokens(trace, answer.text),
    )
    named = answer.model or ask.model
    cost = trace.prices.compute_cost(usage, named or model, request.sent_at)
    if cost is None and named:  # the built-in model bills nothing, and a model may be unknown
        cost = trace.prices.compute_cost(usage, model, request.sent_at)
    return cost.total if cost else None


def _estimate_tokens(trace: Trace, text: str | Transcript) -> int:
    """Estimate the tokens of a text; of a long text from its beginning."""
    beginning, length = (
        (text[:MAX_COUNTED], len(text)) if isinstance(text, str) else (text.read_beginning(MAX_COUNTED), text.length)
    )
    return round(_count_beginning(beginning, trace.ledger.counter) * max(1.0, length / MAX_COUNTED))


@lru_cache(maxsize=64)
def _count_beginning(text: str, counter: Counter) -> int:
    """Count the tokens of a text. One that grows from request to request has the same beginning each time."""
    return count_texts([text], counter)[0]


def price_decisions(trace: Trace, uses: Sequence[CacheUse], request: int) -> Mapping[int, CachePrice]:
    """Price each decision of a request that changed something, by its number.

    The tokens that the cache has to write again are divided among the decisions in their order. Each decision pays for the
    tokens between its own position and the first position that was changed before it.

    Args:
        trace: the replay.
        uses: what the simulated cache does for each request.
        request: number of the request.

    Raises:
        IndexError: there is no such request.
    """
    plan, cache = trace.plans[request], uses[request]
    made = [decision for decision in plan.decisions if decision.splice]
    ends = trace.plans[request - 1].seen.stop if request else 0
    parts = _split_rewritten(trace, request, made, ends)
    whole = sum(parts)
    scale = trace.get_terms(request).scale
    rate = trace.prices.find_rates(plan.model, cache.prompt, plan.request.sent_at)
    found: dict[int, CachePrice] = {}
    for decision, part in zip(made, parts, strict=True):
        again = round(cache.unserved * part / whole) if whole else 0
        saved = round((decision.before - decision.after) * scale)
        found[decision.seq] = _build_price(decision.seq, saved, again, rate, hour=2 * cache.hour > cache.written)
    return found


def _split_rewritten(trace: Trace, request: int, made: Sequence[Decision], ends: int) -> list[int]:
    """Count the tokens that each decision pays for, as `price_decisions` says. `ends`: where the previous request ends."""
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
        return CachePrice(seq=seq, saved=saved, rewritten=again, usd=None, usd_per_request=None, break_even=None)
    write = max(rate.cache_write_1h if hour else rate.cache_write_5m, rate.input)
    usd, each = (write - rate.cache_read) * again / _MILLION, rate.cache_read * saved / _MILLION
    pays = max(1, ceil(usd / each)) if each > 0 else None
    return CachePrice(seq=seq, saved=saved, rewritten=again, usd=usd, usd_per_request=each, break_even=pays)
