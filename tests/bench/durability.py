"""Kills a writer at random moments: `python tests/bench/durability.py [--rounds 200] [--seed 7]`; exit 1 if anything is lost.

A process appends prompts and requests with their answers to a stored chat and says each write that has returned. It is ended
by SIGKILL after a random time, by which it may be anywhere in a write. Then: the database opens and is sound, every write
that was acknowledged is there, as it was, once, and no message lacks its status or its request.
"""

from __future__ import annotations

import argparse
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from msgspec import structs

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from engine.counting.tokens import CHARS  # noqa: E402
from engine.envelope.ended import RequestEnded  # noqa: E402
from engine.live.growing import Growing  # noqa: E402
from engine.planning.assemble import step  # noqa: E402
from engine.planning.policy import load  # noqa: E402
from engine.session.model import Usage  # noqa: E402
from engine.storage.threads import Threads  # noqa: E402

CHATS = 10  # a new chat after so many rounds, so that reading it back does not take longer and longer
LONGEST = 0.12  # seconds from the first acknowledged write to the kill


def text(n: int) -> str:
    """What message `n` says: its number, and enough to fill some pages of the file."""
    return f"message {n} " + f"{n} " * (500 + n * 37 % 3_000)


def write(path: Path, thread: str) -> None:
    """Append for ever. Each line on the standard output is the address of a message that is stored."""
    threads, policy = Threads(path), load("keep-everything")
    growing, sink = Growing(threads.load(thread), CHARS), threads.sink(thread)
    while True:
        n = len(growing.session.blocks)
        if n % 2 == 0:
            sink.message(growing.message("user", text(n), origin="prompt"), [text(n)], "complete")
        else:
            asked = growing.request(model="offline-200k")
            plan = step(None, growing.session, asked, policy, growing.basis)
            answer = growing.message("assistant", text(n), origin="answer")
            done = growing.answered(structs.replace(asked, usage=Usage(n, 0, 0, n)))
            sink.ended(RequestEnded(thread, done, plan, "complete", answer, (text(n),), seconds=0.1))
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--write", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
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
