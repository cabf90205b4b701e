"""Opens session files, from the database where they are stored: the way from a path to an `OpenedSession`, and the recent ones.

The database is only a cache of what files say, so deleting it loses nothing. It stores facts (the session as an importer read
it) apart from summaries (`session_summary`). A new version of an importer makes its files be read again; a new version of
summaries makes them from what is stored. Versions are counted by hand, so a changed comment changes none.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np

from turnscope.counting.exact import ExactCounts, is_available
from turnscope.counting.tokens import make_exact_counter
from turnscope.errors import TurnscopeError
from turnscope.library import session_summary
from turnscope.library.loading import pause_gc, read_thread
from turnscope.library.opened_session import OpenedSession
from turnscope.library.opening import find_family, load_prices
from turnscope.library.prompt_prior import add_prior, drop_prior, remember_size
from turnscope.library.session_summary import SessionSummary
from turnscope.planning.trace import Trace
from turnscope.reading import contents
from turnscope.reading.containers import open_source
from turnscope.reading.registry import find_importers, find_related
from turnscope.reading.source import Source
from turnscope.session.model import JSON, Session
from turnscope.settings import find_tap_folder
from turnscope.storage import catalogue, library_index, old_database, packing, sessions
from turnscope.storage.catalogue import CatalogueRow, Stamp
from turnscope.storage.database import StorageError, measure_files
from turnscope.storage.sessions import Row

__all__ = ["CatalogueRow", "OpenedSession", "Progress", "Store"]

Progress = Callable[[str, float], object]
Keeper = Callable[[Callable[[], None]], object]


@dataclass(frozen=True, slots=True)
class Store:
    """The database of opened sessions at `path`, made on first use. A full disk costs the cache, no session."""

    path: Path
    clock: Callable[[], float] = field(default=time.time)

    @pause_gc()
    def open(
        self, file: Path, *, entry: str = "", name: str = "", progress: Progress | None = None, keeper: Keeper | None = None
    ) -> OpenedSession:
        """Open a conversation, from the database where it is stored.

        Args:
            file: a file, folder, archive or database.
            entry: id of the conversation; "" = the main one.
            name: shown in the list of recent sessions; "" = the file's name.
            progress: called with the current step and the share of the work, 0 to 1.
            keeper: takes a function that writes what was read to the disk, to be called from any thread later; None = at once.

        Raises:
            TurnscopeError: it cannot be read.
        """
        report = progress or _ignore_progress
        report("Reading the file", 0.05)
        load_prices()  # raises here, and not later in a page, if the user's file of prices is wrong
        seen, source = time.time_ns(), open_source(file)
        stamp, where = stamp_source(source), os.fsencode(file.resolve()).decode("utf-8", "backslashreplace")
        with ThreadPoolExecutor(1) as executor:
            key, found = self._find_known(source, where, entry=entry, stamp=stamp, executor=executor)
            found = found or self._read(source, entry, stamp=stamp, key=key, report=report, keeper=keeper or _keep_now)
        with suppress(StorageError):
            row = _build_recent(found, where, entry=entry, name=name or file.name, size=stamp.size, now=self.clock())
            catalogue.remember(self.path, row, stamp, seen)
        report("Done", 1.0)
        return found

    def list_recent(self, limit: int = 200) -> tuple[CatalogueRow, ...]:
        """List opened sessions, the newest first. StorageError: the database cannot be read."""
        old_database.import_sessions(self.path)
        return catalogue.list_recent(self.path, limit)

    def reopen(self, key: str) -> OpenedSession | None:
        """Open a session by its key, if it is stored."""
        return self._load_kept(key, None, "")

    def recount(self, opened: OpenedSession, worker: ExactCounts) -> OpenedSession:
        """The session counted with the model's own tokenizer, as far as that is done; the worker counts the rest.

        Returns `opened` itself while nothing is counted, or if no such tokenizer is installed. A complete count is stored.

        Args:
            opened: the session.
            worker: counts texts in a process of its own.
        """
        if opened.counted:
            return opened
        family = find_family(opened.session)
        counter = make_exact_counter(family)
        if counter is None or counter.name != "ctok" or not is_available():
            return opened
        known = self.load_exact_counts(family)
        missing = [(block.digest, block.text) for block in opened.session.blocks if block.digest not in known]
        if missing:
            worker.start(missing, family, lambda counts: self.add_exact_counts(family, counts))
        if len(missing) == len(opened.session.blocks):
            return opened
        found, trace = session_summary.build_summary(opened.session, _ignore_progress, opened.load_counts(), known)
        if not missing:
            self._save_summary(opened.key, opened.session, found)
        return _build_opened(opened.key, found, opened.session, trace, counted=not missing)

    def load_exact_counts(self, family: str) -> dict[str, int]:
        """Exact token counts by digest for a tokenizer family."""
        return sessions.read_counts(self.path, family)

    def add_exact_counts(self, family: str, counts: Mapping[str, int]) -> None:
        """Store exact counts.

        Args:
            family: the tokenizer family.
            counts: tokens by digest.
        """
        sessions.add_counts(self.path, family, counts)

    @property
    def index_path(self) -> Path:
        """Where the index lies."""
        return self.path.with_name(library_index.FILE)

    def measure_size(self) -> int:
        """Bytes of stored and indexed sessions: about what `delete` frees. Chats do not count."""
        size = measure_files(self.index_path) + old_database.measure_size(self.path)
        with suppress(StorageError):
            size += sessions.measure_size(self.path)
        return size

    def delete(self) -> int:
        """Delete all stored and indexed sessions and exact counts. Returns the bytes that this freed.

        Neither chats nor session files are touched. StorageError: the database cannot be written.
        """
        size = library_index.remove(self.index_path) + old_database.measure_size(self.path)
        old_database.remove(self.path)
        return size + sessions.forget(self.path)

    def forget(self, sources: Sequence[str]) -> None:
        """Remove sources from the library, by their paths; the files stay. StorageError: it cannot be written."""
        library_index.drop(self.index_path, sources)
        catalogue.drop(self.path, sources)

    def _find_known(
        self, source: Source, where: str, entry: str, stamp: Stamp, executor: Executor
    ) -> tuple[Callable[[], str], OpenedSession | None]:
        """Find the key of a source's content, and the session if it is stored. An unchanged source is not read for it.

        If no source of that size was ever opened, the key is not needed before the session is read: `executor` computes it,
        in a tenth of the time that reading a long file takes.
        """
        with suppress(StorageError):
            old_database.import_sessions(self.path)
            known = catalogue.find_key(self.path, where, entry, stamp)
            if known and (found := self._load_kept(known, source.path, entry)):
                return lambda: known, found
        made = executor.submit(_digest_source, source, entry).result
        with suppress(StorageError):
            if source.kind != "file" or catalogue.has_size(self.path, stamp.size):
                return made, self._load_kept(made(), source.path, entry)
        return made, None

    def _load_kept(self, key: str, file: Path | None, entry: str) -> OpenedSession | None:
        """Load a stored session, unless another version of its importer would read it differently."""
        row = sessions.find_session(self.path, key)
        if row is None or (row.form, row.version) != (packing.PACK_VERSION, _list_versions().get(row.importer)):
            return None
        try:
            session = add_prior(self.path, packing.unpack(row.session, row.blobs, self._build_fetch(key, file, entry)))
            if row.opinion == session_summary.get_version(session):
                found = session_summary.loads(row.page)
                return _build_opened(key, found, session, counted=found.exact > 0)
        except ValueError:  # the form changed without a new number
            return None
        found, _ = session_summary.build_summary(session, _ignore_progress)
        self._save_summary(key, session, found)
        return _build_opened(key, found, session)

    def _save_summary(self, key: str, session: Session, found: SessionSummary) -> None:
        """Store the summary of a session that is stored."""
        with suppress(StorageError, TypeError, ValueError, RecursionError):
            version = session_summary.get_version(session)
            sessions.replace_page(self.path, key, version, session_summary.dumps(found))

    def _read(
        self, source: Source, entry: str, stamp: Stamp, key: Callable[[], str], report: Progress, keeper: Keeper
    ) -> OpenedSession:
        """Read a session and have it stored."""
        report("Reading its messages", 0.2)
        session = add_prior(self.path, read_thread(source, entry).session)
        found, trace = session_summary.build_summary(session, report)
        remember_size(self.path, session, trace)
        if not _was_rewritten(source, stamp):
            keeper(lambda: self._keep(source, entry, key=key(), session=session, found=found))
        return _build_opened(key(), found, session, trace)

    def _keep(self, source: Source, entry: str, key: str, session: Session, found: SessionSummary) -> None:
        """Store a session. Its texts are then read from the database, so that they are not in memory as well."""
        with suppress(StorageError, TypeError, ValueError, RecursionError):  # what JSON cannot hold is read each time
            _, importer, _ = contents.locate_entry(source, entry)
            packed, page = packing.pack(drop_prior(session)), session_summary.dumps(found)
            row = Row(
                key=key,
                importer=importer.name,
                version=importer.version,
                form=packing.PACK_VERSION,
                opinion=session_summary.get_version(session),
                session=packed,
                page=page,
            )
            digests = sessions.keep(self.path, row, lambda: packing.encode_contents(session))
            packing.release_contents(session, digests, self._build_fetch(key, source.path, entry))

    def _build_fetch(self, key: str, file: Path | None, entry: str) -> packing.Fetch:
        """A function that fetches texts from the database, or from the file if they were deleted there and its content is the
        same.
        """
        again: dict[str, JSON] = {}

        def fetch(digests: Sequence[str]) -> Mapping[str, JSON]:
            if not again:
                with suppress(StorageError):
                    found = sessions.read_texts(self.path, digests)
                    if all(digest in found for digest in digests):
                        return found
                again.update(_read_texts(file, entry, key))
            return again

        return fetch


def _build_opened(
    key: str, found: SessionSummary, session: Session, trace: Trace | None = None, *, counted: bool = False
) -> OpenedSession:
    return OpenedSession(
        key=key,
        overview=found.overview,
        load_session=lambda: session,
        load_counts=lambda: found.counts,
        _session=session,
        _trace=trace,
        _annotated=found.annotations,
        exact=found.exact,
        counted=counted,
    )


def _read_texts(file: Path | None, entry: str, key: str) -> dict[str, JSON]:
    """The texts of a session file by digest, if its content still has that key."""
    with suppress(TurnscopeError):
        if file is not None and _digest_source(source := open_source(file), entry) == key:
            session = read_thread(source, entry).session
            pairs = zip(packing.encode_contents(session), packing.iter_blocks(session), strict=True)
            return {digest: block.raw for (digest, _), block in pairs}
    return {}


def _build_recent(found: OpenedSession, where: str, entry: str, name: str, size: int, now: float) -> CatalogueRow:
    view = found.overview
    return CatalogueRow(
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
        formed=_get_version(view.source),
    )


def is_current(row: CatalogueRow) -> bool:
    """Whether its numbers would be the same if it were read now."""
    return row.formed == _get_version(row.source)


def _get_version(importer: str) -> str:
    return f"{_list_versions().get(importer, 0)}:{session_summary.get_version()}"


def _keep_now(keep: Callable[[], None]) -> None:
    keep()


def _ignore_progress(_what: str, _share: float) -> None:
    """The default of `progress`."""


@cache
def _list_versions() -> dict[str, int]:
    return {importer.name: importer.version for importer in find_importers()}


def stamp_source(source: Source) -> Stamp:
    """The stamp of a source, without reading it."""
    digest = sha256()
    for file in find_related(source):
        digest.update(f"{file.path.name}:{file.version}\n".encode("utf-8", "surrogateescape"))
    if source.kind != "file":  # what lies inside it, or belongs to it, may change alone
        digest.update(source.version.encode())
    return Stamp(source.size, source.path.stat().st_mtime_ns, digest.hexdigest())


def _was_rewritten(source: Source, stamp: Stamp) -> bool:
    """Whether a file was written anew since it was stamped, so that its key may not fit what was read.

    What was only appended is no part of the source.
    """
    stat = source.path.stat()
    return stat.st_mtime_ns != stamp.mtime and stat.st_size <= stamp.size


def _digest_source(source: Source, entry: str) -> str:
    """Digest the content of a source and of its related files, with the id of the conversation."""
    digest = sha256(source.compute_digest().encode())
    recordings = find_tap_folder()  # these only grow, and there may be gigabytes of them
    for file in find_related(source):
        if file.path.parent == recordings:
            digest.update(f"{file.path.name}:{file.version}\n".encode("utf-8", "surrogateescape"))
            continue
        with suppress(TurnscopeError):  # the importer reports a file that cannot be read
            digest.update(f"{file.path.name}:{file.compute_digest()}\n".encode("utf-8", "surrogateescape"))
    if entry:
        digest.update(f"entry {entry}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]
