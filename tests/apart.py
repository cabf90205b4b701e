"""Processes of their own at the price of one: a template that has imported the engine forks one for each piece of work.

For work that is killed, limited, races with others, or must begin with nothing read yet. What a fresh Python loads, or how it
hashes, is not for here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

_METHODS = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
if "forkserver" in get_all_start_methods():
    _METHODS.set_forkserver_preload(
        ["pytest", "turnscope.library", "turnscope.live.live_session", "turnscope.live.offline.model", "sqlite_utils"]
    )


def begun(work: Callable[..., None], *arguments: Any) -> tuple[BaseProcess, Connection]:
    """Start `work(say, *arguments)` with this process's environment; gives its process, and where it is heard what it says."""
    heard, said = _METHODS.Pipe(duplex=False)
    process = _METHODS.Process(target=_run, args=(dict(os.environ), said, work, arguments), daemon=True)  # type: ignore[attr-defined]
    process.start()
    said.close()
    return process, heard


def get_word(work: Callable[..., None], *arguments: Any) -> Any:
    """What `work` says first, once it has ended well."""
    process, heard = begun(work, *arguments)
    answer = heard.recv()
    assert wait_for_end(process) == 0
    return answer


def wait_for_end(process: BaseProcess) -> int | None:
    """How a process ended: 0 is well, None that it did not within a minute."""
    process.join(60)
    return process.exitcode


def _run(environment: dict[str, str], said: Connection, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    os.environ.update(environment)
    work(said.send, *arguments)


Say = Callable[[Any], None]


def take_over(say: Say, path: Path, slowly: bool) -> None:
    """Open chats of an older version; `slowly`: dwell in the step before the last, that a kill may come at any moment of it."""
    from turnscope.storage import database, schema
    from turnscope.storage.threads import Threads

    slow, last = schema.STEPS[-2:]

    def take_long(db: Any) -> None:
        real = db.executescript
        db.executescript = lambda sql: [(time.sleep(0.01), real(one + ";")) for one in sql.split(";") if one.strip()]
        slow(db)

    if slowly:
        take_long.__name__ = slow.__name__
        database.STEPS = (*schema.STEPS[:-2], take_long, last)  # type: ignore[attr-defined]
    say("begun")
    Threads(path).list()


def append(say: Say, path: Path, thread: str) -> None:
    """Write messages into a chat for ever, and say of each that it is kept."""
    from turnscope.live.live_session import LiveSession
    from turnscope.live.offline.model import COUNTER
    from turnscope.storage.threads import Threads

    threads = Threads(path)
    growing, sink = LiveSession(threads.load(thread), COUNTER), threads.open_writer(thread)
    n = len(growing.session.messages)
    while True:
        text = f"message {n} " + "x" * 2000
        sink.record_message(growing.append_message("user", text, origin="prompt"), [text], "complete")
        say(n)
        n += 1


def open_on_full_disk(say: Say, path: Path, file: Path, limit: int) -> None:
    """Open a session where no file may grow beyond `limit` bytes; says how many requests it has, and how many are listed."""
    import resource

    from turnscope.library import Store

    store = Store(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    say((len(store.open(file).overview), len(store.list_recent())))


def open_priced(say: Say, path: Path, file: Path) -> None:
    """Open a session with the prices that lie in the data folder now; says its limit, its window and what it cost."""
    from turnscope.library import Store

    opened = Store(path).open(file)
    say((int(opened.trace.plans[0].limit), int(opened.overview.windows[0]), opened.overview.total))


def write(say: Say, path: Path, own: str, common: str, name: str) -> None:
    """Write into a chat of one's own and into one that others write into; says how often one had to begin again."""
    from turnscope.storage.threads import Threads

    from tests.storage.test_threads import write_own, write_shared

    threads = Threads(path)
    write_own(threads, own, name)
    say(write_shared(threads, common, name))
