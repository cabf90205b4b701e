"""Rates and costs agree with genai-prices wherever it has a price, and are None, never zero, wherever nobody has one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from time import process_time
from typing import Any

import genai_prices
import pytest
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelPrice, TieredPrices, TimeOfDateConstraint
from hypothesis import given
from hypothesis import strategies as st
from turnscope.errors import BrokenFile, TurnscopeError, UnreadableFile
from turnscope.pricing.overlay import BUILT_IN, read_overlay
from turnscope.pricing.prices import PRICES, Prices
from turnscope.session.model import Usage

facts, rates, cost = PRICES.find_facts, PRICES.find_rates, PRICES.compute_cost
ROOT = Path(__file__).resolve().parents[2]
ANTHROPIC = next(p for p in get_snapshot().providers if p.id == "anthropic")
CLAUDE = [m.id for m in ANTHROPIC.models]
OTHERS = [
    "gpt-5",
    "gpt-5.5",
    "gpt-5.6-sol",
    "gpt-4o",
    "gemini-2.5-pro",
    "deepseek-chat",
    "deepseek-v4-pro",
    "grok-4",
    "mistral-large",
]
EDGES = [0, 1, 99_999, 100_000, 100_001, 199_999, 200_000, 200_001, 271_999, 272_000, 272_001, 900_000]
TODAY = datetime(2026, 11, 21, 9, 30, tzinfo=UTC).timestamp()


def reference(usage: Usage, model: str, when: float, context: dict[str, str] | None = None) -> Decimal:
    """What the package itself makes of the same request; Sonnet 4, whose tier it lacks, costs over 200,000 what 4.5 did."""
    if model == "claude-sonnet-4-0" and usage.prompt_tokens > 200_000:
        model, context = "claude-sonnet-4-5", None
    tokens = genai_prices.Usage(
        input_tokens=usage.prompt_tokens,
        cache_read_tokens=usage.cache_read_input_tokens,
        cache_write_tokens=usage.cache_creation_input_tokens,
        cache_write_1h_tokens=usage.cache_creation_1h_input_tokens,
        output_tokens=usage.output_tokens,
    )
    at = datetime.fromtimestamp(when, UTC)
    return genai_prices.calc_price(tokens, model, genai_request_timestamp=at, price_context=context).total_price


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    """A request whose prompt length lies anywhere, but often right at a tier, cut into read, written and uncached."""
    prompt = draw(st.sampled_from(EDGES) | st.integers(0, 1_000_000))
    read = draw(st.integers(0, prompt))
    written = draw(st.integers(0, prompt - read))
    hour = draw(st.sampled_from([0, written]) | st.integers(0, written))
    return Usage(prompt - read - written, written, read, draw(st.integers(0, 128_000)), hour)


moments = st.floats(datetime(2025, 1, 1, tzinfo=UTC).timestamp(), datetime(2027, 1, 1, tzinfo=UTC).timestamp())


@given(st.sampled_from(CLAUDE + OTHERS), usages(), moments)
def test_cost_equals_the_package_for_any_model_prompt_and_moment(model: str, usage: Usage, when: float) -> None:
    ours = cost(usage, model, when)
    assert ours is not None
    assert ours.total == reference(usage, model, when)


@given(st.sampled_from(CLAUDE), usages(), moments, st.sampled_from([("processing", "batch"), ("speed", "fast")]))
def test_batch_and_fast_cost_equal_the_package(model: str, usage: Usage, when: float, variant: tuple[str, str]) -> None:
    ours = cost(usage, model, when, speed=variant[1])
    assert ours is not None
    assert ours.total == reference(usage, model, when, dict([variant]))


@pytest.mark.parametrize("model", CLAUDE)
@pytest.mark.parametrize("hour_share", [0, 1])
def test_every_claude_model_equals_the_package_at_every_tier_edge(model: str, hour_share: int) -> None:
    for prompt in EDGES:
        read, written = prompt // 2, prompt // 4
        usage = Usage(prompt - read - written, written, read, 700, written * hour_share)
        ours = cost(usage, model, TODAY)
        assert ours is not None
        assert ours.total == reference(usage, model, TODAY)


def test_a_hand_computed_request() -> None:
    """3,000 x 4 + 100,000 x 0.20 + 20,000 x 5 + 5,000 x 8 + 2,000 x 20 USD per million = 0.212 USD."""
    made = cost(Usage(3_000, 25_000, 100_000, 2_000, 5_000), "claude-opus-5-5", TODAY)
    assert made is not None
    assert made.total == Decimal("0.212")
    parts = (made.input, made.cache_read, made.cache_write_5m, made.cache_write_1h, made.output)
    assert parts == tuple(map(Decimal, ("0.012", "0.02", "0.1", "0.04", "0.04")))


def test_one_token_over_100_000_makes_haiku_5_5_five_times_as_dear() -> None:
    below, above = rates("claude-haiku-5-5", 100_000), rates("claude-haiku-5-5", 100_001)
    assert below is not None
    assert above is not None
    assert (below.tier, above.tier) == ("", "over 100,000")
    for name in ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output"):
        assert getattr(above, name) == 5 * getattr(below, name)


@pytest.mark.parametrize(("model", "edge"), [("claude-sonnet-4-5", 200_000), ("gpt-5.5", 272_000), ("gpt-5.6-sol", 272_000)])
def test_the_tier_begins_one_token_after_its_edge(model: str, edge: int) -> None:
    at, over = rates(model, edge), rates(model, edge + 1)
    assert at is not None
    assert over is not None
    assert (at.tier, over.tier) == ("", f"over {edge:,}")
    assert over.input > at.input


def test_rates_are_those_of_the_day_of_the_request() -> None:
    """Opus 4.6 had a dearer tier over 200,000 tokens until 2026-03-13."""
    day = datetime(2026, 3, 13, tzinfo=UTC).timestamp()
    before, after = rates("claude-opus-4-6", 300_000, day - 1), rates("claude-opus-4-6", 300_000, day)
    assert before is not None
    assert after is not None
    assert (before.input, before.tier, before.date) == (Decimal(10), "over 200,000", "")
    assert (after.input, after.tier, after.date) == (Decimal(5), "", "2026-03-13")
    assert rates("claude-opus-4-6", 300_000) == after


@pytest.mark.parametrize(
    "model",
    [
        "",
        "default",
        "<synthetic>",
        "claude-opus-5-6",
        "claude-opus-4-10",
        "claude-instant-1.2",
        "gpt-9",
        "qwen2.5:latest",
        "deepseek-r1:8b",
        "gpt-oss:20b",
        "openai/gpt-oss-20b",
        "ollama/deepseek-r1",
        "deepseek/deepseek-r1-0528-qwen3-8b",
        "meta-llama/llama-4-maverick",
        "openai/openrouter-llama-4-maverick",
        "us.anthropic.claude-mythos-preview-v1:0",
    ],
)
def test_a_model_nobody_prices_costs_none_not_zero(model: str) -> None:
    assert rates(model, 1_000) is None
    assert cost(Usage(1_000, 0, 0, 10), model, TODAY) is None


@pytest.mark.parametrize("model", ["qwen2.5:latest", "deepseek-r1:8b", "ollama/deepseek-r1", "<synthetic>", ""])
def test_an_unknown_model_has_no_window_and_no_limits(model: str) -> None:
    known = facts(model)
    assert (known.provider, known.window, known.max_output, known.min_cache_prefix, known.family) == ("", None, None, None, "")


@given(st.text(), st.integers(), st.none() | st.floats())
def test_no_name_and_no_time_makes_a_lookup_raise(model: str, prompt: int, when: float | None) -> None:
    facts(model)
    rates(model, prompt, when)
    rates(f"claude-opus-4-6{model}", prompt, when)


@pytest.mark.parametrize(
    "alias",
    [
        "anthropic/claude-sonnet-4-5",
        "anthropic/claude-sonnet-4.5",
        "claude-sonnet-4-5-20250929",
        "claude-sonnet-4-5@20250929",
        "vertex_ai/claude-sonnet-4-5@20250929",
        "anthropic.claude-sonnet-4-5-20250929",
        "Claude-Sonnet-4-5 ",
    ],
)
def test_every_name_of_a_model_has_its_facts_and_its_rates(alias: str) -> None:
    assert facts(alias) == facts("claude-sonnet-4-5")
    mine, plain = rates(alias, 150_000), rates("claude-sonnet-4-5", 150_000)
    assert mine is not None
    assert mine == plain


def test_bedrock_names_have_the_makers_facts_and_the_rates_aws_bills() -> None:
    """A regional endpoint costs a tenth more than the global one, which costs what Anthropic asks."""
    for region, factor in (("us.", "1.1"), ("eu.", "1.1"), ("global.", "1")):
        name = f"{region}anthropic.claude-sonnet-4-5-20250929-v1:0"
        assert (facts(name).name, facts(name).window, facts(name).min_cache_prefix) == ("claude-sonnet-4-5", 200_000, 1_024)
        mine = rates(name, 1_000)
        assert mine is not None
        assert mine.input == 3 * Decimal(factor)
    arn = "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-opus-5-5"
    assert facts(arn).name == "claude-opus-5-5"


@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "claude-opus-4-8", "claude-sonnet-4-5", "claude-sonnet-4-20250514"])
def test_1m_at_the_end_of_a_name_widens_the_window_and_keeps_the_rates(model: str) -> None:
    wide = facts(f"{model}[1m]")
    assert wide.window == 1_000_000
    assert (wide.name, wide.family, wide.max_output) == (facts(model).name, facts(model).family, facts(model).max_output)
    assert rates(f"{model}[1m]", 250_000) == rates(model, 250_000) is not None


def test_the_provider_says_who_bills_where_the_name_does_not() -> None:
    priced = rates("meta-llama/llama-4-maverick", 1_000, TODAY, provider="openrouter")
    named = rates("openrouter/meta-llama/llama-4-maverick", 1_000, TODAY)
    assert priced is not None
    assert priced == named


def test_models_the_package_lacks_cost_what_their_twins_cost() -> None:
    for missing, twin in (("mythos-5", "fable-5"), ("mythos-5-1", "fable-5-1"), ("mythos-preview", "fable-5")):
        with pytest.raises(LookupError):  # once the package has it, the row of the overlay has to go
            get_snapshot().find_provider_model(f"claude-{missing}", None, "anthropic", None)
        usage = Usage(3_000, 25_000, 100_000, 2_000, 5_000)
        mine, other = cost(usage, f"claude-{missing}", TODAY), cost(usage, f"claude-{twin}", TODAY)
        assert mine is not None
        assert mine == other
        assert facts(f"claude-{missing}").window == 1_000_000


def test_further_passes_are_priced_each_at_its_own_tier() -> None:
    small, large = Usage(90_000, 0, 0, 100), Usage(100_001, 0, 0, 100)
    both = cost(Usage(90_000, 0, 0, 100, iterations=(small, large)), "claude-haiku-5-5", TODAY)
    one, two = cost(small, "claude-haiku-5-5", TODAY), cost(large, "claude-haiku-5-5", TODAY)
    assert both is not None
    assert one is not None
    assert two is not None
    assert both.iterations == one.total + two.total
    assert both.total == 2 * one.total + two.total
    assert both.input == Decimal("0.009")  # 90,000 at the low tier: the passes do not push the request over it


def test_a_counted_output_replaces_a_stub() -> None:
    made = cost(Usage(10, 0, 0, 1), "claude-opus-5-5", TODAY, output_tokens=2_000)
    assert made is not None
    assert made.output == Decimal("0.04")


def test_tokens_without_a_rate_of_their_own_are_billed_by_the_next_more_general_one() -> None:
    openai, bedrock = rates("gpt-5", 1), rates("apac.anthropic.claude-sonnet-4-20250514-v1:0", 1)
    assert openai is not None
    assert bedrock is not None
    assert openai.cache_write_5m == openai.cache_write_1h == openai.input
    assert bedrock.cache_write_1h == bedrock.cache_write_5m == Decimal("3.75")


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("claude-3-opus-20240229", "claude-3"),
        ("claude-opus-4-20250514", "claude-3"),
        ("claude-opus-4-6", "claude-3"),
        ("claude-haiku-4-5-20251001", "claude-3"),
        ("claude-opus-4-7", "claude-4.7"),
        ("claude-opus-4-8", "claude-4.8"),
        ("claude-opus-5", "claude-4.8"),
        ("claude-haiku-5-5", "claude-4.8"),
        ("claude-fable-6", "claude-4.8"),
        ("openrouter/anthropic/claude-opus-4.7", "claude-4.7"),
        ("pipe.claude-sonnet-4-5-20250929-think", "claude-3"),
        ("gpt-4o-mini-2024-07-18", "o200k_base"),
        ("gpt-4.1", "o200k_base"),
        ("o3", "o200k_base"),
        ("gpt-5-codex", "o200k_base"),
        ("gpt-5.5", "o200k_base"),
        ("gpt-oss:20b", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("gemini-2.5-pro", ""),
        ("mistral-large-latest", ""),
        ("claude-opus-4-10", ""),
    ],
)
def test_the_tokenizer_family_of_a_model(model: str, family: str) -> None:
    assert facts(model).family == family


def test_every_claude_model_since_3_has_a_window_an_output_limit_and_a_family() -> None:
    for model in CLAUDE[1:]:
        if model != "claude-v1":
            known = facts(model)
            assert known.name == model
            assert known.window
            assert known.max_output
            assert known.family
            assert known.provider == "anthropic"


def test_every_fact_of_the_overlay_names_its_source_and_its_day() -> None:
    data = json.loads((ROOT / "engine" / "turnscope" / "pricing" / "overlay.json").read_text(encoding="utf-8"))
    known = {m.id for p in get_snapshot().providers for m in p.models}
    for row in [*data["models"].values(), *data["families"], *data["unpriced"], *data["strips_thinking"]]:
        assert row["source"]
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", row["date"])
    ours = {n for n, row in data["models"].items() if row.get("provider") == "turnscope"}  # the built-in model bills nothing
    assert [n for n in data["models"] if n not in known | ours and "prices" not in data["models"][n]] == []
    assert all(rates(name, 1) is None for name in ours)


USER = {
    "models": {
        "claude-opus-5-5": {"min_cache_prefix": 512, "prices": {"input": "1", "cache_write_5m": "2", "output": 3.5}},
        "House-Llama": {
            "window": 32_000,
            "family": "cl100k_base",
            "date": "2026-11-01",
            "source": "contract",
            "prices": {"input": "0", "output": "1", "tiers": [{"over": 8_000, "input": "0.5"}]},
            "batch": {"input": "0", "output": "0.5"},
        },
    },
    "families": [{"match": "^house-", "family": "o200k_base"}],
    "unpriced": [{"match": "^gpt-5$"}],
}


def test_a_users_overlay_is_merged_over_package_and_built_in_rows(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(USER), encoding="utf-8")
    mine = Prices(read_overlay(path))
    known = mine.find_facts("claude-opus-5-5")
    assert (known.min_cache_prefix, known.max_output, known.window) == (512, 128_000, 1_000_000)
    changed = mine.find_rates("claude-opus-5-5", 1)
    assert changed is not None
    assert changed.source.endswith("mine.json")
    assert (changed.input, changed.cache_read, changed.cache_write_1h, changed.output) == (
        Decimal(1),
        Decimal(1),
        Decimal(2),
        Decimal("3.5"),
    )
    assert mine.find_facts("house-llama").family == "cl100k_base"
    assert mine.find_facts("house-other").family == "o200k_base"
    low, high = mine.find_rates("house-llama", 8_000), mine.find_rates("HOUSE-LLAMA", 8_001)
    assert low is not None
    assert high is not None
    assert (low.input, high.input, high.output, high.tier, high.source) == (
        Decimal(0),
        Decimal("0.5"),
        Decimal(1),
        "over 8,000",
        "contract",
    )
    batch = mine.find_rates("house-llama", 1, speed="batch")
    assert batch is not None
    assert batch.output == Decimal("0.5")
    assert mine.find_rates("gpt-5", 1) is None
    assert rates("gpt-5", 1) is not None
    regional = "us.anthropic.claude-opus-5-5"
    assert mine.find_rates(regional, 1) == rates(regional, 1)  # a row of the maker's is not what AWS bills
    assert rates("claude-opus-5-5", 1) != changed
    assert facts("claude-opus-5-5").min_cache_prefix is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("[]", "not an overlay"),
        ('{"models": []}', "not an overlay"),
        ('{"models": {"m": 3}}', "m is not an object"),
        ('{"models": {"m": {"windw": 3}}}', "windw"),
        ('{"models": {"m": {"window": "3"}}}', "window must be"),
        ('{"models": {"m": {"max_output": true}}}', "max_output must be"),
        ('{"models": {"m": {"family": 3}}}', "family must be"),
        ('{"models": {"m": {"prices": {"input": "1"}}}}', "needs input and output"),
        ('{"models": {"m": {"prices": {"input": "-1", "output": "1"}}}}', "'-1' is not a price"),
        ('{"models": {"m": {"prices": {"input": "x", "output": "1"}}}}', "'x' is not a price"),
        ('{"models": {"m": {"prices": {"inputs": "1", "output": "1"}}}}', "inputs"),
        ('{"models": {"m": {"prices": 3}}}', "prices is not an object"),
        ('{"families": [{"match": "("}]}', "not an overlay"),
    ],
)
def test_a_broken_overlay_says_what_is_wrong_and_what_to_do(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TurnscopeError, match=re.escape(says)) as caught:
        read_overlay(path)
    assert type(caught.value) is BrokenFile
    assert caught.value.hint
    assert "mine.json" in caught.value.what


def test_an_overlay_that_is_missing_or_no_text_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    for name in ("absent.json", "bytes.json", "."):
        with pytest.raises(UnreadableFile) as caught:
            read_overlay(tmp_path / name)
        assert caught.value.hint
    assert read_overlay() is BUILT_IN


def test_ten_thousand_lookups_and_costs_are_cheap() -> None:
    usage = Usage(10, 20, 30, 40, 5)
    start = process_time()
    for n in range(10_000):
        rates("claude-opus-4-6", n * 50, TODAY + n)
    looked = process_time() - start
    for n in range(10_000):
        cost(usage, "claude-opus-4-6", TODAY + n)
    assert looked < 0.2
    assert process_time() - start < 0.6


def test_pricing_opens_no_connection() -> None:
    script = (
        "import sys; events = []; sys.addaudithook(lambda e, a: e.startswith('socket.') and events.append(e))\n"
        "from turnscope.session.model import Usage; from turnscope.pricing.prices import PRICES\n"
        "assert PRICES.compute_cost(Usage(1, 2, 3, 4), 'claude-opus-5-5')\n"
        "assert PRICES.find_facts('gpt-5').window and not PRICES.find_facts('nobody').window\n"
        "out = {'socket.connect', 'socket.getaddrinfo', 'socket.gethostbyname', 'socket.sendto'}\n"
        "reached = out.intersection(events)\n"
        "assert not reached, reached"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_the_reading_of_the_packages_data_relies_on() -> None:
    """Daily prices change on whole minutes, so one lookup serves a minute; every Claude tier moves all five rates at once."""

    def minutes(value: time) -> bool:
        return value.second == 0 and value.microsecond == 0

    tables: list[Any] = [m.prices for p in get_snapshot().providers for m in p.models]
    constraints = [c.constraint for t in tables if not isinstance(t, ModelPrice) for c in t]
    daily = [c for c in constraints if isinstance(c, TimeOfDateConstraint)]
    assert daily
    assert all(minutes(c.start_time) and minutes(c.end_time) for c in daily)
    for model in ANTHROPIC.models:
        if isinstance(model.prices, ModelPrice) and isinstance(model.prices.input_mtok, TieredPrices):
            edges = {tuple(t.start for t in v.tiers) for k, v in model.prices.__dict__.items() if k.endswith("_mtok")}
            assert len(edges) == 1
