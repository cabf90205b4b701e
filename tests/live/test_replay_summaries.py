"""Summaries of a replay by a model: each ask in turn against the built-in server, kept, and used by every later replay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import turnscope
from conftest import let_go
from turnscope.library.opening import count_session
from turnscope.live.offline import OfflineServer
from turnscope.live.provider import AnthropicProvider, connect
from turnscope.live.replay_summaries import request_summaries
from turnscope.live.rule_queries import request_in_parts
from turnscope.planning.extract import extract
from turnscope.planning.policy import Policy, parse
from turnscope.session.builder import Builder
from turnscope.session.model import Answer, Ask, Session, Usage
from turnscope.storage.threads import Threads

POLICY = """
[budget]
formula = "fixed"
tokens = 1500

[[rules]]
rule = "condense"
share = 0.7
fraction = 0.6
cap = 150
"""


@pytest.fixture
def server() -> Iterator[OfflineServer]:
    with let_go(OfflineServer()) as offline:
        yield offline


def client(server: OfflineServer) -> AnthropicProvider:
    return connect(server.url, "none", retries=0, timeout=20)


def policy() -> Policy:
    return parse("small", POLICY)


def session() -> Session:
    builder = Builder("long", "test")
    for n in range(24):
        builder.add_message("user", f"Question {n}: what must never be lost at step {n}? " * 4, origin="prompt")
        answer = builder.add_message(
            "assistant", f"Answer {n}: we decided to keep file{n}.py, because {n} errors came of it. " * 4
        )
        builder.set_request(answer, model="claude-opus-4-5", usage=Usage(input_tokens=100 + 90 * n, output_tokens=40))
    return builder.build()


def test_a_model_writes_every_summary_and_later_replays_use_them(server: OfflineServer, tmp_path: Path) -> None:
    threads, talk = Threads(tmp_path / "chats.db"), session()
    before = turnscope.replay(talk, policy())
    assert len(before.find_offline_asks()) > 1
    for ask, answer in request_summaries(talk, policy(), before.ledger, client(server), "offline-200k", threads.list_answers()):
        assert (answer.source, answer.model, answer.failed) == ("model", "offline-200k", "")
        threads.keep_answer(ask.key, answer)
    kept = threads.list_answers()
    after = turnscope.replay(talk, policy(), before.ledger, kept)
    assert after.find_offline_asks() == ()
    used = [answer for plan in after.plans for _, answer in plan.asks]
    assert {answer.source for answer in used} == {"model"}
    assert len(server.memory.billed) == len(kept) == len({ask.key for plan in after.plans for ask, _ in plan.asks})
    assert [
        *request_summaries(talk, policy(), before.ledger, client(server), "offline-200k", kept)
    ] == []  # nothing is billed twice
    assert threads.list() == ()


def test_a_failure_stops_with_a_word_and_what_was_told_before_holds(server: OfflineServer, tmp_path: Path) -> None:
    threads, talk = Threads(tmp_path / "chats.db"), session()
    ledger = count_session(talk)
    asking = request_summaries(talk, policy(), ledger, client(server), "offline-200k", {})
    ask, answer = next(asking)
    threads.keep_answer(ask.key, answer)
    server.faults.append("overloaded")
    with pytest.raises(turnscope.TurnscopeError, match="no summary was made") as refused:
        next(asking)
    assert refused.value.hint
    rest = [*request_summaries(talk, policy(), ledger, client(server), "offline-200k", threads.list_answers())]
    assert rest
    assert ask.key not in {again.key for again, _ in rest}


def test_a_session_without_a_summary_asks_nothing(server: OfflineServer) -> None:
    talk = session()
    trace = turnscope.replay(talk, "keep-everything")
    assert trace.find_offline_asks() == ()
    assert [*request_summaries(talk, trace.policy, trace.ledger, client(server), "offline-200k", {})] == []
    assert server.memory.billed == []


def test_a_text_over_the_window_is_summarised_in_parts_that_keep_their_speakers() -> None:
    requests = list[Ask]()

    def answer(ask: Ask) -> Answer:
        requests.append(ask)
        return Answer(extract(ask.content, 60), usage=Usage(10), source="offline")

    text = "user: " + "Never touch the file a.py, please. " * 60
    made = request_in_parts(
        answer, 400, lambda text: len(text) // 4, Ask("summary", "k", prompt="Sum up.", source=text, max_tokens=60)
    )
    assert len(requests) > 2
    assert all(request.content.startswith("summary: ") and "\n\nuser: " in request.content for request in requests[1:])
    assert "- user: Never touch the file a.py, please." in made.text
    assert "user: user:" not in made.text
    assert made.usage is not None
    assert len(made.usage.passes) == len(requests), "all requests are billed"
