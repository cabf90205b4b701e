"""Opening session files, from memory where they are known: the way from a path to an `Opened`, and the list of those opened.

What is remembered is only a cache of what files say; deleting it loses nothing. Facts (the session as an importer read it) and
opinions (`opinion`) are stored apart: an importer's new version makes its files be read again, another opinion is formed from
what is stored. Versions are counted up by hand, so a changed comment makes nobody read anything again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

import numpy as np

from turnscope.counting.exact import ExactCounts, is_available
from turnscope.counting.tokens import make_exact_counter
from turnscope.errors import TurnscopeError
from turnscope.library import opinion
from turnscope.library.loading import read, unwalked
from turnscope.library.opened import Opened
from turnscope.library.opening import family_of, own_prices
from turnscope.library.opinion import Opinion
from turnscope.planning.trace import Trace
from turnscope.reading import contents
from turnscope.reading.holders import open_source
from turnscope.reading.registry import find_importers, find_related
from turnscope.reading.source import Source
from turnscope.session.model import JSON, Session
from turnscope.storage import catalogue, earlier, index, packing, sessions
from turnscope.storage.catalogue import Recent, Stamp
from turnscope.storage.database import StorageError
from turnscope.storage.sessions import Row

__all__ = ["Opened", "Progress", "Recent", "Store"]

Progress = Callable[[str, float], object]
Keeper = Callable[[Callable[[], None]], object]


@dataclass(frozen=True, slots=True)
class Store:
    """What is remembered, in the database at `path`, which is made on first use. A full disk costs the memory, no session."""

    path: Path
    clock: Callable[[], float] = field(default=time.time)

    @unwalked()
    def open(
        self, file: Path, *, entry: str = "", name: str = "", progress: Progress | None = None, keeper: Keeper | None = None
    ) -> Opened:
        """Open a conversation of a file, folder or the like ("" = the main one), from memory where it is known.

        `keeper` takes what writes to the disk what was read, to be called from any thread once nobody waits; None = at once.
        Until then the session is only as far remembered as the file says it. Raises `TurnscopeError`s.
        """
        tell = progress or _silent
        tell("Reading the file", 0.05)
        own_prices()  # says here, and not in the middle of a page, that the user's file of them is wrong
        seen, source = time.time_ns(), open_source(file)
        stamp, where = stamp_of(source), os.fsencode(file.resolve()).decode("utf-8", "backslashreplace")
        with ThreadPoolExecutor(1) as beside:
            key, found = self._known(source, where, entry, stamp, beside)
            found = found or self._read(source, entry, stamp, key, tell, keeper or _at_once)
        with suppress(StorageError):
            row = _row(found, where, entry, name or file.name, stamp.size, self.clock())
            catalogue.remember(self.path, row, stamp, seen)
        tell("Done", 1.0)
        return found

    def recent(self, limit: int = 200) -> tuple[Recent, ...]:
        """Opened sessions, the newest first. StorageError where the database cannot be read."""
        earlier.take_over(self.path)
        return catalogue.recent(self.path, limit)

    def reopen(self, key: str) -> Opened | None:
        """A session by its key, where it is kept."""
        return self._kept(key, None, "")

    def exactly(self, opened: Opened, worker: ExactCounts) -> Opened:
        """The same session counted with the model's own tokenizer, as far as that is done; `worker` is started on the rest.

        Gives `opened` itself while nothing is counted, or where no such tokenizer is installed. What is counted to the end is
        remembered as what is thought of the session.
        """
        if opened.counted:
            return opened
        family = family_of(opened.session)
        counter = make_exact_counter(family)
        if counter is None or counter.name != "ctok" or not is_available():
            return opened
        known = self.exact_counts(family)
        missing = [(block.digest, block.text) for block in opened.session.blocks if block.digest not in known]
        if missing:
            worker.start(missing, family, lambda counts: self.add_exact_counts(family, counts))
        if len(missing) == len(opened.session.blocks):
            return opened
        found, trace = opinion.formed(opened.session, _silent, opened.counts(), known)
        if not missing:
            self._think(opened.key, found)
        return _opened(opened.key, found, opened.session, trace, counted=not missing)

    def exact_counts(self, family: str) -> dict[str, int]:
        """Exact token counts by digest for a tokenizer family."""
        return sessions.counts(self.path, family)

    def add_exact_counts(self, family: str, counts: Mapping[str, int]) -> None:
        """Remember exact counts."""
        sessions.add_counts(self.path, family, counts)

    @property
    def index(self) -> Path:
        """Where the index of the library lies."""
        return self.path.with_name("library.db")

    def size(self) -> int:
        """Bytes that are remembered of opened and indexed sessions: about what `delete` gives back. Chats do not count."""
        held = index.size(self.index) + sum(file.stat().st_size for file in earlier.files(self.path))
        with suppress(StorageError):
            held += sessions.size(self.path)
        return held

    def delete(self) -> int:
        """Forget all opened and indexed sessions and exact counts; gives the bytes that the disk got back.

        Neither chats nor session files are touched. StorageError where the database cannot be written.
        """
        held = index.remove(self.index) + sum(file.stat().st_size for file in earlier.files(self.path))
        earlier.remove(self.path)
        return held + sessions.forget(self.path)

    def forget(self, sources: Sequence[str]) -> None:
        """Take some sources out of the library, by their paths; the files stay. StorageError where it cannot be written."""
        index.drop(self.index, sources)
        catalogue.drop(self.path, sources)

    def _known(
        self, source: Source, where: str, entry: str, stamp: Stamp, beside: Executor
    ) -> tuple[Callable[[], str], Opened | None]:
        """Key of a source's content, and the session where it is kept. What looks as it did is not read to find out.

        Where nothing of that size was ever opened the key need not be known before the session is read: it is made `beside`,
        where a long file takes a tenth as long as its reading.
        """
        with suppress(StorageError):
            earlier.take_over(self.path)
            known = catalogue.known(self.path, where, entry, stamp)
            if known and (found := self._kept(known, source.path, entry)):
                return lambda: known, found
        made = beside.submit(_key, source, entry).result
        with suppress(StorageError):
            if source.kind != "file" or catalogue.holds(self.path, stamp.size):
                return made, self._kept(made(), source.path, entry)
        return made, None

    def _kept(self, key: str, file: Path | None, entry: str) -> Opened | None:
        """A session as it is kept, unless another version would have read it otherwise."""
        row = sessions.find(self.path, key)
        if row is None or (row.form, row.version) != (packing.FORM, _versions().get(row.importer)):
            return None
        try:
            session = packing.unpack(row.session, row.blobs, self._texts(key, file, entry))
            if row.opinion == opinion.version():
                found = opinion.loads(row.page)
                return _opened(key, found, session, counted=found.exact > 0)
        except ValueError:  # written in a form that should have had another number
            return None
        found, _ = opinion.formed(session, _silent)
        self._think(key, found)
        return _opened(key, found, session)

    def _think(self, key: str, found: Opinion) -> None:
        """Remember what is thought of a session, where it is kept."""
        with suppress(StorageError, TypeError, ValueError, RecursionError):
            sessions.think_again(self.path, key, opinion.version(), opinion.dumps(found))

    def _read(self, source: Source, entry: str, stamp: Stamp, key: Callable[[], str], tell: Progress, keeper: Keeper) -> Opened:
        """Read a session and have it kept."""
        tell("Reading its messages", 0.2)
        session = read(source, entry).session
        found, trace = opinion.formed(session, tell)
        if not _rewritten(source, stamp):
            keeper(partial(self._keep, source, entry, key(), session, found))
        return _opened(key(), found, session, trace)

    def _keep(self, source: Source, entry: str, key: str, session: Session, found: Opinion) -> None:
        """Keep a session. Its texts are given up for those that are kept, so that they are not in memory as well."""
        with suppress(StorageError, TypeError, ValueError, RecursionError):  # what JSON cannot hold is read each time
            _, importer, _ = contents.locate_entry(source, entry)
            packed, page = packing.pack(session), opinion.dumps(found)
            row = Row(key, importer.name, importer.version, packing.FORM, opinion.version(), packed, page)
            digests = sessions.keep(self.path, row, lambda: packing.contents(session))
            packing.give_up(session, digests, self._texts(key, source.path, entry))

    def _texts(self, key: str, file: Path | None, entry: str) -> packing.Fetch:
        """Fetches texts from the database; once they were forgotten there, from the file, if that holds the same."""
        again: dict[str, JSON] = {}

        def fetch(digests: Sequence[str]) -> Mapping[str, JSON]:
            if not again:
                with suppress(StorageError):
                    found = sessions.texts(self.path, digests)
                    if all(digest in found for digest in digests):
                        return found
                again.update(_texts_of(file, entry, key))
            return again

        return fetch


def _opened(key: str, found: Opinion, session: Session, trace: Trace | None = None, *, counted: bool = False) -> Opened:
    return Opened(
        key, found.overview, lambda: session, lambda: found.counts, session, trace, found.annotated, found.exact, counted
    )


def _texts_of(file: Path | None, entry: str, key: str) -> dict[str, JSON]:
    """The texts of a session file by digest, if it still has that key."""
    with suppress(TurnscopeError):
        if file is not None and _key(source := open_source(file), entry) == key:
            session = read(source, entry).session
            pairs = zip(packing.contents(session), packing.blocks_of(session), strict=True)
            return {digest: block.raw for (digest, _), block in pairs}
    return {}


def _row(found: Opened, where: str, entry: str, name: str, size: int, now: float) -> Recent:
    view = found.overview
    return Recent(
        key=found.key,
        path=where,
        entry=entry,
        name=name,
        title=view.title,
        source=view.source,
        models=", ".join(dict.fromkeys(model for model in view.models if model)),
        requests=len(view),
        peak=int(view.prompts.max(initial=0)),
        window=int(view.windows.max(initial=0)),
        usd=None if view.total is None else str(view.total),
        cuts=sum(marker.kind in ("compact", "cut") for marker in view.markers),
        started=next((float(at) for at in view.sent_at if not np.isnan(at)), None),
        opened=now,
        size=size,
        formed=_formed(view.source),
    )


def current(row: Recent) -> bool:
    """Whether its numbers would come out the same if it were read now."""
    return row.formed == _formed(row.source)


def _formed(importer: str) -> str:
    return f"{_versions().get(importer, 0)}:{opinion.version()}"


def _at_once(keep: Callable[[], None]) -> None:
    keep()


def _silent(_what: str, _share: float) -> None:
    """Progress that nobody watches."""


@cache
def _versions() -> dict[str, int]:
    return {importer.name: importer.version for importer in find_importers()}


def stamp_of(source: Source) -> Stamp:
    """What the source looks like without reading it."""
    digest = sha256()
    for file in find_related(source):
        digest.update(f"{file.path.name}:{file.version}\n".encode("utf-8", "surrogateescape"))
    if source.kind != "file":  # what lies inside, or beside, may change alone
        digest.update(source.version.encode())
    return Stamp(source.size, source.path.stat().st_mtime_ns, digest.hexdigest())


def _rewritten(source: Source, stamp: Stamp) -> bool:
    """Whether the file was written anew since it was looked at: what was read need not be what its key says.

    What was only appended is no part of the source.
    """
    stat = source.path.stat()
    return stat.st_mtime_ns != stamp.mtime and stat.st_size <= stamp.size


def _key(source: Source, entry: str) -> str:
    """Digest of the content, of that of files beside it that belong to the session, and of which conversation it is."""
    digest = sha256(source.digest().encode())
    for file in find_related(source):
        with suppress(TurnscopeError):  # the importer tells of a file that cannot be read
            digest.update(f"{file.path.name}:{file.digest()}\n".encode("utf-8", "surrogateescape"))
    if entry:
        digest.update(f"entry {entry}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]
