"""The front door: what the environment and the user's data folder change."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

import engine
from engine.library import opening

SAMPLE = Path(__file__).resolve().parent.parent / "sample_sessions" / "cache-goes-cold.jsonl"


def test_the_environment_sets_how_many_pairs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_MESSAGE_PAIRS", "2")
    assert opening.named("last-5-pairs").rules[0].params.pairs == 2
    monkeypatch.setenv("CONTEXT_MESSAGE_PAIRS", "many")
    assert opening.named("last-5-pairs").rules[0].params.pairs == 5


def test_prices_of_the_users_own_are_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    row = {"prices": {"input": "0", "cache_read": "0", "cache_write_5m": "0", "cache_write_1h": "0", "output": "1000000"}}
    own = {"models": {"claude-opus-4-5-20251101": row, "claude-sonnet-4-5-20250929": row}}
    (tmp_path / "prices.json").write_text(json.dumps(own))
    monkeypatch.setenv("TURNSCOPE_DATA", str(tmp_path))
    opening.own_prices.cache_clear()
    try:
        view = engine.overview(engine.load(SAMPLE))
        assert view.total == Decimal(int(view.answers.sum()))
    finally:
        opening.own_prices.cache_clear()
