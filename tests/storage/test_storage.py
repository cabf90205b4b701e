"""Chats and opened sessions in one database: older files are taken over, forgetting spares chats, texts are shared."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import apart
import pytest
from claude_log import Log, call
from turnscope import TurnscopeError, load
from turnscope.counting.tokens import CHARS
from turnscope.library import Store
from turnscope.live.live_session import LiveSession
from turnscope.reading import contents
from turnscope.reading.source import Source
from turnscope.session.model import Answer, Session
from turnscope.storage import blobs, catalogue, packing, sessions
from turnscope.storage.database import StorageError, begin_write, open_database
from turnscope.storage.threads import Threads

OLD = Path(__file__).parent / "old"
LONG_AGO = 1_700_000_000


@pytest.fixture
def memory(tmp_path: Path) -> Store:
    return Store(tmp_path / "data" / "chats.db")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return session_file(tmp_path / "s1.jsonl")


def session_file(path: Path, requests: int = 40) -> Path:
    """A session that nobody has written to for long."""
    log = Log(path.stem)
    log.user("hello")
    for n in range(requests):
        log.answer(f"m{n}", call(f"t{n}", "Read", file_path=f"f{n}.py"), usage=(10, 500, 0, 20))
        log.result(f"t{n}", f"text {n} of {path.stem} " * 40)
    log.save(path)
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def count(path: Path, table: str) -> int:
    with sqlite3.connect(path) as db:
        return int(db.execute(f"select count(*) from {table}").fetchone()[0])


def begun(threads: Threads, said: Sequence[str], base: Session | None = None) -> str:
    """A chat in which this was said."""
    thread = threads.create(title="a chat", base=base)
    growing, sink = LiveSession(threads.load(thread), CHARS), threads.open_writer(thread)
    for text in said:
        sink.record_message(growing.append_message("user", text, origin="prompt"), [text], "complete")
    return thread


def make_old_chats(path: Path) -> Path:
    """The chats of the first version, as it wrote them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as db:
        db.executescript((OLD / "chats_1.sql").read_text(encoding="utf-8"))
        db.execute("pragma journal_mode = wal")
    db.close()
    return path


def read_all(path: Path) -> list[Any]:
    threads = Threads(path)
    return [(row, threads.load(row.id), threads.list_policies(row.id)) for row in threads.list()]


# Chats of older versions


def test_old_chats_are_taken_over_where_they_lie_and_say_so_to_older_versions(tmp_path: Path) -> None:
    path = make_old_chats(tmp_path / "chats.db")
    with sqlite3.connect(path) as db:
        texts = db.execute("select digest, content from blobs order by digest").fetchall()
        rows = {table: count(path, table) for table in ("threads", "messages", "statics", "requests", "decisions", "policies")}
    assert len(read_all(path)) == 2
    with sqlite3.connect(path) as db:
        assert db.execute("select digest, content from blobs order by digest").fetchall() == texts
        assert db.execute("select distinct chat from blobs").fetchall() == [(1,)]
        assert db.execute("pragma user_version").fetchone()[0] > 1  # which older versions refuse
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
        names = [row[0] for row in db.execute("select name from _sqlite_migrations order by id")]
    steps = ["chats", "typed_facts", "opened_sessions", "places_and_what_is_under_way", "applied_edits"]
    assert names == [*steps, "formed_by", "memories", "memory_tiers", "prompt_sizes"]
    assert {table: count(path, table) for table in rows} == rows


@pytest.mark.thorough
def test_many_who_open_old_chats_at_once_take_them_over_once(tmp_path: Path) -> None:
    expected = read_all(make_old_chats(tmp_path / "one" / "chats.db"))
    path = make_old_chats(tmp_path / "many" / "chats.db")
    others = [apart.begun(apart.take_over, path, False) for _ in range(2)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: read_all(path), range(4)))
    assert [apart.wait_for_end(process) for process, _ in others] == [0, 0]
    assert found == [expected] * 4
    assert count(path, "_sqlite_migrations") == 9


def test_whoever_is_killed_while_taking_chats_over_loses_nothing(tmp_path: Path) -> None:
    expected, random, half = read_all(make_old_chats(tmp_path / "whole" / "chats.db")), Random(3), 0
    for turn in range(6):
        path = make_old_chats(tmp_path / str(turn) / "chats.db")
        process, heard = apart.begun(apart.take_over, path, True)
        assert heard.recv() == "begun"
        time.sleep(random.uniform(0.005, 0.15))
        process.kill()
        process.join()
        with sqlite3.connect(path) as db:
            half += db.execute("pragma user_version").fetchone()[0] == 1
        assert read_all(path) == expected
    assert half, "none was killed before it was done"


def test_one_fact_that_cannot_be_read_costs_no_chat(tmp_path: Path) -> None:
    path = make_old_chats(tmp_path / "chats.db")
    with sqlite3.connect(path) as db:
        db.execute("insert into answers values (?, 'by-hand:3', ?)", [f"{1:032x}", json.dumps({"items": ["no wish"]})])
    answers = Threads(path).load(f"{1:032x}").recorded.answers
    assert answers["by-hand:3"].items == ("no wish",)


def test_a_broken_file_of_chats_is_named_and_kept(tmp_path: Path) -> None:
    path = make_old_chats(tmp_path / "chats.db")
    data = bytearray(path.read_bytes())
    data[4096 : 4096 * 6] = b"\xff" * 4096 * 5
    path.write_bytes(data)
    with pytest.raises(StorageError) as refused:
        Threads(path).list()
    assert str(path) in refused.value.what
    assert "was not changed" in refused.value.hint
    assert path.read_bytes() == bytes(data)


# What older versions remembered of sessions


@pytest.fixture
def remembered(tmp_path: Path) -> Path:
    """A `turnscope.db` as older versions wrote it."""
    path = tmp_path / "data" / "turnscope.db"
    path.parent.mkdir(exist_ok=True)
    with sqlite3.connect(path) as db:
        db.execute(
            "create table opened (key text primary key, path text, name text, title text, source text, models text, "
            'requests integer, peak integer, "window" integer, usd text, cuts integer, started float, opened float, '
            "size integer)"
        )
        db.execute("create table counts (digest text, family text, tokens integer, primary key (digest, family))")
        rows = [("k1", "/gone/a.jsonl", 5.0), ("k2", str(tmp_path / "s1.jsonl"), 6.0), ("k3", str(tmp_path / "s1.jsonl"), 7.0)]
        for key, where, opened in rows:
            values = (key, where, "a", "title", "claude-code", "m", 3, 9, 10, "1.5", 0, None, opened, 77)
            db.execute(f"insert into opened values ({', '.join('?' * 14)})", values)
        db.execute("insert into counts values ('d1', 'claude-3', 5)")
    db.close()
    return path


def test_the_list_and_the_exact_counts_of_older_versions_are_taken_over(memory: Store, remembered: Path, file: Path) -> None:
    assert memory.measure_size() >= remembered.stat().st_size
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: memory.list_recent(), range(4)))
    assert [[row.key for row in rows] for rows in found] == [["k3", "k1"]] * 4
    assert not remembered.exists()
    assert memory.load_exact_counts("claude-3") == {"d1": 5}
    assert len(memory.open(file).overview) == 40  # it was listed, and is read anew
    assert [row.requests for row in memory.list_recent()] == [40, 3]


def test_a_broken_or_busy_file_of_older_versions_is_left_alone(
    memory: Store, remembered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite3.connect(remembered, isolation_level=None) as db, monkeypatch.context() as impatient:
        impatient.setattr(sqlite3, "connect", partial(sqlite3.connect, timeout=0.2))  # else five seconds are waited for it
        db.execute("begin exclusive")
        assert memory.list_recent() == ()
        db.execute("rollback")
    db.close()
    assert [row.key for row in memory.list_recent()] == ["k3", "k1"]
    remembered.write_bytes(b"no database " * 500)
    assert [row.key for row in memory.list_recent()] == ["k3", "k1"]
    assert remembered.exists()
    assert memory.delete() > 5_000
    assert not remembered.exists()


# Forgetting


def test_forgetting_spares_every_chat_and_gives_the_rest_back(memory: Store, file: Path) -> None:
    threads = Threads(memory.path)
    own = begun(threads, ["hello", "something of my own"])  # "hello" is a text of the session as well
    memory.open(file)
    based = begun(threads, ["And now?"], memory.open(session_file(file.with_name("s2.jsonl"))).session)
    threads.keep_answer("k", Answer("of a replay"))
    before = {thread: threads.load(thread) for thread in (own, based)}
    text = [block.text for block in before[based].blocks]
    held, size = memory.measure_size(), memory.path.stat().st_size
    freed = memory.delete()
    assert freed == size - memory.path.stat().st_size
    assert abs(freed - held) < 100_000
    after = {thread: Threads(memory.path).load(thread) for thread in (own, based)}
    assert after == before
    assert threads.list_answers() == {"k": Answer("of a replay")}
    assert [block.text for block in after[based].blocks] == text
    assert "text 7 of s2 " * 40 in text
    assert [hit.thread for hit in threads.search("something")] == [own]
    with sqlite3.connect(memory.path) as db:
        assert db.execute("select count(*) from blobs where chat = 0").fetchone() == (0,)
        assert db.execute("select count(*) from blobs where cast(content as text) like '%of s1%'").fetchone() == (0,)


def test_an_open_session_that_was_forgotten_is_read_from_its_file_again(memory: Store, file: Path) -> None:
    opened = memory.open(file)
    memory.delete()
    assert opened.session == load(file)
    opened = memory.open(file)
    memory.delete()
    file.write_text(file.read_text().replace("text 7", "TEXT 7"))
    with pytest.raises(TurnscopeError, match="no longer stored") as refused:
        assert opened.session.blocks[3].text
    assert refused.value.hint


def test_a_chat_may_be_written_while_sessions_are_forgotten_and_opened(memory: Store, tmp_path: Path) -> None:
    """Two processes on one file: whoever comes second waits, and nothing of the chat is lost."""
    files = [session_file(tmp_path / f"s{n}.jsonl", 120) for n in range(3)]
    threads = Threads(memory.path)
    thread = threads.create()
    growing, sink = LiveSession(threads.load(thread), CHARS), threads.open_writer(thread)

    def churn(_: int) -> None:
        for each in files:
            assert len(memory.open(each).overview) == 120
            memory.delete()

    with ThreadPoolExecutor(2) as pool:
        work = [pool.submit(churn, n) for n in range(2)]
        for n in range(60):
            text = f"message {n} and text {n} of s1 " * 40
            sink.record_message(growing.append_message("user", text, origin="prompt"), [text], "complete")
        for job in work:
            job.result()
    assert threads.load(thread).blocks == growing.session.blocks


def test_a_log_that_goes_while_it_is_measured_counts_as_nothing(
    memory: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.open(file)
    log = memory.path.with_name(f"{memory.path.name}-wal")
    log.touch()
    looks, stat = itertools.count(), Path.stat

    def vanish(self: Path, **options: Any) -> os.stat_result:
        if self == log and next(looks):
            raise FileNotFoundError(self)
        return stat(self, **options)

    monkeypatch.setattr(Path, "stat", vanish)
    assert memory.delete() > 0


# One text, one row


def test_each_text_is_stored_once_over_files_and_chats(memory: Store, file: Path, tmp_path: Path) -> None:
    session = memory.open(file).session
    distinct = {digest for digest, _ in packing.encode_contents(session)}
    assert count(memory.path, "blobs") == len(distinct)
    copy = tmp_path / "elsewhere.jsonl"
    copy.write_bytes(file.read_bytes())
    memory.open(copy)
    threads = Threads(memory.path)
    begun(threads, ["hello"], session)
    begun(threads, ["hello"], session)
    assert count(memory.path, "blobs") == len(distinct)
    with file.open("a") as lines:  # it grows: what was there is there already
        more = Log(file.stem)
        more.last, more.lines = "u80", [{}] * 90
        more.answer("m99", "More.", usage=(5, 6, 7, 8))
        lines.write(more.text().splitlines()[-1] + "\n")
    assert len(memory.open(file).overview) == 41
    assert count(memory.path, "blobs") == len(distinct) + 1


@pytest.mark.parametrize(
    "value",
    [
        "plain",
        None,
        {},
        [1, None],
        {"n": 10**30},
        {"s": "\ud800"},
        {"x": float("inf")},
        {"n": -0.0, "none": None},
        {"d": [[[]]]},
    ],
    ids=repr,
)
def test_any_value_comes_back_as_it_was_under_one_digest(value: Any, tmp_path: Path) -> None:
    content = blobs.encode_content(value)
    digest = blobs.compute_digest(content)
    for chat in (False, True, False):
        with begin_write(tmp_path / "x.db") as db:
            blobs.keep(db, [(digest, content)], chat)
    with open_database(tmp_path / "x.db") as db:
        assert blobs.read_contents(db, [digest, "none"]) == {digest: value}
        assert blobs.find_missing(db, [digest, "none"]) == {"none"}
    with begin_write(tmp_path / "x.db") as db:
        blobs.drop(db, [digest])  # a chat has held it
        assert blobs.find_missing(db, [digest]) == set()


# Known by a look


@pytest.fixture
def digested(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of files whose content was read to recognise them."""
    names: list[str] = []
    really = Source.compute_digest

    def note_source(source: Source) -> str:
        names.append(source.path.name)
        return really(source)

    monkeypatch.setattr(Source, "compute_digest", note_source)
    return names


def test_a_file_that_looks_as_it_did_is_not_read_to_be_recognised(memory: Store, file: Path, digested: list[str]) -> None:
    key = memory.open(file).key
    assert memory.open(file).key == key
    assert digested == ["s1.jsonl"]
    os.utime(file, (LONG_AGO + 1, LONG_AGO + 1))
    assert memory.open(file).key == key
    assert memory.open(file).key == key
    assert digested == ["s1.jsonl"] * 2


def test_a_file_that_changed_just_now_is_read_to_be_recognised(memory: Store, file: Path, digested: list[str]) -> None:
    """Within one tick of a file system's clock it may change again, and look the same."""
    now = time.time()
    os.utime(file, (now, now))
    first = memory.open(file)
    changed = file.read_text().replace("text 7", "TEXT 7")
    file.write_text(changed)
    os.utime(file, (now, now))
    second = memory.open(file)
    assert digested == ["s1.jsonl"] * 2
    assert (first.key != second.key, "TEXT 7" in second.session.blocks[16].text) == (True, True)


def test_the_same_content_elsewhere_is_recognised_and_a_file_that_moved_is_listed_once(
    memory: Store, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = memory.open(file)
    monkeypatch.setattr(contents, "read_entry", None)
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(file.read_bytes())
    assert memory.open(copy).key == first.key
    assert sorted(row.name for row in memory.list_recent()) == ["copy.jsonl", "s1.jsonl"]
    copy.rename(tmp_path / "moved.jsonl")
    assert memory.open(tmp_path / "moved.jsonl").key == first.key
    assert sorted(row.name for row in memory.list_recent()) == ["moved.jsonl", "s1.jsonl"]


def test_entries_of_one_source_are_rows_of_their_own(tmp_path: Path) -> None:
    path, stamp = tmp_path / "chats.db", catalogue.Stamp(10, 20, "")
    for key, entry in (("k1", "a"), ("k2", "b"), ("k3", "b")):
        row = catalogue.CatalogueRow(key, "/logs/x.json", "x", entry, "s", "", 1, 2, 3, None, 0, None, 4.0, 10)
        catalogue.remember(path, replace(row, entry=entry), stamp, 20 + 2 * catalogue.CLOCK_NANOSECONDS)
    assert [catalogue.find_key(path, "/logs/x.json", entry, stamp) for entry in ("a", "b", "c")] == ["k1", "k3", ""]
    assert catalogue.find_key(path, "/logs/x.json", "a", catalogue.Stamp(10, 21, "")) == ""
    assert len(catalogue.list_recent(path, 10)) == 2


# Only what is looked at


def test_the_second_opening_reads_texts_and_plans_requests_as_they_are_looked_at(
    memory: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = session_file(tmp_path / "long.jsonl", 600)
    memory.open(file)
    fetched: list[int] = []
    really = sessions.read_texts
    monkeypatch.setattr(sessions, "read_texts", lambda path, digests: (fetched.append(len(digests)), really(path, digests))[1])
    opened = memory.open(file)
    session, trace = opened.session, opened.trace
    assert opened.annotations[0].prompts[5] == 510
    assert trace.plans[5].request.n == 5
    assert len(trace.plans) == 600
    assert len(trace.plans.held.outlines) == 6  # type: ignore[attr-defined]
    assert fetched == []
    assert session.blocks[300].text == "text 149 of long " * 40
    assert session.blocks[301].text == 'Read {"file_path":"f150.py"}'
    assert fetched == [packing.FETCH_BLOCKS]
    assert session == load(file)
    assert [plan.request.n for plan in trace.plans] == list(range(600))
    assert trace.plans[-1] is trace.plans[599]
    assert trace.plans[598:] == (trace.plans[598], trace.plans[599])
    with pytest.raises(IndexError):
        trace.plans[600]


# A full disk


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="no such limit there")
@pytest.mark.parametrize("room", [0, 100_000, 400_000])
def test_on_a_full_disk_sessions_open_unremembered_and_chats_stay(room: int, memory: Store, tmp_path: Path) -> None:
    threads = Threads(memory.path)
    thread = begun(threads, [f"said {n}" for n in range(20)])
    before, size = threads.load(thread), memory.path.stat().st_size
    file = session_file(tmp_path / "big.jsonl", 1_000)
    assert apart.get_word(apart.open_on_full_disk, memory.path, file, size + room)[0] == 1_000
    assert threads.load(thread) == before
    with sqlite3.connect(memory.path) as db:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
    begun(threads, ["there is room again"])
    assert len(memory.open(file).session.blocks) == 2_001
