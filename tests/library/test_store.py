"""What is remembered between runs: the second opening equals the first, what changed is read anew, trouble costs no session."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from threading import Barrier
from typing import Any

import apart
import numpy as np
import pytest
import turnscope
from claude_log import MODEL, Log, call
from conftest import ROOT
from turnscope import library
from turnscope.library import ExactCounts, OpenedSession, Store, session_summary, store
from turnscope.library.opening import find_family
from turnscope.reading import contents
from turnscope.reading.contents import read_entry
from turnscope.reading.registry import find_importers
from turnscope.reading.source import Source
from turnscope.session.model import LazyContent
from turnscope.storage import packing, sessions
from turnscope.storage.database import StorageError
from turnscope.views.overview import Overview


class Clock:
    """A clock that moves on one second each time it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def memory(tmp_path: Path) -> Store:
    return Store(tmp_path / "data" / "chats.db", Clock())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A session with a compaction, a subagent and a branch."""
    log = Log()
    log.user("hello")
    log.answer("m1", call("t1", "Task", prompt="look"), usage=(10, 500, 0, 20))
    log.result("t1", "found", toolUseResult={"agentId": "a1"})
    log.compact()
    trunk = log.user("next")
    log.answer("m2", "Left.", usage=(5, 60, 500, 8))
    log.user("other", parent=trunk)
    log.answer("m3", "Done.", usage=(5, 60, 500, 8))
    side = Log("s1", "a1")
    side.user("look")
    side.answer("am1", "found", usage=(1, 2, 3, 4))
    side.save(tmp_path / "s1" / "subagents" / "agent-a1.jsonl")
    return log.save(tmp_path / "s1.jsonl")


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were really read, not remembered."""
    read: list[str] = []
    really = read_entry

    def count_reading(source: Source, id: str = "") -> Any:
        read.append(source.path.name)
        return really(source, id)

    monkeypatch.setattr(contents, "read_entry", count_reading)
    return read


def compare_values(one: Overview, other: Overview) -> bool:
    for field in fields(Overview):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray):
            assert (a.dtype, a.shape) == (b.dtype, b.shape), field.name
            assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), field.name
        else:
            assert a == b, field.name
    return True


def test_the_counts_of_a_second_opening_need_no_text(memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even that of thinking, whose size may have been fitted to what was billed."""
    file = ROOT / "sample_sessions" / "thinking-grows.jsonl"
    first = memory.open(file).build_ledger()
    second = memory.open(file)
    monkeypatch.setattr(LazyContent, "read", lambda _: pytest.fail("a text was read"))
    assert second.build_ledger().total == first.total


def test_the_second_opening_equals_the_first_and_reads_nothing(memory: Store, file: Path, readings: list[str]) -> None:
    first = memory.open(file)
    second = memory.open(file)
    assert readings == ["s1.jsonl"]
    assert first.key == second.key
    assert compare_values(first.overview, second.overview)
    assert second.session == first.session == turnscope.load(file)
    assert second.load_counts() == first.load_counts()
    assert second.session.subagents[0].requests[0].usage == first.session.subagents[0].requests[0].usage
    assert len(second.session.branches) == 1
    assert compare_values(turnscope.overview(second.session), turnscope.overview(first.session))
    assert [list(p.after.pieces) for p in second.trace.plans] == [list(p.after.pieces) for p in first.trace.plans]


def test_another_process_would_find_it_as_well(memory: Store, file: Path, readings: list[str]) -> None:
    first = memory.open(file)
    again = Store(memory.path).reopen(first.key)
    assert again is not None
    assert compare_values(again.overview, first.overview)
    assert again.session == first.session
    assert readings == ["s1.jsonl"]
    assert memory.reopen("unknown") is None


def test_a_file_that_grew_is_read_anew(memory: Store, file: Path, readings: list[str]) -> None:
    before = memory.open(file)
    with file.open("a") as lines:
        more = Log()
        more.last = "u9"
        more.lines = [{}] * 10
        more.answer("m4", "More.", usage=(5, 6, 7, 8))
        lines.write(more.text().splitlines()[-1] + "\n")
    after = memory.open(file)
    assert readings == ["s1.jsonl"] * 2
    assert len(after.overview) == len(before.overview) + 1
    assert after.key != before.key


def test_a_subagents_file_that_grew_is_read_anew(memory: Store, file: Path, readings: list[str]) -> None:
    before = memory.open(file)
    agent = file.parent / "s1" / "subagents" / "agent-a1.jsonl"
    with agent.open("a") as lines:
        lines.write("broken\n")
    after = memory.open(file)
    assert readings == ["s1.jsonl"] * 2
    assert [note.line for note in after.session.subagents[0].notes] == [3]
    agent.unlink()
    assert memory.open(file).session.subagents == ()
    assert before.session.subagents[0].notes == ()


@pytest.mark.parametrize("what", ["version", "form"])
def test_what_another_importer_or_in_another_form_was_kept_is_read_anew(
    what: str, memory: Store, file: Path, readings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.open(file)
    if what == "form":
        monkeypatch.setattr(packing, "PACK_VERSION", packing.PACK_VERSION + 1)
    else:
        monkeypatch.setattr(store, "_list_versions", lambda: {"claude-code": 99})
    assert len(memory.open(file).overview) == 2
    assert readings == ["s1.jsonl"] * 2


def test_another_opinion_is_formed_without_reading_the_file(
    memory: Store, file: Path, readings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = memory.open(file)
    with sqlite3.connect(memory.path) as db:
        db.execute("update sessions set page = x'00'")  # nobody looks at what stands there
    monkeypatch.setattr(session_summary, "get_version", lambda *_: "other prices")
    second = memory.open(file)
    assert compare_values(second.overview, first.overview)
    assert second.annotations[1] == first.annotations[1]
    assert second.load_counts() == first.load_counts()
    assert compare_values(memory.open(file).overview, first.overview)
    assert readings == ["s1.jsonl"]


def test_what_the_list_says_of_a_session_counts_only_as_it_would_be_read_now(
    memory: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.open(file)
    assert library.is_current(memory.list_recent()[0])
    with monkeypatch.context() as other:
        other.setattr(session_summary, "get_version", lambda *_: "other prices")
        assert not library.is_current(memory.list_recent()[0])
        memory.open(file)
        assert library.is_current(memory.list_recent()[0]), "opened again, it is as it is now"
    [importer] = [each for each in find_importers() if each.name == memory.list_recent()[0].source]
    memory.open(file)
    monkeypatch.setattr("turnscope.library.store._list_versions", lambda: {importer.name: importer.version + 1})
    assert not library.is_current(memory.list_recent()[0])


def test_delete_forgets_every_session_and_no_session_file(memory: Store, file: Path) -> None:
    memory.open(file)
    memory.add_exact_counts("claude-3", {"d": 1})
    assert memory.measure_size() > 1_000
    before = memory.path.stat().st_size
    assert memory.delete() == before - memory.path.stat().st_size > 0
    assert memory.measure_size() == 0
    assert memory.list_recent() == ()
    assert memory.load_exact_counts("claude-3") == {}
    assert file.exists()
    assert memory.delete() == 0
    assert len(memory.open(file).overview) == 2


def test_recent_sessions_come_newest_first(memory: Store, file: Path, tmp_path: Path) -> None:
    other = Log("s2")
    other.user("second")
    other.answer("o1", "Yes.", usage=(1, 2, 3, 4))
    second = other.save(tmp_path / "s2.jsonl")
    memory.open(file)
    memory.open(second, name="a nicer name")
    assert [r.name for r in memory.list_recent()] == ["a nicer name", "s1.jsonl"]
    memory.open(file)
    rows = memory.list_recent()
    assert [r.name for r in rows] == ["s1.jsonl", "a nicer name"]
    assert rows[0].path == str(file)
    assert (rows[0].title, rows[0].requests, rows[0].peak, rows[0].cuts) == ("hello", 2, 565, 1)
    assert (rows[0].size, rows[0].source, rows[0].started) == (file.stat().st_size, "claude-code", 1767322801.0)
    assert rows[0].usd == str(memory.open(file).overview.total)
    assert len(memory.list_recent(limit=1)) == 1


def test_only_some_sessions_are_kept_whole(memory: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 2)
    keys = []
    for n in range(4):
        log = Log(f"s{n}")
        log.user(f"question {n}")
        keys.append(memory.open(log.save(tmp_path / f"s{n}.jsonl")).key)
    assert [memory.reopen(key) is not None for key in keys] == [False, False, True, True]
    assert len(memory.list_recent()) == 4
    with sqlite3.connect(memory.path) as db:
        assert db.execute("select cast(content as text) from blobs order by 1").fetchall() == [
            ('"question 2"',),
            ('"question 3"',),
        ]


def test_many_threads_may_open_at_once(memory: Store, file: Path, tmp_path: Path) -> None:
    """The very first opening makes the database; threads must not meet it half made."""
    files = [file]
    for n in range(5):
        log = Log(f"s{n}")
        log.user(f"question {n}")
        log.answer(f"x{n}", "Yes.", usage=(1, 2, 3, 4))
        files.append(log.save(tmp_path / f"t{n}.jsonl"))
    start = Barrier(8)

    def work(n: int) -> list[OpenedSession]:
        start.wait(10)
        return [memory.open(files[(n + i) % len(files)]) for i in range(len(files))]

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    for n, opened in enumerate(results):
        for i, one in enumerate(opened):
            assert one.session == turnscope.load(files[(n + i) % len(files)])
    assert len(memory.list_recent()) == len(files)


@pytest.mark.parametrize("text", ["hello \ud800 there", "\udfff", "hello \x00 there"])
def test_a_session_with_lone_surrogates_or_nul_opens_each_time(text: str, memory: Store, tmp_path: Path) -> None:
    log = Log()
    log.user(text)
    log.answer("m1", text, usage=(1, 2, 3, 4))
    file = log.save(tmp_path / "s1.jsonl")
    for _ in range(2):
        opened = memory.open(file)
        assert opened.session.blocks[0].text == text
        assert len(opened.overview) == 1
    assert len(memory.list_recent()) == 1


@pytest.mark.parametrize("value", ["9" * 30, "[" * 400 + "]" * 400, "1e400"], ids=["a huge number", "deep nesting", "infinity"])
def test_a_session_that_cannot_be_kept_opens_each_time(value: str, memory: Store, tmp_path: Path) -> None:
    log = Log()
    log.user("hello")
    log.answer("m1", call("t1", value="VALUE"), usage=(1, 2, 3, 4))
    file = tmp_path / "s1.jsonl"
    file.write_text(log.text().replace('"VALUE"', value))
    first, second = memory.open(file), memory.open(file)
    assert compare_values(first.overview, second.overview)
    assert len(memory.list_recent()) == 1


def test_a_broken_database_is_left_alone_and_costs_no_session(memory: Store, file: Path, readings: list[str]) -> None:
    """There may be chats in it that somebody can repair."""
    broken = b"this is no database at all, but a text of some length. " * 100
    memory.path.parent.mkdir()
    memory.path.write_bytes(broken)
    for _ in range(2):
        assert len(memory.open(file).overview) == 2
    assert readings == ["s1.jsonl"] * 2
    for use in (memory.list_recent, memory.delete):
        with pytest.raises(turnscope.TurnscopeError) as refused:
            use()
        assert "was not changed" in refused.value.hint
    assert memory.path.read_bytes() == broken


def test_an_empty_file_becomes_the_database(memory: Store, file: Path, readings: list[str]) -> None:
    memory.path.parent.mkdir()
    memory.path.touch()
    for _ in range(2):
        memory.open(file)
    assert readings == ["s1.jsonl"]
    assert len(memory.list_recent()) == 1


def test_a_data_folder_that_cannot_be_made_costs_the_memory_and_not_the_session(file: Path, tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file where the folder should be")
    memory = Store(tmp_path / "blocked" / "chats.db")
    assert len(memory.open(file).overview) == 2
    assert memory.list_recent() == ()


@pytest.mark.skipif(os.name == "nt", reason="such a name cannot be written there")
def test_a_file_name_that_is_no_text_opens(memory: Store, file: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(file.parent) + b"/caf\xe9.jsonl"))
    odd.write_bytes(file.read_bytes())
    assert len(memory.open(odd).overview) == 2
    assert memory.list_recent()[0].name == "caf?.jsonl"


def test_progress_is_told_from_start_to_end(memory: Store, file: Path) -> None:
    told: list[tuple[str, float]] = []
    memory.open(file, progress=lambda what, share: told.append((what, share)))
    assert told[0][0] == "Reading the file"
    assert told[-1] == ("Done", 1.0)
    assert [share for _, share in told] == sorted(share for _, share in told)


def test_exact_counts_are_remembered_by_family(memory: Store) -> None:
    memory.add_exact_counts("claude-3", {"d1": 5, "d2": 7})
    memory.add_exact_counts("claude-4.7", {"d1": 6})
    memory.add_exact_counts("claude-3", {"d2": 8})
    assert memory.load_exact_counts("claude-3") == {"d1": 5, "d2": 8}
    assert memory.load_exact_counts("claude-4.7") == {"d1": 6}


def test_a_file_that_cannot_be_read_is_not_remembered(memory: Store, tmp_path: Path) -> None:
    with pytest.raises(turnscope.TurnscopeError):
        memory.open(tmp_path / "missing.jsonl")
    assert memory.list_recent() == ()


def test_what_was_counted_to_the_end_is_found_counted_the_next_time(
    memory: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tokenizer itself is not needed for that: its counts stand in the database."""
    monkeypatch.setattr(store, "is_available", lambda: True)
    worker = ExactCounts((sys.executable, "-c", ""))
    estimated = memory.open(file)
    assert memory.recount(estimated, worker) is estimated
    family = find_family(estimated.session)
    digests = {block.digest for block in estimated.session.blocks}
    first = next(iter(digests))
    memory.add_exact_counts(family, dict.fromkeys([first], 1_000))
    half = memory.recount(estimated, worker)
    assert (half.counted, "counted exactly" in half.overview.counter) == (False, True)
    assert memory.open(file).exact == 0
    memory.add_exact_counts(family, dict.fromkeys(digests, 1_000))
    whole = memory.recount(half, worker)
    again = memory.open(file)
    assert whole.counted
    assert memory.recount(again, worker) is again
    assert compare_values(again.overview, whole.overview)
    assert again.trace.ledger.total == whole.trace.ledger.total
    assert again.trace.ledger.label == whole.trace.ledger.label == again.overview.counter
    assert again.trace.ledger.total[-1] > 1_000 * len(digests) > estimated.trace.ledger.total[-1]


def test_what_was_read_can_be_kept_once_nobody_waits_and_is_not_in_memory_twice(
    memory: Store, file: Path, readings: list[str]
) -> None:
    later: list[Callable[[], None]] = []
    first = memory.open(file, keeper=later.append)
    assert memory.open(file, keeper=[].append).key == first.key
    assert readings == ["s1.jsonl"] * 2  # nobody has kept it yet
    (keep,) = later
    keep()
    whole = turnscope.load(file)
    held = (*packing.iter_blocks(first.session), *(block for fork in first.session.forks for block in fork.relinked))
    assert all(isinstance(block.content, LazyContent) for block in held)
    assert first.session == whole
    assert first.session.branches[0].blocks == whole.branches[0].blocks
    del readings[:]
    assert memory.open(file).session == whole
    assert not readings


def test_what_was_not_kept_is_read_again(memory: Store, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> bytes:
        raise StorageError("the disk is full")

    monkeypatch.setattr(sessions, "keep", full)
    opened = memory.open(file)
    assert not any(isinstance(block.content, LazyContent) for block in opened.session.blocks)
    monkeypatch.undo()
    assert memory.open(file).session == opened.session


def test_files_of_one_size_are_told_apart_and_one_that_moved_is_known(memory: Store, file: Path, readings: list[str]) -> None:
    other = file.with_name("s2.jsonl")
    other.write_text(file.read_text().replace("hello", "HELLO"))
    one, two = memory.open(file), memory.open(other)
    assert one.key != two.key
    assert [one.session.blocks[0].text, two.session.blocks[0].text] == ["hello", "HELLO"]
    lone = other.rename(other.with_name("s3.jsonl"))
    assert memory.open(lone).key == two.key
    assert readings == ["s1.jsonl", "s2.jsonl"]


def test_a_file_that_is_written_anew_while_it_is_read_is_not_remembered_as_what_it_was(
    memory: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = read_entry

    def interrupt(source: Source, entry: str) -> Any:
        monkeypatch.undo()
        file.write_text(file.read_text().replace("hello", "HELLO"))
        return really(source, entry)

    monkeypatch.setattr(contents, "read_entry", interrupt)
    before = file.read_text()
    assert memory.open(file).session.blocks[0].text == "HELLO"
    file.write_text(before)
    assert memory.open(file).session.blocks[0].text == "hello"


@pytest.mark.thorough
def test_a_users_own_prices_hold_the_second_time_and_new_ones_change_what_is_thought(data_folder: Path, file: Path) -> None:
    def find_price(window: int, price: str) -> Any:
        row = {"window": window, "prices": {"input": price, "output": price}}
        (data_folder / "prices.json").write_text(json.dumps({"models": {MODEL: row}}))
        return apart.get_word(apart.open_priced, data_folder / "chats.db", file)

    first = find_price(77_000, "1")
    assert first[:2] == (77_000, 77_000)
    assert find_price(77_000, "1") == first
    assert find_price(88_000, "2") == (88_000, 88_000, 2 * first[2])
