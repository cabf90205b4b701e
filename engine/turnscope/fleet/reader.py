"""Reads sources in a process of its own, so that one which crashes or never ends takes no worker with it.

Holds both ends of the pipe. The process is started anew after some sources, or once it holds much memory, so that a worker's
memory stays flat.
"""

from __future__ import annotations

import gc
import itertools
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread, Timer
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from turnscope.errors import TurnscopeError
from turnscope.fleet.rows import Origin, Owner, Row, build_rows, make_table
from turnscope.fleet.storage import import_package
from turnscope.fleet.tables import TABLES, make_schema
from turnscope.library.indexing import iter_sessions
from turnscope.library.job import start_worker
from turnscope.library.loading import pause_gc
from turnscope.reading.containers import open_source

if TYPE_CHECKING:
    import pyarrow as pa

MAX_SOURCES = 500  # that one process reads
MAX_MEMORY = 1 << 30  # bytes that a process may have held before another one takes its place
COLLECT_EVERY = 20  # sources, after which garbage is collected: 0.08 s, which a source would spend many times over otherwise
SESSIONS_AT_ONCE = 50  # of one source, whose rows become a table


class ReadTask(Struct, frozen=True):
    """What the process reads.

    Attributes:
        path: of the source on the disk.
        source_id, url, content, size, owner, made_by: see `Origin`.
        policies: see `build_rows`.
        with_text: see `build_rows`.
    """

    path: str
    source_id: str
    url: str
    content: str
    size: int
    owner: Owner
    made_by: str
    policies: dict[str, str] = {}
    with_text: bool = False


class ReadResult(Struct, frozen=True):
    """What became of a source.

    Attributes:
        state: `read`, `unreadable`, `crashed` or `hung`.
        tables: rows by table, as Arrow streams.
        sessions: how many it held.
        error: what is wrong; "" = nothing.
        cpu_seconds: CPU time of the process for it.
        memory: bytes that the process held at most so far; 0 = not known.
    """

    state: str
    tables: dict[str, bytes] = {}
    sessions: int = 0
    error: str = ""
    cpu_seconds: float = 0.0
    memory: int = 0


class Reader:
    """A process that reads sources, one at a time. One thread uses it.

    Args:
        limit: seconds after which a source counts as hung.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._process: subprocess.Popen[bytes] | None = None
        self._done = 0

    def read(self, task: ReadTask) -> ReadResult:
        """Read a source. Whatever it does to the process, there is a result."""
        process = self._process = self._process or start_worker(__name__)
        hung: list[bool] = []

        def end() -> None:
            hung.append(True)
            process.kill()

        timer, began = Timer(self.limit, end), time.monotonic()
        timer.daemon = True
        timer.start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump(task, process.stdin, pickle.HIGHEST_PROTOCOL)
            process.stdin.flush()
            result = pickle.load(process.stdout)  # noqa: S301 - our own process wrote it
        except (OSError, EOFError, pickle.UnpicklingError):
            self.close()
            code, spent = process.returncode, time.monotonic() - began
            if hung:
                return ReadResult("hung", error=f"it was not read after {self.limit:,.0f} seconds", cpu_seconds=spent)
            return ReadResult("crashed", error=f"the process that read it ended with code {code}", cpu_seconds=spent)
        finally:
            timer.cancel()
        self._done += 1
        if self._done >= MAX_SOURCES or result.memory > MAX_MEMORY:
            self.close()
        assert isinstance(result, ReadResult)
        return result

    def close(self) -> None:
        """End the process."""
        process, self._process, self._done = self._process, None, 0
        if process is not None:
            process.kill()
            with suppress(OSError, ValueError), process:
                pass


def run_worker(asks: IO[bytes] | None = None, replies: IO[bytes] | None = None) -> None:
    """Read sources in this process, until nobody asks any more.

    Args:
        asks: where tasks come from; None = standard input.
        replies: where results go; None = standard output.
    """
    if asks is None:
        Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    asks, replies = asks or sys.stdin.buffer, replies or sys.stdout.buffer
    with pause_gc(), suppress(EOFError):
        for number in itertools.count(1):
            task: ReadTask = pickle.load(asks)  # noqa: S301 - the process that started this one wrote it
            pickle.dump(read_source(task), replies, pickle.HIGHEST_PROTOCOL)
            replies.flush()
            if number % COLLECT_EVERY == 0:
                gc.collect()  # the few cycles that a session leaves hold its texts


def _end_with_parent(parent: int) -> None:
    """End where the worker was killed: nobody waits for what is being read."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def read_source(task: ReadTask) -> ReadResult:
    """Read a source to rows in this process."""
    began = time.process_time()
    tables: dict[str, bytes] = {}
    sessions, error = 0, ""
    try:
        parts: dict[str, list[pa.Table]] = {}
        for count, rows in _iter_rows(task):
            sessions += count
            for name, listed in rows.items():
                parts.setdefault(name, []).append(make_table(name, listed))
        tables = {name: encode(import_package("pyarrow").concat_tables(found)) for name, found in parts.items()}
    except TurnscopeError as wrong:
        error = f"{wrong}. {wrong.short_hint}".strip()
    except MemoryError:
        raise
    except Exception as wrong:  # noqa: BLE001 - one source must not stop the others, and its problem is reported
        error = f"{type(wrong).__name__}: {wrong}"[:500]
    spent = time.process_time() - began
    state = "unreadable" if error else "read"
    return ReadResult(state, {} if error else tables, 0 if error else sessions, error, spent, _measure_memory())


def _iter_rows(task: ReadTask) -> Iterator[tuple[int, dict[str, list[Row]]]]:
    """The rows of some sessions at a time, with how many there are."""
    found: dict[str, list[Row]] = {name: [] for name in TABLES if name != "sources"}
    held, path = 0, Path(task.path)
    for each in iter_sessions(open_source(path)):
        origin = Origin(
            source_id=task.source_id,
            url=task.url,
            entry=each.entry,
            title=each.title,
            folder=path.parent.name,
            content=task.content,
            size=task.size,
            owner=task.owner,
            made_by=task.made_by,
        )
        for name, rows in build_rows(each.session, origin, task.policies, with_text=task.with_text).items():
            found[name] += rows
        held += 1
        if held == SESSIONS_AT_ONCE:
            yield held, found
            found, held = {name: [] for name in found}, 0
    if held:
        yield held, found


def _measure_memory() -> int:
    """Bytes that this process held at most; 0 where the system does not say."""
    with suppress(
        OSError, StopIteration, ValueError
    ):  # Linux counts what the process that started this one held to `ru_maxrss`
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def encode(table: pa.Table) -> bytes:
    """An Arrow table as the bytes of a stream, compressed, without what its columns mean."""
    pa = import_package("pyarrow")
    plain = table.cast(pa.schema([field.remove_metadata() for field in table.schema]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, plain.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(plain)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode(name: str, data: bytes) -> pa.Table:
    """The table that `encode` wrote.

    Args:
        name: the table.
        data: its bytes.
    """
    table: pa.Table = import_package("pyarrow").ipc.open_stream(data).read_all().cast(make_schema(name))
    return table
