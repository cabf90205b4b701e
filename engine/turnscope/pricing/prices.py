"""What a model is and what a request costs: windows, limits, tokenizer families, rates and costs, as dated data.

Prices come from the installed package genai-prices (data only, it is never asked to update itself), the rest and a few
missing models from the overlays. Holds no usage and no cache rules, and does not price what is billed per call rather
than per token (web searches, hosted tools).

A request whose prompt is longer than a tier's start is billed at that tier as a whole, output and cache too; the prompt alone
decides (Anthropic's long-context pricing, LiteLLM, genai-prices). Tools that bill only what lies above it at the higher rate,
each kind of token by itself (ccusage), show too little. Sonnet 4 and 4.5 had theirs at 200,000 for a 1M window that was a beta
from 2025-08-12 to 2026-04-30; Opus 4.6 and Sonnet 4.6 until 2026-03-13, flat since, as later models are but Haiku 5.5.

A model name says who bills it: a plain name its maker, `vendor/name` that vendor, a Bedrock name AWS (regional endpoints
cost more there). Where nobody has a price for exactly this model the answer is None: never zero, never a sibling's price.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

import genai_prices
from genai_prices.data_snapshot import find_provider_by_id, get_snapshot
from genai_prices.types import ModelInfo, ModelPrice, StartDateConstraint, Tier, TieredPrices, TimeOfDateConstraint

from turnscope.pricing.overlay import BUILT_IN, RATE_KEYS, TABLES, Overlay
from turnscope.pricing.windows import WindowProof, find_proofs
from turnscope.session.model import Session, Usage

_PACKAGE = f"genai-prices {genai_prices.__version__}"
_MILLION = 1_000_000
_DAY = 86_400
_NEWEST = datetime(9999, 12, 31, 12, tzinfo=UTC)  # after every start date; noon is no hour of a daily rebate

_WIDE = re.compile(r"\[1m\]$")
_PATH = re.compile(r"^(?:arn:aws:bedrock:[^/]*/|bedrock/(?:converse/|invoke/)?|.*\bmodels/)")
_BEDROCK = re.compile(r"^((?:us|us-gov|eu|apac|au|jp|ca|in|sa|global)\.)?[a-z0-9]+\.([a-z].*?)(-v\d+(?::\d+)*)?$")
_NOT_TEXT = re.compile(
    r"audio|realtime|transcribe|tts|image|vision|search|live|instruct|deep-research"
)  # no texts, or for a task
_DATE = re.compile(r"(?:@.*|-\d{8}|-\d{4}-\d{2}-\d{2}|-latest)$")


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of a model. Tokens; None or '' = unknown. `provider` is who made it, not who bills it."""

    name: str
    provider: str = ""
    window: int | None = None
    max_output: int | None = None
    min_cache_prefix: int | None = None  # a shorter prefix is not cached
    family: str = ""  # of its tokenizer
    keeps_thinking: bool = True  # False: the provider drops the thinking of past turns from the prompt
    source: str = ""


@dataclass(frozen=True, slots=True)
class Rates:
    """USD per million tokens, in force for one request. `date` = since when, '' = always as far as the data goes."""

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
    """USD of one request, by what was billed. `iterations` = its further passes (server-side compaction), all in."""

    cache_read: Decimal
    cache_write_5m: Decimal
    cache_write_1h: Decimal
    input: Decimal
    output: Decimal
    iterations: Decimal = Decimal(0)
    iterations_output: Decimal = Decimal(0)  # of that, for what those passes wrote

    @property
    def total(self) -> Decimal:
        return self.cache_read + self.cache_write_5m + self.cache_write_1h + self.input + self.output + self.iterations

    @property
    def answer(self) -> Decimal:
        """What was written; the rest of the total is what the prompt cost."""
        return self.output + self.iterations_output


@dataclass(frozen=True, slots=True, eq=False)
class _Match:
    """Where the facts of one model name are: in the package, in the overlay, in both or in neither."""

    facts: ModelFacts
    row: Mapping[str, Any]
    info: ModelInfo | None  # as the one who bills lists it
    variants: bool = False  # the package's batch and fast rates apply
    grain: int = 0  # seconds for which a price surely stays the same; 0 = for ever


def _read_name(model: str, provider: str) -> tuple[str, str, str]:
    """Who bills ('' = not said; may be a name the package does not know), its name for the model, and the maker's name."""
    text = _PATH.sub("", model)
    host, ref, name = provider, text.removeprefix(f"{provider}/"), text.removeprefix(f"{provider}/")
    bedrock = _BEDROCK.match(text)
    # without region and version `anthropic.claude-x` is how chat front ends name a direct connection
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
    if key != text and host not in ("", maker):  # a row of the maker's does not say what somebody else bills
        row = {k: v for k, v in row.items() if k not in TABLES}
    family, family_source = _find_family(plain, row, overlay)
    window = 1_000_000 if wide else row.get("window") or (info and info.context_window) or (home and home.context_window)
    facts = ModelFacts(
        name=home.id if home else plain,
        provider=row.get("provider") or maker,
        window=window or None,
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
    """True for names that anybody may serve: an unknown host, open weights, `name:tag` as local servers write it."""
    if host:
        unknown = find_provider_by_id(get_snapshot().providers, host) is None
        return unknown or any(p.search(f"{host}/{ref}") for p in overlay.unpriced)
    return (":" in ref and not ref.startswith("ft:")) or any(p.search(ref) for p in overlay.unpriced)


def _find_package_entry(ref: str, host: str) -> tuple[ModelInfo | None, str]:
    """The package's entry for exactly this model and the provider it stands under."""
    try:
        owner, info = get_snapshot().find_provider_model(ref, None, host or None, None)
    except LookupError:
        return None, ""
    # a match by prefix must not cut a number in two: opus-4-10 is not opus-4-1
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
    """The rates by prompt size, longest first: each holds for prompts of more tokens than its number."""
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
    """The price table, where it is from, and since when it holds."""
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
    """What models are and cost: the package's data under an overlay. A value, so that two replays can differ in it."""

    overlay: Overlay = BUILT_IN
    proofs: tuple[WindowProof, ...] = ()

    def find_facts(self, model: str, *, provider: str = "") -> ModelFacts:
        """What is known of `model`, under whatever name a log or a cloud gives it; unknown fields are None or ''. Never raises.

        `[1m]` at the end of the name means a window of 1,000,000 tokens for that session, and so does a proof.
        """
        known = _find(model, provider, self.overlay).facts
        proof = next((proof for proof in self.proofs if proof.model == model), None)
        return replace(known, window=proof.window, source=f"{known.source}; {proof.sentence}") if proof else known

    def add_proofs(self, session: Session) -> Prices:
        """The same prices, knowing what windows a session's answered requests prove; those hold from its start."""
        found = find_proofs(session, lambda model: _find(model, "", self.overlay).facts.window)
        return replace(self, proofs=found) if found or self.proofs else self

    def find_rates(
        self, model: str, prompt_tokens: int, when: float | None = None, *, speed: str = "", provider: str = ""
    ) -> Rates | None:
        """The rates of a request with a prompt of `prompt_tokens` (cached ones included); None = no known price.

        `when` it was sent is in epoch seconds, None = the newest prices. `speed` 'fast' or 'batch' selects those rates where
        the data has them, otherwise the standard ones. `provider` names who bills, where it is known (a package id, such as
        'openrouter').
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
        """The cost of one request in USD, None where the model has no known price; the parameters are those of `rates`.

        `output_tokens` replaces a recorded value that cannot be true. Further passes are priced each as a request of its own.
        Costs may be added up; usage may not, since long prompts have a higher rate.
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


PRICES = Prices()  # as shipped; what a user keeps beside it, `library.opening` reads


@lru_cache(maxsize=1)
def list_models() -> tuple[str, ...]:
    """Names of models that write texts and whose window and price are known, by who makes them: what one may choose from."""
    makers = {"anthropic": ("claude",), "openai": ("gpt", "o"), "google": ("gemini",)}
    owners = {provider.id: provider for provider in get_snapshot().providers}
    names = (model.id for id, begins in makers.items() for model in owners[id].models if model.id.startswith(begins))
    plain = (name for name in names if not _NOT_TEXT.search(name))
    return tuple(name for name in plain if PRICES.find_facts(name).window and PRICES.find_rates(name, 1_000))
