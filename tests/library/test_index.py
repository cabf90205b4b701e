"""The index of the library: what it says of sessions, what it finds, and that several may write it at once."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest
import turnscope
from claude_log import Log
from conftest import ROOT
from turnscope import library
from turnscope.errors import QueryError
from turnscope.library import Store, index_queries, indexing
from turnscope.library.index_job import IndexJob
from turnscope.storage import library_index
from turnscope.views.cache_breaks import find_breaks
from turnscope.views.events import CUT_KINDS

SAMPLES = ROOT / "sample_sessions"
SHARED_WORDS = ("heron", "plover", "curlew", "dunlin", "knot", "avocet", "godwit", "whimbrel", "sanderling", "redshank", "ruff")


def settle_file(path: Path) -> Path:
    """As if it had been written some time ago."""
    past = time.time() - 60
    os.utime(path, (past, past))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three samples, each with an id of its own, and a file that is none."""
    made = tmp_path / "logs"
    made.mkdir()
    for name in ("cache-goes-cold", "tool-results-eat-the-window", "thinking-grows"):
        settle_file(Path(shutil.copy(SAMPLES / f"{name}.jsonl", made)))
    (made / "notes.json").write_text('{"a": "recipe"}')
    settle_file(made / "notes.json")
    return made


def done(path: Path, folder: Path) -> list[indexing.IndexedSource]:
    return list(indexing.index(path, library.find_sources(folder)))


def test_a_folder_is_indexed_once_and_says_what_it_could_not_read(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "library.db"
    first = done(path, folder)
    assert [each.sessions for each in first] == [1, 0, 1, 1]
    assert [problem.what for problem in index_queries.list_problems(path)] == [
        "notes.json is in no format that Turnscope knows"
    ]
    assert not any(each.fresh for each in done(path, folder)), "what looks as it did is not read again"
    lines = {line.name: line for line in index_queries.list_sessions(path)}
    for name, line in lines.items():
        session = turnscope.load(folder / name)
        view = turnscope.overview(session)
        assert line.usd == pytest.approx(float(view.total or 0)), "branches and subagents are in it"
        cuts = sum(marker.kind in CUT_KINDS for marker in view.markers)
        assert (line.requests, line.peak, line.cuts) == (len(view), view.prompts.max(), cuts)
        assert 0 < line.fill < 1
        assert line.messages >= line.requests
    rows = index_queries.list_spending(path)
    assert index_queries.sum_spending(rows) == pytest.approx(sum(line.usd or 0 for line in lines.values()))
    assert {name for name, _, _ in index_queries.group_spending(rows, lambda row: row.project)} == {
        line.project for line in lines.values()
    }
    told = index_queries.compute_metrics(lines.values())
    assert told.sessions == 3
    assert told.cuts == sum(line.cuts for line in lines.values()) == sum(number for _, number in index_queries.count_cuts(path))


def test_a_request_that_two_files_hold_is_paid_once(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "library.db"
    done(path, folder)
    before = index_queries.sum_spending(index_queries.list_spending(path))
    settle_file(Path(shutil.copy(folder / "cache-goes-cold.jsonl", folder / "resumed.jsonl")))
    done(path, folder)
    assert len(index_queries.list_sessions(path)) == 4
    assert index_queries.sum_spending(index_queries.list_spending(path)) == before
    index_queries.drop(path, [str(folder / "cache-goes-cold.jsonl")])
    assert index_queries.sum_spending(index_queries.list_spending(path)) == before, (
        "the other file still says that it was spent"
    )
    count = sum(row.requests for row in index_queries.list_spending(path))
    with closing(sqlite3.connect(path)) as db:
        assert (count,) == db.execute("select count(distinct uid) from requests").fetchone()


def test_a_file_that_changes_is_read_again_and_one_that_is_gone_is_left_out(tmp_path: Path) -> None:
    path, file = tmp_path / "library.db", tmp_path / "s.jsonl"
    log = Log()
    log.user("look for the albatross")
    log.answer("m1", "an albatross it is")
    file.write_text(log.text())
    assert done(path, file)[0].sessions == 1
    log.user("and now the cormorant")
    log.answer("m2", "a cormorant")
    file.write_text(log.text())
    assert done(path, file)[0].fresh, "even within the moment in which it was read"
    assert index_queries.search(path, "cormorant")[0] == 2
    assert len(index_queries.list_sessions(path)) == 1
    file.unlink()
    assert done(path, file)[0].problem
    assert index_queries.list_sessions(path) == ()
    assert index_queries.search(path, "albatross")[0] == 0


def test_a_search_finds_words_beginnings_and_parts_of_identifiers_and_leads_to_block_and_request(tmp_path: Path) -> None:
    path, file = tmp_path / "library.db", tmp_path / "s.jsonl"
    log = Log()
    log.user("first question")
    log.answer("m1", "call fetchUserProfile and parse_config_file here", usage=(9, 0, 0, 9))
    log.user("second question")
    log.answer("m2", "done", usage=(30, 0, 0, 9))
    file.write_text(log.text())
    done(path, file)
    for query in ("profile", "user profile", "fetchuserprof", "config", '"parse config"', "FETCH"):
        count, hits, _ = index_queries.search(path, query)
        assert count == 1, query
        hit = hits[0]
        session = turnscope.load(file)
        assert "fetchUserProfile" in session.blocks[hit.at].text
        request = session.requests[hit.request]
        assert hit.at < request.cut, "the request whose prompt carried it first"
        assert hit.marks
        begin, stop = hit.marks[0]
        assert hit.excerpt[begin:stop].casefold() in "fetchuserprofile parse_config"
    assert index_queries.search(path, "nowhere") == (0, (), True)
    for query in ('"', "* ( )", "", "-"):
        with pytest.raises(QueryError):
            index_queries.search(path, query)


def test_what_many_sessions_have_in_common_is_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, folder = tmp_path / "library.db", tmp_path / "logs"
    folder.mkdir()
    shared = [f"src/stations/{word}.ts holds the {word} of {n}" for n, word in enumerate(SHARED_WORDS)]
    for n in range(40):
        log = Log()
        for turn in range(20):
            log.user(" ".join(shared[(n + turn + more) % len(shared)] for more in range(30)))
            log.answer(f"m{n}-{turn}", f"session {n} says {turn}")
        (folder / f"{n:02}.jsonl").write_text(log.text())

    def measure(sessions: int) -> tuple[int, int]:
        monkeypatch.setattr(library_index, "LEARNED_SESSIONS", sessions)
        path.unlink(missing_ok=True)
        done(path, folder)
        with closing(sqlite3.connect(path)) as db:
            return db.execute("select sum(length(packed)) from texts").fetchone()[0], db.execute(
                "select count(*) from dictionary"
            ).fetchone()[0]

    apart, none = measure(1_000)
    together, one = measure(20)
    assert (none, one) == (0, 1)
    assert together < 0.8 * apart
    for query in ("heron", '"the heron of 0"'):
        assert index_queries.search(path, query)[0]
    assert index_queries.search(path, '"session 3 says 7"')[0] == 1, "before the dictionary"
    assert index_queries.search(path, '"session 33 says 7"')[0] == 1, "with it"
    index_queries.drop(path, [str(file) for file in folder.iterdir()])
    assert index_queries.search(path, "heron") == (0, (), True)


def test_texts_are_compressed_before_others_have_to_wait(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = list[bool]()

    class Packer(library_index._TextPacker):
        def pack(self, session: library_index.IndexedSession) -> tuple[library_index.IndexedSession, list[library_index._Part]]:
            held.append(self.db.in_transaction)
            return super().pack(session)

    monkeypatch.setattr(library_index, "_TextPacker", Packer)
    done(tmp_path / "library.db", folder)
    assert held == [False] * 3


def test_nothing_in_common_is_no_dictionary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, folder = tmp_path / "library.db", tmp_path / "logs"
    folder.mkdir()
    monkeypatch.setattr(library_index, "LEARNED_SESSIONS", 2)
    for n in range(4):
        log = Log()
        log.user(f"question {n}")
        log.answer(f"m{n}", f"answer {n}")
        (folder / f"{n}.jsonl").write_text(log.text())
    assert all(each.problem is None for each in done(path, folder))
    assert index_queries.search(path, "answer")[0] == 4


def test_words_of_a_quoted_search_stand_together_wherever_their_block_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, file = tmp_path / "library.db", tmp_path / "s.jsonl"
    monkeypatch.setattr(library_index, "TABLE_BLOCKS", 5)
    monkeypatch.setattr(library_index, "CHUNK_CHARACTERS", 100)
    log = Log()
    said = (
        "the parsed config of main",
        "parse the config",
        "parse_config",
        "parseConfigFile",
        "Le CAFÉ noir",
        "parse\n\nconfigs",
    )
    for n, text in enumerate(said):
        log.user(f"question {n}")
        log.answer(f"m{n}", text)
    file.write_text(log.text())
    done(path, file)
    cases = {
        '"parse config"': {2, 5},
        "parse_config": {2, 5},
        "parse config": {0, 1, 2, 3, 5},
        '"config file"': {3},
        '"cafe noir"': {4},
        '"parsed config" main': {0},
        '"config parse"': set(),
        "question": {*range(6)},
    }
    for query, expected in cases.items():
        count, hits, is_all = index_queries.search(path, query)
        wanted = [said[n] if query != "question" else f"question {n}" for n in sorted(expected, reverse=True)]
        assert [hit.excerpt for hit in hits] == [text.replace("\n", " ") for text in wanted], query
        assert (count, is_all) == (len(expected), True)
    monkeypatch.setattr(library_index, "MAX_HITS", 6)
    assert index_queries.search(path, "question")[::2] == (6, True)
    monkeypatch.setattr(library_index, "MAX_HITS", 5)
    assert index_queries.search(path, "question")[::2] == (5, False)
    monkeypatch.setattr(library_index, "MAX_READ_HITS", 1)
    assert index_queries.search(path, '"parse config"')[::2] == (1, False)
    monkeypatch.setattr(library_index, "READ_SECONDS", -1)
    assert index_queries.search(path, '"parse config"') == (0, (), False)
    index_queries.drop(path, [str(file)])
    assert index_queries.search(path, "question") == (0, (), True)


def test_sessions_are_found_and_added_up_alone(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "library.db"
    done(path, folder)
    cold, thinking = (str(folder / f"{name}.jsonl") for name in ("cache-goes-cold", "thinking-grows"))
    found = index_queries.find_sessions(path, "high water")
    assert found == {(hit.path, hit.entry) for hit in index_queries.search(path, "high water")[1]}
    assert (cold, "") in found
    assert index_queries.find_sessions(path, "nowhereatall") == frozenset()
    with pytest.raises(QueryError):
        index_queries.find_sessions(path, "*")
    lines = {line.path: line for line in index_queries.list_sessions(path)}
    spent = index_queries.list_spending(path, [(cold, "")])
    assert index_queries.sum_spending(spent) == pytest.approx(lines[cold].usd)
    assert {row.tool for row in spent} == {"Claude Code session"}
    assert sum(number for _, number in index_queries.count_cuts(path, [(cold, "")])) == lines[cold].cuts
    both = index_queries.list_spending(path, [(cold, ""), (thinking, ""), ("/gone", "")])
    assert index_queries.sum_spending(both) == pytest.approx((lines[cold].usd or 0) + (lines[thinking].usd or 0))
    assert index_queries.list_spending(path, []) == ()


@pytest.mark.thorough
def test_a_row_says_how_the_window_filled_and_what_cache_misses_cost(tmp_path: Path, folder: Path) -> None:
    done(tmp_path / "library.db", folder)
    for line in index_queries.list_sessions(tmp_path / "library.db"):
        opened = Store(tmp_path / "chats.db").open(Path(line.path))
        view, _ = opened.annotations
        curve = [int(number) for number in line.curve.split(",")]
        assert max(curve) == round(100 * float(view.fill.max()))
        assert len(curve) == min(len(view), 40)
        assert line.misses == sum(marker.kind == "break" for marker in view.markers)
        missed = sum((miss.usd or 0 for miss in find_breaks(opened.trace)), start=Decimal())
        assert (line.missed or 0) == pytest.approx(float(missed) * index_queries.PICO_PER_USD, abs=1)


def test_a_session_whose_file_is_gone_is_found_until_it_is_forgotten(tmp_path: Path) -> None:
    store, file = Store(tmp_path / "chats.db"), tmp_path / "s.jsonl"
    log = Log()
    log.user("look for the albatross")
    log.answer("m1", "an albatross it is", usage=(20, 0, 0, 9))
    file.write_text(log.text())
    key = store.open(file, name="dropped.jsonl").key
    assert library.index_dropped(store) == 0, "its file is there"
    file.unlink()
    assert library.index_dropped(store) == 1
    assert library.index_dropped(store) == 0
    [line] = index_queries.list_sessions(store.index_path)
    assert (line.name, library.get_dropped_key(line.path), line.requests) == ("dropped.jsonl", key, 1)
    assert index_queries.search(store.index_path, "albatross")[0] == 2
    [row] = store.list_recent()
    store.forget([row.path, line.path])
    assert library.index_dropped(store) == 0
    assert index_queries.list_sessions(store.index_path) == ()


def test_hits_in_branches_and_subagents_name_their_part(tmp_path: Path) -> None:
    path, file = tmp_path / "library.db", SAMPLES / "tool-results-eat-the-window.jsonl"
    done(path, file)
    agent = turnscope.load(file).subagents[0]
    words = agent.blocks[0].text.split()[:3]
    _, hits, _ = index_queries.search(path, '"' + " ".join(words) + '"')
    found = next(hit for hit in hits if hit.part == 1)
    assert " ".join(words) in agent.blocks[found.at].text


@pytest.mark.thorough
def test_two_processes_that_index_at_once_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    folder, path = tmp_path / "logs", tmp_path / "library.db"
    folder.mkdir()
    for n in range(12):
        log = Log()
        log.user(f"question number{n}")
        log.answer(f"m{n}", f"answer number{n}")
        (folder / f"{n}.jsonl").write_text(log.text())
    code = (
        "import sys; from pathlib import Path; from turnscope.library import find_sources, indexing\n"
        "list(indexing.index(Path(sys.argv[1]), find_sources(Path(sys.argv[2]))))"
    )
    command = [sys.executable, "-c", code, str(path), str(folder)]
    both = [subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "engine")}) for _ in range(2)]
    assert [each.wait(120) for each in both] == [0, 0]
    assert sorted(line.name for line in index_queries.list_sessions(path)) == sorted(f"{n}.jsonl" for n in range(12))
    assert all(index_queries.search(path, f"number{n}")[0] >= 2 for n in range(12))
    assert index_queries.search(path, "question")[0] == 12


def test_a_job_reads_in_processes_of_its_own_and_sums_up_what_failed(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "library.db"
    job = IndexJob(path, library.find_sources(folder))
    job.wait(120)
    assert (job.state, job.done, job.count, job.sessions) == ("done", 4, 4, 3)
    assert library.count_reasons(job.problems) == {"is in no format that Turnscope knows": 1}
    again = IndexJob(path, library.find_sources(folder))
    again.wait(120)
    assert (again.done, again.fresh) == (4, 0)


def test_a_job_that_is_cancelled_leaves_whole_sessions_only(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "library.db"
    job = IndexJob(path, library.find_sources(folder))
    job.cancel()
    job.wait(120)
    assert job.state == "cancelled"
    assert job.done < job.count or not job.listed
    assert all(line.requests == len(turnscope.load(Path(line.path)).requests) for line in index_queries.list_sessions(path))


def test_an_index_of_another_format_is_made_anew(tmp_path: Path, folder: Path) -> None:

    path = tmp_path / "library.db"
    done(path, folder)
    with sqlite3.connect(path) as db:
        db.execute("pragma user_version = 99")
    assert index_queries.list_sessions(path) == ()
    assert sum(each.sessions for each in done(path, folder)) == 3


def test_weeks_have_no_gap() -> None:
    assert index_queries.group_by_week([("2026-01-07", 2), ("2026-01-21", 1)]) == [
        ("2026-01-05", 2),
        ("2026-01-12", 0),
        ("2026-01-19", 1),
    ]
    assert index_queries.group_by_week([]) == []


@pytest.mark.thorough
def test_a_kill_at_any_moment_leaves_whole_sessions_and_the_next_run_completes_them(tmp_path: Path) -> None:
    """A few rounds in processes of their own; 200 run in the bench durability.py."""
    run = [sys.executable, str(ROOT / "tests" / "bench" / "durability.py"), "--index", "--rounds", "4", "--files", "8"]
    told = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (told.returncode, told.stdout.splitlines()[-1]) == (0, "0 rounds with a fault"), told.stdout + told.stderr


def test_what_is_removed_leaves_no_word_behind(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "library.db"
    done(path, folder)
    with closing(sqlite3.connect(path)) as db:
        db.execute("create virtual table temp.terms using fts5vocab (main, words0, row)")
        assert db.execute("select count(*) from terms").fetchone()[0] > 1_000
        index_queries.drop(path, [row.path for row in index_queries.list_sessions(path)])
        assert db.execute("select count(*) from terms").fetchone()[0] == 0
        assert db.execute("select count(*) from texts").fetchone()[0] == 0


def test_texts_take_a_fraction_of_their_size(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "library.db"
    done(path, folder)
    with closing(sqlite3.connect(path)) as db:
        packed = db.execute("select sum(length(packed)) from texts").fetchone()[0]
    files = [folder / row.name for row in index_queries.list_sessions(path)]
    assert packed < 0.5 * sum(len(block.text) for file in files for block in turnscope.load(file).blocks)


def test_files_of_a_folder_are_found_by_the_names_that_tools_give_them(tmp_path: Path) -> None:
    names = ["log.jsonl", "README.md", ".aider.chat.history.md", "notes", "Google AI Studio/A prompt", ".git/config.json"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = {path.relative_to(tmp_path).as_posix() for path in library.find_sources(tmp_path)}
    assert found == {"log.jsonl", ".aider.chat.history.md", "Google AI Studio/A prompt"}
