"""A request is kept from before it is sent: a kill, a locked file, another window and another user find what they should."""

from __future__ import annotations

import inspect
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import apart
import pytest
import turnscope
from conftest import let_go
from malformed.rogue import SAID, USAGE, Rogue, events, frame, message, raw, refusal, stream
from turnscope.envelope.request_outcome import INTERRUPTED, RequestEnded
from turnscope.errors import TurnscopeError
from turnscope.live import branches, window_lookup, write_retry
from turnscope.live.chat import Chat, Settings
from turnscope.live.events import (
    Event,
    LimitReached,
    RequestDone,
    RequestRefused,
    TextDelta,
    TurnFailed,
    WindowAssumed,
    WriteFailed,
    WriteRecovered,
)
from turnscope.live.live_session import LiveSession
from turnscope.live.offline.model import COUNTER
from turnscope.live.provider import AnthropicProvider, connect
from turnscope.planning.assemble import replay
from turnscope.planning.policy import add_wishes_rule, load
from turnscope.session.builder import Builder
from turnscope.session.destination import Destination
from turnscope.session.model import Answer, AnswerFact, Session, Usage
from turnscope.storage import database, schema
from turnscope.storage.chat_writer import ChatWriter
from turnscope.storage.threads import Conflict, Threads

SLOW = "slow words " * 40


@pytest.fixture
def rogue() -> Iterator[Rogue]:
    with let_go(Rogue()) as server:
        yield server


@pytest.fixture
def threads(tmp_path: Path) -> Threads:
    return Threads(tmp_path / "chats.db")


def client(rogue: Rogue) -> AnthropicProvider:
    return connect(rogue.url, "a-key-of-this-server", retries=0, timeout=5)


def begun(rogue: Rogue, threads: Threads, thread: str = "", policy: str = "keep-everything", **more: Any) -> Chat:
    thread = thread or threads.create()
    settings = Settings("offline-200k", load(policy), **{"count_from_share": 0.0, **more})
    return Chat(LiveSession(threads.load(thread), COUNTER), client(rogue), threads.open_writer(thread), settings)


def slowly(handler: Any) -> None:
    """An answer that begins, and then does not end for a while."""
    words = ({"type": "text_delta", "text": SLOW[i : i + 11]} for i in range(0, len(SLOW), 11))
    raw(b"")(handler)
    for event in events(({"type": "text", "text": ""}, *words)):
        handler.wfile.write(frame(event))
        handler.wfile.flush()
        time.sleep(0.05)


def chat(say: apart.Say, url: str, path: Path, thread: str) -> None:
    """Send a message from a process of its own."""
    threads = Threads(path)
    provider = connect(url, "a-key-of-this-server", retries=0, timeout=30)
    settings = Settings("offline-200k", load("keep-everything"), count_from_share=0.0)
    talk = Chat(LiveSession(threads.load(thread), COUNTER), provider, threads.open_writer(thread), settings)
    for event in talk.send("Speak slowly."):
        if isinstance(event, TextDelta):
            say(event.text)


def rows(threads: Threads, sql: str, *given: Any) -> list[Any]:
    with sqlite3.connect(threads.path) as db:
        return db.execute(sql, given).fetchall()


@pytest.mark.thorough
def test_a_kill_during_an_answer_leaves_the_request_and_what_was_shown(rogue: Rogue, threads: Threads) -> None:
    thread = threads.create()
    rogue.wrongs.append(slowly)
    process, heard = apart.begun(chat, rogue.url, threads.path, thread)
    shown, until = "", time.monotonic() + 30
    while len(shown) < 250 and time.monotonic() < until:
        shown += heard.recv()
    while rows(threads, "select draft from requests") in ([], [(None,)]) and time.monotonic() < until:
        time.sleep(0.05)  # a busy machine may be late with the first draft
    while_it_ran = threads.load(thread)
    assert [m.role for m in while_it_ran.messages] == ["user"], "no reader sees a draft as a message"
    assert while_it_ran.requests == ()
    with pytest.raises(Conflict):
        list(begun(rogue, threads, thread).send("from another window"))
    process.kill()
    process.join()
    stored = threads.load(thread)
    (request,) = stored.requests
    assert (request.stop_reason, request.usage) == ("interrupted", None)
    assert request.estimate
    assert request.estimate.input_tokens > 0
    draft = stored.blocks[request.cut].text
    assert SLOW.startswith(draft)
    assert len(draft) >= len(shown) - 20 * 11 * 1.5, "what was shown is kept at least every second"
    assert stored.blocks[-1].text == INTERRUPTED
    assert "may have been billed" in str(threads.list_problems(thread)[0]["hint"])
    assert rows(threads, "select status, draft from requests") == [("interrupted", None)]
    assert threads.load(thread) == stored
    again = begun(rogue, threads, thread)
    assert isinstance(list(again.send("and now?"))[-1], RequestDone)
    assert threads.load(thread).blocks == again.live_session.session.blocks
    assert INTERRUPTED in str(rogue.bodies[-1])


def test_an_answer_that_cannot_be_written_waits_and_is_written(
    rogue: Rogue, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(write_retry, "RETRY_SECONDS", 0.05)
    talk = begun(rogue, threads)
    locker = sqlite3.connect(threads.path, isolation_level=None, check_same_thread=False)
    happened: list[Event] = []
    for event in talk.send("hello"):
        happened.append(event)
        if isinstance(event, TextDelta) and not locker.in_transaction and not any(isinstance(e, WriteFailed) for e in happened):
            locker.execute("begin immediate")
        if isinstance(event, WriteFailed):
            assert rows(threads, "select status from requests") == [("begun",)]
            assert event.error.hint
            threading.Timer(0.2, lambda: locker.execute("rollback")).start()
    assert [type(e) for e in happened][-3:] == [RequestDone, WriteFailed, WriteRecovered]
    stored = threads.load(talk.live_session.session.id)
    assert stored.blocks == talk.live_session.session.blocks
    assert stored.requests == talk.live_session.session.requests
    monkeypatch.setattr(write_retry, "MAX_TRIES", 1)
    locker.execute("begin immediate")
    with pytest.raises(TurnscopeError):  # a prompt is never taken before it is kept
        list(talk.send("while it is locked"))
    locker.execute("rollback")
    again = begun(rogue, threads, talk.live_session.session.id)
    assert isinstance(list(again.send("and now?"))[-1], RequestDone)
    assert [b.text for b in threads.load(talk.live_session.session.id).blocks if b.role == "user"] == ["hello", "and now?"]


def test_a_chat_goes_where_it_says_and_a_change_is_recorded(rogue: Rogue, threads: Threads) -> None:
    here = Destination("server", rogue.url, "offline-200k")
    thread = threads.create(place=here)
    talk = begun(rogue, threads, thread)
    talk.destination = threads.find_destination(thread)
    assert isinstance(list(talk.send("hello"))[-1], RequestDone)
    for place in (
        Destination("anthropic", "", "offline-200k"),
        Destination("server", "http://elsewhere", "offline-200k"),
        Destination("server", rogue.url, "local-7b"),
    ):
        talk.destination = place
        sent = len(rogue.bodies)
        (failed,) = list(talk.send("not there"))
        assert isinstance(failed, TurnFailed)
        assert str(place) in failed.error.what
        assert "Nothing was sent" in failed.error.hint
        assert [type(e) for e in talk.condense()][-1] is TurnFailed
        assert len(rogue.bodies) == sent
    moved = Destination("server", rogue.url, "other", window=8_192)
    threads.open_writer(thread).write_destination(moved, len(talk.live_session.session.requests))
    assert threads.find_destination(thread) == moved
    assert threads.find_destination(threads.create(parent=thread, at=1)) == moved
    assert {row.about.get("model") for row in threads.list()} == {"other"}
    assert threads.find_destination(threads.create()) is None
    talk.destination, talk.settings = moved, Settings("other", load("keep-everything"), window=8_192)
    events_ = list(talk.continue_turn())
    assert isinstance(events_[-1], RequestDone)
    assert not any(isinstance(e, WindowAssumed) for e in events_)
    stored = threads.load(thread)
    assert stored.requests[-1].window == 8_192
    assert [plan.budget.window for plan in replay(stored, load("keep-everything"), talk.live_session.ledger)][-1] == 8_192


@pytest.mark.parametrize(
    ("about", "model", "place"),
    [
        ({"provider": "offline", "model": "offline-16k"}, "", Destination("offline", "", "offline-16k")),
        ({"provider": "anthropic", "model": "claude-a"}, "claude-b", Destination("anthropic", "", "claude-b")),
        (
            {"provider": "server", "url": "http://localhost:11434", "model": "local-7b"},
            "",
            Destination("server", "http://localhost:11434", "local-7b"),
        ),
        ({"provider": "anthropic", "model": "claude-a"}, "offline-64k", Destination("offline", "", "offline-64k")),
        ({"provider": "server", "url": "", "model": "local-7b"}, "local-7b", None),
        ({"model": "local-7b"}, "local-7b", None),
        ({}, "", None),
        ([], "", None),
    ],
)
def test_where_an_old_chat_went_is_what_its_requests_say(about: Any, model: str, place: Destination | None) -> None:
    assert schema.infer_destination(about, model) == place


def test_a_window_that_nobody_knows_is_said_to_be_assumed_once(rogue: Rogue, threads: Threads) -> None:
    talk = begun(rogue, threads)
    talk.settings = Settings("local-7b", load("keep-everything"), count_from_share=0.0)
    assert [type(e) for e in talk.send("hello")].count(WindowAssumed) == 1
    assert [type(e) for e in talk.send("again")].count(WindowAssumed) == 0


WINDOWS: Mapping[str, tuple[Mapping[str, Any], int]] = {
    "ollama, loaded": (
        {
            "/api/show": {"model_info": {"llama.context_length": 131_072}},
            "/api/ps": {"models": [{"name": "m", "context_length": 4_096}]},
        },
        4_096,
    ),
    "ollama, num_ctx": ({"/api/show": {"parameters": "stop x\nnum_ctx 8192", "model_info": {"a.context_length": 9}}}, 8_192),
    "ollama, num_ctx beyond": (
        {"/api/show": {"parameters": f"num_ctx {'9' * 5_000}", "model_info": {"a.context_length": 9}}},
        9,
    ),
    "ollama": ({"/api/show": {"model_info": {"llama.context_length": 131_072}}}, 131_072),
    "lm studio": ({"/api/v0/models/m": {"loaded_context_length": 2_048, "max_context_length": 9_999}}, 2_048),
    "llama.cpp": ({"/props": {"default_generation_settings": {"n_ctx": 16_384}}}, 16_384),
    "vllm": ({"/v1/models": {"data": [{"id": "other", "max_model_len": 1}, {"id": "m", "max_model_len": 32_768}]}}, 32_768),
    "nobody": ({}, 0),
    "nonsense": ({"/api/show": [], "/props": {"default_generation_settings": None}, "/v1/models": {"data": [None]}}, 0),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_a_server_is_asked_for_the_window_of_its_model(name: str, rogue: Rogue, monkeypatch: pytest.MonkeyPatch) -> None:
    told, tokens = WINDOWS[name]

    def answer_request(url: str, key: str, _seconds: float, _body: Any) -> Any:
        assert key == "k"
        return told.get(url.removeprefix(rogue.url))

    monkeypatch.setattr(window_lookup, "_fetch_json", answer_request)
    found = window_lookup.fetch_window(f"{rogue.url}/", "m", "k")
    assert (found.tokens, bool(found.source)) == (tokens, True)


def test_a_server_that_is_not_there_or_says_no_tells_no_window(rogue: Rogue) -> None:
    assert window_lookup.fetch_window(rogue.url, "m").tokens == 0
    assert "does not answer" in window_lookup.fetch_window("http://127.0.0.1:9", "m").source
    assert window_lookup.fetch_window("nowhere", "m") == window_lookup.Window(source="there is no address")


def test_summaries_and_estimates_are_in_the_total_and_a_held_send_says_what_it_costs(rogue: Rogue, threads: Threads) -> None:
    talk = begun(rogue, threads)
    talk.settings = Settings("claude-sonnet-5-5", load("keep-everything"), count_from_share=0.0)
    list(talk.send("one " * 60))  # a summary larger than what it stands for is refused
    priced = talk.live_session.prices.compute_cost(Usage(**USAGE), "claude-sonnet-5-5", None)
    assert priced
    assert talk.spent_usd == priced.total
    list(talk.send("two"))
    rogue.wrongs.append(raw(json.dumps(message()).encode(), "application/json"))
    list(talk.condense(1))
    assert talk.spent_usd == 3 * priced.total
    rogue.wrongs.append(stream(events(usage=None)))
    list(talk.send("three"))
    assert talk.spent_usd > 3 * priced.total
    stored = threads.load(talk.live_session.session.id)
    assert stored.requests[-1].usage is None
    assert stored.requests[-1].estimate
    assert branches.sum_cost(stored, talk.live_session.prices) == talk.spent_usd
    beside = [answer.usage for answer in stored.recorded.answers.values()] + [stored.requests[-1].estimate]
    costs = [talk.live_session.prices.compute_cost(usage, "claude-sonnet-5-5", None) for usage in beside if usage]
    assert len(costs) == 2
    billed = turnscope.overview(stored).bill.whole.usd
    assert billed, "what other pages say that this chat cost: requests alone, as they were billed"
    assert talk.spent_usd == billed + sum(cost.total for cost in costs if cost)
    talk.settings = Settings(
        "claude-sonnet-5-5", load("keep-everything"), spend_limit=Decimal("0.000001"), count_from_share=0.0
    )
    (held,) = list(talk.send("four"))
    assert isinstance(held, LimitReached)
    assert held.usd
    assert 0 < held.usd[0] < held.usd[1]
    assert f"${held.usd[0]:.4f}" in held.why


def test_the_model_that_was_asked_for_is_recorded_beside_the_one_that_answered(rogue: Rogue, threads: Threads) -> None:
    policy = load("balanced")
    falls = [part for part in policy.rules if part.rule.name == "fall_back_to_larger_window"]
    assert falls, "the policy has a table of larger models"
    talk = begun(rogue, threads, policy="balanced", max_tokens=1_000)
    talk.settings = Settings("claude-haiku-4-5", policy, max_tokens=1_000, count_from_share=0.0)
    plans = [e.plan for e in talk.send("long " * 230_000) if hasattr(e, "plan")]
    stored = threads.load(talk.live_session.session.id)
    (request,) = stored.requests
    assert plans[-1].model == request.model
    assert (request.requested_model, request.model != "claude-haiku-4-5") == ("claude-haiku-4-5", True)
    (again,) = replay(stored, policy, talk.live_session.ledger)
    assert [d.edit for d in again.decisions] == [d.edit for d in plans[-1].decisions]
    (kept,) = replay(stored, load("keep-everything"), talk.live_session.ledger)
    assert kept.model == "claude-haiku-4-5"
    (recorded,) = replay(stored, load("as-recorded"), talk.live_session.ledger)
    assert recorded.model == request.model


def test_a_message_over_the_window_does_not_end_a_chat_that_leaves_it_out(rogue: Rogue, threads: Threads) -> None:
    talk = begun(rogue, threads)
    talk.settings = Settings("offline-16k", load("keep-everything"), count_from_share=0.0)
    list(talk.send("hello"))
    refused = list(talk.send("paste " * 40_000))[-1]
    assert isinstance(refused, RequestRefused)
    error = refused.error
    assert "The newest message" in error.hint
    assert "shorten and resend" in error.hint
    assert (error.conversation_id, error.turn, error.window) == (talk.live_session.session.id, 1, 16_000)
    assert error.projected > 16_000
    assert error.counters == {
        "gen_ai.usage.input_tokens": 40,
        "gen_ai.usage.output_tokens": 9,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.cache_creation.input_tokens": 0,
    }
    assert "gen_ai.usage.input_tokens 40" in str(error)
    problem = threads.list_problems(talk.live_session.session.id)[1]
    assert (problem["kind"], problem["counters"], problem["window"]) == (type(error).__name__, error.counters, 16_000)
    talk.exclude_message(len(talk.live_session.session.messages) - 1)
    assert isinstance(list(talk.send("and now?"))[-1], RequestDone)
    stored = threads.load(talk.live_session.session.id)
    assert "paste" not in str(rogue.bodies[-1])
    assert [*list(replay(stored, add_wishes_rule(load("keep-everything")), talk.live_session.ledger))[-1].after.pieces] == [
        *talk.plan.after.pieces
    ]  # type: ignore[union-attr]


@pytest.mark.parametrize("words", ["half \ud83d", "\udc00", "two \ud83d\ude00"])
def test_half_a_character_from_the_keyboard_or_from_an_import_is_sent(words: str, rogue: Rogue, threads: Threads) -> None:
    talk = begun(rogue, threads)
    assert isinstance(list(talk.send(words))[-1], RequestDone)
    builder = Builder("s", "test")
    builder.add_message("user", words, origin="prompt")
    builder.set_request(builder.add_message("assistant", "yes"), model="m")
    other = begun(rogue, threads, threads.create(base=builder.build()))
    assert isinstance(list(other.send("and now?"))[-1], RequestDone)
    assert threads.load(other.live_session.session.id).blocks == other.live_session.session.blocks


@pytest.mark.parametrize("policy", ["keep-everything", "balanced", "last-20-messages"])
def test_a_conversation_that_begins_with_an_answer_goes_on(policy: str, rogue: Rogue, threads: Threads) -> None:
    builder = Builder("s", "test")
    for n in range(12):
        builder.set_request(builder.add_message("assistant", f"Welcome {n}."), model="m")
        builder.add_message("user", f"Question {n}?", origin="prompt")
    thread = threads.create(base=builder.build())
    talk = begun(rogue, threads, thread, policy)
    for n in range(3):
        assert isinstance(list(talk.send(f"and {n}?"))[-1], RequestDone)
        assert rogue.bodies[-1]["messages"][0]["role"] == "user"
    again, _ = branches.resume_chat(threads.load(thread), client(rogue), threads.open_writer(thread), talk.settings)
    assert isinstance(list(again.send("and now?"))[-1], RequestDone)
    assert str(rogue.bodies[-1]).count("begins with an answer") <= 1
    assert rogue.bodies[-1]["messages"][0]["role"] == "user"


def test_a_tool_that_crashes_is_an_error_the_model_reads_and_nobody_is_said_to_have_stopped(
    rogue: Rogue, threads: Threads
) -> None:
    builder = Builder("s", "test")
    builder.add_message("user", "Look.", origin="prompt")
    call = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    builder.set_request(builder.add_message("assistant", [call]), model="m")
    talk = begun(rogue, threads, threads.create(base=builder.build()))
    assert isinstance(list(talk.send("and now?"))[-1], RequestDone)
    assert "person stopped" not in str(rogue.bodies[-1])
    assert "did not run" in str(rogue.bodies[-1])


def intrusions(store: Threads, theirs: Session, talk: Chat) -> list[Callable[[], Any]]:
    """Every read and write of a thread that is another user's."""
    sink = store.open_writer(theirs.id)
    return [
        lambda: store.load(theirs.id),
        lambda: store.find_last_message(theirs.id),
        lambda: store.list_policies(theirs.id),
        lambda: store.find_statics(theirs.id, 0),
        lambda: store.find_destination(theirs.id),
        lambda: store.list_problems(theirs.id),
        lambda: store.rename(theirs.id, "mine"),
        lambda: store.delete(theirs.id),
        lambda: store.create(parent=theirs.id, at=1),
        lambda: sink.record_message(
            LiveSession(theirs, COUNTER).append_message("user", "x", origin="prompt"), ["x"], "complete"
        ),
        lambda: sink.record_fact(AnswerFact("k", Answer("x"))),
        lambda: sink.write_policy(load("balanced"), 0),
        lambda: sink.write_destination(Destination("offline"), 0),
        sink.end_lost_requests,
        lambda: sink.record_draft(["x"]),
        lambda: sink.record_request(RequestEnded(theirs.id, theirs.requests[0], talk.plan, "complete", None, ())),  # type: ignore[arg-type]
        lambda: sink.record_start(theirs.requests[0], talk.plan),  # type: ignore[arg-type]
        lambda: store.open_writer("user:somebody else").record_fact(AnswerFact("k", Answer("x"))),
    ]


def test_no_read_or_write_of_the_store_is_left_out_below() -> None:
    """What else there is goes by the user that the store itself is of: its result is looked at."""
    source = inspect.getsource(intrusions)
    names = {name for kind in (Threads, ChatWriter) for name, held in vars(kind).items() if inspect.isfunction(held)}
    left = {name for name in names if not name.startswith("_") and f".{name}" not in source}
    assert left == {"list_summaries", "holds", "search", "list_answers", "keep_answer"}


def test_nothing_of_one_user_is_there_for_another(rogue: Rogue, threads: Threads) -> None:
    alice, bob = (Threads(threads.path, user=name) for name in ("alice", "bob"))
    ids = {store: [begun(rogue, store, store.create(title=f"of {store.user} {n}")) for n in (1, 2)] for store in (alice, bob)}
    for store, talks in ids.items():
        for n, talk in enumerate(talks):
            list(talk.send(f"words of {store.user} {n}"))
        store.keep_answer("k", Answer(f"answer of {store.user}", source="model"))
    for store, other in ((alice, bob), (bob, alice), (threads, alice)):
        theirs = ids[other][0].live_session.session
        before = rows(threads, "select count(*), sum(length(blobs)) from messages") + rows(threads, "select * from threads")
        for call in intrusions(store, theirs, ids[other][0]):
            with pytest.raises(TurnscopeError, match="there is no chat"):
                call()
        assert (
            rows(threads, "select count(*), sum(length(blobs)) from messages") + rows(threads, "select * from threads")
            == before
        )
        assert {row.user_id for row in store.list()} <= {store.user}
        assert not store.holds(theirs.id)
        assert {look.thread for look in store.list_summaries()} == {row.id for row in store.list()}
        assert store.search(f"words {other.user}") == ()
        assert all(answer.text == f"answer of {store.user}" for answer in store.list_answers().values())
    for store in (alice, bob):
        assert len(store.list()) == 2
        assert len(store.search("words")) == 2
        assert [len(store.load(talk.live_session.session.id).requests) for talk in ids[store]] == [1, 1]
        one, two = (store.load(talk.live_session.session.id) for talk in ids[store])
        assert one.blocks[0].text != two.blocks[0].text
    assert threads.list_answers() == {}


def test_what_a_refusal_says_is_kept_with_its_request(rogue: Rogue, threads: Threads) -> None:
    talk = begun(rogue, threads)
    rogue.wrongs.append(refusal(400, "no such thing"))
    list(talk.send("hello"))
    assert "no such thing" in str(threads.list_problems(talk.live_session.session.id)[0]["what"])
    assert isinstance(talk.live_session.session, Session)
    assert SAID in "".join(e.text for e in talk.send("again") if isinstance(e, TextDelta))


def test_two_windows_of_one_process_do_not_send_at_once(rogue: Rogue, threads: Threads) -> None:
    one = begun(rogue, threads)
    two = begun(rogue, threads, one.live_session.session.id)
    rogue.wrongs.append(slowly)
    turn = one.send("hello")
    assert any(isinstance(event, TextDelta) for event in turn)
    for _ in range(2):
        with pytest.raises(Conflict):
            list(two.send("from the other"))
        assert threads.load(one.live_session.session.id).requests == ()
    turn.close()
    stored = threads.load(one.live_session.session.id)
    assert stored.blocks == one.live_session.session.blocks
    assert [r.stop_reason for r in stored.requests] == ["interrupted"]
