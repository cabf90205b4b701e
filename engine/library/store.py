"""What is remembered between runs: opened sessions, token counts by digest, recent files. One SQLite file.

Only a cache of what files say: deleting it loses nothing. Sessions are kept by the digest of their file's content, so a file
that changed is read anew. Each operation opens its own connection, so any thread may call.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from engine import importers
from engine.counting.exact import ExactCounts, available
from engine.counting.ledger import Ledger
from engine.counting.tokens import exact_counter
from engine.library.opening import family_of, ledger_of, replay
from engine.planning.trace import Trace
from engine.reading.source import Source, open_source
from engine.session.model import Session
from engine.views.overview import Overview, overview

if TYPE_CHECKING:
    from sqlite_utils import Database

KEPT = 24  # sessions kept whole; of older ones only the row in the list stays
TROUBLE = (OSError, sqlite3.Error)  # a full disk, a folder without permission: sessions open all the same, unremembered
Progress = Callable[[str, float], object]
_lock = RLock()  # one thread makes the tables, one writes: two writers of one process would meet "database is locked"


@dataclass(slots=True)
class Opened:
    """A session that was opened. `overview` is at hand at once; the session's text and its trace are made when asked for."""

    key: str
    overview: Overview
    sessions: Callable[[], Session]
    counts: Callable[[], dict[str, int]]
    _session: Session | None = None
    _trace: Trace | None = None

    @property
    def session(self) -> Session:
        if self._session is None:
            self._session = self.sessions()
        return self._session

    @property
    def trace(self) -> Trace:
        """What was really sent, request by request."""
        if self._trace is None:
            self._trace = replay(self.session, ledger=self.ledger())
        return self._trace

    def ledger(self) -> Ledger:
        return ledger_of(self.session, self.counts())


@dataclass(frozen=True, slots=True)
class Recent:
    """A row of the list of opened sessions. `usd` None = no known price; times in seconds since the epoch."""

    key: str
    path: str
    name: str
    title: str
    source: str
    models: str
    requests: int
    peak: int
    window: int
    usd: str | None
    cuts: int
    started: float | None
    opened: float
    size: int


@dataclass(frozen=True, slots=True)
class Store:
    """The SQLite file at `path`, made on first use."""

    path: Path
    clock: Callable[[], float] = field(default=time.time)

    def open(self, file: Path, *, name: str = "", progress: Progress | None = None) -> Opened:
        """Open a session file, from memory where its content is known. Raises `TurnscopeError`s."""
        tell = progress or _silent
        tell("Reading the file", 0.05)
        source = open_source(file)
        key = _key(source)
        found = None
        with suppress(*TROUBLE):
            found = self._kept(key)
        if found is None:
            tell("Reading its messages", 0.2)
            session = importers.read_source(source)[0]
            tell("Counting tokens", 0.6)
            memo: dict[str, int] = {}
            ledger = ledger_of(session, memo)
            tell("Laying out the requests", 0.85)
            trace = replay(session, ledger=ledger)
            found = Opened(key, overview(trace), lambda: session, lambda: memo, session, trace)
            with suppress(*TROUBLE):
                self._keep(found, memo)
        with suppress(*TROUBLE):
            self._remember(found, file, name or file.name, len(source.data))
        tell("Done", 1.0)
        return found

    def recent(self, limit: int = 200) -> tuple[Recent, ...]:
        """Opened sessions, the newest first."""
        if not self.path.exists():
            return ()
        with self._database() as db:
            names = [f.name for f in fields(Recent)]
            return tuple(
                Recent(*(row[n] for n in names)) for row in db["opened"].rows_where(order_by="opened desc", limit=limit)
            )

    def reopen(self, key: str) -> Opened | None:
        """A session by its key: as it was kept, else from its file where that still holds the same."""
        return self._kept(key)

    def exactly(self, opened: Opened, worker: ExactCounts) -> Opened:
        """The same session counted with the model's own tokenizer, as far as that is done; `worker` is started on the rest.

        Gives `opened` itself while nothing is counted, or where no such tokenizer is installed.
        """
        family = family_of(opened.session)
        counter = exact_counter(family)
        if counter is None or counter.name != "ctok" or not available():
            return opened
        known = self.exact_counts(family)
        missing = [(block.digest, block.text) for block in opened.session.blocks if block.digest not in known]
        if missing:
            worker.start(missing, family, lambda counts: self.add_exact_counts(family, counts))
        if len(missing) == len(opened.session.blocks):
            return opened
        ledger = ledger_of(opened.session, opened.counts(), known)
        trace = replay(opened.session, ledger=ledger)
        return Opened(opened.key, overview(trace), opened.sessions, opened.counts, opened.session, trace)

    def exact_counts(self, family: str) -> dict[str, int]:
        """Exact token counts by digest for a tokenizer family."""
        with self._database() as db:
            return {row["digest"]: row["tokens"] for row in db["counts"].rows_where("family = ?", [family])}

    def add_exact_counts(self, family: str, counts: Mapping[str, int]) -> None:
        """Remember exact counts."""
        rows = ({"digest": digest, "family": family, "tokens": tokens} for digest, tokens in counts.items())
        with _lock, self._database() as db, db.atomic():
            db["counts"].insert_all(rows, replace=True)

    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.stat().st_size for file in self._files() if file.exists())

    def delete(self) -> None:
        """Remove everything that is remembered. Session files are not touched."""
        for file in self._files():
            file.unlink(missing_ok=True)

    def _files(self) -> Iterable[Path]:
        return (self.path.with_name(self.path.name + end) for end in ("", "-wal", "-shm"))

    def _database(self) -> Database:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        from sqlite_utils import Database  # loads pandas where that is installed; readers of a single file need neither

        with _lock:
            db = Database(self.path)
            try:
                if "counts" not in db.table_names():  # the last one to be made
                    self._make(db)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                db.close()  # no database, or a broken one: it held nothing that the files do not hold
                self.delete()
                db = Database(self.path)
                self._make(db)
        return db

    def _make(self, db: Database) -> None:
        db.enable_wal()
        types = {"int": int, "float": float, "float | None": float}
        columns = {f.name: types.get(str(f.type), str) for f in fields(Recent)}
        db.table("opened").create(columns, pk="key", if_not_exists=True)
        kept = {"key": str, "version": str, "session": bytes, "counts": bytes, "overview": bytes, "used": float}
        db.table("kept").create(kept, pk="key", if_not_exists=True)
        counts = {"digest": str, "family": str, "tokens": int}
        db.table("counts").create(counts, pk=("digest", "family"), if_not_exists=True)

    def _kept(self, key: str) -> Opened | None:
        if not self.path.exists():
            return None
        with self._database() as db:
            row = next(db.query("select version, overview, counts from kept where key = ?", [key]), None)
        if row is None or row["version"] != _version():
            return None
        return Opened(key, _unpack(row["overview"]), lambda: self._session(key), lambda: msgspec.msgpack.decode(row["counts"]))

    def _session(self, key: str) -> Session:
        with self._database() as db:
            row = next(db.query("select session from kept where key = ?", [key]))
        return msgspec.msgpack.decode(row["session"], type=Session)

    def _keep(self, opened: Opened, memo: Mapping[str, int]) -> None:
        try:
            session, view = msgspec.msgpack.encode(opened.session), _pack(opened.overview)
        except (UnicodeEncodeError, OverflowError, RecursionError):
            return  # lone surrogates, huge numbers and endless nesting have no such form: read from the file each time
        row = {"key": opened.key, "version": _version(), "session": session, "counts": msgspec.msgpack.encode(memo)}
        with _lock, self._database() as db, db.atomic():
            db["kept"].insert({**row, "overview": view, "used": self.clock()}, replace=True)
            db.execute("delete from kept where key not in (select key from kept order by used desc limit ?)", [KEPT])

    def _remember(self, opened: Opened, file: Path, name: str, size: int) -> None:
        view = opened.overview
        row = Recent(
            key=opened.key,
            path=str(file.resolve()),
            name=name,
            title=view.title,
            source=view.source,
            models=", ".join(dict.fromkeys(model for model in view.models if model)),
            requests=len(view),
            peak=int(view.prompts.max(initial=0)),
            window=int(view.windows.max(initial=0)),
            usd=None if view.total is None else str(view.total),
            cuts=sum(marker.kind == "cut" for marker in view.markers),
            started=next((float(at) for at in view.sent_at if not np.isnan(at)), None),
            opened=self.clock(),
            size=size,
        )
        with _lock, self._database() as db, db.atomic():
            db["opened"].insert({f.name: _storable(getattr(row, f.name)) for f in fields(row)}, replace=True)


def _storable(value: Any) -> Any:
    """A title or path may hold lone surrogates, which SQLite cannot write."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _silent(_what: str, _share: float) -> None:
    """Progress that nobody watches."""


def _key(source: Source) -> str:
    """Digest of the content, and of the files beside it that belong to the session."""
    digest = sha256(source.data)
    for file in source.beside():
        stat = file.stat()
        digest.update(f"{file.name}:{stat.st_size}:{stat.st_mtime_ns}".encode())
    return digest.hexdigest()[:32]


@cache
def _version() -> str:
    """Digest of the engine's own sources: what an older engine read is read again."""
    digest = sha256()
    for file in sorted(Path(__file__).parent.parent.rglob("*")):
        if file.suffix in (".py", ".json", ".toml"):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _pack(view: Overview) -> bytes:
    return msgspec.msgpack.encode(view, enc_hook=lambda array: (str(array.dtype), array.shape, array.tobytes()))


def _unpack(packed: bytes) -> Overview:
    return msgspec.msgpack.decode(packed, type=Overview, dec_hook=_array)


def _array(_kind: type, packed: Any) -> Any:
    dtype, shape, data = packed
    return np.frombuffer(data, dtype=dtype).reshape(shape)
