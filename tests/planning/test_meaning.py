"""Retrieval by meaning: memory and selective context find what was said in other words."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import pytest
from bench.bench_retrieval import FACTS, QUESTIONS, plan_memory, plan_selection, write_own_words
from turnscope.errors import ProviderError
from turnscope.library import Memories
from turnscope.live.rule_queries import request_ranking
from turnscope.planning import reranking
from turnscope.planning.answers import add_answers
from turnscope.session.model import Answer, Ask

ASKED = range(0, len(FACTS), 6)


def ask(model: str, *texts: str) -> Ask:
    return Ask("rank", "rerank:x", model, msgspec.json.encode(texts).decode())


@pytest.fixture(scope="module")
def memories(tmp_path_factory: pytest.TempPathFactory) -> Memories:
    kept = Memories(tmp_path_factory.mktemp("memories") / "chats.db")
    for fact in FACTS:
        kept.add(fact)
    return kept


def test_memory_finds_facts_in_other_words_that_words_alone_miss(memories: Memories) -> None:
    found = {
        model: sum(f"- {FACTS[n]}" in plan_memory(QUESTIONS[n], model, memories) for n in ASKED) for model in ("", "wordllama")
    }
    assert found["wordllama"] >= 0.75 * len(ASKED)
    assert found[""] <= 0.4 * len(ASKED)


def test_memory_by_meaning_still_finds_a_facts_own_words(memories: Memories) -> None:
    assert all(f"- {FACTS[n]}" in plan_memory(write_own_words(FACTS[n]), "wordllama", memories) for n in ASKED)


def test_selective_context_keeps_what_was_said_in_other_words() -> None:
    kept = {model: sum(FACTS[n] in plan_selection(QUESTIONS[n], model) for n in ASKED) for model in ("", "wordllama")}
    assert kept["wordllama"] >= 0.75 * len(ASKED)
    assert kept[""] < kept["wordllama"]


def test_without_the_package_the_answer_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    reranking._load_packaged.cache_clear()
    assert "turnscope[meaning]" in reranking.rerank_texts(ask("wordllama", "never seen", "before this")).failed
    assert "turnscope[rerank]" in reranking.rerank_texts(ask("all-MiniLM-L6-v2", "never seen", "before this")).failed
    assert "when a request is sent" in reranking.rerank_texts(ask("provider:m", "a", "b")).failed


@dataclass
class Provider:
    """A provider with vectors of its own, which counts the texts that it is sent."""

    asked: list[str]

    def embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        self.asked += texts
        if model == "none":
            raise ValueError("no such model")
        return [[1.0, float("teal" in text), float("cello" in text)] for text in texts]

    def explain_error(self, error: Exception) -> ProviderError:
        return ProviderError(str(error), hint="")


def test_a_providers_endpoint_compares_texts_and_is_sent_each_text_once() -> None:
    provider = Provider([])
    first = request_ranking(provider, ask("provider:m", "teal?", "a cello", "teal paint"))
    assert [float(item) for item in first.items] == [0.5, 1.0]
    request_ranking(provider, ask("provider:m", "and a cello?", "a cello", "teal paint"))
    assert provider.asked == ["teal?", "a cello", "teal paint", "and a cello?"]
    assert request_ranking(provider, ask("provider:none", "x", "y")).failed == "no such model"
    assert "no endpoint" in request_ranking(object(), ask("provider:m", "x", "y")).failed


def test_what_a_project_looks_up_again_and_a_model_that_ranks_do_not_answer_for_each_other() -> None:
    both = add_answers({"rank": lambda _: Answer("by a model")}, {"rank": lambda _: Answer("as learned")})
    assert both["rank"](ask("wordllama", "a", "b")).text == "by a model"
    assert both["rank"](Ask("rank", "learned:retrieved", "", "")).text == "as learned"
