"""Kills a writer at random moments: `python tests/bench/durability.py [--rounds 200] [--seed 7] [--index]`; exit 1 on a loss.

A process appends prompts and requests with their answers to a stored chat and says each write that has returned. It is ended
by SIGKILL after a random time, by which it may be anywhere in a write. Then: the database opens and is sound, every write
that was acknowledged is there, as it was, once, and no message lacks its status or its request.

`--index`: a process reads session files into the library's index, and is killed. Then: the index is sound, each session in it
is whole, and the next run makes it what an undisturbed one makes. Every tenth round two processes index at once instead.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

from msgspec import structs

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from claude_log import Log  # noqa: E402
from turnscope.counting.tokens import CHARS  # noqa: E402
from turnscope.envelope.request_outcome import RequestEnded  # noqa: E402
from turnscope.library import find_sources, index_queries, indexing  # noqa: E402
from turnscope.live.live_session import LiveSession  # noqa: E402
from turnscope.planning.assemble import plan_step  # noqa: E402
from turnscope.planning.policy import load  # noqa: E402
from turnscope.session.model import Usage  # noqa: E402
from turnscope.storage import library_index  # noqa: E402
from turnscope.storage.threads import Threads  # noqa: E402

CHATS = 10  # a new chat after so many rounds, so that reading it back does not take longer and longer
Held = dict[str, list[tuple[object, ...]]]  # the rows of an index, by table
LONGEST = 0.12  # seconds from the first acknowledged write to the kill


def text(n: int) -> str:
    """What message `n` says: its number, and enough to fill some pages of the file."""
    return f"message {n} " + f"{n} " * (500 + n * 37 % 3_000)


def write(path: Path, thread: str) -> None:
    """Append for ever. Each line on the standard output is the address of a message that is stored."""
    threads, policy = Threads(path), load("keep-everything")
    growing, sink = LiveSession(threads.load(thread), CHARS), threads.open_writer(thread)
    while True:
        n = len(growing.session.blocks)
        if n % 2 == 0:
            sink.record_message(growing.append_message("user", text(n), origin="prompt"), [text(n)], "complete")
        else:
            asked = growing.build_request(model="offline-200k")
            plan = plan_step(None, growing.session, asked, policy, growing.basis)
            answer = growing.append_message("assistant", text(n), origin="answer")
            done = growing.append_request(structs.replace(asked, usage=Usage(n, 0, 0, n)))
            sink.record_request(RequestEnded(thread, done, plan, "complete", answer, (text(n),), seconds=0.1))
        print(n, flush=True)


def round_of(path: Path, thread: str, wait: float) -> tuple[int, int]:
    """Start a writer, kill it after `wait` seconds; the last address it acknowledged, and how many it wrote."""
    command = [sys.executable, __file__, "--write", str(path), thread]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    first = process.stdout.readline()
    time.sleep(wait)
    process.send_signal(signal.SIGKILL)
    told = [line for line in [first, *process.stdout.read().split("\n")] if line.strip()]
    process.wait()
    return (int(told[-1]) if told else -1), len(told)


def faults(path: Path, thread: str, acknowledged: int) -> list[str]:
    """What is wrong with a chat of which everything up to address `acknowledged` was said to be stored."""
    found = []
    with sqlite3.connect(path) as db:
        check = db.execute("pragma integrity_check").fetchone()[0]
        bare = db.execute("select count(*) from messages where status not in ('complete', 'interrupted')").fetchone()[0]
        hidden = db.execute("select count(*) from messages m left join messages_fts f on f.rowid = m.id where f.rowid is null")
        found += [f"integrity: {check}"] * (check != "ok") + [f"{bare} messages without status"] * bool(bare)
        found += ["a message is missing from the search index"] * bool(hidden.fetchone()[0])
    stored = Threads(path).load(thread)
    if [block.text for block in stored.blocks] != [text(n) for n in range(len(stored.blocks))]:
        found.append("messages are not those that were written")
    if len(stored.blocks) <= acknowledged:
        found.append(f"message {acknowledged} was acknowledged, {len(stored.blocks)} are there")
    answers = sum(message.role == "assistant" for message in stored.messages)
    if [(r.n, r.cut, r.stop) for r in stored.requests] != [(n, 2 * n + 1, 2 * n + 2) for n in range(answers)]:
        found.append(f"{answers} answers, {len(stored.requests)} requests, or not theirs")
    return found


def write_sessions(folder: Path, files: int) -> Path:
    """Session files of a few sizes: some texts, calls and their results, and usage."""
    folder.mkdir()
    for n in range(files):
        log = Log(f"s{n}")
        for turn in range(5 + n * 7 % 40):
            log.user(f"question number{n} {turn}" + " filler" * (n * 97 % 500))
            log.answer(f"m{n}-{turn}", f"answer number{n} {turn}", usage=(10 + turn, 20, 30, 4))
        file = folder / f"{n}.jsonl"
        file.write_bytes("".join(json.dumps(line) + "\n" for line in log.lines).encode())
        os.utime(file, (1_767_225_600, 1_767_225_600))
    return folder


def index_all(path: Path, folder: Path, began: Path | None = None) -> None:
    """Bring the index up to date with a folder; `began` is made just before."""
    if began:
        began.touch()
    for each in indexing.index(path, find_sources(folder)):
        if each.problem:
            raise SystemExit(each.problem.what)


def fork_work(work: Callable[..., None], *arguments: object) -> int:
    """Start `work` in a process that has everything loaded; gives its id."""
    id = os.fork()
    if not id:
        end = 1
        try:
            work(*arguments)
            end = 0
        finally:
            os._exit(end)
    return id


def read_held(path: Path) -> Held:
    """All that an index holds, told without the numbers of its rows."""
    of = "select s.path, s.entry, {} from {} join sessions s on s.id = x.session order by 1, 2, 3, 4"
    sql = {
        "sources": "select path, stamp, problem, hint from sources order by 1",
        "requests": of.format(
            "r.uid, x.quarter, x.model, r.pico, r.output, r.counts", "requests r join spending x on x.id = r.spending"
        ),
        "spending": of.format("x.quarter, x.model, x.requests, x.pico, x.output", "spending x"),
        "cuts": of.format("x.day, x.number", "cuts x"),
        "texts": of.format("x.packed, x.stop - x.first", "texts x").replace("3, 4", "x.first"),
        "words": of.format("w.doc - x.first, w.count", "texts x join found w on w.doc >= x.first and w.doc < x.stop"),
        "strays": "select doc from found where not exists (select 1 from texts where first <= doc and doc < stop)",
    }
    with closing(sqlite3.connect(path)) as db:
        db.execute("create temp table found (doc, count)")
        for table in library_index._list_word_tables(db):
            db.execute(f"create virtual table temp.terms using fts5vocab (main, {table}, instance)")
            db.execute("insert into found select doc, count(*) from terms group by doc")
            db.execute("drop table temp.terms")
        columns = [f'"{row[1]}"' for row in db.execute("pragma table_info(sessions)") if row[1] != "id"]
        sql["sessions"] = f"select {', '.join(columns)} from sessions order by path, entry"
        return {name: db.execute(text).fetchall() for name, text in sql.items()}


def half(path: Path, whole: Held) -> list[str]:
    """What is wrong with an index whose writer was killed: it is not sound, or lists what is not whole."""
    index_queries.list_sessions(path)  # opens, and makes the tables where the kill came before them
    with closing(sqlite3.connect(path)) as db:
        check = db.execute("pragma integrity_check").fetchone()[0]
        for table in library_index._list_word_tables(db):
            db.execute(f"insert into {table} ({table}) values ('integrity-check')")
    found, there = [f"integrity: {check}"] * (check != "ok"), read_held(path)
    listed = {row[0] for row in there["sources"]}
    for name, rows in whole.items():
        if there[name] != [row for row in rows if row[0] in listed]:
            found.append(f"{name} are not whole with {len(listed)} sources listed")
    return found


def index_round(folder: Path, path: Path, whole: Held, wait: float) -> tuple[list[str], int]:
    """Kill an indexing process after `wait` seconds; what is wrong then or after the next run, and how many sources it kept."""
    began = path.with_suffix(".began")
    id = fork_work(index_all, path, folder, began)
    while not began.exists():
        time.sleep(0.0005)
    time.sleep(wait)
    os.kill(id, signal.SIGKILL)
    os.waitpid(id, 0)
    found, kept = half(path, whole), len(read_held(path)["sources"])
    index_all(path, folder)
    if read_held(path) != whole:
        found.append("the next run does not make what an undisturbed one makes")
    return found, kept


def index_together(folder: Path, path: Path, whole: Held) -> list[str]:
    """Two processes that index the same folder: what is wrong afterwards."""
    ends = [os.waitpid(id, 0)[1] for id in [fork_work(index_all, path, folder) for _ in range(2)]]
    found = [f"processes ended with {ends}"] * any(ends)
    return found + ["two at once lost or doubled something"] * (read_held(path) != whole)


def index_rounds(place: Path, rounds: int, random: Random, files: int) -> tuple[int, int, int]:
    """Kill and repair so often, each time on an index that is empty; rounds with a fault, kills that came half-way, races."""
    folder = write_sessions(place / "logs", files)
    start = time.monotonic()
    index_all(place / "whole.db", folder)
    longest, whole = time.monotonic() - start, read_held(place / "whole.db")
    wrong = midway = races = 0
    for n in range(rounds):
        path = place / f"{n}.db"
        found, kept = index_round(folder, path, whole, random.uniform(0, 1.1 * longest))
        midway += 0 < kept < files
        if n % 10 == 0:
            races += 1
            found += index_together(folder, place / f"{n}-two.db", whole)
        wrong += bool(found)
        for fault in found:
            print(f"round {n}: {fault}")
        for file in place.glob(f"{n}*.db*"):
            file.unlink()
    return wrong, midway, races


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--index", action="store_true", help="kill what reads sessions into the library's index instead")
    parser.add_argument("--files", type=int, default=24, help="session files to index")
    parser.add_argument("--write", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.index:
        with tempfile.TemporaryDirectory() as folder:
            wrong, midway, races = index_rounds(Path(folder), given.rounds, Random(given.seed), given.files)
        print(f"{given.rounds} kills of an indexing process, {midway} of them half-way; {races} times two at once")
        print(f"{wrong} rounds with a fault")
        return int(bool(wrong))
    if given.write:
        write(Path(given.write[0]), given.write[1])
    random, wrong, writes, ahead = Random(given.seed), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        path, thread = Path(folder, "chats.db"), ""
        for n in range(given.rounds):
            if n % CHATS == 0:
                thread = Threads(path).create(title=f"chat {n}")
            last, many = round_of(path, thread, random.uniform(0, LONGEST))
            writes += many
            found = faults(path, thread, last)
            ahead += len(Threads(path).load(thread).blocks) - 1 > last
            wrong += bool(found)
            for fault in found:
                print(f"round {n}: {fault}")
    print(f"{given.rounds} kills over {writes} acknowledged writes: {wrong} rounds with a fault")
    print(f"{ahead} of them between the write and its acknowledgement")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
