"""A chat with a provider that is a small class of the protocol, and who is told of what happens."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from turnscope.envelope.request_outcome import RequestEnded
from turnscope.errors import ProviderError
from turnscope.live.chat import Chat, Settings
from turnscope.live.events import (
    AnswerInterrupted,
    Event,
    RequestDone,
    RequestPlanned,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolResult,
    TurnFailed,
)
from turnscope.live.live_session import LiveSession
from turnscope.live.offline import OfflineServer
from turnscope.live.offline.model import COUNTER
from turnscope.live.provider import ProviderAnswer, StreamChunk, connect
from turnscope.live.rule_queries import build_answers
from turnscope.live.sinks import NullSink, Sink, Sinks
from turnscope.planning.answers import make_answerer
from turnscope.planning.assemble import replay
from turnscope.planning.policy import load
from turnscope.pricing.prices import PRICES
from turnscope.session.destination import Destination
from turnscope.session.model import Answer, AnswerFact, Ask, CountFact, Fact, Message, Session, Usage
from turnscope.storage.threads import Conflict, Threads

MODEL = "claude-sonnet-4-5"
BILLED = Usage(input_tokens=1_000, output_tokens=50)
HELLO = ProviderAnswer(({"type": "text", "text": "Hello."},), "end_turn", BILLED, "m1")


class Broken(Exception):
    """What this provider raises; nobody else knows it."""


@dataclass
class Fake:
    """A provider with a script: per request its pieces, or the error that it is refused with; an error amid them is raised."""

    script: list[Sequence[StreamChunk | Exception] | Exception]
    counts: int | Exception | None = None
    bodies: list[Mapping[str, Any]] = field(default_factory=list)

    @contextmanager
    def stream(self, body: Mapping[str, Any]) -> Iterator[Iterator[StreamChunk]]:
        self.bodies.append(body)
        pieces = self.script.pop(0)
        if isinstance(pieces, Exception):
            raise pieces
        yield self._pieces(pieces)

    def _pieces(self, pieces: Sequence[StreamChunk | Exception]) -> Iterator[StreamChunk]:
        for piece in pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def complete(self, _body: Mapping[str, Any]) -> ProviderAnswer:
        return HELLO

    def count_tokens(self, _body: Mapping[str, Any]) -> int | None:
        if isinstance(self.counts, Exception):
            raise self.counts
        return self.counts

    def explain_error(self, error: Exception) -> ProviderError:
        size = error.args[0] if error.args else 0
        return ProviderError("it broke", hint="Mend it.", too_long=isinstance(size, int) and size > 0, tokens=size)


@dataclass
class Heard:
    """A sink that remembers what it was told."""

    told: list[Message | RequestEnded | Fact] = field(default_factory=list)

    def record_message(self, message: Message, *_: Any) -> None:
        self.told.append(message)

    def record_request(self, ended: RequestEnded) -> None:
        self.told.append(ended)

    def record_fact(self, fact: Fact) -> None:
        self.told.append(fact)

    @property
    def last(self) -> RequestEnded:
        return [each for each in self.told if isinstance(each, RequestEnded)][-1]


class Deaf:
    """A sink that fails at everything."""

    def _fail(self, *_: Any) -> None:
        raise RuntimeError("it is deaf")

    record_message = record_request = record_fact = _fail


class Box:
    """One tool."""

    definitions: Sequence[Any] = ({"name": "look", "description": "Look.", "input_schema": {"type": "object"}},)

    def run(self, name: str, given: Mapping[str, Any]) -> tuple[str, bool]:
        return f"{name} at {given['at']}", True


def chat(fake: Fake, sink: Sink | None = None, policy: str = "keep-everything", **more: Any) -> Chat:
    settings = Settings(MODEL, load(policy), **{"count_from_share": 0.0, **more})
    return Chat(LiveSession(Session("s", source="turnscope-chat"), COUNTER), fake, sink or NullSink(), settings)


def kinds(events: Iterator[Event]) -> list[type[Event]]:
    return [type(event) for event in events]


def test_an_answer_with_thinking_and_a_tool_goes_through() -> None:
    call = {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "it"}}
    asks = ProviderAnswer(({"type": "thinking", "thinking": "Hm.", "signature": "x"}, call), "tool_use", BILLED)
    fake, heard = Fake([[ThinkingDelta("Hm."), asks], [TextDelta("Hel"), TextDelta("lo."), HELLO]]), Heard()
    talk = chat(fake, heard)
    talk.tools = Box()
    events = list(talk.send("Look."))
    assert [type(e) for e in events] == [
        RequestPlanned,
        ThinkingDelta,
        RequestDone,
        ToolCalled,
        ToolResult,
        RequestPlanned,
        TextDelta,
        TextDelta,
        RequestDone,
    ]
    assert ToolCalled(call) in events
    assert ToolResult("look at it", True) in events
    assert fake.bodies[1]["messages"][-1]["content"][0]["is_error"] is True
    priced = PRICES.compute_cost(BILLED, MODEL, None)
    assert priced
    assert (heard.last.session, heard.last.status, heard.last.attempts, heard.last.usd) == ("s", "complete", 1, priced.total)
    assert (heard.last.blocks, heard.last.request.usage) == (HELLO.content, BILLED)
    assert talk.spent_usd == 2 * priced.total
    assert heard.last.answer == talk.live_session.session.messages[-1]


def test_what_breaks_off_is_kept_by_block_and_what_was_not_accepted_is_not_sent() -> None:
    heard = Heard()
    fake = Fake(
        [[TextDelta("One, ", 0), TextDelta("two.", 0), TextDelta("Three", 2), Broken()], Broken(), [TextDelta("x")], [HELLO]]
    )
    talk = chat(fake, heard)
    events = list(talk.send("Count."))
    assert isinstance(events[-1], AnswerInterrupted)
    assert (events[-1].error.what, events[-1].error.hint) == ("it broke", "Mend it.")
    assert [block["text"] for block in heard.last.blocks][:2] == ["One, two.", "Three"]
    assert (heard.last.status, heard.last.usd) == ("interrupted", None)
    assert kinds(talk.send("Again.")) == [RequestPlanned, TurnFailed]
    assert (heard.last.status, heard.last.answer) == ("failed", None)
    events = list(talk.send("And now?"))
    assert isinstance(events[-1], AnswerInterrupted), "a stream without its end is no answer"
    assert "ended before the answer" in events[-1].error.what
    assert kinds(talk.send("At last?"))[-1] is RequestDone


def test_the_size_that_a_provider_names_is_learned_and_the_second_attempt_carries_less() -> None:
    heard = Heard()
    words = "Some words that fill the window. " * 500
    fake = Fake([[HELLO]] * 9 + [Broken(180_000), [HELLO]])
    talk = chat(fake, heard, "balanced")
    for n in range(9):
        list(talk.send(f"Point {n}. {words}"))
    events = list(talk.send("And now?"))
    plans = [event.plan for event in events if isinstance(event, RequestPlanned)]
    assert isinstance(events[-1], RequestDone)
    assert [len(fake.bodies[-2]["messages"]) > len(fake.bodies[-1]["messages"]), len(plans)] == [True, 2]
    assert CountFact(9, plans[0].seen.tokens, 180_000, MODEL) in heard.told
    assert heard.last.attempts == 2
    stored = talk.live_session.session
    again = list(replay(stored, load("balanced"), talk.live_session.ledger))
    assert [*again[-1].after.pieces] == [*plans[1].after.pieces]


@pytest.mark.parametrize("counts", [None, Broken(), 4_321])
def test_a_provider_that_does_not_count_leaves_the_estimate(counts: Any) -> None:
    heard = Heard()
    talk = chat(Fake([[HELLO]], counts), heard, count_from_share=0.000_001)
    (plan,) = [event.plan for event in talk.send("Hello?") if isinstance(event, RequestPlanned)]
    facts = [fact for fact in heard.told if isinstance(fact, CountFact)]
    assert [fact.tokens for fact in facts] == ([4_321] if counts == 4_321 else [])
    assert (plan.calibration.recorded == 4_321) == bool(facts)


class OneModel:
    """A server that knows one model."""

    def __init__(self, inner: Any, model: str) -> None:
        self.inner, self.model, self.explain_error = inner, model, inner.explain_error

    def complete(self, body: dict[str, Any]) -> Any:
        if body["model"] != self.model:
            raise ProviderError(f"there is no model {body['model']!r}")
        return self.inner.complete(body)


def test_each_kind_of_ask_has_its_answerer_live_and_a_failure_that_says_so_elsewhere() -> None:
    asks = {kind: Ask(kind, f"k-{kind}", "Sum up.", "user: hi. " * 30, 100) for kind in ("summary", "count", "recall")}
    with OfflineServer() as server:
        provider = connect(server.url, "none", retries=0)
        live = make_answerer({}.get, build_answers(provider, "offline-16k", "offline-64k"))
        counted = provider.count_tokens({"model": "offline-16k", "messages": [{"role": "user", "content": "user: hi. " * 30}]})
        assert counted
        assert live(asks["count"]) == Answer(str(counted), model="offline-16k", source="model")
        summary = live(asks["summary"])
        assert (summary.source, summary.model, bool(summary.text and summary.usage)) == ("model", "offline-64k", True)
        assert make_answerer({}.get, build_answers(provider, "m", ""))(asks["summary"]).failed
        named = structs.replace(asks["summary"], model="offline-200k")
        unchosen = make_answerer({}.get, build_answers(provider, "offline-16k", "offline-16k", chosen_by_user=False))
        assert [answer(ask).model for answer in (unchosen, live) for ask in (named, asks["summary"])] == [
            "offline-200k",
            "offline-16k",
            "offline-64k",
            "offline-64k",
        ]
        picky = OneModel(provider, "offline-16k")
        unchosen = make_answerer({}.get, build_answers(picky, "offline-16k", "offline-16k", chosen_by_user=False))  # type: ignore[arg-type]
        assert (unchosen(named).failed, unchosen(named).model) == ("", "offline-16k")
    nowhere = make_answerer({}.get, build_answers(connect("http://127.0.0.1:9", "none", retries=0), "m", "m"))
    assert "no answer" in nowhere(asks["summary"]).failed
    assert "no answer" in nowhere(asks["count"]).failed
    later = make_answerer({"k-recall": Answer("block 3")}.get, {"rank": lambda _: Answer(items=("a", "b"))})
    assert later(Ask("rank", "k", "", "")).items == ("a", "b")
    assert later(asks["recall"]).text == "block 3"
    told: list[Ask] = []
    replayed = make_answerer({}.get, on_answer=lambda ask, _: told.append(ask))
    assert replayed(asks["summary"]).source == "offline"
    assert "recall" in replayed(asks["recall"]).failed
    assert told == [asks["summary"], asks["recall"]]


def test_a_stream_that_falls_silent_is_kept_as_far_as_it_came() -> None:
    """The SDK lets its HTTP client's own errors through there."""
    with OfflineServer(delay=0.6) as server:
        talk = chat(Fake([]))
        talk.settings = Settings("offline-16k", load("keep-everything"))
        talk.provider = connect(server.url, "none", retries=0, timeout=0.3)
        events = list(talk.send("Speak at length, please."))
        assert isinstance(events[-1], AnswerInterrupted)
        assert "no answer" in events[-1].error.what
        assert any(isinstance(event, TextDelta) for event in events)
        assert "interrupted here" in talk.live_session.session.blocks[-1].text
        assert talk.live_session.session.requests[-1].stop_reason == "interrupted"


def test_a_sink_that_fails_harms_neither_the_store_nor_the_chat(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    threads = Threads(tmp_path / "chats.db")
    thread, heard = threads.create(), Heard()
    talk = chat(Fake([[HELLO]], 4_321), count_from_share=0.000_001)
    talk.live_session = LiveSession(threads.load(thread), COUNTER)
    talk.sink = Sinks(threads.open_writer(thread), Deaf(), heard, conversation=thread)
    with caplog.at_level(logging.WARNING):
        assert kinds(talk.send("Hello?"))[-1] is RequestDone
    stored = threads.load(thread)
    assert (stored.blocks, stored.requests, stored.recorded) == (
        talk.live_session.session.blocks,
        talk.live_session.session.requests,
        talk.live_session.facts,
    )
    assert [type(each) for each in heard.told] == [Message, CountFact, RequestEnded]
    assert [record.getMessage() for record in caplog.records] == [f"conversation {thread} is stored, but Deaf failed"] * 3
    assert all(record.exc_info for record in caplog.records)


def test_what_the_store_refuses_nobody_else_hears(tmp_path: Path) -> None:
    threads = Threads(tmp_path / "chats.db")
    thread, heard = threads.create(), Heard()
    behind = LiveSession(threads.load(thread), COUNTER)
    talk = chat(Fake([[HELLO]]))
    talk.live_session, talk.sink = LiveSession(threads.load(thread), COUNTER), threads.open_writer(thread)
    list(talk.send("Hello?"))
    talk.live_session, talk.sink = behind, Sinks(threads.open_writer(thread), heard)
    with pytest.raises(Conflict):
        list(talk.send("Hello from elsewhere?"))
    assert heard.told == []


def test_facts_of_any_kind_are_read_back_as_they_were_and_the_later_one_holds(tmp_path: Path) -> None:
    threads = Threads(tmp_path / "chats.db")
    thread = threads.create()
    talk = chat(Fake([]))
    talk.live_session, talk.sink = LiveSession(threads.load(thread), COUNTER), threads.open_writer(thread)
    for fact in (
        AnswerFact("k", Answer("one", source="model")),
        AnswerFact("k", Answer("half a character: \ud800", source="model")),
        CountFact(0, 10, 12, "m"),
        CountFact(0, 11, 14, "m"),
        CountFact(0, 10, 13, "m"),
    ):
        talk.record_fact(fact)
    recorded = threads.load(thread).recorded
    assert recorded == talk.live_session.facts
    assert recorded.answers["k"].text == "half a character: \ud800"
    assert [(c.seen, c.tokens) for c in recorded.counts[0]] == [(11, 14), (10, 13)]


@pytest.mark.parametrize("typed", ["http://127.0.0.1:1234", "http://127.0.0.1:1234/v1/"])
def test_an_address_may_be_typed_as_for_clients_of_openais_api(typed: str) -> None:
    made = connect(typed, "a-key")
    assert str(made.client.base_url).rstrip("/") == "http://127.0.0.1:1234"
    assert made.destination == Destination("server", typed.rstrip("/")), "a chat goes where it says"
