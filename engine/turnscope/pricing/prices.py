"""What a model is and what a request costs: windows, limits, tokenizer families, rates and costs, as dated data.

Prices come from the installed package genai-prices (data only, it never updates itself). Everything else and a few
missing models come from the overlays. The module holds no usage and no cache rules. It does not price what is billed per call
rather than per token (web searches, hosted tools).

A request whose prompt is longer than a tier's start is billed at that tier as a whole, output and cache too. The prompt alone
decides (Anthropic's long-context pricing, LiteLLM, genai-prices). Tools that bill only the tokens above it at the higher rate,
each kind of token by itself (ccusage), show too little. Sonnet 4 and 4.5 had such a tier at 200,000 for a 1M window that was a
beta from 2025-08-12 to 2026-04-30; Opus 4.6 and Sonnet 4.6 had it until 2026-03-13 and are flat since, as later models are,
except Haiku 5.5.

A model name says who bills it: a plain name its maker, `vendor/name` that vendor, a Bedrock name AWS (regional endpoints cost
more there). Where nobody has a price for exactly this model the answer is None: never zero, never a sibling's price.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

import genai_prices
from genai_prices.data_snapshot import find_provider_by_id, get_snapshot
from genai_prices.types import ModelInfo, ModelPrice, StartDateConstraint, Tier, TieredPrices, TimeOfDateConstraint

from turnscope.pricing.overlay import BUILT_IN, RATE_KEYS, TABLES, Overlay
from turnscope.pricing.windows import ChosenWindow, WindowEvidence, decide_windows
from turnscope.session.model import Request, Session, Usage

_PACKAGE = f"genai-prices {genai_prices.__version__}"
_MILLION = 1_000_000
_DAY = 86_400
_NEWEST = datetime(9999, 12, 31, 12, tzinfo=UTC)  # later than every start date; no daily discount holds at noon

_WIDE = re.compile(r"\[1m\]$")
_PATH = re.compile(r"^(?:arn:aws:bedrock:[^/]*/|bedrock/(?:converse/|invoke/)?|.*\bmodels/)")
_BEDROCK = re.compile(r"^((?:us|us-gov|eu|apac|au|jp|ca|in|sa|global)\.)?[a-z0-9]+\.([a-z].*?)(-v\d+(?::\d+)*)?$")
_NOT_TEXT = re.compile(
    r"audio|realtime|transcribe|tts|image|vision|search|live|instruct|deep-research"
)  # models for other media, or for one task
_DATE = re.compile(r"(?:@.*|-\d{8}|-\d{4}-\d{2}-\d{2}|-latest)$")


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of a model. Sizes in tokens; None or '' = unknown. `provider` is its maker, not the one who bills."""

    name: str
    provider: str = ""
    window: int | None = None
    standard_window: int | None = None  # what requests got before `larger_since` unless they requested `window`
    larger_since: str = ""  # day, as 2026-03-13
    max_output: int | None = None
    min_cache_prefix: int | None = None  # a shorter prefix is not cached
    family: str = ""  # family of its tokenizer
    keeps_thinking: bool = True  # False: the provider drops the thinking of past turns from the prompt
    source: str = ""


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of one request, in USD per million tokens. `date` = in force since, '' = always, as far as the data goes."""

    input: Decimal
    cache_read: Decimal
    cache_write_5m: Decimal
    cache_write_1h: Decimal
    output: Decimal
    tier: str = ""  # 'over 200,000': the whole request is billed higher because its prompt is longer than that
    source: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one request in USD, by what was billed. `iterations` = its further passes (server-side compaction), in all."""

    cache_read: Decimal
    cache_write_5m: Decimal
    cache_write_1h: Decimal
    input: Decimal
    output: Decimal
    iterations: Decimal = Decimal(0)
    iterations_output: Decimal = Decimal(0)  # the part of `iterations` for what those passes wrote

    @property
    def total(self) -> Decimal:
        """Total cost in USD."""
        return self.cache_read + self.cache_write_5m + self.cache_write_1h + self.input + self.output + self.iterations

    @property
    def answer(self) -> Decimal:
        """Cost in USD of what was written. The rest of the total is the prompt's cost."""
        return self.output + self.iterations_output


@dataclass(frozen=True, slots=True, eq=False)
class _Match:
    """Where the facts of one model name are: in genai-prices, in the overlay, in both or in neither."""

    facts: ModelFacts
    row: Mapping[str, Any]
    info: ModelInfo | None  # the entry of the provider that bills
    variants: bool = False  # the batch and fast rates of genai-prices apply
    grain: int = 0  # seconds within which a price cannot change; 0 = it never changes


def _read_name(model: str, provider: str) -> tuple[str, str, str]:
    """Split a model name: who bills ('' = not stated; may be unknown to genai-prices), their name for the model, the maker's
    name.
    """
    text = _PATH.sub("", model)
    host, ref, name = provider, text.removeprefix(f"{provider}/"), text.removeprefix(f"{provider}/")
    bedrock = _BEDROCK.match(text)
    # without region and version, `anthropic.claude-x` is how chat front ends name a direct connection
    if bedrock and (bedrock[1] or bedrock[3]):
        host, name = provider or "aws", bedrock[2]
    elif text.startswith("anthropic."):
        ref = name = text.removeprefix("anthropic.")
    elif "/" in text and not provider:
        host, _, ref = text.partition("/")
        name = ref
    known = find_provider_by_id(get_snapshot().providers, host) if host else None
    return known.id if known else host, ref, name.rpartition("/")[2]


@lru_cache(maxsize=4096)
def _find(model: str, provider: str, overlay: Overlay) -> _Match:
    text, wide = _WIDE.subn("", model.strip().lower())
    host, ref, name = _read_name(text, provider.lower())
    local = _is_served_by_anybody(ref, host, overlay)
    info, _ = (None, "") if local else _find_package_entry(ref, host)
    home, maker = (None, "") if local and "claude" not in name else _find_package_entry(name, "")
    plain = _DATE.sub("", name)
    maker = "anthropic" if "claude" in name else maker or ("" if local else host)
    key = next((k for k in (text, name, plain, home.id if home else "") if k in overlay.models), "")
    row = overlay.models.get(key, {})
    if key != text and host not in ("", maker):  # the maker's row does not say what another provider bills
        row = {k: v for k, v in row.items() if k not in TABLES}
    family, family_source = _find_family(plain, row, overlay)
    window = 1_000_000 if wide else row.get("window") or (info and info.context_window) or (home and home.context_window)
    facts = ModelFacts(
        name=home.id if home else plain,
        provider=row.get("provider") or maker,
        window=window or None,
        standard_window=None if wide else row.get("standard_window"),
        larger_since=row.get("larger_since", ""),
        max_output=row.get("max_output"),
        min_cache_prefix=row.get("min_cache_prefix"),
        family=family,
        keeps_thinking=not any(pattern.search(plain.replace(".", "-")) for pattern in overlay.strips_thinking),
        source="; ".join(filter(None, (_PACKAGE if info or home else "", row.get("source", ""), family_source))),
    )
    owner = find_provider_by_id(get_snapshot().providers, host or maker)
    own = info is not None and owner is not None and any(info is m for m in owner.models)
    return _Match(facts, row, info, own, _find_grain(info))


def _is_served_by_anybody(ref: str, host: str, overlay: Overlay) -> bool:
    """Whether anybody may serve a model of that name: an unknown host, open weights, `name:tag` as local servers write it."""
    if host:
        unknown = find_provider_by_id(get_snapshot().providers, host) is None
        return unknown or any(p.search(f"{host}/{ref}") for p in overlay.unpriced)
    return (":" in ref and not ref.startswith("ft:")) or any(p.search(ref) for p in overlay.unpriced)


def _find_package_entry(ref: str, host: str) -> tuple[ModelInfo | None, str]:
    """Find the entry of genai-prices for exactly this model, and its provider."""
    try:
        owner, info = get_snapshot().find_provider_model(ref, None, host or None, None)
    except LookupError:
        return None, ""
    # a match by prefix must not split a number: opus-4-10 is not opus-4-1
    cut = ref.startswith(info.id.lower()) and ref[len(info.id) :][:1].isdigit()
    return (None, "") if cut else (info, owner.id)


def _find_family(name: str, row: Mapping[str, Any], overlay: Overlay) -> tuple[str, str]:
    if row.get("family"):
        return row["family"], ""
    return next(((family, source) for pattern, family, source in overlay.families if pattern.search(name)), ("", ""))


def _find_grain(info: ModelInfo | None) -> int:
    if info is None:
        return 0
    prices = [] if isinstance(info.prices, ModelPrice) else info.prices
    kinds = {type(c.constraint) for c in [*prices, *(info.price_variants or ())]}
    return 60 if TimeOfDateConstraint in kinds else _DAY if StartDateConstraint in kinds else 0


@lru_cache(maxsize=8192)
def _list_rates(found: _Match, moment: float | None, speed: str) -> tuple[tuple[int, Rates], ...]:
    """List the rates by prompt size, longest first. Each holds for prompts of more tokens than its number."""
    price, source, date = _find_price(found, moment, speed)
    if price is None or price.input_mtok is None or price.output_mtok is None:
        return ()
    values = {rate: next(v for k in keys if (v := getattr(price, k)) is not None) for rate, keys in RATE_KEYS.items()}
    if found.row.get("long") and not any(isinstance(v, TieredPrices) for v in values.values()):
        over, prompt, answer = found.row["long"]
        values = {k: TieredPrices(v, [Tier(over, v * (answer if k == "output" else prompt))]) for k, v in values.items()}
    starts = {-1} | {tier.start for v in values.values() if isinstance(v, TieredPrices) for tier in v.tiers}
    return tuple(
        (
            start,
            Rates(
                **{k: _select_price(v, start) for k, v in values.items()},
                tier=f"over {start:,}" if start >= 0 else "",
                source=source,
                date=date,
            ),
        )
        for start in sorted(starts, reverse=True)
    )


def _select_price(value: Decimal | TieredPrices, start: int) -> Decimal:
    if isinstance(value, Decimal):
        return value
    return next((tier.price for tier in reversed(value.tiers) if start >= tier.start), value.base)


def _find_price(found: _Match, moment: float | None, speed: str) -> tuple[ModelPrice | None, str, str]:
    """Find the price table, its source, and the date from which it holds."""
    if "prices" in found.row:
        table = found.row.get(speed) if speed in TABLES else None
        return table or found.row["prices"], found.row.get("source", ""), found.row.get("date", "")
    if found.info is None:
        return None, "", ""
    at = _NEWEST if moment is None else datetime.fromtimestamp(moment, UTC)
    context = {"processing" if speed == "batch" else "speed": speed} if speed and found.variants else None
    days = [] if isinstance(found.info.prices, ModelPrice) else [c.constraint for c in found.info.prices]
    since = max((d.start_date.isoformat() for d in days if isinstance(d, StartDateConstraint) and d.active(at)), default="")
    return found.info.get_prices(at, context), _PACKAGE, since


@dataclass(frozen=True, slots=True)
class Prices:
    """What models are and cost: genai-prices under an overlay. A value, so that two replays can use different ones.

    >>> facts = PRICES.find_facts("claude-opus-4-5")
    >>> facts.provider, facts.window
    ('anthropic', 200000)
    >>> PRICES.find_rates("claude-opus-4-5", 10_000).output
    Decimal('25')
    """

    overlay: Overlay = BUILT_IN
    evidence: tuple[WindowEvidence, ...] = ()  # of the session that is looked at
    chosen: tuple[ChosenWindow, ...] = ()  # what a person chose, of any session
    # Facts of models of which there is evidence.
    _shown: dict[tuple[str, str], ModelFacts] = field(default_factory=dict, init=False, repr=False, compare=False)

    def find_facts(self, model: str, *, provider: str = "") -> ModelFacts:
        """Find what is known of a model. Unknown fields are None or ''. Never raises.

        `[1m]` at the end of the name means a window of 1,000,000 tokens. What the session shows of its window comes before the
        tables (`add_evidence`).

        Args:
            model: The model's name, as any log or cloud writes it.
            provider: Who bills, as an id of genai-prices; '' = from the name.
        """
        if (model, provider) in self._shown:
            return self._shown[model, provider]
        known = _find(model, provider, self.overlay).facts
        if found := self.find_evidence(model):
            known = replace(known, window=found.window, source=f"{known.source}; {found.sentence}")
            self._shown[model, provider] = known
        return known

    def find_evidence(self, model: str, request: int | None = None) -> WindowEvidence | None:
        """Find how the window of a model in the session is known; None where the session did not ask it.

        Args:
            model: The model, as requests name it.
            request: Number of the request; None = the newest.
        """
        evidence = (each for each in self.evidence if each.model == model and (request is None or each.start <= request))
        return max(evidence, key=lambda each: each.start, default=None)

    def find_window(self, session: Session, request: Request) -> int | None:
        """Find the context window of a request, in tokens: as reported with it, else by the evidence; None = unknown.

        Args:
            session: The session.
            request: One of its requests, or one that follows them.
        """
        reported = request.window if request.model == (request.requested_model or request.model) else 0
        if reported or (found := self.find_evidence(request.model, request.n)) is None:
            known = _find(request.model, "", self.overlay).facts.window if session.window is None else session.window
            return reported or known
        return found.window

    def add_evidence(self, session: Session) -> Prices:
        """Add what a session shows of its windows (`windows.decide_windows`)."""
        found = decide_windows(session, lambda model: _find(model, "", self.overlay).facts, self.chosen)
        return replace(self, evidence=found) if found or self.evidence else self

    def find_rates(
        self, model: str, prompt_tokens: int, when: float | None = None, *, speed: str = "", provider: str = ""
    ) -> Rates | None:
        """Find the rates of a request; None = no known price.

        Args:
            model: The model's name.
            prompt_tokens: Tokens of the prompt, cached ones included.
            when: When the request was sent, in seconds since the Unix epoch; None = the newest prices.
            speed: 'fast' or 'batch' selects those rates where the data has them; otherwise the standard rates.
            provider: Who bills, as an id of genai-prices such as 'openrouter'; '' = from the name.
        """
        found = _find(model, provider, self.overlay)
        moment = None
        if when is not None and found.grain:
            moment = min(max(0.0, when), 253_000_000_000.0) // found.grain * found.grain
        for start, found_rates in _list_rates(found, moment, "" if speed == "standard" else speed):
            if prompt_tokens > start:
                return found_rates
        return None

    def compute_cost(
        self,
        usage: Usage,
        model: str,
        when: float | None = None,
        output_tokens: int | None = None,
        *,
        speed: str = "",
        provider: str = "",
    ) -> Cost | None:
        """Compute the cost of one request in USD; None where the model has no known price.

        Further passes are priced as requests of their own. Costs may be added up. Usage may not, since long prompts have a
        higher rate.

        Args:
            usage: What was billed, in tokens.
            model: The model's name.
            when: When the request was sent, in seconds since the Unix epoch; None = the newest prices.
            output_tokens: Replaces a recorded value that cannot be true; None = the recorded one.
            speed: 'fast' or 'batch'; see `find_rates`.
            provider: Who bills; see `find_rates`.

        >>> cost = PRICES.compute_cost(Usage(input_tokens=1_000_000, output_tokens=1_000), "claude-haiku-4-5")
        >>> cost.total
        Decimal('1.005')
        """
        rate = self.find_rates(model, usage.prompt_tokens, when, speed=speed, provider=provider)
        if rate is None:
            return None
        passes = [self.compute_cost(u, u.model or model, when, speed=speed, provider=provider) for u in usage.iterations]
        hour = min(usage.cache_creation_1h_input_tokens, usage.cache_creation_input_tokens)
        return Cost(
            cache_read=rate.cache_read * usage.cache_read_input_tokens / _MILLION,
            cache_write_5m=rate.cache_write_5m * (usage.cache_creation_input_tokens - hour) / _MILLION,
            cache_write_1h=rate.cache_write_1h * hour / _MILLION,
            input=rate.input * usage.input_tokens / _MILLION,
            output=rate.output * (usage.output_tokens if output_tokens is None else output_tokens) / _MILLION,
            iterations=sum((p.total for p in passes if p is not None), Decimal(0)),
            iterations_output=sum((p.answer for p in passes if p is not None), Decimal(0)),
        )


PRICES = Prices()  # as shipped; `library.opening` adds the user's overlay


@lru_cache(maxsize=1)
def list_models() -> tuple[str, ...]:
    """List models that write text and whose window and price are known, grouped by maker. Forms offer them."""
    makers = {"anthropic": ("claude",), "openai": ("gpt", "o"), "google": ("gemini",)}
    owners = {provider.id: provider for provider in get_snapshot().providers}
    names = (model.id for id, begins in makers.items() for model in owners[id].models if model.id.startswith(begins))
    plain = (name for name in names if not _NOT_TEXT.search(name))
    return tuple(name for name in plain if PRICES.find_facts(name).window and PRICES.find_rates(name, 1_000))
