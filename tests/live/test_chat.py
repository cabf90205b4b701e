"""Live chat through the assembler, against the built-in server over real HTTP: nothing overflows, is lost or doubled."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import apart
import pytest
import turnscope
from conftest import let_go
from turnscope.counting.ledger import build_ledger
from turnscope.live import branches
from turnscope.live.background_turn import BackgroundTurn
from turnscope.live.chat import Chat, Settings
from turnscope.live.events import (
    AnswerInterrupted,
    Event,
    LimitReached,
    RequestDone,
    RequestPlanned,
    RequestRefused,
    TextDelta,
    ToolCalled,
    TurnFailed,
)
from turnscope.live.live_session import LiveSession
from turnscope.live.offline import FAULTS, OfflineServer
from turnscope.live.offline.model import COUNTER
from turnscope.live.provider import AnthropicProvider, connect
from turnscope.live.tools import Toolbox
from turnscope.planning.assemble import replay
from turnscope.planning.policy import load
from turnscope.planning.render import render
from turnscope.session.builder import Builder
from turnscope.session.model import Session
from turnscope.storage.threads import Conflict, Threads

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def server() -> Iterator[OfflineServer]:
    with let_go(OfflineServer()) as offline:
        yield offline


@pytest.fixture
def threads(tmp_path: Path) -> Threads:
    return Threads(tmp_path / "turnscope.db")


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    folder = tmp_path / "project"
    folder.mkdir()
    for n in range(4):
        (folder / f"file{n}.py").write_text("".join(f"def function_{n}_{i}(value): return value + {i}\n" for i in range(120)))
    return Toolbox(folder)


def client(server: OfflineServer, timeout: float = 10) -> AnthropicProvider:
    return connect(server.url, "secret-key-123", retries=0, timeout=timeout)


def chat(
    server: OfflineServer, threads: Threads, policy: str = "balanced", box: Toolbox | None = None, **settings: object
) -> tuple[Chat, str]:
    thread = threads.create(title="test")
    start = Session(thread, source="turnscope-chat")
    made = Settings("offline-16k", load(policy), **settings)  # type: ignore[arg-type]
    talk = Chat(LiveSession(start, COUNTER), client(server), threads.open_writer(thread), made, box)
    if box:
        talk.append_message("tools", list(box.definitions), "tools")
    talk.append_message("system", "You are brief.", "system")
    return talk, thread


def kinds(events: Iterator[Event]) -> list[type[Event]]:
    return [type(event) for event in events]


@pytest.mark.thorough
def test_two_hundred_turns_with_tools_never_overflow_and_replay_to_the_same_plans(
    server: OfflineServer, threads: Threads, box: Toolbox
) -> None:
    talk, thread = chat(server, threads, "balanced", box)
    plans = []
    for n in range(200):
        text = f"read file file{n % 4}.py" if n % 3 == 0 else f"And what of point {n}? It matters because of reason {n * 7}."
        for event in talk.send(text):
            if isinstance(event, RequestPlanned):
                plans.append(event.plan)
            assert not isinstance(event, RequestRefused | TurnFailed | LimitReached | AnswerInterrupted), event
    billed = server.memory.billed
    assert all(
        u["input_tokens"] + u["cache_read_input_tokens"] + u["cache_creation_input_tokens"] + 1_024 <= 16_000 for u in billed
    )
    assert any(plan.is_changed for plan in plans)
    stored = threads.load(thread)
    assert stored.blocks == talk.live_session.session.blocks
    assert stored.requests == talk.live_session.session.requests
    sent = {plan.request.n: plan for plan in plans}
    replayed = list(replay(stored, load("balanced"), build_ledger(stored, COUNTER)))
    assert [render(p.after, stored, p.request.settings) for p in replayed] == [
        render(sent[p.request.n].after, stored, p.request.settings) for p in replayed
    ]
    assert [p.decisions for p in replayed] == [sent[p.request.n].decisions for p in replayed]
    recorded = list(replay(stored, load("as-recorded"), build_ledger(stored, COUNTER)))
    assert [
        [*p.after.pieces] == [*q.after.pieces] or p.after.counts == q.after.counts
        for p, q in zip(recorded, replayed, strict=True)
    ]
    summaries = [a.usage for a in stored.recorded.answers.values() if a.usage]
    totals = [sum(u.prompt_tokens for u in [*(r.usage for r in stored.requests if r.usage), *summaries])]
    assert totals == [sum(u["input_tokens"] + u["cache_read_input_tokens"] + u["cache_creation_input_tokens"] for u in billed)]
    answered = sum(r.usage.output_tokens for r in stored.requests if r.usage) + sum(u.output_tokens for u in summaries)
    assert answered == sum(u["output_tokens"] for u in billed)


@pytest.mark.parametrize("cut_after", range(14))
def test_a_stream_that_breaks_anywhere_is_kept_once_and_the_next_turn_works(
    server: OfflineServer, threads: Threads, cut_after: int
) -> None:
    talk, thread = chat(server, threads)
    server.cut_after = cut_after
    server.faults.append("cut")
    seen = kinds(talk.send("Tell me about walking a long road."))
    assert seen[-1] in (AnswerInterrupted, RequestDone)
    assert kinds(talk.send("And now?"))[-1] is RequestDone
    stored = threads.load(thread)
    assert stored.blocks == talk.live_session.session.blocks
    prompts = [m for m in stored.messages if m.origin == "prompt"]
    assert len(prompts) == 2
    assert len(stored.requests) == 2
    partial = [b for b in stored.blocks if "interrupted here" in b.text]
    assert len(partial) <= 1
    body = render(talk.plan.after, talk.live_session.session)  # type: ignore[union-attr]
    assert all(("interrupted here" in str(body)) == bool(partial) for _ in [0])


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {"cut", "slow"}))
def test_after_any_fault_nothing_is_lost_and_the_next_turn_works(server: OfflineServer, threads: Threads, fault: str) -> None:
    talk, thread = chat(server, threads)
    server.faults.append(fault)
    ends = list(talk.send("first"))
    assert isinstance(ends[-1], TurnFailed | AnswerInterrupted | RequestRefused | RequestDone)
    if isinstance(ends[-1], TurnFailed):
        assert ends[-1].error.what
        assert ends[-1].error.hint
    assert kinds(talk.send("second"))[-1] is RequestDone
    stored = threads.load(thread)
    assert [b.text for b in stored.blocks if b.role == "user"] == ["first", "second"]
    assert stored.blocks == talk.live_session.session.blocks


def test_a_refused_connection_and_a_slow_server_are_explained(threads: Threads) -> None:
    with OfflineServer() as gone:
        talk, thread = chat(gone, threads)
    last = list(talk.send("hello"))[-1]
    assert isinstance(last, TurnFailed)
    assert "no answer" in last.error.what
    with OfflineServer() as slow:
        slow.slow = 1.0
        slow.faults.append("slow")
        talk.provider = client(slow, timeout=0.3)
        assert kinds(talk.send("hello again"))[-1] is TurnFailed
        talk.provider = client(slow)
        assert kinds(talk.send("now"))[-1] is RequestDone
    assert [b.text for b in threads.load(thread).blocks if b.role == "user"] == ["hello", "hello again", "now"]


def test_a_prompt_that_the_provider_calls_too_long_is_planned_again_once(
    server: OfflineServer, threads: Threads, box: Toolbox
) -> None:
    talk, _ = chat(server, threads, "balanced", box)
    for n in range(6):
        list(talk.send(f"read file file{n % 4}.py"))
    server.faults.append("too_long")
    events = list(talk.send("read file file1.py"))
    plans = [event.plan for event in events if isinstance(event, RequestPlanned)]
    assert isinstance(events[-1], RequestDone | RequestRefused)
    assert len(plans) >= 2
    assert plans[1].calibration.recorded == 210_883 or plans[1].verdict == "refuse"


def test_stopping_keeps_what_was_delivered(server: OfflineServer, threads: Threads) -> None:
    talk, thread = chat(server, threads)
    turn = talk.send("Speak at length, please, about nothing in particular.")
    said = ""
    for event in turn:
        if isinstance(event, TextDelta):
            said += event.text
            if len(said) > 60:
                break
    turn.close()
    stored = threads.load(thread)
    assert stored.requests[-1].stop_reason == "interrupted"
    assert any(block.text == said or said in block.text for block in stored.blocks if block.role == "assistant")
    assert kinds(talk.send("Go on."))[-1] is RequestDone


def test_a_chat_over_its_limit_asks_before_it_goes_on(server: OfflineServer, threads: Threads, box: Toolbox) -> None:
    from decimal import Decimal

    talk, _ = chat(server, threads, "balanced", box, spend_limit=Decimal(0))
    assert kinds(talk.send("hello")) == [LimitReached]
    assert kinds(talk.continue_turn(over_limit=True))[-1] is RequestDone
    talk, _ = chat(server, threads, "balanced", box, growth_limit=500)
    assert LimitReached in kinds(talk.send("read file file0.py"))
    assert kinds(talk.continue_turn(over_limit=True))[-1] is RequestDone


def test_two_windows_cannot_write_the_same_place(server: OfflineServer, threads: Threads) -> None:
    talk, thread = chat(server, threads)
    list(talk.send("one"))
    other = Chat(LiveSession(threads.load(thread), COUNTER), client(server), threads.open_writer(thread), talk.settings)
    list(talk.send("two"))
    with pytest.raises(Conflict) as refused:
        list(other.send("three"))
    assert refused.value.hint
    stored = threads.load(thread)
    assert [b.text for b in stored.blocks if b.role == "user"] == ["one", "two"]


def test_a_thread_continues_after_a_reload_and_a_fork_shares_its_past(server: OfflineServer, threads: Threads) -> None:
    talk, thread = chat(server, threads)
    list(talk.send("one"))
    list(talk.send("two"))
    session = threads.load(thread)
    again, _ = branches.resume_chat(session, client(server), threads.open_writer(thread), talk.settings)
    assert [f for f in talk.plan.__struct_fields__ if getattr(again.plan, f) != getattr(talk.plan, f)] == []
    assert kinds(again.send("three"))[-1] is RequestDone
    at = session.requests[1].cut - 1
    fork = threads.create(parent=thread, at=at)
    branch = Chat(LiveSession(threads.load(fork), COUNTER), client(server), threads.open_writer(fork), talk.settings)
    assert kinds(branch.send("two, but differently"))[-1] is RequestDone
    assert threads.load(fork).blocks[:at] == session.blocks[:at]
    assert [b.text for b in threads.load(fork).blocks if b.role == "user"] == ["one", "two, but differently"]
    assert {hit.thread for hit in threads.search("differently")} == {fork}


@pytest.mark.thorough
def test_a_policy_chosen_on_the_way_is_in_force_from_its_request_on_after_a_reload_too(
    server: OfflineServer, threads: Threads
) -> None:
    talk, thread = chat(server, threads, "keep-everything")
    sink, plans = threads.open_writer(thread), []
    for n, name in enumerate(("keep-everything", "last-20-messages", "balanced")):
        talk.settings = replace(talk.settings, policy=load(name))
        sink.write_policy(load(name), len(talk.live_session.session.requests))
        for k in range(12):
            plans += [
                event.plan for event in talk.send(f"Question {n}.{k}: and then? " * 8) if isinstance(event, RequestPlanned)
            ]
    again, replayed = branches.resume_chat(
        threads.load(thread), client(server), sink, talk.settings, policies=threads.list_policies(thread)
    )
    assert [(plan.after, plan.decisions) for plan in replayed] == [(plan.after, plan.decisions) for plan in plans]
    assert [f for f in talk.plan.__struct_fields__ if getattr(again.plan, f) != getattr(talk.plan, f)] == []
    assert {d.action for plan in plans[12:24] for d in plan.decisions} >= {"drop"}
    _, under_one = branches.resume_chat(threads.load(thread), client(server), sink, talk.settings)
    assert [plan.after for plan in under_one] != [plan.after for plan in plans]


def test_a_call_that_was_stopped_before_its_tool_ran_is_answered_first(
    server: OfflineServer, threads: Threads, box: Toolbox
) -> None:
    talk, thread = chat(server, threads, box=box)
    turn = talk.send("read file file0.py")
    assert next(event for event in turn if isinstance(event, ToolCalled))
    turn.close()
    stored = threads.load(thread)
    assert (stored.blocks[-1].kind, stored.blocks[-1].pair) == ("tool_use", -1)
    assert kinds(talk.send("What did it say?"))[-1] is RequestDone
    stored = threads.load(thread)
    call = next(block for block in stored.blocks if block.kind == "tool_use")
    assert stored.blocks[call.pair].raw["is_error"]
    assert [m.role for m in stored.messages][-4:] == ["assistant", "user", "user", "assistant"]


def continue_chat(server: OfflineServer, threads: Threads, session: Session, request: int) -> Chat:
    """A session's request taken up in a new chat that leaves nothing out."""
    thread = branches.continue_thread(threads, turnscope.replay(session), request, {})
    settings = Settings("offline-200k", load("keep-everything"))
    talk, _ = branches.resume_chat(threads.load(thread), client(server), threads.open_writer(thread), settings)
    return talk


@pytest.mark.parametrize("place", [0, 0.5, -1])
@pytest.mark.parametrize("name", ["thinking-grows", "tool-results-eat-the-window"])
def test_a_session_goes_on_from_the_middle_of_its_tool_loop(
    server: OfflineServer, threads: Threads, name: str, place: float
) -> None:
    session = turnscope.load(ROOT / "sample_sessions" / f"{name}.jsonl")
    loop = [request.n for request in session.requests if session.blocks[request.cut - 1].kind == "tool_result"]
    talk = continue_chat(server, threads, session, loop[-1 if place < 0 else int(place * len(loop))])
    assert kinds(talk.continue_turn())[-1] is RequestDone
    assert kinds(talk.send("And now?"))[-1] is RequestDone


def make_calls(*names: str) -> list[dict[str, object]]:
    return [{"type": "tool_use", "id": name, "name": "read", "input": {"path": name}} for name in names]


def test_a_session_that_ends_with_open_calls_goes_on_with_results_for_them(server: OfflineServer, threads: Threads) -> None:
    builder = Builder("s", "test")
    builder.add_message("user", "Read both.", origin="prompt")
    builder.set_request(builder.add_message("assistant", make_calls("a", "b")), model="m")
    builder.set_request(builder.add_message("assistant", "I wait."), model="m")
    talk = continue_chat(server, threads, builder.build(), 1)
    assert kinds(talk.send("And now?"))[-1] is RequestDone
    blocks = talk.live_session.session.blocks
    assert [(blocks[b.pair].raw["tool_use_id"], blocks[b.pair].raw["is_error"]) for b in blocks if b.kind == "tool_use"] == [
        ("a", True),
        ("b", True),
    ]


def test_a_session_goes_on_where_one_of_two_calls_has_its_result(server: OfflineServer, threads: Threads) -> None:
    builder = Builder("s", "test")
    builder.add_message("user", "Read both.", origin="prompt")
    builder.set_request(builder.add_message("assistant", make_calls("a", "b")), model="m")
    for name in ("a", "b"):
        builder.add_message("user", [{"type": "tool_result", "tool_use_id": name, "content": "text"}], origin="tool")
        builder.set_request(builder.add_message("assistant", f"I have read {name}."), model="m")
    talk = continue_chat(server, threads, builder.build(), 1)
    assert kinds(talk.continue_turn())[-1] is RequestDone
    assert kinds(talk.send("And now?"))[-1] is RequestDone


def test_the_key_is_in_no_file_and_no_error(server: OfflineServer, threads: Threads, tmp_path: Path) -> None:
    talk, _ = chat(server, threads)
    server.faults.append("server_error")
    ends = list(talk.send("hello")) + list(talk.send("again"))
    assert "secret-key-123" not in str(ends)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert b"secret-key-123" not in file.read_bytes()


@pytest.mark.thorough
def test_whatever_was_acknowledged_survives_a_kill_at_any_moment(threads: Threads) -> None:
    """Rounds of appending with a SIGKILL at a random moment; 200 rounds run in tests/bench/durability.py."""
    thread = threads.create()
    for wait in (0.02, 0.05, 0.01, 0.08):
        process, heard = apart.begun(apart.append, threads.path, thread)
        acknowledged = heard.recv()
        time.sleep(wait)
        process.kill()
        with suppress(EOFError):  # what it had said by then
            while True:
                acknowledged = heard.recv()
        process.join()
        stored = threads.load(thread)
        texts = [block.text.split()[1] for block in stored.blocks]
        assert texts == [str(i) for i in range(len(texts))]
        assert len(texts) > acknowledged


def test_a_turn_goes_on_by_itself_and_stops_when_asked(threads: Threads) -> None:
    with OfflineServer(delay=0.02) as slow:
        talk, thread = chat(slow, threads)
        running = BackgroundTurn(talk.send("Speak slowly."), talk)
        until = time.monotonic() + 10
        while not running.text and time.monotonic() < until:
            time.sleep(0.005)
        assert running.text
        running.stop()
        assert running.wait(5)
        assert running.error is None
        stored = threads.load(thread)
        assert stored.requests[-1].stop_reason == "interrupted"
        second = BackgroundTurn(talk.send("And again."), talk)
        assert second.wait(20)
        assert isinstance(second.events[-1], RequestDone)


@pytest.mark.parametrize(
    ("policy", "limit", "window", "expected"),
    [
        ("context-aware-chat", 0, 8_000, 3_200),  # 40 % of it
        ("last-5-pairs", 0, 16_000, 6_400),
        ("last-5-pairs", 500, 16_000, 500),
        ("keep-everything", 0, 16_000, 1_024),
    ],
)
def test_an_answer_limit_that_is_not_set_is_the_policys_part_of_the_window(
    policy: str, limit: int, window: int, expected: int, server: OfflineServer, threads: Threads
) -> None:
    talk, _ = chat(server, threads, policy, max_tokens=limit, window=window)
    for _ in talk.send("Hello."):
        pass
    assert talk.live_session.session.requests[0].settings["max_tokens"] == expected
