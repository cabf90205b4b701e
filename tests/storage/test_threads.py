"""The store of chats: what is written is read back as it was, whoever else writes meanwhile, and no text is stored twice."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import apart
import pytest
import turnscope
from conftest import SHARED, examples, shared
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from turnscope.counting.tokens import CHARS
from turnscope.envelope.pieces import Decision, Splice
from turnscope.envelope.plan import Plan
from turnscope.envelope.request_outcome import RequestEnded
from turnscope.errors import TurnscopeError
from turnscope.live.live_session import LiveSession
from turnscope.planning.assemble import plan_step
from turnscope.planning.policy import Policy, load
from turnscope.ports.librechat.history import Shortened
from turnscope.session import portable
from turnscope.session.model import Answer, AnswerFact, Edit, Message, Part, Session, Span, Usage
from turnscope.storage.threads import Conflict, Threads

ROOT = Path(__file__).resolve().parents[2]
OPEN = SHARED / "data" / "open"
FILES = sorted(path.relative_to(OPEN).as_posix() for path in OPEN.rglob("*") if path.is_file()) if OPEN.is_dir() else []
SURROGATES = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=8)
NUMBERS = st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.dictionaries(
    SURROGATES, SURROGATES | NUMBERS | st.none() | st.booleans() | st.lists(SURROGATES, max_size=2), max_size=2
)
IDS = st.sampled_from(["a", "b", "c", "\ud800"])
BLOCKS = st.one_of(
    st.builds(lambda t: {"type": "text", "text": t}, SURROGATES),
    st.builds(lambda t: {"type": "thinking", "thinking": t, "signature": "s"}, SURROGATES),
    st.builds(lambda i, v: {"type": "tool_use", "id": i, "name": "read", "input": v}, IDS, VALUES),
    st.builds(lambda i, t: {"type": "tool_result", "tool_use_id": i, "content": t}, IDS, SURROGATES),
)
CONTENT = SURROGATES | st.lists(BLOCKS, max_size=3)
SAID = st.tuples(
    st.sampled_from([("user", "prompt"), ("user", "tool"), ("system", "system"), ("tools", "tools"), ("assistant", "answer")]),
    CONTENT,
)
TURNS = st.lists(st.tuples(st.lists(SAID, max_size=3), st.none() | CONTENT, VALUES, st.sampled_from(["complete", "failed"])))
KEPT = load("keep-everything")


def begun(threads: Threads, thread: str) -> LiveSession:
    return LiveSession(threads.load(thread), CHARS)


def say(threads: Threads, thread: str, growing: LiveSession, role: str, content: Any, origin: str) -> Message:
    message = growing.append_message(role, content, origin=origin, sent_at=1.5)
    threads.open_writer(thread).record_message(message, [content] if isinstance(content, str) else content, "complete")
    return message


def ask(threads: Threads, thread: str, growing: LiveSession, content: Any, status: Any = "complete", **more: Any) -> Plan:
    """Store a request as a live chat does, planned by a policy that keeps everything."""
    asked = growing.build_request(model="offline-200k", sent_at=2.0, **more)
    plan = plan_step(None, growing.session, asked, KEPT, growing.basis)
    answer, blocks = None, ()
    if content is not None:
        answer = growing.append_message("assistant", content, origin="answer", sent_at=3.0)
        blocks = (content,) if isinstance(content, str) else tuple(content)
    done = structs.replace(
        asked, usage=Usage(input_tokens=7, output_tokens=2), answered_at=3.0, stop_reason="end_turn", id="msg"
    )
    done = growing.append_request(done)
    for edit in (decision.edit for decision in plan.decisions if decision.splice):
        growing.record_edit(done.n, edit)
    threads.open_writer(thread).record_request(RequestEnded(thread, done, plan, status, answer, blocks, seconds=0.5))
    return plan


def remove_ids(messages: Sequence[Message]) -> list[Message]:
    """A message that came without an id gets one when it is kept."""
    return [structs.replace(message, id="") for message in messages]


def check_same(stored: Session, grown: Session) -> None:
    assert stored.blocks == grown.blocks
    assert remove_ids(stored.messages) == remove_ids(grown.messages)
    assert stored.requests == grown.requests
    assert stored.observed == grown.observed
    assert stored.recorded == grown.recorded


@pytest.mark.thorough
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(turns=TURNS, title=SURROGATES, about=VALUES)
def test_any_thread_is_read_back_as_it_was_said(
    turns: list[Any], title: str, about: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    threads = Threads(tmp_path_factory.mktemp("threads") / "chats.db")
    thread = threads.create(title=title, about=about)
    growing = begun(threads, thread)
    for said, answered, given_settings, status in turns:
        for (role, origin), content in said:
            say(threads, thread, growing, role, content, origin)
        ask(threads, thread, growing, answered, status, settings=given_settings)
        told = Answer(title, items=(title,), usage=Usage(input_tokens=1), model="m", source="model")
        fact = AnswerFact(f"ask {len(growing.facts.answers)}", told)
        growing.record_fact(fact)
        threads.open_writer(thread).record_fact(fact)
    stored = threads.load(thread)
    check_same(stored, growing.session)
    assert stored.about == about
    assert threads.list()[0].about == about
    assert threads.list()[0].title == title.encode("utf-8", "replace").decode()
    again = begun(threads, thread)
    say(threads, thread, again, "user", "and on", "prompt")
    check_same(threads.load(thread), again.session)


@given(half=st.sampled_from(["\ud800", "x\udfff y", "\ud83d\ude00"[::-1]]))
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_half_a_character_harms_no_part_of_a_thread(half: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    threads = Threads(tmp_path_factory.mktemp("threads") / "chats.db")
    file = tmp_path_factory.mktemp("file") / "session.json"
    start = LiveSession(Session("base", title=half, source="test"), CHARS)
    start.append_message("user", half, origin="prompt")
    file.write_bytes(portable.dumps(start.session))
    base = turnscope.load(file)
    thread = threads.create(title=half, base=base, about={half: half})
    growing = begun(threads, thread)
    say(threads, thread, growing, "user", [{"type": "text", "text": f"words {half}"}], "prompt")
    edit = Edit("insert", half, Span(1, 1), (Part(text=half),), slot="note", facts={"n": half})
    asked = growing.build_request(model="offline-200k")
    plan = threads_plan(growing, asked)
    plan = structs.replace(plan, decisions=(Decision(0, asked.n, "test", edit, Splice((0, 0), (), ()), 1, 2),))
    growing.append_request(asked)
    growing.record_edit(asked.n, edit)
    threads.open_writer(thread).record_request(RequestEnded(thread, asked, plan, "failed"))
    threads.rename(thread, half)
    stored = threads.load(thread)
    assert stored.blocks == growing.session.blocks
    assert stored.observed == growing.session.observed
    assert stored.about == {half: half}
    assert [hit.thread for hit in threads.search("words")] == [thread]
    assert threads.search(half) is not None


def threads_plan(growing: LiveSession, asked: Any) -> Plan:
    return plan_step(None, growing.session, asked, KEPT, growing.basis)


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("name", FILES or ["none"])
def test_a_chat_goes_on_from_every_session_that_can_be_opened(name: str, tmp_path: Path) -> None:
    file = shared("data", "open", *name.split("/"))
    try:
        base = turnscope.load(file)
    except TurnscopeError:
        pytest.skip(f"{name} is no session that can be opened")
    threads = Threads(tmp_path / "chats.db")
    thread = threads.create(base=base)
    stored = threads.load(thread)
    assert (stored.blocks, stored.messages, stored.requests) == (base.blocks, base.messages, base.requests)
    assert (stored.observed, stored.window) == (base.observed, base.window)
    growing = LiveSession(stored, CHARS)
    say(threads, thread, growing, "user", "And now?", "prompt")
    ask(threads, thread, growing, [{"type": "text", "text": "That."}])
    check_same(threads.load(thread), growing.session)


OWN, COMMON = 20, 6


def write_own(threads: Threads, thread: str, name: str) -> None:
    growing = begun(threads, thread)
    for n in range(OWN):
        say(threads, thread, growing, "user", f"{name} {n}", "prompt")
        ask(threads, thread, growing, f"answer {n} to {name}")


def write_shared(threads: Threads, thread: str, name: str) -> int:
    """Write into a chat that others write into: read it again after each conflict. Gives the number of conflicts."""
    conflicts = done = 0
    while done < COMMON:
        growing = begun(threads, thread)
        try:
            say(threads, thread, growing, "user", f"{name} {done}", "prompt")
        except Conflict:
            conflicts += 1
        else:
            done += 1
    return conflicts


def test_four_threads_and_two_processes_write_at_once_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    threads = Threads(tmp_path / "new" / "chats.db")
    names = [f"writer{n}" for n in range(6)]
    own = {name: threads.create(title=name) for name in names}
    common = threads.create(title="common")
    others = [apart.begun(apart.write, threads.path, own[name], common, name) for name in names[4:]]
    failed: list[BaseException] = []

    def work(name: str) -> None:
        try:
            write_own(threads, own[name], name)
            write_shared(threads, common, name)
        except BaseException as error:  # noqa: BLE001 - an exception in a thread would fail no test
            failed.append(error)

    workers = [threading.Thread(target=work, args=(name,)) for name in names[:4]]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [apart.wait_for_end(process) for process, _ in others] == [0, 0]
    assert failed == []
    for name in names:
        stored = threads.load(own[name])
        assert [b.text for b in stored.blocks] == [t for n in range(OWN) for t in (f"{name} {n}", f"answer {n} to {name}")]
        assert [(r.n, r.cut, r.stop) for r in stored.requests] == [(n, 2 * n + 1, 2 * n + 2) for n in range(OWN)]
    texts = [block.text for block in threads.load(common).blocks]
    assert sorted(texts) == sorted(f"{name} {n}" for name in names for n in range(COMMON))
    for name in names:
        assert [text for text in texts if text.split()[0] == name] == [f"{name} {n}" for n in range(COMMON)]


def test_the_first_writers_of_a_new_file_make_it_together(tmp_path: Path) -> None:
    for turn in range(5):
        threads = Threads(tmp_path / str(turn) / "chats.db")
        gate, failed = threading.Barrier(6), []

        def work(threads: Threads = threads, gate: threading.Barrier = gate, failed: list[Any] = failed) -> None:
            gate.wait()
            try:
                threads.create()
            except Exception as error:  # noqa: BLE001
                failed.append(error)

        workers = [threading.Thread(target=work) for _ in range(6)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert failed == []
        assert len(threads.list()) == 6


def test_a_window_that_fell_behind_conflicts_however_often_it_tries(tmp_path: Path) -> None:
    threads = Threads(tmp_path / "chats.db")
    thread = threads.create()
    one, two = begun(threads, thread), begun(threads, thread)
    say(threads, thread, one, "user", "one", "prompt")
    plan = ask(threads, thread, one, "answer")
    sink = threads.open_writer(thread)
    for n in range(4):  # its own addresses run on past those that are taken, and meet the end of the other's
        message = two.append_message("user", f"two {n}", origin="prompt")
        with pytest.raises(Conflict) as refused:
            sink.record_message(message, [f"two {n}"], "complete")
        assert refused.value.hint
    with pytest.raises(Conflict):
        say(threads, thread, begun(threads, threads.create()), "system", "Be brief.", "system")
    with pytest.raises(Conflict):
        threads.open_writer(thread).record_request(RequestEnded(thread, plan.request, plan, "failed"))
    check_same(threads.load(thread), one.session)


def count(path: Path, sql: str) -> Any:
    with sqlite3.connect(path) as db:
        return db.execute(sql).fetchone()[0]


def test_a_fork_shares_its_past_and_every_text_is_stored_once(tmp_path: Path) -> None:
    threads = Threads(tmp_path / "chats.db")
    thread = threads.create()
    growing = begun(threads, thread)
    say(threads, thread, growing, "tools", [{"name": "read", "input_schema": {}}], "tools")
    say(threads, thread, growing, "system", "You are brief.", "system")
    for n in range(10):
        say(threads, thread, growing, "user", f"question {n}", "prompt")
        ask(threads, thread, growing, [{"type": "tool_use", "id": f"c{n}", "name": "read", "input": {"n": n}}])
        say(threads, thread, growing, "user", [{"type": "tool_result", "tool_use_id": f"c{n}", "content": f"r{n}"}], "tool")
    blobs, rows = (count(threads.path, f"select count(*) from {table}") for table in ("blobs", "messages"))
    assert (blobs, rows) == (32, 30)
    at = growing.session.requests[5].stop  # between a call and its result
    fork = threads.create(parent=thread, at=at)
    branch = begun(threads, fork)
    assert branch.session.blocks[: at - 1] == growing.session.blocks[: at - 1]
    assert [b.digest for b in branch.session.blocks] == [b.digest for b in growing.session.blocks[:at]]
    assert branch.session.requests == growing.session.requests[:6]
    assert (count(threads.path, "select count(*) from blobs"), count(threads.path, "select count(*) from messages")) == (32, 30)
    result = {"type": "tool_result", "tool_use_id": "c5", "content": "r5"}
    say(threads, fork, branch, "user", [result], "tool")
    say(threads, fork, branch, "user", "question 0", "prompt")
    assert (count(threads.path, "select count(*) from blobs"), count(threads.path, "select count(*) from messages")) == (32, 32)
    say(threads, fork, branch, "user", "another way", "prompt")
    assert count(threads.path, "select count(*) from blobs") == 33
    check_same(threads.load(fork), branch.session)
    call, answer = threads.load(fork).blocks[at - 1], threads.load(fork).blocks[at]
    assert (call.pair, answer.pair, answer.name) == (at, at - 1, "read")


def test_a_request_refers_to_the_system_prompt_and_tools_it_was_sent_with(tmp_path: Path) -> None:
    threads = Threads(tmp_path / "chats.db")
    thread = threads.create()
    growing = begun(threads, thread)
    tools = [{"name": "read", "input_schema": {}}, {"name": "list", "input_schema": {}}]
    say(threads, thread, growing, "user", "hello", "prompt")
    ask(threads, thread, growing, "bare")
    say(threads, thread, growing, "tools", tools, "tools")
    say(threads, thread, growing, "system", "Be brief.", "system")
    ask(threads, thread, growing, "one")
    say(threads, thread, growing, "system", "Be long.", "system")
    ask(threads, thread, growing, "two")
    fork = threads.create(parent=thread, at=growing.session.requests[1].stop)
    branch = begun(threads, fork)
    say(threads, fork, branch, "user", "elsewhere", "prompt")
    ask(threads, fork, branch, "three")
    assert threads.find_statics(thread, 0) == ((), ())
    assert threads.find_statics(thread, 1) == (("Be brief.",), tuple(tools))
    assert threads.find_statics(thread, 2) == (("Be long.",), tuple(tools))
    assert threads.find_statics(fork, 2) == (("Be brief.",), tuple(tools))
    assert threads.find_statics(fork, 1) == threads.find_statics(thread, 1)
    assert count(threads.path, "select count(*) from messages where role in ('system', 'tools')") == 0
    with pytest.raises(TurnscopeError):
        threads.find_statics(thread, 9)


def list_policies_in_force(threads: Threads, thread: str, requests: int) -> list[Policy]:
    policies = threads.list_policies(thread)
    return [[policy for first, policy in policies if first <= n][-1] for n in range(requests)]


def test_each_request_has_the_policy_it_was_planned_with_and_a_chat_reopens_with_the_newest(tmp_path: Path) -> None:
    threads = Threads(tmp_path / "chats.db")
    thread = threads.create(about={"policy": "balanced", "model": "m"})
    growing = begun(threads, thread)
    for n in range(6):
        say(threads, thread, growing, "user", f"question {n}", "prompt")
        if n == 2:
            threads.open_writer(thread).write_policy(replace(load("last-20-messages"), name='mine "own"', title="Mine"), n)
        if n == 4:
            threads.open_writer(thread).write_policy(KEPT, n)
        ask(threads, thread, growing, f"answer {n}")
    mine = replace(load("last-20-messages"), name='mine "own"', title="Mine")
    expected = [load("balanced")] * 2 + [mine] * 2 + [KEPT] * 2
    assert list_policies_in_force(threads, thread, 6) == expected
    fork = threads.create(parent=thread, at=growing.session.requests[3].cut, about={"policy": "balanced"})
    assert list_policies_in_force(threads, fork, 4) == [load("balanced"), load("balanced"), mine, load("balanced")]
    assert threads.list_policies(threads.create()) == ()
    assert threads.load(thread).about == {"policy": "keep-everything", "model": "m"}
    assert {row.about.get("policy") for row in threads.list() if row.id == thread} == {"keep-everything"}
    with pytest.raises(TurnscopeError):
        threads.list_policies("nowhere")


@pytest.mark.parametrize("how", ["a file for a folder", "a folder for a file", "another file", "nothing to read"])
def test_a_place_that_cannot_be_written_is_named_in_a_typed_error(how: str, tmp_path: Path) -> None:
    path = tmp_path / "data" / "chats.db"
    if how == "a file for a folder":
        path.parent.write_text("a file")
    elif how == "a folder for a file":
        path.mkdir(parents=True)
    elif how == "another file":
        path.parent.mkdir()
        path.write_bytes(b"this is no database, but some other file of the person " * 40)
    else:
        with pytest.raises(TurnscopeError, match="there is no chat"):
            Threads(path).load("x")
        return
    before = path.read_bytes() if path.is_file() else b""
    threads = Threads(path)
    for call in (threads.create, lambda: threads.load("x"), lambda: threads.rename("x", "y")):
        with pytest.raises(TurnscopeError) as refused:
            call()
        assert not isinstance(refused.value, Conflict)
        assert str(path) in refused.value.what
        assert refused.value.hint
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    threads = Threads(tmp_path / "chats.db")
    thread = threads.create(title="kept")
    with sqlite3.connect(threads.path) as db:
        db.execute("pragma user_version = 99")
    with pytest.raises(turnscope.TurnscopeError, match="99"):
        threads.load(thread)
    with sqlite3.connect(threads.path) as db:
        assert db.execute("select title from threads").fetchone() == ("kept",)


def test_a_placeholder_whose_text_is_made_when_it_is_read_is_kept_with_it(tmp_path: Path) -> None:
    """LibreChat's cut results hold where they were cut, not what is left."""
    threads = Threads(tmp_path / "chats.db")
    thread = threads.create()
    growing = LiveSession(threads.load(thread), CHARS)
    said = "the beginning " + "of a long result " * 40 + "and its end"
    say(threads, thread, growing, "user", "look", "prompt")
    say(threads, thread, growing, "assistant", [{"type": "tool_use", "id": "t", "name": "Read", "input": {}}], "answer")
    say(threads, thread, growing, "user", [{"type": "tool_result", "tool_use_id": "t", "content": said}], "tool")
    block = growing.session.blocks[-1]
    short = Shortened(block.role, "tool_result", of=block, kept=b"14 11 ...", size=28)
    assert short.text == "the beginning ...and its end"
    growing.record_edit(0, Edit("truncate", "too long", Span(block.at, block.at + 1), (short,)))
    (seen,) = growing.session.observed
    assert [type(part) for part in seen.edit.body or ()] == [Part]
    assert [part.text for part in seen.edit.body or ()] == [short.text]
