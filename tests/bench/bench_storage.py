"""Chats and opened sessions in one file: `python tests/bench/bench_storage.py [--megabytes 111]`; exit 1 above a limit.

How long a chat waits for its own writes while another process opens a big session and then forgets it, next to the same with
the session in a file of its own; and what forgetting gives back to the disk. Wall time, as a person waits.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "bench")]

from make_claude_code import write  # noqa: E402
from turnscope.counting.tokens import CHARS  # noqa: E402
from turnscope.library.store import Store  # noqa: E402
from turnscope.live.live_session import LiveSession  # noqa: E402
from turnscope.storage.threads import Threads  # noqa: E402

LONGEST = 2.0  # seconds that a chat may wait for one write
PAUSE = 0.02  # seconds between two writes of the chat
LEFT = 2_000_000  # bytes beyond the chat's own that the file may keep after forgetting


def chat(path: Path, work: subprocess.Popen[str]) -> list[float]:
    """Write into a chat until `work` has ended; seconds of every write, rising."""
    threads = Threads(path)
    thread = threads.create(title="a chat")
    growing, sink, took = LiveSession(threads.load(thread), CHARS), threads.open_writer(thread), []
    while work.poll() is None:
        text = f"message {len(took)} " * 200
        message = growing.append_message("user", text, origin="prompt")
        began = time.perf_counter()
        sink.record_message(message, [text], "complete")
        took.append(time.perf_counter() - began)
        time.sleep(PAUSE)
    assert len(threads.load(thread).blocks) == len(took), "a message was lost"
    return sorted(took)


def measure_wait(what: str, chats: Path, store: Path, file: Path) -> float:
    """The chat's longest wait while another process does `what` (open, forget) with the store."""
    command = [sys.executable, __file__, "--work", what, str(store), str(file)]
    began = time.perf_counter()
    took = chat(chats, subprocess.Popen(command, text=True))
    seconds = time.perf_counter() - began
    middle, longest = took[len(took) // 2], took[-1]
    waits = f"median {middle * 1e3:.0f} ms, longest {longest * 1e3:.0f} ms"
    print(f"  {what:<7} {seconds:5.1f} s, {len(took):>4} writes of the chat: {waits}")
    return longest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=111)
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        store = Store(Path(given.work[1]))
        store.open(Path(given.work[2])) if given.work[0] == "open" else store.delete()
        return 0
    worst, left = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "big.jsonl")
        write(file, megabytes=given.megabytes)
        os.utime(file, (time.time() - 60,) * 2)
        for title, name in (("one file", "chats.db"), ("two files", "sessions.db")):
            chats, store = Path(folder, title, "chats.db"), Path(folder, title, name)
            print(title)
            longest = measure_wait("open", chats, store, file)
            held = chats.stat().st_size
            longest = max(longest, measure_wait("forget", chats, store, file))
            if title == "one file":
                worst, left = longest, chats.stat().st_size
                print(f"  {held / 1e6:.0f} MB before forgetting, {left / 1e6:.1f} MB after")
            else:
                left -= chats.stat().st_size
    print(f"longest wait of a chat: {worst:.2f} s (at most {LONGEST})")
    return int(worst > LONGEST or left > LEFT)


if __name__ == "__main__":
    sys.exit(main())
